"""The findings of a random schedule: every broken invariant, and in a safe one every broken promise to a producer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scenarios.check.verdict import Anomaly
from scenarios.observe.forgotten_batches import stored_again
from scenarios.run.runner import Listener, RunResult, run_scenario
from scenarios.search.schedules import Schedule


@dataclass(frozen=True, slots=True)
class Finding:
    """kind: the invariant (`S25 min-isr`) or the anomaly (`lost`)      our_bug: the era promises otherwise"""

    kind: str
    sentence: str
    our_bug: bool


def judge(schedule: Schedule, watchers: Sequence[Listener] = ()) -> tuple[RunResult, tuple[Finding, ...]]:
    """Run it and return the findings: none, if all is well. watchers: more listeners of its trace

    Old rules let invariants break by design, and records with them: then the era explains the fate of a safe schedule's
    records. With no such invariant broken, the only explanation is a bug in Highwater.
    One effect of Kafka's rules is not distinguished yet: a leader that knows nothing of a producer takes any sequence
    as its first (ProducerAppendInfo.checkSequence), so a new producer's first batches may end up behind later ones.
    """
    result = run_scenario(schedule.scenario(), runs_dir=None, keep_rows=schedule.safe, watchers=watchers)
    by_design = any(not event.promised for event in result.broken)
    found = [Finding(event.invariant, event.reason, event.promised) for event in result.broken]
    if schedule.safe:
        found += [Finding(anomaly.kind, anomaly.sentence, not by_design) for anomaly in _unaccounted_for(result)]
    return result, tuple(found)


def kinds_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Each kind once, sorted."""
    return tuple(sorted({finding.kind for finding in findings}))


def _unaccounted_for(result: RunResult) -> Iterator[Anomaly]:
    """Without the duplicates that Kafka stores, too."""
    forgotten = stored_again(result.rows, result.ledger, result.verdict.records["duplicated"])
    for anomaly in result.verdict.anomalies:
        if anomaly.kind == "invariant":
            continue
        if anomaly.kind != "duplicated" or any(name not in forgotten for name in anomaly.records):
            yield anomaly
