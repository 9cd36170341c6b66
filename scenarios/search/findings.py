"""Runs a random schedule and returns what went wrong in it (its findings).

Findings are broken invariants and, in a safe schedule, broken promises to producers and inputs that no member of a
group has processed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from replica.causes import ElrCause
from replica.ids import TRANSACTIONS_TOPIC, TopicPartition
from replica.trace.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ElrCommitted,
    IsrCommitted,
    NodeStarted,
    NodeStopped,
    PartitionCreated,
    PositionReset,
    TopicDeleted,
    TraceRow,
)
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
    """The reason for a finding, the most serious first."""

    BUG = "bug"
    ERA = "era"
    """The rules of the era do not promise what was broken, but the rules of a later era do."""
    NO_RELEASE = "no release"
    """No release of Kafka promises what was broken."""


def cause_of(kind: str, *, our_bug: bool) -> FindingCause:
    if our_bug:
        return FindingCause.BUG
    return FindingCause.NO_RELEASE if kind in UNPROMISED else FindingCause.ERA


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that went wrong in a run.

    Attributes:
        kind: the invariant (`S25 min-isr`), the anomaly (`lost`) or `undone`.
        our_bug: True if the rules of the era promise that this cannot happen.
    """

    kind: str
    sentence: str
    our_bug: bool

    @property
    def cause(self) -> FindingCause:
        return cause_of(self.kind, our_bug=self.our_bug)

    @property
    def is_final(self) -> bool:
        """Return True if the finding is a broken safety invariant, which no later event can repair."""
        return re.match(r"S\d", self.kind) is not None


def judge(schedule: Schedule) -> tuple[RunResult, tuple[Finding, ...]]:
    """Run a schedule. Return the run and its findings.

    The rules of an old era let some invariants break by design, and records are then lost or stored twice. If that
    happened in a run, the era explains all findings of a safe schedule. Otherwise they are bugs in Highwater.

    Open: one effect of Kafka's rules still counts as a bug. A leader without state of a producer accepts any first
    sequence (ProducerAppendInfo.checkSequence), so a new producer's first batches may be stored after later ones.
    """
    scenario = schedule.scenario()
    rest_us = _nothing_more_from_us(scenario)
    result, found = _judged(schedule.safe, scenario, rest_us)
    if rest_us is not None and schedule.safe and any(not item.is_final for item in found):
        # The early end of the run may have caused a finding, such as a record not yet read. Run to the normal end.
        result, found = _judged(schedule.safe, scenario, None)
    return result, found


def _judged(safe: bool, scenario: Scenario, may_rest_from_us: int | None) -> tuple[RunResult, tuple[Finding, ...]]:
    result = run_scenario(scenario, runs_dir=None, keep_rows=safe, traced=False, may_rest_from_us=may_rest_from_us)
    by_design = any(not event.promised for event in result.broken)
    found = [Finding(event.invariant, event.sentence(), event.promised) for event in result.broken]
    if safe:
        without_elr = _without_elr(result.rows)
        for anomaly in _unaccounted_for(scenario, result):
            excused = anomaly.kind in _WITHOUT_ELR and anomaly.partition in without_elr
            found.append(Finding(anomaly.kind, anomaly.sentence, not (by_design or excused)))
        undone = left_undone(scenario, result.rows, result.ledger)
        if undone:
            verb = "has" if len(undone) == 1 else "have"
            inputs = count_of(len(undone), "input record")
            sentence = f"{inputs} (the first is {undone[0]}) {verb} no output, although a member is running"
            found.append(Finding("undone", sentence, not by_design))
    return result, tuple(found)


def _nothing_more_from_us(scenario: Scenario) -> int | None:
    """Return the time after which no step and no producer acts any more, None if a step waits for a state."""
    ends_us = [scenario.sends_until_us(producer) for producer in scenario.producers if producer.arrival is not None]
    for step in scenario.timeline:
        if not isinstance(step.trigger, At):
            return None
        ends_us.append(step.trigger.at_us + (step.every_us or 0) * step.times + (step.for_us or 0))
    return max(ends_us, default=0)


