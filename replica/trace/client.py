"""Events about clients: records that producers send, responses to producers, and records that consumers read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from replica.causes import FailureCause, ReadReplicaCause, ResetCause
from replica.frozen import dataclass
from replica.ids import ACKS_ALL
from replica.trace import columns as column
from replica.trace.columns import (
    ClientFailure,
    ControlEvent,
    Frequent,
    OfClient,
    OfPartitions,
    TraceEvent,
    of_each,
    where,
)
from replica.trace.ranges import format_record_names
from replica.wording import duration

_LATENCY = "microseconds from the send call to the ack"
# For an external client, which emits no events, this is the time from the arrival of its request to the response.
Latency = Annotated[int, _LATENCY]
LatencyIfAny = Annotated[int | None, _LATENCY]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSent(OfClient, Frequent):
    """The application handed a record to its producer."""

    TABLE: ClassVar[str] = "produce"
    record: column.Record
    acks: column.Acks

    def sentence(self) -> str:
        return f"The application handed {self.record} to {self.client}, which sends with {_acks(self.acks)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSent(OfClient, Frequent):
    """A producer sent a batch to a broker. `crc` identifies the batch in the table `log`."""

    TABLE: ClassVar[str] = "produce"
    peer: column.Peer
    records: column.Records
    crc: column.Crc
    attempt: Annotated[int, "number of the attempt, from 1"]
    acks: column.Acks
    producer_id: Annotated[int, "-1 without idempotence"]
    base_sequence: Annotated[int, "-1 without idempotence"]

    def sentence(self) -> str:
        again = f", attempt {self.attempt}" if self.attempt > 1 else ""
        return f"{self.client} sent {format_record_names(self.records)} to {self.peer} with {_acks(self.acks)}{again}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRefused(ClientFailure):
    """An attempt to send a batch failed, with an error or without a response (NETWORK_EXCEPTION, REQUEST_TIMED_OUT)."""

    TABLE: ClassVar[str] = "produce"
    client: column.Client
    peer: column.Peer
    topic: column.Topic
    partition: column.Partition
    records: column.Records
    crc: column.Crc
    attempt: Annotated[int, "number of the attempt, from 1"]
    error: column.Error
    will_retry: Annotated[bool, "the producer will send the batch again"]

    def sentence(self) -> str:
        then = "will retry" if self.will_retry else "gave up"
        names = format_record_names(self.records)
        return self._with_why(f"{self.client} got {self.error} from {self.peer} for {names} and {then}")

    def why(self) -> str:
        """Return the reason, or only the error if the reason is that `peer` answered it: the sentence says so."""
        why = ClientFailure.why(self)
        return self.error if why == f"{self.peer} answered {self.error}" else why


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAcked(OfClient, Frequent):
    """The producer got the acknowledgement of a record."""

    TABLE: ClassVar[str] = "produce"
    peer: column.Peer
    record: column.Record
    offset: column.Offset
    acks: column.Acks
    latency_us: Latency

    def sentence(self) -> str:
        return f"{self.client} got the ack of {self.record} from {self.peer} after {duration(self.latency_us)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHandedOver(OfClient, Frequent):
    """A producer with acks=0 wrote a record to its socket; its `send` succeeds with offset -1, without a guarantee."""

    TABLE: ClassVar[str] = "produce"
    peer: column.Peer
    record: column.Record
    acks: column.Acks
    latency_us: LatencyIfAny

    def sentence(self) -> str:
        return f"{self.client} wrote {self.record} to its socket to {self.peer}; with acks=0 it waits for no answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFailed(ClientFailure):
    """The producer gave up on a record. Unless `definite` is True, the record may be in the log nevertheless."""

    TABLE: ClassVar[str] = "produce"
    client: column.Client
    topic: column.Topic
    partition: column.Partition
    record: column.Record
    acks: column.Acks
    error: column.Error
    definite: Annotated[bool, "no attempt can have reached a log"]
    latency_us: Latency

    def sentence(self) -> str:
        return self._with_why(f"{self.client} gave up on {self.record} with {self.error}")

    def why(self) -> str:
        if self.cause is not FailureCause.NO_METADATA:
            return ClientFailure.why(self)
        what = f"topic {self.topic}" if self.partition < 0 else f"partition {self.topic}-{self.partition}"
        return f"no metadata for {what} arrived within max.block.ms={self.timeout_ms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRead(OfClient, Frequent):
    TABLE: ClassVar[str] = "consume"
    peer: column.Peer
    offset: column.Offset
    record: column.Record
    leader_epoch: Annotated[int, "leader epoch stamped on the record's batch"]

    def sentence(self) -> str:
        return f"{self.client} read {self.record} at offset {self.offset} of {self.name} from {self.peer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPromised(TraceEvent):
    """At the end of the run, an application must have sent the output record for this input record.

    The application has read the input, and its group has committed a later offset, so no member reads the input again.
    """

    TABLE: ClassVar[str] = "consume"
    client: column.Client
    topic: Annotated[str, "topic of the output"]
    partition: Annotated[int, "partition of the output; -1: its producer chooses"]
    record: Annotated[str, "name of the output record"]
    input: Annotated[str, "name of the input record"]
    input_partition: Annotated[str, "partition of the input, as topic-number"]
    offset: Annotated[int, "offset of the input"]
    committed_offset: Annotated[int, "offset from which the group continues"]

    def sentence(self) -> str:
        read = f"it read {self.input} at offset {self.offset} of {self.input_partition}"
        committed = f"its group has committed offset {self.committed_offset}"
        return f"{self.client} must have sent {self.record}: {read}, and {committed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReset(OfPartitions, OfClient):
    """The consumer's position changed for a reason other than reading."""

    TABLE: ClassVar[str] = "consume"
    peer: column.Peer
    offset: Annotated[int, "new position"]
    previous_offset: Annotated[int, "old position, -1 at the start"]
    error: Annotated[str | None, "error that led to the reset"]
    cause: Annotated[ResetCause, "why the position changed, see ResetCause"]
    policy: Annotated[str | None, "auto.offset.reset, or the position that the application asked for"] = None
    leader: Annotated[str | None, "the broker that does not have the old position, if it is not `peer`"] = None
    leader_epoch: Annotated[
        int | None, "leader epoch of the last record read, or the one that ends at the new position"
    ] = None
    count: Annotated[int | None, "number of records in the batch, as its header claims"] = None

    MAY_DIFFER = ("peer", "offset", "previous_offset", "leader", "leader_epoch", "count")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        offsets = {event.offset for event in many}
        to = f"offset {many[0].offset}" if len(offsets) == 1 else "another offset"
        return f"{many[0].client} moved to {to} of {where(many)}{of_each(many, cls._why)}"

    def _why(self) -> str:
        leader = self.leader or self.peer
        policy = "" if self.policy is None else f" (auto.offset.reset={self.policy})"
        match self.cause:
            case ResetCause.SEEK:
                return f"the application asked for {'this offset' if self.policy is None else f'the {self.policy}'}"
            case ResetCause.COMMITTED_OFFSET:
                return "this is the committed offset of its group"
            case ResetCause.NO_COMMITTED_OFFSET:
                return f"its group has no committed offset{policy}"
            case ResetCause.NO_POSITION:
                return f"the consumer had no position yet{policy}"
            case ResetCause.OUT_OF_RANGE:
                return f"{leader} has no offset {self.previous_offset}{policy}"
            case ResetCause.UNKNOWN_EPOCH:
                return f"the log was truncated, and {leader} knows no leader epoch up to {self.leader_epoch}{policy}"
            case ResetCause.TRUNCATED:
                if self.leader_epoch is None:
                    return f"the log of {leader} diverges from the records that were read, at offset {self.offset}"
                ends = f"epoch {self.leader_epoch} now ends at {self.offset}, before {self.previous_offset}"
                return f"the log of {leader} was truncated, and {ends}"
            case ResetCause.FETCHES_ELSEWHERE:
                return f"it did not continue from {self.previous_offset}"
            case ResetCause.STATED_AGAIN:
                return "its reads are recorded again from this offset on"
            case ResetCause.UNREADABLE_BATCH:
                return f"a batch before this offset claims to contain {self.count or 0:,} records"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReplicaChanged(OfPartitions, OfClient):
    """A consumer began to read a partition from a follower, or from the leader again (KIP-392)."""

    TABLE: ClassVar[str] = "consume"
    peer: Annotated[str, "the follower"]
    offset: Annotated[int, "position of the consumer"]
    cause: Annotated[ReadReplicaCause, "why the consumer changed the replica, see ReadReplicaCause"]
    leader: Annotated[str | None, "the leader that chose the follower"] = None
    rack: Annotated[str | None, "client.rack, which is the rack of the follower"] = None
    error: Annotated[str | None, "error in the follower's answer"] = None

    MAY_DIFFER = ("offset", "leader")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        source = first.peer if first.cause is ReadReplicaCause.PREFERRED else "the leader"
        again = "" if first.cause is ReadReplicaCause.PREFERRED else " again"
        return f"{first.client} began to read {where(many)} from {source}{again}{of_each(many, cls._why)}"

    def _why(self) -> str:
        match self.cause:
            case ReadReplicaCause.PREFERRED:
                return f"the leader {self.leader} chose it, because it is in the same rack, {self.rack}"
            case ReadReplicaCause.EXPIRED:
                return f"the choice of {self.peer} expired after metadata.max.age.ms"
            case ReadReplicaCause.UNREACHABLE:
                return f"{self.peer} did not answer"
            case ReadReplicaCause.OUT_OF_RANGE:
                return f"{self.peer} has no offset {self.offset}"
            case ReadReplicaCause.REFUSED:
                return f"{self.peer} refused with {self.error}"
            case ReadReplicaCause.OFFLINE:
                return f"{self.peer} is not an online replica in the metadata"
            case ReadReplicaCause.NEW_LEADER:
                return "the leader or its epoch changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOffsetSeen(OfClient, Frequent):
    """A client requested the end offset of a partition (ListOffsets latest), and got an offset or an error."""

    TABLE: ClassVar[str] = "consume"
    peer: column.Peer
    offset: Annotated[int, "the end offset; -1 if the request was refused"]
    error: Annotated[str | None, "error in the answer; null: none"]

    def sentence(self) -> str:
        found = (
            f"the end offset {self.offset} of" if self.error is None else f"{self.error} instead of the end offset of"
        )
        return f"{self.client} got {found} {self.name} from {self.peer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailed(OfClient, Frequent):
    """A consumer's fetch was answered with an error, or with records that its application cannot read."""

    TABLE: ClassVar[str] = "consume"
    peer: column.Peer
    offset: Annotated[int, "position of the consumer"]
    error: column.Error

    def sentence(self) -> str:
        at = f" at offset {self.offset}" if self.offset >= 0 else ""
        return f"{self.client} got {self.error} from {self.peer}{at} of {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTimedOut(ControlEvent):
    """A client closed a connection after a timeout. All requests on the connection have failed."""

    client: column.Client
    peer: column.Peer
    cause: Annotated[FailureCause, "which timeout expired: request_timeout or setup_timeout"]
    api: Annotated[str | None, "API of the request without an answer; null: there was no connection yet"] = None
    waited_us: Annotated[int, "microseconds that the client waited"]

    def sentence(self) -> str:
        closed = f"{self.client} closed its connection to {self.peer}"
        seconds = duration(self.waited_us)
        if self.cause is FailureCause.SETUP_TIMEOUT:
            return f"{closed}: it was not established within {seconds} (socket.connection.setup.timeout.ms)"
        return f"{closed}: {self.api} was not answered within {seconds}"


def _acks(acks: int) -> str:
    return f"acks={'all' if acks == ACKS_ALL else acks}"
