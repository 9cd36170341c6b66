"""Invariants of the answers to clients and of the bytes on the disks."""

from __future__ import annotations

from array import array
from collections import defaultdict
from typing import Any, Final, NamedTuple

from replica.causes import InjectionCause
from replica.ids import ACKS_ALL, OFFSETS_TOPIC, OUTSIDE, TopicPartition, client_of
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import on
from scenarios.check.invariants.checker import Invariant, InvariantChecker
from scenarios.check.invariants.forgotten import DeletedProducers, ForgottenProducers
from scenarios.observe.columns.names import PlaceRuns


class AckedIsCommitted(Invariant):
    """S25 (first half) and S10: a record acked with acks=all was committed and is kept.

    S25: the record was below the high watermark of the broker that acked it. S10: some replica still has it when the
    run ends. S10 is not checked for a partition whose committed log was re-based or with a disk that lost bytes: Kafka
    promises nothing after min.insync.replicas losses.

    `S10 refused-append`: an injected error refused a batch for good that was appended. The producer's next batch got
    its sequence number, so the leader took that batch for a repetition, and acknowledged it without an append.
    """

    NAME = "S10"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.names = self.mirror.sent.names
        self.promised: dict[TopicPartition, array[int]] = {}
        self.found: dict[TopicPartition, PlaceRuns] = {}
        self.disk_lost: dict[TopicPartition, None] = {}
        self.logs_found = False
        self.injected: dict[tuple[str, str], str | None] = {}
        """Error of the latest injected response to a Produce request that was carried out, by client and broker."""
        self.disowned: dict[str, None] = {}
        """Records that were appended and refused for good."""
        self.not_appended: dict[str, None] = {}
        """Records that were acknowledged with the offset of a disowned record."""

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.promised, self.disk_lost)

    @on(trace.RecordAcked)
    def _acked(self, row: TraceRow, event: trace.RecordAcked) -> None:
        if event.acks != ACKS_ALL or event.offset < 0:
            return
        partition = TopicPartition(event.topic, event.partition)
        promised = self.promised.get(partition)
        if promised is None:
            promised = self.promised[partition] = array("i")
        promised.append(self.names.place_or_add(event.record))
        if self.disowned and self._record_at(partition, event) in self.disowned:
            self.not_appended[event.record] = None
        peak = self.truth.of(*partition).leader_peaks.get(event.peer, 0)
        if event.offset >= peak:
            sentence = (
                f"{event.peer} acked {event.record} at offset {event.offset} of {partition} with acks=all, "
                f"but its high watermark has never been above {peak}"
            )
            self.broken(sentence, *partition, name="S25")

    def _record_at(self, partition: TopicPartition, event: trace.RecordAcked) -> str | None:
        """Return the name of the record at the offset of an ack, None if it is unknown."""
        batch = self.mirror.log(partition, event.peer).at(event.offset)
        if batch is None:
            return None
        return self.mirror.sent.record(partition, batch.base_offset, batch.crc, event.offset - batch.base_offset)

    @on(trace.ResponseInjected)
    def _injected(self, row: TraceRow, event: trace.ResponseInjected) -> None:
        if event.api == "Produce" and event.cause is InjectionCause.APPLIED:
            self.injected[client_of(event.peer), event.node] = event.error

    @on(trace.BatchRefused)
    def _refused(self, row: TraceRow, event: trace.BatchRefused) -> None:
        injected = self.injected.get((client_of(event.client), event.peer)) if self.injected else None
        if injected is not None and event.error == injected and not event.will_retry:
            self.disowned.update(dict.fromkeys(event.records))

    @on(trace.DataLost, trace.BatchCorrupted)
    def _lost(self, row: TraceRow, event: trace.DataLost | trace.BatchCorrupted) -> None:
        self.disk_lost[TopicPartition(event.topic, event.partition)] = None

    @on(trace.LogEntriesFound)
    def _entries(self, row: TraceRow, event: trace.LogEntriesFound) -> None:
        """Store the names of the records in the final logs."""
        partition = (event.topic, event.partition)
        found = self.found.get(partition)  # type: ignore[call-overload]  # a NamedTuple is found by its plain tuple
        if found is None:
            found = self.found[TopicPartition(*partition)] = PlaceRuns()
        for index, count in self.names.runs_of(event.records):
            found.append(index, count)

    @on(trace.ReplicaFound)
    def _replica(self, row: TraceRow, event: trace.ReplicaFound) -> None:
        self.logs_found = True

    def ended(self) -> None:
        if not self.logs_found:
            return
        for partition, promised in self.promised.items():
            if partition in self.disk_lost or self.truth.of(*partition).rebased_epoch >= 0:
                continue
            found = bytearray(len(self.names))
            for index, count in self.found[partition].stretches() if partition in self.found else ():
                found[index : index + count] = b"\1" * count
            absent = [self.names.name(index) for index in promised if not found[index]]
            first_of = {
                "S10 refused-append" if name in self.not_appended else self.NAME: name
                for name in reversed(absent)
                if name not in self.mirror.deleted
            }
            for kind, name in sorted(first_of.items()):
                self.broken(f"{name} was acked with acks=all, but is in no log of {partition}", *partition, name=kind)


