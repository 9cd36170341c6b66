"""Events about clients: records that producers sent, the answers they got, and records that consumers read."""

from __future__ import annotations

from typing import Annotated, ClassVar

from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import TraceEvent

_LATENCY = "from the send call to the ack"
# Of a client from outside, which states nothing: from the arrival of its request at the broker to the answer's leaving.
Latency = Annotated[int, _LATENCY]
LatencyIfAny = Annotated[int | None, _LATENCY]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSent(TraceEvent):
    """The application handed a record to its producer."""

    TABLE: ClassVar[str] = "produce"
    client: column.Client
    topic: column.Topic
    partition: column.Partition
    record: column.Record
    acks: column.Acks


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSent(TraceEvent):
    """A producer put a batch on the wire; `crc` finds it again in the `log` table."""

    TABLE: ClassVar[str] = "produce"
    client: column.Client
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    records: column.Records
    crc: column.Crc
    attempt: Annotated[int, "1 for the first time"]
    acks: column.Acks
    producer_id: Annotated[int, "-1 without idempotence"]
    base_sequence: Annotated[int, "-1 without idempotence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRefused(TraceEvent):
    """One attempt failed: an error in the answer, or no answer (NETWORK_EXCEPTION, REQUEST_TIMED_OUT)."""

    TABLE: ClassVar[str] = "produce"
    client: column.Client
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    records: column.Records
    crc: column.Crc
    attempt: Annotated[int, "1 for the first time"]
    error: column.Error
    will_retry: Annotated[bool, "the producer will send the batch again"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAcked(TraceEvent):
    """The producer got the answer that the record is written."""

    TABLE: ClassVar[str] = "produce"
    client: column.Client
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    record: column.Record
    offset: column.Offset
    acks: column.Acks
    latency_us: Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHandedOver(TraceEvent):
    """acks=0: the record is in the socket buffer; the send succeeds, nothing is promised, the offset is -1."""

    TABLE: ClassVar[str] = "produce"
    client: column.Client
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    record: column.Record
    acks: column.Acks
    latency_us: LatencyIfAny


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFailed(TraceEvent):
    """The producer gave up on a record; unless `definite`, it may be in the log all the same."""

    TABLE: ClassVar[str] = "produce"
    client: column.Client
    topic: column.Topic
    partition: column.Partition
    record: column.Record
    acks: column.Acks
    error: column.Error
    definite: Annotated[bool, "no attempt can have been written"]
    latency_us: Latency
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRead(TraceEvent):
    TABLE: ClassVar[str] = "consume"
    client: column.Client
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    offset: column.Offset
    record: column.Record
    leader_epoch: Annotated[int, "leader epoch stamped on the record's batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPromised(TraceEvent):
    """At the end of the run an application that transforms is done with an input: it has read it, and its group has
    committed an offset behind it. The input is not read again, so its output has to be there."""

    TABLE: ClassVar[str] = "consume"
    client: column.Client
    topic: Annotated[str, "where the output belongs"]
    partition: Annotated[int, "-1: its producer chooses"]
    record: Annotated[str, "the output's name"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReset(TraceEvent):
    """The consumer's position moved other than by reading."""

    TABLE: ClassVar[str] = "consume"
    client: column.Client
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    offset: Annotated[int, "new position"]
    previous_offset: Annotated[int, "old position, -1 at the start"]
    error: Annotated[str | None, "what made it move"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOffsetSeen(TraceEvent):
    """A client asked for the end of the partition (ListOffsets latest); `error` instead of an offset if refused."""

    TABLE: ClassVar[str] = "consume"
    client: column.Client
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    offset: Annotated[int, "the end offset, -1 if refused"]
    error: Annotated[str | None, "what made it move"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailed(TraceEvent):
    """A consumer's fetch was answered with an error, or with what its application cannot read."""

    TABLE: ClassVar[str] = "consume"
    client: column.Client
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    offset: Annotated[int, "position of the consumer"]
    error: column.Error
