"""`highwater explain [RUN] [RECORD]`, or `... RUN S2` for a broken invariant; `explain E104` for a diagnostic."""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replica.trace.ranges import format_record_names
from scenarios.cli.common import (
    fail,
    format_option,
    plain_option,
    print_json,
    style_for_stdout,
    trace_of,
    usable_runs,
)
from scenarios.cli.completion import run_names
from scenarios.cli.view import PAGE_NAME, page_text
from scenarios.process.work_folders import write_whole
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine

if TYPE_CHECKING:
    from replica.trace.events import TraceRow
    from scenarios.explain.blame import Findings
    from scenarios.explain.explanation import Explanation
    from scenarios.explain.what_if import RecordFate
    from scenarios.language.spec import Scenario

RECORD = re.compile(r"[a-z]{1,8}[0-9]{1,9}")
INVARIANT = re.compile(r"[SL][0-9]{1,2}( min-isr)?")


@click.command()
@click.argument("run", default="last", shell_complete=run_names)
@click.argument("record", required=False)
@click.option("--lost", is_flag=True, help="Every acked record that was lost.")
@click.option("--what-if", is_flag=True, help="Play the run again with one thing changed: what would have saved it?")
@format_option
@plain_option
def explain(run: str, record: str | None, lost: bool, what_if: bool, format_: str, plain: bool) -> int:
    """Tell why RECORD of RUN met its end. RUN is a folder, an id, `last`, `last~1` or a unique beginning.

    Without RUN it is `last`, without RECORD the first acked record that was lost.

    RECORD may be an invariant that broke, such as S2. `highwater explain E104` explains a diagnostic instead.
    """
    if record is None and re.fullmatch(r"[EWew]\d{3}", run):
        return _explain_code(run.upper())
    from scenarios.explain.explanation import explanation_text
    from scenarios.explain.record import RecordUnknown, explain_record
    from scenarios.run.runs import RunNotFound, find_run, list_runs, read_summary

    with usable_runs():
        try:
            run_dir = find_run(run)
        except RunNotFound:
            if record is None and list_runs() and (INVARIANT.fullmatch(run) or RECORD.fullmatch(run)):
                meant = f"highwater explain last {shlex.quote(run)}"
                raise RunNotFound(f"no run `{run}`, and no RUN before it. Did you mean `{meant}`?") from None
            raise
        summary = read_summary(run_dir)
        asks_invariant = record is not None and INVARIANT.fullmatch(record) is not None
        lost_records = summary["records"]["lost"]
        records = [] if asks_invariant else _records(run, record, lost, summary["records"])
        rows = trace_of(run_dir, summary)
    try:
        stories = [explain_record(rows, name) for name in records]
    except RecordUnknown as unknown:
        fail(str(unknown), ExitCode.USAGE)
    if asks_invariant:
        assert record is not None
        return _explain_invariant(run_dir, rows, record, what_if, format_, plain)
    outcomes = _what_if(run_dir, stories) if what_if else {}
    _keep(run_dir, summary, outcomes)
    found = _find_blame(run_dir, rows, what_if, None)
    if format_ == "json":
        documents = [_document(story, rows) for story in stories]
        for document in documents:
            document["broken_invariants"] = found.as_json()
            if what_if:
                document["what_if"] = [outcome.as_json() for outcome in outcomes[document["record"]]]
        print_json(documents[0] if len(documents) == 1 else documents)
    else:
        style = style_for_stdout(plain)
        for story in stories:
            click.echo(explanation_text(story, style, outcomes.get(story.record)), nl=False)
        click.echo(found.text, nl=False)
        if record is None and len(lost_records) > len(records):
            also = format_record_names(lost_records[1:])
            line = f"  Lost as well: {also}   (highwater explain {shlex.quote(run)} --lost explains all)"
            click.echo("\n" + textwrap.fill(line, style.width, subsequent_indent="    ", break_on_hyphens=False))
    return ExitCode.HELD


def _document(story: Explanation, rows: Sequence[TraceRow]) -> dict[str, Any]:
    """With the events that lead from the first moment of the story to its last."""
    from scenarios.explain.causes import causal_chain

    moments = story.moments
    return {**story.as_json(), "chain": causal_chain(rows, moments[0].seq, moments[-1].seq) if moments else []}


def _explain_invariant(
    run_dir: Path, rows: Sequence[TraceRow], invariant: str, what_if: bool, format_: str, plain: bool
) -> int:
    from replica.trace.events import InvariantBroken
    from scenarios.explain.blame import invariant_text

    broken = [row.event for row in rows if isinstance(row.event, InvariantBroken)]
    names = list(dict.fromkeys(event.invariant for event in broken))
    if invariant not in names:
        fail(f"{invariant} is not broken in this run (broken: {', '.join(names) or 'none'})", ExitCode.USAGE)
    found = _find_blame(run_dir, rows, what_if, invariant)
    if format_ == "json":
        reasons = [event.sentence() for event in broken if event.invariant == invariant]
        print_json({"invariant": invariant, "reasons": reasons, "broken_invariants": found.as_json()})
    else:
        click.echo(invariant_text(rows, invariant, style_for_stdout(plain)) + found.text, nl=False)
    return ExitCode.HELD


