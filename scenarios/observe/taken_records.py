"""Decide which missing records were removed from a log legitimately, judged by the final logs.

1. Records that an operator deleted or that retention removed need not come back.
2. Compaction promises to keep the last record of each key. A removed record is accounted for as long as a later record
   of its key is in the final log, was deleted or has expired, or is a tombstone that was removed legitimately. If the
   later record was truncated (unclean election, damage), the removed record counts as lost.
3. A tombstone may be removed after delete.retention.ms. But if the final log was truncated below the tombstone and
   still has an earlier record of its key, the tombstone counts as lost.
4. Records of an aborted transaction were never promised.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from scenarios.observe.availability import IsGone, drop
from scenarios.observe.columns.record_table import RecordTable
from scenarios.observe.final_logs import FinalReplica, LogEntries
from scenarios.observe.sent_batches import CompactedBatches, KeyedRecord

DELETED, EXPIRED, COMPACTED = "deleted", "expired", "compacted"
"""Why a record was removed: an operator deleted it or its topic, it expired, or compaction removed it."""


class KeyedPlace(NamedTuple):
    """The position of a record that compaction removed. `record` is None if its transaction was aborted."""

    offset: int
    leader_epoch: int
    record: KeyedRecord | None


class TakenRecords(dict[str, str]):
    """A map from record names to the reason for removal from a log: DELETED, EXPIRED or COMPACTED."""

    def __init__(self, batches: CompactedBatches) -> None:
        super().__init__()
        self._batches = batches
        self._compacted: dict[TopicPartition, dict[str, KeyedPlace]] = {}
        self._deleted_up_to: dict[TopicPartition, dict[str, int]] = {}
        """Highest offset of deleted or expired records, by partition and key."""

    def compacted(self, partition: TopicPartition, name: str, keyed: KeyedPlace) -> None:
        self.setdefault(name, COMPACTED)
        self._compacted.setdefault(partition, {})[name] = keyed

    def key_deleted(self, partition: TopicPartition, key: str, offset: int) -> None:
        known = self._deleted_up_to.setdefault(partition, {})
        known[key] = max(offset, known.get(key, -1))

    def sent_again(self, partition: TopicPartition, name: str) -> None:
        """Drop the reason for a record that a leader has appended again."""
        self.pop(name, None)
        if self._compacted:
            self._compacted.get(partition, {}).pop(name, None)

    def topic_deleted(self, topic: str) -> None:
        """Drop the reasons for compacted records of a deleted topic that do not hold now, so these stay lost."""
        for partition in [partition for partition in self._compacted if partition.topic == topic]:
            for name in self._untenable(partition, None, lambda partition, offset: False):
                self.pop(name, None)
            del self._compacted[partition]
        drop(lambda item: item == topic, self._deleted_up_to)

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of topics that are gone (see Forgetful), except the reasons, as the ledger keeps records."""
        drop(is_gone, self._compacted, self._deleted_up_to)

    def untenable(
        self,
        log_of: Callable[[TopicPartition], FinalReplica | None],
        is_aborted: Callable[[TopicPartition, int], bool],
    ) -> dict[str, None]:
        """Return the names of records whose reason for removal does not hold, judged by the final logs.

        Args:
            log_of: returns the final replica of a partition.
            is_aborted: returns True if the record at an offset belongs to an aborted transaction.
        """
        found = (self._untenable(partition, log_of(partition), is_aborted) for partition in self._compacted)
        return dict.fromkeys(chain.from_iterable(found))

    def _untenable(
        self,
        partition: TopicPartition,
        replica: FinalReplica | None,
        is_aborted: Callable[[TopicPartition, int], bool],
    ) -> Iterator[str]:
        entries = LogEntries() if replica is None else replica.entries.in_order()
        end = 0 if replica is None else replica.log_end_offset
        offsets, epochs = [], []
        standing: dict[str, tuple[int, int]] = {}
        """First and last offset of each key in the final log."""
        keys = self._batches.keys_by_place(partition)
        for entry in entries:
            offsets.append(entry.offset)
            epochs.append(entry.leader_epoch)
            key = keys.get((entry.offset, entry.leader_epoch))
            if key is not None and not is_aborted(partition, entry.offset):
                standing[key] = (standing.get(key, (entry.offset, 0))[0], entry.offset)

        def was_cut(keyed: KeyedPlace) -> bool:
            index = bisect_right(offsets, keyed.offset) - 1
            return end <= keyed.offset or (index >= 0 and epochs[index] > keyed.leader_epoch)

        compacted = self._compacted[partition]
        replaced_up_to = dict(self._deleted_up_to.get(partition, {}))
        lost_tombstones: dict[str, None] = {}
        for name, keyed in compacted.items():
            if keyed.record is None or not keyed.record.is_tombstone:
                continue
            first, last = standing.get(keyed.record.key, (keyed.offset, keyed.offset))
            if first < keyed.offset and last <= keyed.offset and was_cut(keyed):
                lost_tombstones[name] = None
            else:
                key = keyed.record.key
                replaced_up_to[key] = max(keyed.offset, replaced_up_to.get(key, -1))
        for name, keyed in compacted.items():
            if self.get(name) != COMPACTED or keyed.record is None:
                continue
            if keyed.record.is_tombstone:
                is_lost = name in lost_tombstones
            else:
                last = standing.get(keyed.record.key, (0, -1))[1]
                is_lost = max(last, replaced_up_to.get(keyed.record.key, -1)) <= keyed.offset
            if is_lost:
                yield name