class ReadsAreCommitted(Invariant):
    """S11, S28: a consumer reads only committed records.

    S28: every record read is below the highest high watermark that the serving broker has had so far. S11: it is the
    committed record at its offset.

    Weakened: records of a leader epoch before a re-basing are not checked, since they may arrive after the re-basing.
    """

    NAME = "S11"

    @on(trace.RecordRead)
    def _read(self, row: TraceRow, event: trace.RecordRead) -> None:
        committed = self.truth.of(event.topic, event.partition)
        where = f"offset {event.offset} of {event.topic}-{event.partition}"
        peaks = committed.leader_peaks, committed.follower_peaks
        if event.offset >= max(peak.get(event.peer, 0) for peak in peaks):
            sentence = f"{event.client} read {event.record} at {where} from {event.peer}, above its high watermark"
            self.broken(sentence, event.topic, event.partition, "S28")
        if event.leader_epoch < committed.rebased_epoch:
            return
        batch = committed.at(event.offset)
        if batch is None:
            return
        partition = TopicPartition(event.topic, event.partition)
        known = self.mirror.sent.record(partition, batch.base_offset, batch.crc, event.offset - batch.base_offset)
        sender = self.mirror.sent.client(partition, batch.base_offset, batch.crc)
        if sender is not None and sender.startswith(OUTSIDE):
            return  # Such a client may send two identical batches; Highwater's own readers go by the values of records.
        if known is not None and known != event.record:
            self.broken(
                f"{event.client} read {event.record} at {where}, but {known} is committed there",
                event.topic,
                event.partition,
            )


class _Latest(NamedTuple):
    """The latest batch of a producer in a log.

    Attributes:
        sequence: sequence number of its last record.
        since_us: time of its append.
        offset: offset of its last record.
    """

    producer_epoch: int
    sequence: int
    since_us: int
    offset: int


_NO_BATCH = _Latest(-1, -1, 0, -1)


