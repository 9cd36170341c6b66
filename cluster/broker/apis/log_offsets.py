"""Offsets and epochs of logs, and the deletion of records: ListOffsets (2), DeleteRecords (21),
OffsetForLeaderEpoch (23).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import groupby, islice
from typing import Final, NamedTuple

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values
from cluster.broker.replicas.partition import Partition
from cluster.broker.replicas.record_deletion import Deleted
from cluster.protocol import cold
from cluster.protocol.api_01_fetch import READ_COMMITTED, READ_UNCOMMITTED
from cluster.protocol.entities import Entity
from cluster.protocol.versions import DELETE_RECORDS, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from cluster.server.responder import Call
from cluster.slices import paced
from replica.errors import ErrorCode, KafkaError
from replica.ids import (
    DEBUGGING_CONSUMER,
    NO_BROKER,
    UNDEFINED_EPOCH,
    UNKNOWN_OFFSET,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from replica.log.batches.records import read_timestamps
from replica.log.batches.validation import takes_long
from replica.log.log import Log

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


FIRST_VERSION_OF = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, PENDING_UPLOAD: 11}
"""First version with each special timestamp (ReplicaManager.timestampMinSupportedVersion)."""
NO_TIMESTAMP = -1
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5


class FoundOffset(NamedTuple):
    """An offset, with its record's timestamp in milliseconds and leader epoch; the latest has the current epoch."""

    offset: Offset = UNKNOWN_OFFSET
    timestamp: int = NO_TIMESTAMP
    leader_epoch: LeaderEpoch = UNDEFINED_EPOCH


class TakesLong(Exception):
    """Raised if `batch` takes long to read, and TimestampReader.read has not read it yet."""

    def __init__(self, batch: bytes) -> None:
        super().__init__()
        self.batch = batch


class TimestampReader:
    """Reads the timestamps in batches. In live mode, `read` must read a large batch first, in a worker thread."""

    def __init__(self, *, works_apart: bool) -> None:
        self._works_apart = works_apart
        self._last: tuple[bytes, list[tuple[Offset, int]] | KafkaError] | None = None

    def timestamps_of(self, batch: bytes) -> list[tuple[Offset, int]]:
        """Return (offset, timestamp in milliseconds) of each record in a batch.

        Raises:
            TakesLong: if `read` has to be called first.
            KafkaError: as in read_timestamps.
        """
        if not self._works_apart or not takes_long([memoryview(batch)]):
            return read_timestamps(batch)
        if self._last is None or self._last[0] != batch:
            raise TakesLong(batch)
        found = self._last[1]
        if isinstance(found, KafkaError):
            raise found
        return found

    def read(self, batch: bytes) -> None:
        try:
            self._last = batch, read_timestamps(batch)
        except KafkaError as refusal:
            self._last = batch, refusal


class ListOffsetsHandler(ApiHandler):
    """ListOffsets (2): return the start or end of a log, or its first record at a time or later.

         1  one offset for each partition, with its timestamp: the oldest version that Kafka 4 accepts
         2  isolation level
         3  a throttled client gets its response before the delay (KIP-219)
         4  leader epoch, in request and response (KIP-320)
         5  OFFSET_NOT_AVAILABLE is a possible error (KIP-207)
         6  flexible
         7  the record with the largest timestamp, requested as -3 (KIP-734)
         8  the start of the log on this disk, requested as -4 (KIP-405)
         9  the last offset in tiered storage, requested as -5 (KIP-1005)
        10  a timeout for lookups in tiered storage (KIP-1075)
        11  the first offset that is not in tiered storage yet, requested as -6 (KIP-1023)

    Source: KafkaApis.handleListOffsetRequest, ReplicaManager.fetchOffset, Partition.fetchOffsetForTimestamp
    """

    def __call__(self, call: Call) -> None:
        request, version = call.decoded(), call.header.api_version
        replica_id = int(request.replica_id)
        read_committed = int(getattr(request, "isolation_level", READ_UNCOMMITTED)) == READ_COMMITTED
        wanted = [(str(topic.name), entry) for topic in request.topics for entry in topic.partitions]
        asked = Counter((topic, int(entry.partition_index)) for topic, entry in paced(wanted))
        reader = TimestampReader(works_apart=self._broker.works_apart)
        found: list[Values] = []

        def go_on(now_us: int) -> None:
            for topic, entry in paced(wanted[len(found) :]):
                try:
                    found.append(self._offset(topic, entry, version, replica_id, asked, reader, read_committed))
                except TakesLong as long:
                    self._broker.base.outbox.work_apart(partial(reader.read, long.batch), begin_again)
                    return
            answers = iter(found)
            topics = [
                {"name": str(topic.name), "partitions": list(islice(answers, len(topic.partitions)))}
                for topic in request.topics
            ]
            self._answer(call, topics=topics)

        def begin_again(now_us: int) -> None:
            self._broker.responder.slices.begin(partial(go_on, now_us))

        go_on(call.now_us)

    def _offset(
        self,
        topic: str,
        entry: Entity,
        version: int,
        replica_id: BrokerId,
        asked: Counter[tuple[str, int]],
        reader: TimestampReader,
        read_committed: bool,
    ) -> Values:
        name = TopicPartition(topic, int(entry.partition_index))
        epoch = int(getattr(entry, "current_leader_epoch", UNDEFINED_EPOCH))
        error, found = ErrorCode.NONE, FoundOffset()
        timestamp = int(entry.timestamp)
        try:
            if asked[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"partition {name} occurs more than once in the request")
            if timestamp < 0 and version < FIRST_VERSION_OF.get(timestamp, version + 1):
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"timestamp {timestamp} is not supported in ListOffsets version {version}",
                )
            partition = self._broker.replicas.hosted(name)
            if replica_id == DEBUGGING_CONSUMER:
                partition.check_epoch(epoch)
            else:
                partition.check_leading(epoch)
            from_follower = replica_id != NO_BROKER
            found = find_offset(
                partition, timestamp, reader, from_follower=from_follower, read_committed=read_committed
            )
        except KafkaError as refusal:
            error = refusal.code
            if error is ErrorCode.OFFSET_NOT_AVAILABLE and version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE:
                error = ErrorCode.LEADER_NOT_AVAILABLE
        return {"partition_index": name.partition, "error_code": error, **found._asdict()}