def _find_blame(run_dir: Path, rows: Sequence[TraceRow], what_if: bool, invariant: str | None) -> Findings:
    """Plays the run again with the rules that it lacks, if one of its invariants broke for want of them.

    what_if: however long that takes     invariant: of this one only
    """
    from replica.trace.events import InvariantBroken
    from scenarios.explain import blame
    from scenarios.explain.blame import Findings

    if not any(isinstance(row.event, InvariantBroken) and not row.event.promised for row in rows):
        return Findings()
    lock_text, scenario = _played(run_dir)
    suspects = [
        suspect
        for suspect in blame.suspects_of(rows, scenario.rules)
        if invariant is None or suspect.invariant == invariant
    ]
    changes = blame.additions(suspects)
    if not what_if and not blame.can_be_afforded(len(rows), changes):
        return Findings(suspects=tuple(suspects), runs=len(changes))
    broken_with = {}
    with ProgressLine("rules") as line:
        for number, (added, broken) in enumerate(blame.play_additions(lock_text, changes, os.cpu_count() or 1)):
            line.show((number + 1) / len(changes), f"{number + 1} of {len(changes)} runs")
            broken_with[added] = broken
    return Findings(blames=tuple(blame.blame(suspects, broken_with)), runs=len(changes))


def _played(run_dir: Path) -> tuple[str, Scenario]:
    """The scenario in the run's own lock file, for a replay."""
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.parse.loading import load_text
    from scenarios.run.runs import RunNotFound, read_lock, read_summary

    try:
        lock_text = read_lock(run_dir, read_summary(run_dir))
        return lock_text, load_text(lock_text, "scenario.lock.yaml").scenario
    except (RunNotFound, ScenarioInvalid) as error:
        fail(f"the scenario of {run_dir} cannot be played again: {error}", ExitCode.USAGE)


def _what_if(run_dir: Path, stories: Sequence[Explanation]) -> dict[str, list[RecordFate]]:
    """By record, the outcome of every change."""
    from scenarios.explain.what_if import changes_for, play_changes

    outcomes: dict[str, list[RecordFate]] = {story.record: [] for story in stories}
    lock_text, scenario = _played(run_dir)
    for story in stories:
        if story.producer not in scenario.workloads:
            fail(
                f"{story.record} came from {story.producer}, a client outside the cluster, and cannot be sent again",
                ExitCode.USAGE,
                "leave out --what-if to see the story, or write a scenario with this producer to try changes",
            )
    for producer in dict.fromkeys(story.producer for story in stories):
        records = [story.record for story in stories if story.producer == producer]
        changes = changes_for(scenario, producer)
        with ProgressLine("what if") as line:
            for number, found in enumerate(play_changes(lock_text, records, changes, os.cpu_count() or 1)):
                line.show((number + 1) / len(changes), f"{number + 1} of {len(changes)} runs")
                for outcome in found:
                    outcomes[outcome.record].append(outcome)
    return outcomes


def _keep(run_dir: Path, summary: Mapping[str, Any], outcomes: Mapping[str, Sequence[RecordFate]]) -> None:
    """For `highwater view`. Of a folder that takes no files, the answer on the terminal is all there is."""
    from scenarios.explain.kept_outcomes import keep_outcomes

    trace_sha256 = summary.get("trace_sha256")
    if outcomes and isinstance(trace_sha256, str):
        with suppress(OSError):
            keep_outcomes(run_dir, trace_sha256, outcomes)
            if (run_dir / PAGE_NAME).is_file():  # It has what was found before.
                write_whole(run_dir / PAGE_NAME, page_text([run_dir]))


def _records(run: str, record: str | None, lost: bool, records: Mapping[str, Any]) -> list[str]:
    if record is not None:
        return [record]
    found: list[str] = records["lost"]
    if not found:
        # Those with something to explain first.
        kinds = ("unseen", "duplicated", "reordered", "dirty", "missing", "failed", "unknown", "aborted", "acked")
        some = next((records[kind][0] for kind in kinds if records.get(kind)), None)
        command = f"highwater explain {shlex.join([run, some or ''])}"
        fix = "its producers sent none" if some is None else f"name a record: {command}"
        fail("no acked record was lost in this run", ExitCode.USAGE, fix)
    return found if lost else found[:1]


def _explain_code(code: str) -> int:
    from scenarios.language.diagnostics import EXPLANATIONS

    if code not in EXPLANATIONS:
        fail(f"there is no diagnostic {code}", ExitCode.USAGE)
    click.echo(f"{code}: {EXPLANATIONS[code]}")
    return ExitCode.HELD
