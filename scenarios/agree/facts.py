"""The facts of a run that are compared with other runs, read from its trace and its brokers' logs.

facts = facts_of(rows, epochs_in(run_dir / "logs"))
facts.standings["t-0"][0].leader
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from replica.ids import INTERNAL_TOPICS, METADATA_TOPIC, TopicPartition
from replica.log.files.checkpoints import LEADER_EPOCHS, CorruptCheckpoint, read_checkpoint
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, Routes, on
from scenarios.check.verdict import RECORD_CLASSES, classify
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.view import ClusterView

Epochs = Mapping[tuple[str, str], tuple[tuple[int, int], ...]]
"""The entries (leader epoch, start offset) of each leader-epoch-checkpoint, by (partition, node)."""


class PartitionStanding(NamedTuple):
    """The leader, ISR and ELR of a partition after a record of the metadata log.

    ISR and ELR are sorted by name, because their order has no meaning in Kafka.
    """

    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    elr: tuple[str, ...]


class Stood(NamedTuple):
    """A state of a partition, and the time at which it began."""

    at_us: int
    standing: PartitionStanding


class LogCut(NamedTuple):
    """A truncation that removed records, with the log end offset before and after."""

    at_us: int
    before: int
    after: int


class ReplicaEnd(NamedTuple):
    """LEO and HW of a replica at the end of a run. The HW is None if the broker is down, because it may be outdated."""

    log_end_offset: int
    high_watermark: int | None


class FinalRecord(NamedTuple):
    """A record in a final log, with the leader epoch of its batch."""

    record: str
    leader_epoch: int


@dataclass(slots=True)
class RunFacts:
    """The facts of a run, by partition (`t-0`), (partition, node), record or client.

    Attributes:
        standings: states of each partition in order of time.
        records: names of the records of each class, such as `lost`.
        moments_us: time at which each record was answered; the time of sending if it was never answered.
        sources: for each record, the client; for an output of a transform, the partition of the input record. Records
            of one source have a fixed order.
        partitions: the partition to which each record was sent.
        errors: number of times that each client got each error.
        logs: records of each replica, in offset order.
        epochs: None if the run has no log files.
    """

    end_us: int = 0
    standings: dict[str, list[Stood]] = field(default_factory=dict)
    records: dict[str, frozenset[str]] = field(default_factory=dict)
    moments_us: dict[str, int] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, str] = field(default_factory=dict)
    errors: dict[str, dict[str, int]] = field(default_factory=dict)
    logs: dict[tuple[str, str], list[FinalRecord]] = field(default_factory=dict)
    ends: dict[tuple[str, str], ReplicaEnd] = field(default_factory=dict)
    cuts: dict[tuple[str, str], list[LogCut]] = field(default_factory=dict)
    epochs: Epochs | None = None


def facts_of(rows: Iterable[TraceRow], epochs: Epochs | None = None) -> RunFacts:
    """Return the facts of a run from all rows of its trace, in order of time."""
    facts = _Facts(RunFacts(epochs=epochs))
    for row in rows:
        facts(row)
    found, ledger = facts.found, facts.ledger
    ledger.close()
    found.standings = {name: _changes(stood) for name, stood in found.standings.items()}
    _note_records(found, ledger)
    _note_logs(found, ledger)
    return found


class _Facts(Listener):
    def __init__(self, found: RunFacts) -> None:
        self.found = found
        self.view, mirror = ClusterView((), ()), LogMirror()
        self.ledger = RecordLedger(mirror.deleted, mirror.sent.names)
        self._around = Routes((self.view, mirror, self.ledger))
        self._partition_epochs: dict[str, int] = {}
        self._reads: dict[str, dict[str, str]] = {}

    def __call__(self, row: TraceRow) -> None:
        for handler in self._around[type(row.event)]:
            handler(row, row.event)
        if getattr(row.event, "topic", None) not in (*INTERNAL_TOPICS, METADATA_TOPIC):
            super().__call__(row)

    @on(
        trace.PartitionCreated, trace.LeaderElected, trace.PartitionWentOffline, trace.IsrCommitted, trace.ElrCommitted
    )  # fmt: skip
    def _stands(self, row: TraceRow, event: Any) -> None:
        """Add the partition's state after an event. Events of the same partition epoch make one state."""
        name = _name(event)
        partition = self.view.partitions[TopicPartition(event.topic, event.partition)]
        standing = PartitionStanding(
            partition.leader, partition.leader_epoch, tuple(sorted(partition.isr)), tuple(sorted(partition.elr))
        )
        stood = self.found.standings.setdefault(name, [])
        if self._partition_epochs.get(name) == event.partition_epoch:
            stood[-1] = Stood(stood[-1].at_us, standing)
        else:
            stood.append(Stood(row.at_us, standing))
        self._partition_epochs[name] = event.partition_epoch

    @on(trace.LogTruncated)
    def _truncated(self, row: TraceRow, event: trace.LogTruncated) -> None:
        if event.log_end_offset < event.previous_log_end_offset:
            cut = LogCut(row.at_us, event.previous_log_end_offset, event.log_end_offset)
            self.found.cuts.setdefault((_name(event), event.node), []).append(cut)

    @on(trace.RecordRead)
    def _read(self, row: TraceRow, event: trace.RecordRead) -> None:
        self._reads.setdefault(event.client, {})[event.record] = _name(event)

    @on(trace.RecordSent)
    def _sent(self, row: TraceRow, event: trace.RecordSent) -> None:
        self.found.sources.setdefault(event.record, _source(event, self._reads.get(event.client, {})))

    @on(trace.BatchSent)
    def _batch_sent(self, row: TraceRow, event: trace.BatchSent) -> None:
        self.found.partitions.update(dict.fromkeys(event.records, _name(event)))

    @on(trace.RunFinished)
    def _finished(self, row: TraceRow, event: trace.RunFinished) -> None:
        self.found.end_us = row.at_us


