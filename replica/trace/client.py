"""Events about clients: records that producers sent, the answers they got, and records that consumers read."""

from __future__ import annotations

from typing import Annotated, ClassVar

from replica.causes import FailureCause, ResetCause
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ClientFailure, OfClient, TraceEvent

_LATENCY = "from the send call to the ack"
# Of a client from outside, which states nothing: from the arrival of its request at the broker to the answer's leaving.
Latency = Annotated[int, _LATENCY]
LatencyIfAny = Annotated[int | None, _LATENCY]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSent(OfClient):
    """The application handed a record to its producer."""

    TABLE: ClassVar[str] = "produce"
    record: column.Record
    acks: column.Acks


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSent(OfClient):
    """A producer put a batch on the wire; `crc` finds it again in the `log` table."""

    TABLE: ClassVar[str] = "produce"
    peer: column.Peer
    records: column.Records
    crc: column.Crc
    attempt: Annotated[int, "1 for the first time"]
    acks: column.Acks
    producer_id: Annotated[int, "-1 without idempotence"]
    base_sequence: Annotated[int, "-1 without idempotence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRefused(ClientFailure):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAcked(OfClient):
    """The producer got the answer that the record is written."""

    TABLE: ClassVar[str] = "produce"
    peer: column.Peer
    record: column.Record
    offset: column.Offset
    acks: column.Acks
    latency_us: Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHandedOver(OfClient):
    """acks=0: the record is in the socket buffer; the send succeeds, nothing is promised, the offset is -1."""

    TABLE: ClassVar[str] = "produce"
    peer: column.Peer
    record: column.Record
    acks: column.Acks
    latency_us: LatencyIfAny


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFailed(ClientFailure):
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

    def sentence(self) -> str:
        if self.cause is not FailureCause.NO_METADATA:
            return ClientFailure.sentence(self)
        what = f"topic {self.topic}" if self.partition < 0 else f"partition {self.topic}-{self.partition}"
        return f"no metadata of {what} within max.block.ms of {self.timeout_ms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRead(OfClient):
    TABLE: ClassVar[str] = "consume"
    peer: column.Peer
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
    input: Annotated[str, "name of the record that was read"]
    input_partition: Annotated[str, "where it was read, as topic-number"]
    offset: Annotated[int, "offset of the input"]
    committed_offset: Annotated[int, "where the group goes on"]

    def sentence(self) -> str:
        read = f"{self.client} has read {self.input} at offset {self.offset} of {self.input_partition}"
        return f"{read}, and its group has committed offset {self.committed_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReset(OfClient):
    """The consumer's position moved other than by reading."""

    TABLE: ClassVar[str] = "consume"
    peer: column.Peer
    offset: Annotated[int, "new position"]
    previous_offset: Annotated[int, "old position, -1 at the start"]
    error: Annotated[str | None, "what made it move"]
    cause: Annotated[ResetCause, "why it moved"]
    policy: Annotated[str | None, "auto.offset.reset, or what the application asked for"] = None
    leader: Annotated[str | None, "who said that the old position is not in its log, where it is not `peer`"] = None
    leader_epoch: Annotated[int | None, "the last one that was read, or the one that ends at the new position"] = None
    count: Annotated[int | None, "records that a batch claims to hold"] = None

    def sentence(self) -> str:
        partition, leader = f"{self.topic}-{self.partition}", self.leader or self.peer
        policy = "" if self.policy is None else f"; auto.offset.reset={self.policy}"
        match self.cause:
            case ResetCause.SEEK:
                return f"the application asked for {'this offset' if self.policy is None else f'the {self.policy}'}"
            case ResetCause.COMMITTED_OFFSET:
                return "the group goes on from here"
            case ResetCause.NO_COMMITTED_OFFSET:
                return f"the group has no committed offset{policy}"
            case ResetCause.NO_POSITION:
                return f"the consumer has no position yet{policy}"
            case ResetCause.OUT_OF_RANGE:
                return f"{leader} has no offset {self.previous_offset}{policy}"
            case ResetCause.UNKNOWN_EPOCH:
                return f"the log was truncated: {leader} knows no leader epoch up to {self.leader_epoch}{policy}"
            case ResetCause.TRUNCATED:
                if self.leader_epoch is None:
                    return f"the log of {leader} parts from what was read at {self.offset}"
                ends = f"epoch {self.leader_epoch} ends at {self.offset}, before {self.previous_offset}"
                return f"the log was truncated: on {leader} {ends}"
            case ResetCause.FETCHES_ELSEWHERE:
                return f"{self.client} goes on from {self.offset} of {partition}, not from {self.previous_offset}"
            case ResetCause.STATED_AGAIN:
                return f"what {self.client} reads of {partition} is stated again from {self.offset} on"
            case ResetCause.UNREADABLE_BATCH:
                return f"{self.client} reads a batch of {partition} that claims to hold {self.count or 0:,} records"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOffsetSeen(OfClient):
    """A client asked for the end of the partition (ListOffsets latest); `error` instead of an offset if refused."""

    TABLE: ClassVar[str] = "consume"
    peer: column.Peer
    offset: Annotated[int, "the end offset, -1 if refused"]
    error: Annotated[str | None, "what made it move"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailed(OfClient):
    """A consumer's fetch was answered with an error, or with what its application cannot read."""

    TABLE: ClassVar[str] = "consume"
    peer: column.Peer
    offset: Annotated[int, "position of the consumer"]
    error: column.Error
