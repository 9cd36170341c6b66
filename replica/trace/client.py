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

_LATENCY = "from the send call to the ack"
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
        return f"The application handed {self.record} to {self.client}, which asks for {_acks(self.acks)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSent(OfClient, Frequent):
    """A producer sent a batch to a broker. `crc` identifies the batch in the table `log`."""

    TABLE: ClassVar[str] = "produce"
    peer: column.Peer
    records: column.Records
    crc: column.Crc
    attempt: Annotated[int, "1 for the first time"]
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
    attempt: Annotated[int, "1 for the first time"]
    error: column.Error
    will_retry: Annotated[bool, "the producer will send the batch again"]

    def sentence(self) -> str:
        then = "will retry" if self.will_retry else "gave up"
        names = format_record_names(self.records)
        return self._with_why(f"{self.client} got {self.error} from {self.peer} for {names} and {then}")


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
        return f"{self.client} put {self.record} into its socket to {self.peer}; acks=0 waits for no answer"


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
    definite: Annotated[bool, "no attempt can have been written"]
    latency_us: Latency

    def sentence(self) -> str:
        return self._with_why(f"{self.client} gave up on {self.record} with {self.error}")

    def why(self) -> str:
        if self.cause is not FailureCause.NO_METADATA:
            return ClientFailure.why(self)
        what = f"topic {self.topic}" if self.partition < 0 else f"partition {self.topic}-{self.partition}"
        return f"no metadata of {what} within max.block.ms of {self.timeout_ms}"


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
    topic: Annotated[str, "where the output belongs"]
    partition: Annotated[int, "-1: its producer chooses"]
    record: Annotated[str, "the output's name"]
    input: Annotated[str, "name of the record that was read"]
    input_partition: Annotated[str, "where it was read, as topic-number"]
    offset: Annotated[int, "offset of the input"]
    committed_offset: Annotated[int, "where the group goes on"]

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
    error: Annotated[str | None, "what made it move"]
    cause: Annotated[ResetCause, "why it moved"]
    policy: Annotated[str | None, "auto.offset.reset, or what the application asked for"] = None
    leader: Annotated[str | None, "who said that the old position is not in its log, where it is not `peer`"] = None
    leader_epoch: Annotated[int | None, "the last one that was read, or the one that ends at the new position"] = None
    count: Annotated[int | None, "records that a batch claims to hold"] = None

    MAY_DIFFER = ("peer", "offset", "previous_offset", "leader", "leader_epoch", "count")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        offsets = {event.offset for event in many}
        to = f"offset {many[0].offset}" if len(offsets) == 1 else "another offset"
        return f"{many[0].client} moved to {to} of {where(many)}{of_each(many, cls._why)}"

    def _why(self) -> str:
        leader = self.leader or self.peer
        policy = "" if self.policy is None else f"; auto.offset.reset={self.policy}"
        match self.cause:
            case ResetCause.SEEK:
                return f"the application asked for {'this offset' if self.policy is None else f'the {self.policy}'}"
            case ResetCause.COMMITTED_OFFSET:
                return "its group has committed this offset"
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
                    return f"the log of {leader} diverges from what was read at {self.offset}"
                ends = f"epoch {self.leader_epoch} ends at {self.offset}, before {self.previous_offset}"
                return f"the log was truncated: on {leader} {ends}"
            case ResetCause.FETCHES_ELSEWHERE:
                return f"it did not continue from {self.previous_offset}"
            case ResetCause.STATED_AGAIN:
                return "its reads are recorded again from there on"
            case ResetCause.UNREADABLE_BATCH:
                return f"a batch there claims to hold {self.count or 0:,} records"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReplicaChanged(OfPartitions, OfClient):
    """A consumer began to read a partition from a follower, or from the leader again (KIP-392)."""

    TABLE: ClassVar[str] = "consume"
    peer: Annotated[str, "the follower"]
    offset: Annotated[int, "position of the consumer"]
    cause: Annotated[ReadReplicaCause, "why it reads elsewhere"]
    leader: Annotated[str | None, "who has named the follower"] = None
    rack: Annotated[str | None, "client.rack, where the follower stands"] = None
    error: Annotated[str | None, "the follower's answer"] = None

    MAY_DIFFER = ("offset", "leader")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        source = first.peer if first.cause is ReadReplicaCause.PREFERRED else "the leader"
        again = "" if first.cause is ReadReplicaCause.PREFERRED else " again"
        return f"{first.client} reads {where(many)} from {source}{again}{of_each(many, cls._why)}"

    def _why(self) -> str:
        match self.cause:
            case ReadReplicaCause.PREFERRED:
                return f"the leader {self.leader} chose it, since it is in the same rack {self.rack}"
            case ReadReplicaCause.EXPIRED:
                return f"{self.peer} was chosen metadata.max.age.ms ago"
            case ReadReplicaCause.UNREACHABLE:
                return f"{self.peer} did not answer"
            case ReadReplicaCause.OUT_OF_RANGE:
                return f"{self.peer} has no offset {self.offset}"
            case ReadReplicaCause.REFUSED:
                return f"{self.peer} refused with {self.error}"
            case ReadReplicaCause.OFFLINE:
                return f"the metadata says that {self.peer} is not a running replica"
            case ReadReplicaCause.NEW_LEADER:
                return "the leader or its epoch has changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOffsetSeen(OfClient, Frequent):
    """A client requested the end offset of a partition (ListOffsets latest), and got an offset or an error."""

    TABLE: ClassVar[str] = "consume"
    peer: column.Peer
    offset: Annotated[int, "the end offset, -1 if refused"]
    error: Annotated[str | None, "what made it move"]

    def sentence(self) -> str:
        found = f"{self.offset} as the end of" if self.error is None else f"{self.error} instead of the end of"
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
    cause: Annotated[FailureCause, "what it waited for: request_timeout or setup_timeout"]
    api: Annotated[str | None, "the request without an answer; null: there was no connection yet"] = None
    waited_us: Annotated[int, "how long it had waited"]

    def sentence(self) -> str:
        closed = f"{self.client} closed its connection to {self.peer}"
        seconds = f"{self.waited_us / 1e6:g} s"
        if self.cause is FailureCause.SETUP_TIMEOUT:
            return f"{closed}: it was not established after {seconds} (socket.connection.setup.timeout.ms)"
        return f"{closed}: {self.api} was not answered for {seconds}"


def _acks(acks: int) -> str:
    return f"acks={'all' if acks == ACKS_ALL else acks}"