# ----------------------------------------------------------------------------------------------------- transaction ends
#
# The ends of transactions, which decide what read_committed consumers must get.
#
# A transaction is decided once its coordinator has written PrepareCommit or PrepareAbort. That decision is final,
# whatever happens to records and markers (KIP-98; TransactionCoordinator.endTransaction). A record is decided by the
# first decision about its producer id after its batch was first sent. If the trace has no event of the coordinator, the
# answer to the producer counts.

PREPARED = {"PrepareCommit": True, "PrepareAbort": False}
COMPLETE = {"CompleteCommit": True, "CompleteAbort": False}


class TransactionEnds(Listener):
    """Listener that marks each record in the RecordTable whose transaction was committed or aborted."""

    def __init__(self, records: RecordTable) -> None:
        self._records = records
        self._undecided: dict[int, list[int]] = {}
        """Indexes of the records sent since the last decision, by producer id."""
        self._coordinated: dict[int, None] = {}
        """Producer ids of which the trace has events of the coordinator."""
        self._prepared: dict[str, trace.TransactionStateChanged] = {}
        """Decisions whose markers are not all written yet, by transactional.id."""

    def pending(self, partition: TopicPartition, producer_id: int) -> bool | None:
        """Return which marker a partition will still get: True for COMMIT, False for ABORT, None for no marker."""
        for event in self._prepared.values():
            if event.producer_id == producer_id and str(partition) in event.partitions:
                return PREPARED[event.state]
        return None

    @on(trace.BatchSent)
    def _sent(self, row: TraceRow, event: trace.BatchSent) -> None:
        undecided = self._undecided.get(event.producer_id)
        if undecided is None or event.attempt > 1:
            return
        for record in event.records:
            index = self._records.place(record)
            if index >= 0:
                self._records.unaborted[index] = max(self._records.unaborted[index], 0) + 1
                undecided.append(index)

    @on(trace.TransactionBegan)
    def _began(self, row: TraceRow, event: trace.TransactionBegan) -> None:
        self._undecided.setdefault(event.producer_id, [])

    @on(trace.TransactionEnded)
    def _ended(self, row: TraceRow, event: trace.TransactionEnded) -> None:
        if event.producer_id not in self._coordinated:
            self._decide(event.producer_id, event.committed)

    @on(trace.TransactionStateChanged)
    def _changed(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        self._undecided.setdefault(event.producer_id, [])
        self._coordinated[event.producer_id] = None
        was_stated = self._prepared.pop(event.transactional_id, None) is not None
        if event.state in PREPARED:
            self._prepared[event.transactional_id] = event
            self._decide(event.producer_id, PREPARED[event.state])
        # The coordinator that made the decision died before it could emit the event.
        elif event.state in COMPLETE and not was_stated:
            self._decide(event.producer_id, COMPLETE[event.state])

    def _decide(self, producer_id: int, committed: bool) -> None:
        for index in self._undecided.pop(producer_id, ()):
            if committed:
                self._records.committed[index] = 1
            else:
                self._records.unaborted[index] -= 1
        self._undecided[producer_id] = []


def after_its_end(marker: trace.TransactionMarkerWritten) -> str:
    """Return two clauses about a batch that was appended after `marker`, the marker of its transaction."""
    kind = "COMMIT" if marker.committed else "ABORT"
    ended = f"the {kind} marker at {marker.offset} ended its transaction"
    return f"{ended}, so it begins a transaction that no coordinator knows"


class LateBatches:
    """Find batches appended after their transaction's marker; each begins a transaction unknown to the coordinator.

    Before KIP-890 a leader does not check whether a batch's transaction is still open (KAFKA-14402). If the trace has
    no events of a coordinator, no batch counts as late.
    """

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        """The transactional.id of each producer id."""
        self._joined: dict[tuple[int, str], None] = {}
        """Pairs (producer id, partition) that belong to a transaction and have no marker yet."""
        self._markers: dict[tuple[int, str], trace.TransactionMarkerWritten] = {}

    def changed(self, event: trace.TransactionStateChanged) -> None:
        self._ids[event.producer_id] = event.transactional_id
        if event.state == "Ongoing":
            self._joined |= dict.fromkeys((event.producer_id, partition) for partition in event.partitions)

    def marked(self, event: trace.TransactionMarkerWritten) -> None:
        key = (event.producer_id, f"{event.topic}-{event.partition}")
        self._joined.pop(key, None)
        self._markers[key] = event

    def overtaken(self, event: trace.BatchAppended) -> tuple[str, trace.TransactionMarkerWritten] | None:
        """Return the transactional.id and the marker that precedes a late batch, or None if the batch is not late."""
        if event.producer_id not in self._ids or event.role != "leader" or event.base_sequence < 0:
            return None
        key = (event.producer_id, f"{event.topic}-{event.partition}")
        marker = None if key in self._joined else self._markers.get(key)
        return None if marker is None else (self._ids[event.producer_id], marker)

    def forget(self, is_gone: IsGone) -> None:
        for key, marker in list(self._markers.items()):
            if is_gone(marker.topic):
                del self._markers[key]
        for key in [key for key in self._joined if is_gone(key[1].rpartition("-")[0])]:
            del self._joined[key]
