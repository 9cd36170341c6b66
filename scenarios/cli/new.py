"""`highwater new NAME`: writes a commented scenario to start from, or a copy of a bundled one under a new name."""

from __future__ import annotations

import re
from pathlib import Path

import click

from scenarios.cli.common import fail, must_be_written
from scenarios.process.work_folders import write_new
from scenarios.terminal.interruption import ExitCode

TEMPLATE = """\
# The leader of t-0 no longer answers its followers, acks five records on its own (acks=1), and is killed.
#
# `highwater show {id}.yaml` prints these lines: say here what to watch for.
schema: 1
id: {id}
title: The leader acks alone, and dies
question: Which of the records that were acked can still be read?
seed: 1                                  # the same file with the same seed is the same run
duration: 60s                            # of virtual time

cluster:
  controllers: [c1]                      # KRaft; three make a quorum: [c1, c2, c3]
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  # config: {{replica.lag.time.max.ms: 30000}}          # Kafka's own keys, for all brokers

topics:
  t:
    partitions: {{0: [b1, b2, b3]}}        # the first replica is the preferred leader
    config: {{min.insync.replicas: 2}}

workloads:
  p1: {{kind: producer, topic: t, config: {{acks: 1}}}}    # try acks: all
  c1r: {{kind: consumer, topic: t, config: {{auto.offset.reset: earliest}}}}

timeline:                                # every step: a time, one verb, and what modifies it (for, every, as)
  - {{at: 1s, produce: {{from: p1, count: 10}}}}           # p1's records are called r0, r1, r2, ...
  - {{at: 10s, hold: {{from: "leader(t-0)", to: "followers(t-0)", api: Fetch, part: response}}}}
  - {{at: 10.3s, produce: {{from: p1, count: 5}}}}         # r10..r14 reach the leader alone
  - {{at: 10.5s, kill: "leader(t-0)", as: victim}}
  - {{at: 25s, produce: {{from: p1, count: 5}}}}           # r15..r19 go to the new leader
  - {{at: 30s, start: "@victim"}}

expect:                                  # `highwater test {id}.yaml` checks this
  verdict: [lost]
  records: {{lost: r10..r14, duplicated: none}}

variants:                                # `highwater compare {id}.yaml` puts them side by side
  - id: acks-all
    title: With acks=all the five are acked only after the election
    patch: {{workloads: {{p1: {{config: {{acks: all}}}}}}}}
    expect:
      verdict: ok
      records: {{acked: r0..r19, lost: none, duplicated: none}}
"""


@click.command()
@click.argument("name")
@click.option("--from", "bundled", metavar="ID", help="Copy this bundled scenario instead of the template.")
def new(name: str, bundled: str | None) -> int:
    """Write NAME.yaml here: a scenario with comments, ready to run and to change. No file is ever replaced."""
    from scenarios.language.values.reading import SLUG

    scenario_id = name.removesuffix(".yaml")
    if SLUG.fullmatch(scenario_id) is None:
        fail(f"`{name[:80]}` is not a valid scenario name", ExitCode.USAGE, "use lower-case letters, digits and dashes")
    text = TEMPLATE.format(id=scenario_id) if bundled is None else _copy_of(bundled, scenario_id)
    file = Path(f"{scenario_id}.yaml")
    try:
        with must_be_written(file, "free some disk space, or change to a writable folder"):
            write_new(file, text)
    except FileExistsError:
        fail(f"{file} already exists", ExitCode.USAGE, "choose another name")
    click.echo(f"  {file}\n")
    for what, command in (("Check it:", "check"), ("Run it:", "run"), ("Compare:", "compare")):
        click.echo(f"  {what:<10} highwater {command} {file}")
    click.echo("  Editors:   highwater check --schema   (JSON Schema, to see errors as you type)")
    return ExitCode.HELD


def _copy_of(bundled: str, scenario_id: str) -> str:
    from scenarios.language.diagnostics import did_you_mean
    from scenarios.language.parse import catalogue

    known = catalogue.bundled()
    if bundled not in known:
        close = did_you_mean(bundled, known)
        hint = f"Did you mean `{close}`?" if close else "To see all: highwater list"
        fail(f"there is no bundled scenario `{bundled[:80]}`. {hint}", ExitCode.USAGE)
    text = known[bundled].read_text(encoding="utf-8")
    return re.sub(r"^id: .*$", f"id: {scenario_id}", text, count=1, flags=re.MULTILINE)