def find_offset(
    partition: Partition,
    timestamp: int,
    reader: TimestampReader,
    *,
    from_follower: bool,
    read_committed: bool = False,
) -> FoundOffset:
    """Return the offset of the first record with this timestamp or a later one; FoundOffset() if there is none.

    Args:
        timestamp: in milliseconds, or -1 for the latest offset, -2 the earliest, -3 the record with the largest
            timestamp, -4 the earliest on this disk, -5 the latest in tiered storage, -6 the earliest not yet in tiered
            storage. Without tiered storage, as here, -4 is the earliest offset, and -5 and -6 find none.

    Raises:
        KafkaError: OFFSET_NOT_AVAILABLE (KIP-207) if clients cannot see the offset yet.
        TakesLong: if `reader` must read a batch first.
    """
    log = partition.log
    if timestamp in (LATEST_TIERED, PENDING_UPLOAD):
        return FoundOffset()
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return FoundOffset(log.log_start_offset, leader_epoch=_epoch_of(log, log.log_start_offset))
    end_offset = log.log_end_offset if from_follower else partition.consumer_limit
    if read_committed and not from_follower:
        end_offset = log.last_stable_offset(end_offset)
    if timestamp == LATEST:
        if not from_follower:
            partition.check_high_watermark_caught_up()
        return FoundOffset(end_offset, leader_epoch=partition.leader_epoch)
    at_ms = log.max_timestamp_ms if timestamp == MAX_TIMESTAMP else timestamp
    found = log.offset_for_timestamp(at_ms, reader.timestamps_of)
    if found is not None and found[0] < end_offset:
        return FoundOffset(*found, leader_epoch=_epoch_of(log, found[0]))
    if not from_follower:
        partition.check_high_watermark_caught_up()
    return FoundOffset()


def _epoch_of(log: Log, offset: Offset) -> LeaderEpoch:
    epoch = log.leader_epochs.epoch_for_offset(offset)
    return UNDEFINED_EPOCH if epoch is None else epoch


class OffsetForLeaderEpochHandler(ApiHandler):
    """OffsetForLeaderEpoch (23): return where a leader epoch ends in a log (KIP-101), for followers and consumers.

         2  the client's leader epoch, for fencing (KIP-320): the oldest version that Kafka 4 accepts
         3  replica id
         4  flexible

    Source: KafkaApis.handleOffsetForLeaderEpochRequest, Partition.lastOffsetForLeaderEpoch
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        topics = [
            {
                "topic": str(topic.topic),
                "partitions": [self._epoch_end(str(topic.topic), entry) for entry in topic.partitions],
            }
            for topic in request.topics
        ]
        self._answer(call, topics=topics)

    def _epoch_end(self, topic: str, entry: Entity) -> Values:
        name = TopicPartition(topic, int(entry.partition))
        error, epoch, end_offset = ErrorCode.NONE, UNDEFINED_EPOCH, UNKNOWN_OFFSET
        try:
            partition = self._broker.replicas.hosted(name)
            partition.check_leading(int(entry.current_leader_epoch))
            epoch, end_offset = partition.log.end_offset_for_epoch(int(entry.leader_epoch))
        except KafkaError as refusal:
            error = refusal.code
        return {"error_code": error, "partition": name.partition, "leader_epoch": epoch, "end_offset": end_offset}


class DeleteRecordsHandler(ApiHandler):
    """DeleteRecords (21): delete the records of partitions below an offset (KIP-107).

         0  first version
         1  a throttled client gets its response before the delay (KIP-219)
         2  flexible

    Source: KafkaApis.handleDeleteRecordsRequest
    """

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._deletion = broker.deletion()

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        offsets = {
            TopicPartition(str(topic.name), int(partition.partition_index)): int(partition.offset)
            for topic in request.topics
            for partition in topic.partitions
        }

        def respond(results: Mapping[TopicPartition, Deleted]) -> None:
            topics = (
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": name.partition,
                            "low_watermark": results[name].low_watermark,
                            "error_code": results[name].error,
                        }
                        for name in paced(names)
                    ],
                }
                for topic, names in groupby(sorted(results), key=lambda name: name.topic)
            )
            self._answer(call, topics=topics)

        timeout_us = cold.milliseconds(request.timeout) * 1000
        self._deletion.delete(offsets, call.peer, timeout_us, respond, call.now_us)


APIS: Final[Mapping[int, Serve]] = {
    LIST_OFFSETS: ListOffsetsHandler,
    OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochHandler,
    DELETE_RECORDS: DeleteRecordsHandler,
}