def kinds_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the kinds of these findings, each once and sorted."""
    return tuple(sorted({finding.kind for finding in findings}))


def _unaccounted_for(scenario: Scenario, result: RunResult) -> Iterator[Anomaly]:
    """Yield the anomalies that Kafka's rules do not explain.

    These anomalies are explained:

    * duplicates that Kafka would store, too, and the outputs that transforms make of them;
    * records that a consumer has skipped because its position was reset (auto.offset.reset=latest), or because it keeps
      its position when the topic is deleted and created again, as Kafka's consumer does;
    * records above a high watermark that cannot advance because a broker of the ISR is unregistered.
    """
    duplicated = result.verdict.records["duplicated"]
    stored = stored_again(result.rows, result.ledger, duplicated)
    forgotten = dict.fromkeys(stored)
    for transform in scenario.transforms:
        forgotten.update(dict.fromkeys(outputs_again(result.ledger, duplicated, stored, transform.prefix)))
    for anomaly in result.verdict.anomalies:
        if anomaly.kind == "invariant" or (anomaly.kind == "poll-skip" and _is_usual(anomaly, result.rows)):
            continue
        if anomaly.kind == "unseen" and _lacks_a_broker(anomaly.partition, result.rows):
            continue
        if anomaly.kind != "duplicated" or any(name not in forgotten for name in anomaly.records):
            yield anomaly


_WITHOUT_ELR = ("lost", "unseen", "dirty-read")
"""What may happen to committed records that only members of a cleared ELR have (see L2 cleared-elr)."""


def _without_elr(rows: Iterable[TraceRow]) -> dict[TopicPartition, None]:
    """Return the partitions whose ELR was cleared by a change of min.insync.replicas."""
    cleared = (row.event for row in rows if isinstance(row.event, ElrCommitted))
    return dict.fromkeys(
        TopicPartition(event.topic, event.partition) for event in cleared if event.cause is ElrCause.MIN_ISR_CHANGED
    )


def _lacks_a_broker(partition: TopicPartition | None, rows: Iterable[TraceRow]) -> bool:
    """Return True if a broker that was ever in the partition's ISR is unregistered at the end of the run."""
    members: dict[str | None, None] = {}
    unregistered: dict[str | None, None] = {}
    for row in rows:
        match row.event:
            case BrokerUnregistered(broker=broker):
                unregistered[broker] = None
            case BrokerRegistered(broker=broker):
                unregistered.pop(broker, None)
            case PartitionCreated() | IsrCommitted() as event:
                if TopicPartition(event.topic, event.partition) == partition:
                    members.update(dict.fromkeys(event.isr))
    return not members.keys().isdisjoint(unregistered)


def _is_usual(skip: Anomaly, rows: Iterable[TraceRow]) -> bool:
    """Return True if a reset of the consumer's position or a deletion of the topic explains a skip between two reads.

    The reset must lie between the reads, the deletion before the second one.
    """
    read_before, read_after = skip.seqs
    for row in rows:
        event = row.event
        if row.seq >= read_after or not isinstance(event, PositionReset | TopicDeleted):
            continue
        if skip.partition is None or event.topic != skip.partition.topic:
            continue
        if isinstance(event, TopicDeleted):
            return True
        is_reset = event.client == skip.client and event.partition == skip.partition.partition
        if is_reset and row.seq > read_before and event.previous_offset < event.offset:
            return True
    return False


# --------------------------------------------------------------------------------------------------- inputs left undone
#
# Finds the input records that no member of a group has processed by the end of a run, although a member is running.
#
# No invariant of Kafka covers this. But a group that nothing disturbs any more must not be stuck or skip a record.


def left_undone(scenario: Scenario, rows: Iterable[TraceRow], ledger: RecordLedger) -> tuple[str, ...]:
    """Return the names of acknowledged input records without an output, in the order of sending.

    The result is empty if an open transaction may block read_committed consumers for good: in eras before KIP-890
    (3.6), where it may hang, and if a partition of the transactions' topic has no leader that could end it.

    Args:
        rows: complete trace of a run that ended without disturbance.
        ledger: ledger of the same run.
    """
    if scenario.rules.transactions not in ("verified", "v2"):
        return ()
    for partition, replicas in ledger.final.items():
        if partition.topic == TRANSACTIONS_TOPIC and not any(replica.is_leader for replica in replicas.values()):
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
