"""Every record of a run: the answer to its producer, its readers, and its copies on disk at the end of the run.

`RecordLedger` is a listener of `replica.trace.TraceLog`. It uses these terms:

    acked     there is a RecordAcked event
    failed    there is a RecordFailed event, and the record was definitely not written
    unknown   the record was sent, and is neither acked nor failed
    present   the record is in the final log of its partition

A record that was only handed over (acks=0) is `unknown`, because nothing was promised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from replica.errors import RETRIABLE, ErrorCode
from replica.ids import TopicPartition, client_of
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.trace.ranges import OffsetRanges
from scenarios.observe.availability import IsGone, WriteTimes, drop
from scenarios.observe.columns.names import LazyNames, NameIndex
from scenarios.observe.columns.record_table import ACKED, FAILED, FATES, SENT, RecordEntry, RecordTable
from scenarios.observe.final_logs import FinalReplica, LogEntries, Presence
from scenarios.observe.sent_batches import CompactedBatches
from scenarios.observe.taken_records import TakenRecords, TransactionEnds


class ReadJump(NamedTuple):
    """A gap in a consumer's reads: `offset` was read next after the offset `after`, without a seek.

    `after` is -1 if the consumer had read a deleted topic of that name before.
    """

    client: str
    topic_partition: TopicPartition
    after: int
    offset: int
    seq: int
    after_seq: int


class EndOffsetFall(NamedTuple):
    """An end offset that a client received after it had received a higher one."""

    client: str
    topic_partition: TopicPartition
    highest: int
    offset: int
    seq: int
    highest_seq: int


class PromisedOutput(NamedTuple):
    """An output that the application `client` must write to `topic_partition`, with the `reason`."""

    client: str
    topic_partition: TopicPartition
    reason: str
    seq: int


@dataclass(slots=True)
class ErrorTally:
    """How often a client got an error, with the times of the first and last in microseconds."""

    count: int
    first_us: int
    last_us: int


@dataclass(slots=True)
class ReadRanges:
    """The offsets that one consumer has read of one partition."""

    last: int = -1
    last_seq: int = -1
    sought: bool = True
    """True if the consumer has read nothing since its start or the application's last seek."""
    ranges: OffsetRanges = field(default_factory=OffsetRanges)
    apart: dict[str, None] | None = None
    """Records read from brokers that may still serve a deleted topic of this name; their offsets do not count."""


_UNANSWERED = ("NETWORK_EXCEPTION", "REQUEST_TIMED_OUT")
"""Errors of a request that got no answer, or got it too late."""


