"""Records that are in no log any more for a good reason, and whether that reason still holds when the run is over.

1. What an operator deleted, or retention took, was given up for good: nothing brings the promise back.
2. Compaction promises to keep the last record of each key. A record that it took is accounted for as long as a later
   record of its key is in the log that counts, was deleted or has expired, or is a tombstone that went by right.
   Where the later record was cut off (unclean election, damage), the earlier one is lost with it.
3. A tombstone may go once delete.retention.ms has passed. But where the log that counts was cut off below its place
   and still holds an earlier record of its key, it is the cut that took the deletion.
4. What went with an aborted transaction was never promised.
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
"""Why a record is in no log any more: an operator has deleted it (DeleteRecords, or its topic), retention has, or
compaction."""


class KeyedPlace(NamedTuple):
    """Where a record stood that compaction took. record: None for one of an aborted transaction"""

    offset: int
    leader_epoch: int
    record: KeyedRecord | None


class TakenRecords(dict[str, str]):
    """By name, why a record was taken out of some log: DELETED, EXPIRED or COMPACTED."""

    def __init__(self, batches: CompactedBatches) -> None:
        super().__init__()
        self._batches = batches
        self._compacted: dict[TopicPartition, dict[str, KeyedPlace]] = {}
        self._deleted_up_to: dict[TopicPartition, dict[str, int]] = {}
        """By key, the last offset of its records that were deleted or have expired."""

    def compacted(self, partition: TopicPartition, name: str, place: KeyedPlace) -> None:
        self.setdefault(name, COMPACTED)
        self._compacted.setdefault(partition, {})[name] = place

    def key_deleted(self, partition: TopicPartition, key: str, offset: int) -> None:
        known = self._deleted_up_to.setdefault(partition, {})
        known[key] = max(offset, known.get(key, -1))

    def sent_again(self, partition: TopicPartition, name: str) -> None:
        """A leader has appended it once more, so it is judged anew."""
        self.pop(name, None)
        if self._compacted:
            self._compacted.get(partition, {}).pop(name, None)

    def topic_deleted(self, topic: str) -> None:
        """What compaction had taken of it is settled: what was lost by now stays lost."""
        for partition in [partition for partition in self._compacted if partition.topic == topic]:
            for name in self._untenable(partition, None, lambda partition, offset: False):
                self.pop(name, None)
            del self._compacted[partition]
        drop(lambda one: one == topic, self._deleted_up_to)

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful: the reasons stay, as the records do."""
        drop(is_gone, self._compacted, self._deleted_up_to)

    def untenable(
        self,
        log_of: Callable[[TopicPartition], FinalReplica | None],
        is_aborted: Callable[[TopicPartition, int], bool],
    ) -> dict[str, None]:
        """Return the records whose reason does not hold beside the logs that count."""
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
        """By key, the first and the last offset in the log."""
        keys = self._batches.keys_by_place(partition)
        for entry in entries:
            offsets.append(entry.offset)
            epochs.append(entry.leader_epoch)
            key = keys.get((entry.offset, entry.leader_epoch))
            if key is not None and not is_aborted(partition, entry.offset):
                standing[key] = (standing.get(key, (entry.offset, 0))[0], entry.offset)

        def was_cut(place: KeyedPlace) -> bool:
            index = bisect_right(offsets, place.offset) - 1
            return end <= place.offset or (index >= 0 and epochs[index] > place.leader_epoch)

        compacted = self._compacted[partition]
        replaced_up_to = dict(self._deleted_up_to.get(partition, {}))
        lost_tombstones: dict[str, None] = {}
        for name, place in compacted.items():
            if place.record is None or not place.record.is_tombstone:
                continue
            first, last = standing.get(place.record.key, (place.offset, place.offset))
            if first < place.offset and last <= place.offset and was_cut(place):
                lost_tombstones[name] = None
            else:
                key = place.record.key
                replaced_up_to[key] = max(place.offset, replaced_up_to.get(key, -1))
        for name, place in compacted.items():
            if self.get(name) != COMPACTED or place.record is None:
                continue
            if place.record.is_tombstone:
                is_lost = name in lost_tombstones
            else:
                last = standing.get(place.record.key, (0, -1))[1]
                is_lost = max(last, replaced_up_to.get(place.record.key, -1)) <= place.offset
            if is_lost:
                yield name


# ----------------------------------------------------------------------------------------------------- transaction ends
#
# How the transactions ended that records were sent in: what readers of committed records were promised of them.
#
# A transaction is decided once its coordinator has written so (PrepareCommit, PrepareAbort), and a decision stands,
# whatever becomes of records and markers (KIP-98; TransactionCoordinator.endTransaction). The decision about a
# record is
# the first one about its producer id after its batch was sent for the first time. Where the trace has no word of the
# coordinator, that of the producer counts: what it was answered.

PREPARED = {"PrepareCommit": True, "PrepareAbort": False}
COMPLETE = {"CompleteCommit": True, "CompleteAbort": False}


class TransactionEnds(Listener):
    """Notes in the table of the records what was decided about each of them."""

    def __init__(self, records: RecordTable) -> None:
        self._records = records
        self._undecided: dict[int, list[int]] = {}
        """By producer id, places of the records that were sent since its last decision."""
        self._coordinated: dict[int, None] = {}
        """Producer ids whose coordinator is in the trace."""
        self._prepared: dict[str, trace.TransactionStateChanged] = {}
        """By transactional.id, decisions whose markers are not all written."""

    def pending(self, partition: TopicPartition, producer_id: int) -> bool | None:
        """What the marker will say that the coordinator has still to write there: COMMIT, not ABORT. None: no marker
        is on its way."""
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
            place = self._records.place(record)
            if place >= 0:
                self._records.unaborted[place] = max(self._records.unaborted[place], 0) + 1
                undecided.append(place)

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
        elif event.state in COMPLETE and not was_stated:  # The coordinator that decided it died before it could say so.
            self._decide(event.producer_id, COMPLETE[event.state])

    def _decide(self, producer_id: int, committed: bool) -> None:
        for place in self._undecided.pop(producer_id, ()):
            if committed:
                self._records.committed[place] = 1
            else:
                self._records.unaborted[place] -= 1
        self._undecided[producer_id] = []


def after_its_end(marker: trace.TransactionMarkerWritten) -> str:
    """Of a batch that is appended behind the marker of the transaction it was sent in."""
    kind = "COMMIT" if marker.committed else "ABORT"
    ended = f"the {kind} marker at {marker.offset} has ended its transaction"
    return f"{ended}, so it begins one that no coordinator knows"


class LateBatches:
    """Which batches come behind the marker of the transaction they were sent in, and begin one that no coordinator
    knows: before KIP-890 no leader asks whether their transaction is still open (KAFKA-14402).

    What a coordinator has not said is not known, so without its events no batch is late.
    """

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        """By producer id, the transactional.id."""
        self._joined: dict[tuple[int, str], None] = {}
        """Producer ids and partitions that their coordinator has put into a transaction, and that wait for a marker."""
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
        """The transactional.id, and the marker that the batch came too late for. None: the batch is in time."""
        if event.producer_id not in self._ids or event.role != "leader" or event.base_sequence < 0:
            return None
        key = (event.producer_id, f"{event.topic}-{event.partition}")
        marker = None if key in self._joined else self._markers.get(key)
        return None if marker is None else (self._ids[event.producer_id], marker)

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful."""
        for key, marker in list(self._markers.items()):
            if is_gone(marker.topic):
                del self._markers[key]
        for key in [key for key in self._joined if is_gone(key[1].rpartition("-")[0])]:
            del self._joined[key]