class SequencesAreContiguous(Invariant):
    """S26: in each log, the batches of one idempotent producer epoch follow each other without gap or repeat.

    A new epoch starts at sequence 0. Exceptions:

    * Any sequence may come first if the broker has forgotten the producer, because the batches were truncated or the
      producer was silent for producer.id.expiration.ms (R18), or on a follower whose leader's log was compacted.
    * Since 2.5 the same holds if the log was opened or cut after all records of the producer were deleted. A follower,
      which may still know the producer, takes the batch that its leader has taken.
    * Before 2.5 a producer whose last record was deleted begins at 0 again in its epoch (`unknown-producer`).
    * The topic of offsets is not checked: each batch that a coordinator writes there for a transaction has sequence 0.

    S31 checks that the epochs of a transactional producer do not fall.
    """

    NAME = "S26"
    _WRAP: Final = 1 << 31

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.last: dict[tuple[str, int, str], dict[int, _Latest]] = {}
        self.transactional: dict[int, None] = {}
        self.starts: dict[tuple[str, int], int] = {}
        """Highest log start offset of any replica, by partition."""
        self.beginnings: dict[tuple[str, int], dict[tuple[int, int], None]] = {}
        """(base offset, leader epoch) of the batches of which the leader did not know the producer, by partition."""
        self.forgotten = ForgottenProducers(checker)
        self.deleted = DeletedProducers(checker)
        self.parts = (self.forgotten, self.deleted)

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return self.last, self.starts, self.beginnings, *self.deleted.kept

    @on(trace.LogStartOffsetAdvanced, trace.RecordsExpired)
    def _begins(self, row: TraceRow, event: trace.LogStartOffsetAdvanced | trace.RecordsExpired) -> None:
        where = event.topic, event.partition
        self.starts[where] = max(event.log_start_offset, self.starts.get(where, 0))

    @on(trace.TransactionBegan)
    def _named(self, row: TraceRow, event: trace.TransactionBegan) -> None:
        self.transactional[event.producer_id] = None

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        if event.producer_id < 0 or event.base_sequence < 0 or event.topic == OFFSETS_TOPIC:
            return
        key = (event.topic, event.partition, event.node)
        last = self.last.setdefault(key, {})
        epoch, sequence, since_us, offset = last.get(event.producer_id, _NO_BATCH)
        compacted = self.mirror.sent.compacted
        if (
            event.role == "follower"
            and compacted.are_any
            and compacted.has_any(TopicPartition(event.topic, event.partition))
        ):
            epoch = -1
        first = event.base_sequence
        is_old = self.checker.rules.unknown_producer != "accepted"
        if not is_old and self._begins_anywhere(event, offset):
            epoch = -1
        if is_old and first == 0 and offset < self.starts.get((event.topic, event.partition), 0):
            pass
        elif epoch == event.producer_epoch:
            wanted = (sequence + 1) % self._WRAP
            if first != wanted:
                self._tell(row, event, since_us, f"has sequence {first} after {sequence}")
        elif event.producer_epoch < epoch and event.producer_id in self.transactional:
            pass
        elif epoch >= 0 and (event.producer_epoch < epoch or first != 0):
            change = f"goes from epoch {epoch} to {event.producer_epoch} with sequence {first}"
            self._tell(row, event, since_us, change)
        count = event.last_offset - event.base_offset
        last[event.producer_id] = _Latest(
            event.producer_epoch, (first + count) % self._WRAP, row.at_us, event.last_offset
        )

    def _begins_anywhere(self, event: trace.BatchAppended, offset: int) -> bool:
        """Return whether the leader does not know the producer of a batch, or may have forgotten it (DeletedProducers).

        Args:
            offset: offset of the producer's latest record in the log, -1 if there is none.
        """
        partition, index = (event.topic, event.partition), (event.base_offset, event.leader_epoch)
        if event.role != "leader":
            return index in self.beginnings.get(partition, ())
        if offset >= 0 and not self.deleted.includes(event, offset):
            return False
        self.beginnings.setdefault(partition, {})[index] = None
        return True

    @on(trace.LogTruncated, trace.LogRecovered, trace.LeadershipBegan, trace.FollowingBegan, trace.ReplicaDeleted)
    def _cut(
        self,
        row: TraceRow,
        event: trace.LogTruncated
        | trace.LogRecovered
        | trace.LeadershipBegan
        | trace.FollowingBegan
        | trace.ReplicaDeleted,
    ) -> None:
        if not self.mirror.dropped:
            return
        log = self.mirror.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]
        before = self.last.get((event.topic, event.partition, event.node), {})
        last: dict[int, _Latest] = {}
        for batch in log:
            if batch.producer_id >= 0 and batch.base_sequence >= 0:
                end = batch.base_sequence + batch.last_offset - batch.base_offset
                since_us = before.get(batch.producer_id, _NO_BATCH).since_us
                last[batch.producer_id] = _Latest(batch.producer_epoch, end % self._WRAP, since_us, batch.last_offset)
        self.last[event.topic, event.partition, event.node] = last

    def _tell(self, row: TraceRow, event: trace.BatchAppended, since_us: int, what: str) -> None:
        if self.forgotten.may_include(row, event, since_us):
            return
        sentence = f"producer {event.producer_id} {what} in the log of {event.topic}-{event.partition} on {event.node}"
        self.broken(sentence, event.topic, event.partition)