def _name(event: object) -> str:
    return f"{event.topic}-{event.partition}"  # type: ignore[attr-defined]


def _source(sent: trace.RecordSent, read: Mapping[str, str]) -> str:
    """Return the source of a record: its client, or, for a transform's output tr7, the partition of its input r7."""
    tails = (sent.record[start:] for start in range(1, len(sent.record)))
    return next((read[tail] for tail in tails if tail in read), sent.client)


def _changes(stood: list[Stood]) -> list[Stood]:
    """Return the states without those that equal the state before."""
    first = stood[:1]
    return first + [item for before, item in pairwise(stood) if item.standing != before.standing]


def _note_records(found: RunFacts, ledger: RecordLedger) -> None:
    found.records = {kind: frozenset(classify(ledger, kind)) for kind in RECORD_CLASSES}
    for entry in ledger:
        moments = (entry.acked_us, entry.handed_over_us, entry.failed_us, entry.sent_us)
        found.moments_us[entry.name] = next(moment for moment in moments if moment is not None)
    found.errors = {
        client: {error: tally.count for error, tally in tallies.items()} for client, tallies in ledger.errors.items()
    }


def _note_logs(found: RunFacts, ledger: RecordLedger) -> None:
    for name, replicas in ledger.final.items():
        if name.topic in INTERNAL_TOPICS or name.topic == METADATA_TOPIC:
            continue
        for node, replica in replicas.items():
            replica_id = (str(name), node)
            found.logs[replica_id] = [FinalRecord(entry.record, entry.leader_epoch) for entry in replica.entries]
            found.ends[replica_id] = ReplicaEnd(
                replica.log_end_offset, replica.high_watermark if replica.running else None
            )


def epochs_in(logs: Path) -> Epochs | None:
    """Return the leader-epoch checkpoints of all replicas below a run's folder `logs`; None without that folder."""
    if not logs.is_dir():
        return None
    found: dict[tuple[str, str], tuple[tuple[int, int], ...]] = {}
    for file in sorted(logs.rglob(LEADER_EPOCHS)):
        node, partition = file.relative_to(logs).parts[0], file.parent.name
        if partition.rpartition("-")[0] in (*INTERNAL_TOPICS, METADATA_TOPIC):
            continue
        try:
            entries = read_checkpoint(file, 2)
        except CorruptCheckpoint:
            continue
        found[partition, node] = tuple((int(epoch), int(start)) for epoch, start in entries)
    return found
