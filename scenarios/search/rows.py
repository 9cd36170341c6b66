"""The runs of a distributed search as rows: the input and the output of a worker on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

from replica.trace.events import Column
from scenarios.process.own_python import collect_rarely
from scenarios.search.findings import Finding
from scenarios.search.schedules import Schedule
from scenarios.search.search import Found, SeedJob, play_seed, schedule_of, shrink


class SearchRun(NamedTuple):
    """The input of a worker: a seed to run, or a schedule to shrink.

    Attributes:
        safe, swarm: see SeedJob.
        text: YAML of the schedule; empty to generate the schedule from the seed.
        kinds: kinds of findings that a smaller schedule must still show; () to run the seed.
    """

    seed: int
    profile: str
    safe: bool
    swarm: bool
    text: str = ""
    kinds: tuple[str, ...] = ()

    @property
    def schedule(self) -> Schedule:
        if self.text:
            return Schedule(yaml.safe_load(self.text), self.safe)
        return schedule_of(SeedJob(self.seed, self.profile, self.safe, self.swarm))


COLUMNS = (
    Column("seed", "int64", False, "number of the run in the search"),
    Column("profile", "string", False, "era of Kafka"),
    Column(
        "safe",
        "bool",
        False,
        "true if the settings of the schedule promise no anomaly; if `text` is empty, only such settings are drawn",
    ),
    Column("swarm", "bool", False, "true if every 16 seeds have their own mix of cluster, clients and faults"),
    Column("text", "string", False, "the schedule as a scenario file; empty for the schedule of the seed"),
    Column("kinds", "list<string>", False, "kinds of findings that a shrunk schedule must show; empty if it is played"),
    Column("status", "string", False, "finished, or timeout, crashed or raised with the reason in `error`"),
    Column("error", "string", True, "what went wrong, in one sentence"),
    Column("findings", "list<string>", True, "kinds of the findings"),
    Column("sentences", "list<string>", True, "each finding in one sentence"),
    Column(
        "our_bugs",
        "list<int64>",
        True,
        "for each finding: 1 if the rules of the era promise that it cannot happen, else 0",
    ),
    Column("shrunk", "string", True, "the smallest schedule with the same kinds of findings"),
)


def play_run(seed: int, profile: str, safe: bool, swarm: bool, text: str, kinds: tuple[str, ...]) -> dict[str, Any]:
    """Run a seed, or shrink a schedule if `kinds` is not empty. Return the output columns, alike on every machine."""
    collect_rarely()
    if kinds:
        schedule = SearchRun(seed, profile, safe, swarm, text).schedule
        *_, smallest = [schedule, *shrink(schedule, kinds)]
        return {"status": "finished", "shrunk": smallest.text}
    found = play_seed(SeedJob(seed, profile, safe, swarm))
    return {
        "status": "finished",
        "findings": [finding.kind for finding in found.findings],
        "sentences": [finding.sentence for finding in found.findings],
        "our_bugs": [int(finding.our_bug) for finding in found.findings],
    }


def run_of(job: SeedJob) -> SearchRun:
    return SearchRun(job.seed, job.profile, job.safe, job.swarm)


def found_of(row: Mapping[str, Any]) -> Found:
    """Return the findings in a row.

    An exception or a crash of the worker counts as a finding, a timeout does not.
    """
    schedule = SearchRun(row["seed"], row["profile"], row["safe"], row["swarm"], row["text"]).schedule
    if row["status"] in ("raised", "crashed"):
        return Found(row["seed"], (Finding(f"stopped: {row['status']}", str(row["error"]), True),), schedule)
    listed = zip(row["findings"] or (), row["sentences"] or (), row["our_bugs"] or (), strict=True)
    findings = tuple(Finding(kind, sentence, bool(our_bug)) for kind, sentence, our_bug in listed)
    return Found(row["seed"], findings, schedule)
