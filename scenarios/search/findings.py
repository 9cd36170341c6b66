"""The findings of a random schedule: every broken invariant, and in a safe one every broken promise to a producer, and
work that a group leaves undone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from replica.ids import TopicPartition
from replica.trace.events import NodeStarted, NodeStopped, PositionReset, TraceRow
from scenarios.check.promises import UNPROMISED
from scenarios.check.verdict import Anomaly
from scenarios.language.spec import Scenario
from scenarios.language.steps import At
from scenarios.observe.forgotten_batches import outputs_again, stored_again
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.wording import count_of
from scenarios.run.runner import RunResult, run_scenario
from scenarios.search.schedules import Schedule


class FindingCause(StrEnum):
    """Why something broke, the worst first."""

    BUG = "bug"
    ERA = "era"
    """The rules of the era do not promise it, those of a later one do."""
    NO_RELEASE = "no release"
    """Kafka's newest rules do not promise it either."""


def cause_of(kind: str, *, our_bug: bool) -> FindingCause:
    if our_bug:
        return FindingCause.BUG
    return FindingCause.NO_RELEASE if kind in UNPROMISED else FindingCause.ERA


@dataclass(frozen=True, slots=True)
class Finding:
    """kind: the invariant (`S25 min-isr`), the anomaly (`lost`) or `undone`     our_bug: the era promises otherwise"""

    kind: str
    sentence: str
    our_bug: bool

    @property
    def cause(self) -> FindingCause:
        return cause_of(self.kind, our_bug=self.our_bug)

    @property
    def is_final(self) -> bool:
        """A safety invariant broke, which nothing that is still to come can mend."""
        return re.match(r"S\d", self.kind) is not None


def judge(schedule: Schedule) -> tuple[RunResult, tuple[Finding, ...]]:
    """Run it and return the findings: none, if all is well.

    Old rules let invariants break by design, and records with them: then the era explains the fate of a safe schedule's
    records. With no such invariant broken, the only explanation is a bug in Highwater.
    One effect of Kafka's rules is not distinguished yet: a leader that knows nothing of a producer takes any sequence
    as its first (ProducerAppendInfo.checkSequence), so a new producer's first batches may end up behind later ones.
    """
    scenario = schedule.scenario()
    rest_us = _nothing_more_from_us(scenario)
    result, found = _judged(schedule.safe, scenario, rest_us)
    if rest_us is not None and schedule.safe and any(not one.is_final for one in found):
        # What an early end may have made of it is no finding: a record that was still to come, say.
        result, found = _judged(schedule.safe, scenario, None)
    return result, found


def _judged(safe: bool, scenario: Scenario, may_rest_from_us: int | None) -> tuple[RunResult, tuple[Finding, ...]]:
    result = run_scenario(scenario, runs_dir=None, keep_rows=safe, traced=False, may_rest_from_us=may_rest_from_us)
    by_design = any(not event.promised for event in result.broken)
    found = [Finding(event.invariant, event.sentence(), event.promised) for event in result.broken]
    if safe:
        found += [
            Finding(anomaly.kind, anomaly.sentence, not by_design) for anomaly in _unaccounted_for(scenario, result)
        ]
        undone = left_undone(scenario, result.rows, result.ledger)
        if undone:
            sentence = f"no output of {count_of(len(undone), 'input')}, the first {undone[0]}, and a member runs"
            found.append(Finding("undone", sentence, not by_design))
    return result, tuple(found)


def _nothing_more_from_us(scenario: Scenario) -> int | None:
    """When the last step is done and the last producer has stopped; None if that is not known beforehand."""
    ends_us = [scenario.sends_until_us(producer) for producer in scenario.producers if producer.arrival is not None]
    for step in scenario.timeline:
        if not isinstance(step.trigger, At):
            return None
        ends_us.append(step.trigger.at_us + (step.every_us or 0) * step.times + (step.for_us or 0))
    return max(ends_us, default=0)


def kinds_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Each kind once, sorted."""
    return tuple(sorted({finding.kind for finding in findings}))


def _unaccounted_for(scenario: Scenario, result: RunResult) -> Iterator[Anomaly]:
    """Without the duplicates that Kafka stores, too, and what transforms made of them, and without what a consumer has
    skipped by its auto.offset.reset=latest, as where an operator has deleted the next record."""
    duplicated = result.verdict.records["duplicated"]
    stored = stored_again(result.rows, result.ledger, duplicated)
    forgotten = dict.fromkeys(stored)
    for transform in scenario.transforms:
        forgotten.update(dict.fromkeys(outputs_again(result.ledger, duplicated, stored, transform.prefix)))
    for anomaly in result.verdict.anomalies:
        if anomaly.kind == "invariant" or (anomaly.kind == "poll-skip" and _was_reset(anomaly, result.rows)):
            continue
        if anomaly.kind != "duplicated" or any(name not in forgotten for name in anomaly.records):
            yield anomaly


def _was_reset(skip: Anomaly, rows: Iterable[TraceRow]) -> bool:
    read_before, read_after = skip.seqs
    return any(
        isinstance(event := row.event, PositionReset)
        and event.client == skip.client
        and TopicPartition(event.topic, event.partition) == skip.partition
        and event.previous_offset < event.offset
        for row in rows
        if read_before < row.seq < read_after
    )


# --------------------------------------------------------------------------------------------------- inputs left undone
#
# Inputs that no member of a group has worked on by the end of a run, though one of them runs and they can be read.
#
# No invariant of Kafka speaks of it, but a group that stands still for good, or that has gone past a record, is wrong
# wherever nothing disturbs it any more.


def left_undone(scenario: Scenario, rows: Iterable[TraceRow], ledger: RecordLedger) -> tuple[str, ...]:
    """Names of acked inputs, in the order of sending, of which there is no output.

    rows: the whole trace of a run that ended quietly; ledger: of the same run
    Not judged before KIP-890 (3.6): a transaction may hang there, and readers of committed records wait behind it.
    """
    if scenario.rules.transactions not in ("verified", "v2"):
        return ()
    running = _running(rows)
    found: dict[str, None] = {}
    for workload in scenario.transforms:
        if workload.name in running:
            producers = [producer.name for producer in scenario.producers if producer.topic in workload.topics]
            for entry in ledger:
                is_input = entry.acked and entry.client in producers and ledger.copies(entry.name)
                if is_input and not ledger.copies(f"{workload.prefix}{entry.name}"):
                    found[entry.name] = None
    return tuple(found)


def _running(rows: Iterable[TraceRow]) -> dict[str, None]:
    found: dict[str, None] = {}
    for row in rows:
        if isinstance(row.event, NodeStarted):
            found[row.event.node] = None
        elif isinstance(row.event, NodeStopped):
            found.pop(row.event.node, None)
    return found