class DisksHoldWhatWasAppended(Invariant):
    """S27: when the run ends, every log has exactly the batches that the trace reports, unchanged.

    CRCs are checked when the logs are read at the end. This checks that each batch is the one appended at its offset. A
    log may be shorter if its disk lost bytes and the broker has not opened it since.
    """

    NAME = "S27"

    @on(trace.LogEntriesFound)
    def _entries(self, row: TraceRow, event: trace.LogEntriesFound) -> None:
        log = self.mirror.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]
        index, columns = log.place_holding(event.offset), log.columns
        offsets = range(event.offset, event.offset + len(event.records))
        if index < 0 or columns.crc(index) != event.crc or columns.leader_epoch(index) != event.leader_epoch:
            wrong = event.offset
        elif columns.last_offset(index) < offsets[-1]:
            wrong = columns.last_offset(index) + 1
        else:
            wrong = next(filter(log.compacted.__contains__, offsets), -1) if log.compacted else -1
        if wrong >= 0:
            sentence = (
                f"{event.node} holds {event.records[wrong - event.offset]} at offset {wrong} of "
                f"{event.topic}-{event.partition}, in a batch that was never appended there"
            )
            self.broken(sentence, event.topic, event.partition)

    @on(trace.ReplicaFound)
    def _replica(self, row: TraceRow, event: trace.ReplicaFound) -> None:
        log = self.mirror.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]
        if not log.doubtful and log.end != event.log_end_offset:
            sentence = (
                f"the log of {event.topic}-{event.partition} on {event.node} ends at {event.log_end_offset}, "
                f"but its appends and truncations end at {log.end}"
            )
            self.broken(sentence, event.topic, event.partition)


class ConnectionKeepsOrder(Invariant):
    """S29: batches that a producer sends on one connection are appended in the order of sending (R19).

    A connection lasts until either side notices its end (ConnectionLost, NodeStopped, a request that timed out). Its
    batches may be appended after those of the next connection. Copies of a batch that was sent more than once are
    equal, so the order is broken only if no assignment of copies to connections explains the log.

    Weakened:
    * Each producer id counts as a separate connection.
    * Equal batches of several producers are not checked, since it is unknown which of them was appended.
    * More than READINGS_MAX assignments are merged into one.
    * A batch that expires under way ends its connection immediately; no event reports when its request times out.
    """

    NAME = "S29"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.lives: dict[tuple[str, str], int] = {}
        self.routes: defaultdict[tuple[str, int, str, str], _Route] = defaultdict(_Route)

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.routes,)

    @on(trace.BatchSent)
    def _sent(self, row: TraceRow, event: trace.BatchSent) -> None:
        life = self.lives.setdefault((client_of(event.client), event.peer), 0)
        route = self.routes[event.topic, event.partition, event.client, event.peer]
        route.sent(event.crc, (life, event.producer_id))

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        if event.role != "leader":
            return
        stands = TopicPartition(event.topic, event.partition), event.base_offset, event.crc
        if self.mirror.sent.has_several_senders(stands[0], event.crc):
            return
        client = self.mirror.sent.client(*stands)
        route = self.routes.get((event.topic, event.partition, client, event.node)) if client is not None else None
        if route is None:
            return  # The batch is not from a producer of this run.
        if not route.appended(event.crc):
            names = self.mirror.sent.records(*stands)
            later = f"records that {client} sent later on the same connection"
            sentence = f"{event.node} appended {', '.join(names)} after {later}"
            self.broken(sentence, event.topic, event.partition)

    @on(trace.BatchRefused)
    def _refused(self, row: TraceRow, event: trace.BatchRefused) -> None:
        """Count the end of a connection that the client gives up. Only the errors of its requests show this."""
        pair = client_of(event.client), event.peer
        if event.error in ("REQUEST_TIMED_OUT", "NETWORK_EXCEPTION") and pair in self.lives:
            self.lives[pair] += 1

    @on(trace.RecordFailed)
    def _failed(self, row: TraceRow, event: trace.RecordFailed) -> None:
        if event.error == "REQUEST_TIMED_OUT" and not event.definite:
            sender = client_of(event.client)
            for client, peer in self.lives:
                if client == sender:
                    self.lives[client, peer] += 1

    @on(trace.ConnectionLost)
    def _lost(self, row: TraceRow, event: trace.ConnectionLost) -> None:
        for pair in ((event.node, event.peer), (event.peer, event.node)):
            if pair in self.lives:
                self.lives[pair] += 1

    @on(trace.NodeStopped)
    def _stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        for pair in self.lives:
            if event.node in pair:
                self.lives[pair] += 1