class RecordLedger(Listener):
    """Listener that keeps the fate of every record, in sending order, and the final logs of a finished run."""

    def __init__(self, taken: TakenRecords | None = None, names: NameIndex | None = None) -> None:
        """Create an empty ledger.

        Args:
            taken: records that were deleted, expired or compacted (`LogMirror.deleted`).
            names: an index of names that is shared with other objects (`LogMirror.sent.names`).
        """
        self.taken_by = TakenRecords(CompactedBatches()) if taken is None else taken
        self._untenable: dict[str, None] | None = None
        """Records that were removed for a reason that the final logs disprove; None until it is computed."""
        self.records = RecordTable(names)
        self.ends = TransactionEnds(self.records)
        self.writes = WriteTimes()
        self.final: dict[TopicPartition, dict[str, FinalReplica]] = {}
        self.reads: dict[tuple[str, TopicPartition], ReadRanges] = {}
        self.jumps: list[ReadJump] = []
        self.end_offset_falls: list[EndOffsetFall] = []
        self.promised: dict[str, PromisedOutput] = {}
        """Outputs of processed inputs, by record name. They must exist, acknowledged or not."""
        self.errors: dict[str, dict[str, ErrorTally]] = {}
        self.refusals: dict[str, trace.RequestRefused] = {}
        """The last request of each client that was refused with an error that is not retriable."""
        self.readers: dict[str, None] = {}
        """Clients that have read a record of any topic."""
        self.retries = 0
        self.injected: dict[str, str] = {}
        """Name of the injected fault that made a record's batch fail, by record name."""
        self._injections: dict[tuple[str, str], trace.ResponseInjected] = {}
        """The latest injected response to a Produce request, by client and broker."""
        self._highest_end: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        self._deleted_topics: dict[str, None] = {}
        """Deleted topics that have not been created again."""
        self._serving: dict[tuple[str], dict[tuple[int, str], bool]] = {}
        """By topic that was created again: (partition, broker) of each replica that serves it, and whether it has led.

        Other brokers may still answer for the deleted topic.
        """
        self._partitions: dict[tuple[str, int], TopicPartition] = {}
        self._unsettled: set[int] = set()
        """Indexes of records that were sent without a partition (-1); a later event names the partition of each."""
        self._aborted: dict[TopicPartition, OffsetRanges] = {}
        self._open: dict[tuple[TopicPartition, str], OffsetRanges] = {}
        """Offsets in open transactions, by partition and node: a replica may lack a marker that another has."""
        self._present: Presence | None = None
        self._gone: list[RecordEntry] | None = None
        self.parts = (self.writes, self.ends)

    # -------------------------------------------------------------------------------------------------- questions

    def __iter__(self) -> Iterator[RecordEntry]:
        return iter(self.records)

    def named(self, kind: str) -> LazyNames:
        """Return the names of the acked, failed or unknown records, in sending order."""
        return self.records.named(FATES.index(kind))

    @property
    def gone(self) -> list[RecordEntry]:
        """Return the records that are in no final log and were not deleted, expired or compacted, in sending order."""
        if self._gone is None:
            fates, flags, gone = self.records.fates, self.present.flags, []
            index = flags.find(0)
            while 0 <= index < len(fates):
                if fates[index] and not self._is_taken((entry := RecordEntry(self.records, index)).name):
                    gone.append(entry)
                index = flags.find(0, index + 1)
            self._gone = gone
        return self._gone

    @property
    def is_readable(self) -> bool:
        """Return True if readers can get everything that is in the final logs."""
        logs = ((replica, replica.entries) for replica in map(self.final_replica, self.final) if replica is not None)
        return not self._open and all(
            replica.is_leader and replica.running and entries[len(entries) - 1].offset < replica.high_watermark
            for replica, entries in logs
            if len(entries)
        )

    def is_gone(self, name: str) -> bool:
        """Return True if the record is in no final log, and was not deleted, expired or compacted."""
        return name not in self.present and not self._is_taken(name)

    def _is_taken(self, name: str) -> bool:
        if self._untenable is None:
            self._untenable = self.taken_by.untenable(self.final_replica, self.is_aborted)
        return name in self.taken_by and name not in self._untenable

    def is_undone(self, name: str) -> bool:
        """Return True if the record's input was processed, but no final log has a copy that was not aborted."""
        return name in self.promised and not self._is_taken(name) and not self.copies(name)

    def aborted_records(self) -> list[str]:
        """Return the acked records whose copies in the final logs were all aborted, in sending order.

        A record without a copy counts if all its transactions were aborted.
        """
        places = {entry.place for entry in self.gone if entry.aborted}
        for partition, ranges in self._aborted.items():
            log = self.final_log(partition)
            for _, index, count in chain.from_iterable(log.stretches_in(*span) for span in ranges):
                places.update(range(index, index + count))
        entries = (RecordEntry(self.records, index) for index in sorted(places) if self.records.is_record(index))
        acked = (entry for entry in entries if entry.acked and not self.is_undone(entry.name))
        return [entry.name for entry in acked if not self.copies(entry.name)]

    def is_stranded(self, entry: RecordEntry) -> bool:
        """Return True if the record was committed and exists, but its final log will never get the commit marker."""
        copies = self.copies(entry.name) if entry.committed and self._open else ()
        return bool(copies) and not self.settled_copies(entry.name)

    def copies(self, name: str) -> tuple[tuple[TopicPartition, int], ...]:
        """Return (partition, offset) of each copy in the final logs that is not in an aborted transaction.

        An application repeats the work of an aborted transaction, and may then write to another partition.
        """
        copies = self.present.copies(name)
        return tuple(copy for copy in copies if not self.is_aborted(*copy)) if self._aborted else copies

    def settled_copies(self, name: str) -> tuple[tuple[TopicPartition, int], ...]:
        """Return the `copies` that are not in an open transaction, which may still be aborted after the run."""
        copies = self.copies(name)
        return tuple(copy for copy in copies if not self._is_open(*copy)) if self._open else copies

    def where(self, name: str) -> tuple[TopicPartition, int] | None:
        """Return (partition, offset) of the first copy, preferably one that was not aborted, or None."""
        found = self.copies(name) or self.present.copies(name)
        return found[0] if found else None

    def taken(self, why: str) -> list[str]:
        """Return the acked records that were removed from all final logs for one reason, in sending order.

        Args:
            why: `deleted`, `expired` or `compacted`.
        """
        entries = (self.records.get(name) for name, reason in self.taken_by.items() if reason == why)
        acked = sorted((entry for entry in entries if entry is not None and entry.acked), key=lambda entry: entry.place)
        return [entry.name for entry in acked if entry.name not in self.present and self._is_taken(entry.name)]

    def final_replica(self, partition: TopicPartition) -> FinalReplica | None:
        """Return the replica whose log counts as the final log of a partition, or None if no log is left.

        This is the running leader, otherwise a member of the ISR, otherwise of the ELR, otherwise any replica with a
        log, since its records may return. Of several candidates, the one with the latest records counts.
        """
        found = (item for item in self.final.get(partition, {}).values() if item.found)
        return min(found, key=lambda item: item.rank, default=None)

    def final_log(self, partition: TopicPartition) -> LogEntries:
        replica = self.final_replica(partition)
        return LogEntries() if replica is None else replica.entries

    def as_if_over(self, logs: dict[TopicPartition, dict[str, FinalReplica]]) -> RecordLedger:
        """Return a ledger of the same records with `logs` as final logs, for a `check` step during a run."""
        now = RecordLedger(self.taken_by)
        now.records, now.final = self.records, logs
        return now

    def close(self) -> None:
        """Sort the final logs after the run, and drop cached results about them."""
        for replicas in self.final.values():
            for replica in replicas.values():
                replica.entries = replica.entries.in_order()
        self._present = self._untenable = self._gone = None

    @property
    def present(self) -> Presence:
        """Return the positions of each record in the final logs; call this after `close`."""
        if self._present is None:
            self._present = Presence(self.records.index)
            for partition in sorted(self.final):
                self._present.add_log(partition, self.final_log(partition))
        return self._present

    # ------------------------------------------------------------------------------------------------------ events

    def _partition(self, topic: str, number: int) -> TopicPartition:
        known = self._partitions.get((topic, number))
        if known is None:
            known = self._partitions[topic, number] = TopicPartition(topic, number)
        return known

    def _place(self, row: TraceRow, event: Any) -> int:
        known = self.records.place(event.record)
        if known >= 0:
            if event.partition >= 0 and known in self._unsettled:
                self._unsettled.remove(known)
                self.records.settle(known, self._partition(event.topic, event.partition))
            return known
        partition = self._partition(event.topic, event.partition)
        index = self.records.add(event.record, event.client, partition, event.acks, row.at_us, row.seq)
        if event.partition < 0:
            self._unsettled.add(index)
        return index

    @on(trace.RecordSent)
    def _sent(self, row: TraceRow, event: trace.RecordSent) -> None:
        known = self.records.count
        index = self._place(row, event)
        if self.records.count == known:
            self.records.last_sent_seq[index] = row.seq

    @on(trace.RecordAcked)
    def _acked(self, row: TraceRow, event: trace.RecordAcked) -> None:
        """Handle the first acknowledgement of a record. Later ones, for a batch that was sent again, are ignored."""
        index, records = self._place(row, event), self.records
        if records.fates[index] == ACKED:
            return
        records.fates[index] = ACKED
        records.acked_us[index], records.acked_seq[index] = row.at_us, row.seq
        records.acked_by[index] = records.words.place(event.peer)
        records.acked_offset[index], records.latency_us[index] = event.offset, event.latency_us

    @on(trace.RecordHandedOver)
    def _handed_over(self, row: TraceRow, event: trace.RecordHandedOver) -> None:
        index, records = self._place(row, event), self.records
        records.handed_over_us[index] = row.at_us
        if event.latency_us is not None:
            records.latency_us[index] = event.latency_us

    @on(trace.RecordFailed)
    def _failed(self, row: TraceRow, event: trace.RecordFailed) -> None:
        index, records = self._place(row, event), self.records
        records.failed_us[index], records.failed_seq[index] = row.at_us, row.seq
        records.error[index] = records.words.place(event.error)
        if records.fates[index] != ACKED:
            records.fates[index] = FAILED if event.definite else SENT

    @on(trace.ResponseInjected)
    def _injected(self, row: TraceRow, event: trace.ResponseInjected) -> None:
        if event.api == "Produce":
            self._injections[client_of(event.peer), event.node] = event

    @on(trace.BatchRefused)
    def _refused(self, row: TraceRow, event: trace.BatchRefused) -> None:
        self.retries += event.will_retry
        injection = self._injections.get((client_of(event.client), event.peer)) if self._injections else None
        if injection is not None and event.error in ((injection.error,) if injection.error else _UNANSWERED):
            self.injected.update(dict.fromkeys(event.records, injection.fault))

    @on(trace.RequestRefused)
    def _request_refused(self, row: TraceRow, event: trace.RequestRefused) -> None:
        if ErrorCode[event.error] not in RETRIABLE:
            self.refusals[event.client] = event

    @on(trace.BatchRefused, trace.FetchFailed, trace.RequestRefused)
    def _answered_with(
        self, row: TraceRow, event: trace.BatchRefused | trace.FetchFailed | trace.EndOffsetSeen | trace.RequestRefused
    ) -> None:
        tallies = self.errors.setdefault(event.client, {})
        error = event.error or ""
        tally = tallies.get(error)
        if tally is None:
            tallies[error] = ErrorTally(1, row.at_us, row.at_us)
        else:
            tally.count, tally.last_us = tally.count + 1, row.at_us

    @on(trace.RecordRead)
    def _read(self, row: TraceRow, event: trace.RecordRead) -> None:
        partition = self._partition(event.topic, event.partition)
        records = self.records
        index = records.place(event.record)
        if index >= 0 and records.first_read_us[index] < 0:
            records.first_read_us[index], records.first_read_seq[index] = row.at_us, row.seq
            records.first_reader[index] = records.words.place(event.client)
        reads = self.reads.get((event.client, partition))
        if reads is None:
            self.readers[event.client] = None
            reads = self.reads[event.client, partition] = ReadRanges()
        if not self._knows_topic(event):
            reads.apart = reads.apart or {}
            reads.apart[event.record] = None
            return
        offset = event.offset
        reads.ranges.add(offset, offset)
        if not reads.sought and offset > reads.last + 1:
            self.jumps.append(ReadJump(event.client, partition, reads.last, offset, row.seq, reads.last_seq))
        reads.last, reads.last_seq, reads.sought = offset, row.seq, False

    @on(trace.PositionReset)
    def _position_reset(self, row: TraceRow, event: trace.PositionReset) -> None:
        # A start or a seek has no error. After an error, records are skipped that the application did not want to skip.
        reads = self.reads.get((event.client, self._partition(event.topic, event.partition)))
        if reads is not None and event.error is None:
            reads.sought = True

    @on(trace.EndOffsetSeen)
    def _end_offset_seen(self, row: TraceRow, event: trace.EndOffsetSeen) -> None:
        if event.error is not None:
            self._answered_with(row, event)
            return
        if not self._knows_topic(event, as_leader=True):
            return
        partition = self._partition(event.topic, event.partition)
        highest, highest_seq = self._highest_end.get((event.client, partition), (-1, -1))
        if event.offset < highest:
            fall = EndOffsetFall(event.client, partition, highest, event.offset, row.seq, highest_seq)
            self.end_offset_falls.append(fall)
        else:
            self._highest_end[event.client, partition] = (event.offset, row.seq)

    @on(trace.OutputPromised)
    def _output_promised(self, row: TraceRow, event: trace.OutputPromised) -> None:
        partition = self._partition(event.topic, event.partition)
        self.promised[event.record] = PromisedOutput(event.client, partition, event.sentence(), row.seq)

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        """Handle the deletion of a topic. Brokers still answer for the topic until they learn of the deletion."""
        self._deleted_topics[event.topic] = None

    @on(trace.PartitionCreated)
    def _partition_created(self, row: TraceRow, event: trace.PartitionCreated) -> None:
        """Handle a deleted topic that is created again. Its readers keep their positions.

        The new topic begins at offset 0, and its new topic id (KIP-516) resets no positions. So a reader skips the
        records below its old position.
        """
        topic = event.topic
        if topic not in self._deleted_topics:
            return
        del self._deleted_topics[topic]
        self._serving[topic,] = {}
        for key in [key for key in self._highest_end if key[1].topic == topic]:
            del self._highest_end[key]
        for key, reads in self.reads.items():
            if key[1].topic == topic:
                self.reads[key] = ReadRanges(last_seq=row.seq, sought=reads.sought)
        self.jumps = [jump for jump in self.jumps if jump.topic_partition.topic != topic]

    @on(trace.LeadershipBegan, trace.FollowingBegan)
    def _serves(self, row: TraceRow, event: trace.LeadershipBegan | trace.FollowingBegan) -> None:
        serving = self._serving.get((event.topic,))
        if serving is not None:
            key = (event.partition, event.node)
            serving[key] = serving.get(key, False) or isinstance(event, trace.LeadershipBegan)

    def _knows_topic(self, event: trace.RecordRead | trace.EndOffsetSeen, *, as_leader: bool = False) -> bool:
        """Return False if the answering broker may still serve a deleted topic of this name.

        Args:
            as_leader: return False also if the broker has only followed in the current topic.
        """
        serving = self._serving.get((event.topic,))
        if serving is None:
            return True
        has_led = serving.get((event.partition, event.peer))
        return has_led is not None and (has_led or not as_leader)

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of topics that are gone (see Forgetful), except records and readers with a position."""
        drop(is_gone, self._partitions, self._serving)
        self.writes.forget(is_gone)
        self.jumps = [jump for jump in self.jumps if not is_gone(jump.topic_partition.topic)]
        for key in [key for key in self._highest_end if is_gone(key[1].topic)]:
            del self._highest_end[key]
        for key, reads in [(key, reads) for key, reads in self.reads.items() if is_gone(key[1].topic)]:
            if reads.sought:
                del self.reads[key]
            else:
                self.reads[key] = ReadRanges(last_seq=reads.last_seq, sought=False)

    def _final(self, event: trace.LogEntriesFound | trace.ReplicaFound) -> FinalReplica:
        replicas = self.final.setdefault(self._partition(event.topic, event.partition), {})
        known = replicas.get(event.node)
        if known is None:
            known = replicas[event.node] = FinalReplica(event.node, LogEntries(names=self.records.index))
        return known

    @on(trace.AbortedBatchFound)
    def _aborted_found(self, row: TraceRow, event: trace.AbortedBatchFound) -> None:
        partition = TopicPartition(event.topic, event.partition)
        self._aborted.setdefault(partition, OffsetRanges()).add(event.base_offset, event.last_offset)

    @on(trace.OpenBatchFound)
    def _open_found(self, row: TraceRow, event: trace.OpenBatchFound) -> None:
        """Handle a batch without a transaction marker. A decision of the coordinator counts even without the marker."""
        partition = TopicPartition(event.topic, event.partition)
        committing = self.ends.pending(partition, event.producer_id)
        if committing is None:
            self._open.setdefault((partition, event.node), OffsetRanges()).add(event.base_offset, event.last_offset)
        elif not committing:
            self._aborted.setdefault(partition, OffsetRanges()).add(event.base_offset, event.last_offset)

    def _is_open(self, partition: TopicPartition, offset: int) -> bool:
        """Return True if the copy in the final log belongs to an open transaction."""
        replica = self.final_replica(partition)
        ranges = None if replica is None else self._open.get((partition, replica.node))
        return ranges is not None and ranges.covers(offset)

    def is_aborted(self, partition: TopicPartition, offset: int) -> bool:
        """Return True if a copy belongs to an aborted transaction, which read_committed consumers skip."""
        ranges = self._aborted.get(partition)
        return ranges is not None and ranges.covers(offset)

    @on(trace.LogEntriesFound)
    def _log_entries_found(self, row: TraceRow, event: trace.LogEntriesFound) -> None:
        self._final(event).entries.extend(event.offset, event.records, event.leader_epoch, event.crc, row.seq)

    @on(trace.ReplicaFound)
    def _replica_found(self, row: TraceRow, event: trace.ReplicaFound) -> None:
        replica = self._final(event)
        replica.log_start_offset, replica.log_end_offset = event.log_start_offset, event.log_end_offset
        replica.high_watermark, replica.seq = event.high_watermark, row.seq
        replica.is_leader, replica.in_isr, replica.in_elr = event.is_leader, event.in_isr, event.in_elr
        replica.running, replica.leader_epoch = event.running, event.leader_epoch