_Connection = tuple[int, int]
"""A producer's connection to a broker, as (number of earlier connections, producer id)."""

_Reading = dict[_Connection, int]
"""One possible assignment of copies of batches to connections.

For each connection: the batches below this number have been appended or can no longer be appended.
"""


class _Route:
    """The batches of one producer to one broker for one partition, by connection.

    If a batch was sent more than once, it is unknown which copy was appended, so several assignments of copies to
    connections (readings) are possible. A reading with lower numbers on all connections allows every further append
    that a reading with higher numbers allows.
    """

    def __init__(self) -> None:
        self._waiting: dict[_Connection, dict[int, int]] = {}  # number of the batch -> CRC
        self._readings: list[_Reading] = [{}]
        self._places = 0

    def sent(self, crc: int, connection: _Connection) -> None:
        self._waiting.setdefault(connection, {})[self._places] = crc
        self._places += 1

    def appended(self, crc: int) -> bool:
        """Extend each reading by an appended batch. Return False if no reading allows the batch at this point."""
        readings: list[_Reading] = []
        for reading in self._readings:
            for connection, waiting in self._waiting.items():
                passed = reading.get(connection, 0)
                index = next((index for index, sent in waiting.items() if sent == crc and index >= passed), None)
                if index is not None:
                    readings.append({**reading, connection: index + 1})
        if not readings:
            return False
        self._readings = readings if len(readings) == 1 else _shortest(readings)
        if len(self._readings) > READINGS_MAX:
            self._readings = [_weakest(self._readings)]
        self._forget()
        return True

    def _forget(self) -> None:
        """Drop the batches that can no longer be appended in any reading."""
        for connection, waiting in list(self._waiting.items()):
            passed = min(reading.get(connection, 0) for reading in self._readings)
            for index in list(waiting):
                if index >= passed:
                    break
                del waiting[index]
            if not waiting:
                del self._waiting[connection]
                for reading in self._readings:
                    reading.pop(connection, None)


READINGS_MAX = 24
"""Largest number of readings, which grows with each batch that is sent again over another connection."""


def _weakest(readings: list[_Reading]) -> _Reading:
    """Return a reading that allows every append that any of the readings allows, so no false violation is reported."""
    shared = [connection for connection in readings[0] if all(connection in reading for reading in readings)]
    return {connection: min(reading[connection] for reading in readings) for connection in shared}


def _shortest(readings: list[_Reading]) -> list[_Reading]:
    """Return the readings without those that another reading makes superfluous. Of equal ones the first is kept."""
    return [
        item
        for number, item in enumerate(readings)
        if not any(_explains(other, item) and (other != item or index < number) for index, other in enumerate(readings))
    ]


def _explains(reading: _Reading, other: _Reading) -> bool:
    """Return whether `reading` makes `other` superfluous: its number is not higher on any connection."""
    return all(passed <= other.get(connection, 0) for connection, passed in reading.items())


INVARIANTS: tuple[type[Invariant], ...] = (
    AckedIsCommitted,
    ReadsAreCommitted,
    SequencesAreContiguous,
    DisksHoldWhatWasAppended,
    ConnectionKeepsOrder,
)
