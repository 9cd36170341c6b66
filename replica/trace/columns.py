"""The parts of events: the base of every event, and the columns that several kinds of event share.

A column is a type and, as its annotation, what the column means; `replica.trace` derives the schema from both.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from replica.causes import FailureCause, FencingCause, OccasionKind
from replica.frozen import dataclass
from replica.wording import listed

Node = Annotated[str, "the node that states the event"]
Topic = Annotated[str, "topic"]
Partition = Annotated[int, "partition number"]
Epoch = Annotated[int, "leader epoch of the partition"]
PartitionEpoch = Annotated[int, "version of the partition's record at the controller"]
ControllerEpoch = Annotated[int, "one term of a controller"]
Replicas = Annotated[tuple[str, ...], "assigned replicas in preference order"]
Isr = Annotated[tuple[str, ...], "in-sync replicas after the event"]
PreviousIsr = Annotated[tuple[str, ...], "in-sync replicas before the event"]
Broker = Annotated[str | None, "the broker the event is about, where it is not the node that states it"]
Peer = Annotated[str, "the node at the other end"]
Offset = Annotated[int, "the offset the event is about"]
Leo = Annotated[int, "log end offset of `node` after the event (exclusive)"]
PreviousLeo = Annotated[int, "log end offset of `node` before the event"]
Hw = Annotated[int, "high watermark of `node` after the event (exclusive)"]
PreviousHw = Annotated[int, "high watermark of `node` before the event"]
Error = Annotated[str, "Kafka's error name"]
Reason = Annotated[str, "why, in one plain English sentence"]
"""Of events whose class does not make it yet."""
Role = Annotated[str, "leader or follower"]
Size = Annotated[int, "bytes"]
Crc = Annotated[int, "CRC-32C of the batch: the identity of a batch on every replica"]
Client = Annotated[str, "the producer or consumer"]
Records = Annotated[tuple[str, ...], "names of the records in the batch, in offset order"]
Record = Annotated[str, "name of the record, such as r12"]
Fault = Annotated[str, "name of the fault: its `as`, else verb-N"]
Verb = Annotated[str, "verb of the timeline step"]
Effect = Annotated[str, "what the step did, in the words of its verb"]
Targets = Annotated[tuple[str, ...], "the nodes the step resolved to"]
Api = Annotated[str, "API of the message, as Kafka spells it"]
Part = Annotated[str, "request, response, or body: the file bytes of a response"]
ProposedBy = Annotated[str | None, "the leader whose ISR was written; null: the controller's own doing"]
Acks = Annotated[int, "acks of the producer: 0, 1 or -1"]


# --------------------------------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """Base of all events: data, and the one English sentence about them, which nothing but people reads."""

    TABLE: ClassVar[str]

    def sentence(self) -> str:
        """Why it happened, empty where its kind says all. The column `reason` has it, of kinds that have one."""
        reason: str = getattr(self, "reason", "")  # of a class with the sentence as a field
        return reason


@dataclass(frozen=True, slots=True)
class OnPartition(TraceEvent):
    """An event about one replica of a partition, or about the partition itself; the three are given by position."""

    node: Node
    topic: Topic
    partition: Partition

    @property
    def name(self) -> str:
        """Of the partition: `t-0`."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OfClient(TraceEvent):
    """An event of a client about a partition; the three are given by position."""

    client: Client
    topic: Topic
    partition: Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFailure(TraceEvent):
    """A request, a record or a transaction of a client has failed."""

    error: Error
    cause: Annotated[FailureCause | None, "why it failed; null: the client does not say"] = None
    peer: Annotated[str | None, "the broker that has answered, or has not"] = None
    api: Annotated[str | None, "the request that failed, of those to a coordinator"] = None
    answered: Annotated[str | None, "error of the answer; `error` is what the client makes of it"] = None
    message: Annotated[str | None, "what the answer, the system or the client's library says"] = None
    coordinator_key: Annotated[str | None, "transactional.id or group whose coordinator was asked for"] = None
    timeout_ms: Annotated[int | None, "delivery.timeout.ms or max.block.ms"] = None
    size_bytes: Annotated[int | None, "bytes of the record"] = None
    limit_bytes: Annotated[int | None, "bytes that max.request.size and buffer.memory allow"] = None

    def sentence(self) -> str:
        blocked = f"within max.block.ms of {self.timeout_ms}"
        match self.cause:
            case None | FailureCause.CONNECTION_LOST:
                return self.message or self.error
            case FailureCause.ERROR:
                who = f"the coordinator answered {self.api} with" if self.api else f"{self.peer} answered"
                return self.message or f"{who} {self.answered or self.error}"
            case FailureCause.REQUEST_TIMEOUT:
                return f"{self.peer} did not answer within request.timeout.ms"
            case FailureCause.SETUP_TIMEOUT:
                return f"no connection to {self.peer} within the set-up timeout"
            case FailureCause.IDLE:
                return "idle for longer than connections.max.idle.ms"
            case FailureCause.BAD_ANSWER:
                return f"{self.peer} sent nonsense: {self.message}"
            case FailureCause.NO_VERSION:
                return f"{self.peer} offers no version of {self.api} that this client can send"
            case FailureCause.DELIVERY_TIMEOUT:
                return f"delivery.timeout.ms of {self.timeout_ms} passed before the batch was acknowledged"
            case FailureCause.NO_METADATA:
                return f"no metadata {blocked}"
            case FailureCause.NO_MEMORY:
                return f"no room in buffer.memory of {self.limit_bytes} bytes {blocked}"
            case FailureCause.TOO_LARGE:
                allowed = f"max.request.size and buffer.memory allow {self.limit_bytes}"
                return f"the record takes {self.size_bytes} bytes; {allowed}"
            case FailureCause.NOT_SERIALIZED:
                return f"{self.message}; it never came to the accumulator"
            case FailureCause.NO_COORDINATOR:
                return f"no coordinator of {self.coordinator_key}: {self.answered}"
            case FailureCause.CLOSED | FailureCause.ABORTED | FailureCause.SEQUENCES_LOST:
                return self.cause.meaning


class ControlEvent(TraceEvent):
    """Rare events, each with a reason: the table `control`."""

    __slots__ = ()
    TABLE: ClassVar[str] = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnOccasion(OnPartition, ControlEvent):
    """What a controller decides about leader, ISR and ELR of a partition, and what for. An observer may not know."""

    leader_epoch: Epoch
    partition_epoch: PartitionEpoch
    occasion: Annotated[OccasionKind | None, "what it was decided for, see OccasionKind"] = None
    occasion_brokers: Annotated[tuple[str, ...], "the brokers of the occasion"] = ()
    fencing_cause: Annotated[FencingCause | None, "why the broker of the occasion was fenced"] = None
    occasion_amount: Annotated[int | None, "microseconds without a heartbeat, or how many log directories failed"] = (
        None
    )

    def on_occasion(self) -> str:
        """Ends a sentence: ` after b2 was fenced`; "" if no occasion is known."""
        who, number = listed(self.occasion_brokers), self.occasion_amount
        match self.occasion:
            case None:
                return ""
            case OccasionKind.FENCED:
                return f" after {was_fenced(who, self.fencing_cause, number)}"
            case OccasionKind.DIRECTORY_FAILED:
                return f" after {'a log directory' if number == 1 else f'{number} log directories'} of {who} failed"
            case OccasionKind.LEFT_REGISTRY:
                return f" after {', '.join(self.occasion_brokers)} left the registry"
            case OccasionKind.CAME:
                return f" after {', '.join(self.occasion_brokers)} came"
        return _ON_OCCASION[self.occasion].format(who=who, node=self.node)


_ON_OCCASION = {
    OccasionKind.UNFENCED: " after {who} was unfenced",
    OccasionKind.REGISTERED: " as {who} registered",
    OccasionKind.NO_CLEAN_SHUTDOWN_FILE: " after {who} registered without a clean-shutdown file",
    OccasionKind.OTHER_CLEAN_SHUTDOWN_FILE: " after {who} registered with the clean-shutdown file of another life",
    OccasionKind.CONTROLLED_SHUTDOWN: " after {who} began a controlled shutdown",
    OccasionKind.PREFERRED_ASKED: "; an operator asked for a preferred election",
    OccasionKind.UNCLEAN_ASKED: "; an operator asked for an unclean election",
    OccasionKind.LEADER_ASKED: "; an operator asked for {who} as leader",
    OccasionKind.PREFERRED_CHECK: "; the periodic preferred-leader check found it",
    OccasionKind.UNCLEAN_CHECK: "; the periodic unclean-election check found it",
    OccasionKind.REASSIGNMENT: " as the replicas change",
    OccasionKind.REASSIGNMENT_CANCELLED: " as the reassignment is cancelled",
    OccasionKind.NEW_CONTROLLER: " after {node} became the controller",
    OccasionKind.TOPIC_CONFIG: "; the topic's configuration was changed",
}


def was_fenced(who: str | None, cause: FencingCause | None, silent_us: int | None) -> str:
    """silent_us: how long no heartbeat had come; None: not known"""
    if cause is FencingCause.NOT_LISTED:
        return f"{who} is no longer among the brokers that are listed: it is fenced, or has stopped"
    silence = "in time" if silent_us is None else f"for {silent_us / 1_000_000:.1f} s"
    return f"{who} was fenced" + ("" if cause is None else f": {_FENCED[cause].format(silence=silence)}")


_FENCED = {
    FencingCause.NO_HEARTBEAT: "no heartbeat {silence}",
    FencingCause.ASKED: "it asked to be fenced",
    FencingCause.SHUTDOWN: "it shuts down in order",
    FencingCause.UNREGISTERED: "an operator unregistered it",
    FencingCause.NOT_IN_REGISTRY: "it is not in the registry any more",
}


class GroupEvent(TraceEvent):
    """Events about consumer groups, each with a reason: the table `group`, which only runs with groups have."""

    __slots__ = ()
    TABLE: ClassVar[str] = "group"


class CompactionEvent(TraceEvent):
    """Events about compacted topics: the table `compaction`, which only runs with such topics have."""

    __slots__ = ()
    TABLE: ClassVar[str] = "compaction"


class TransactionEvent(TraceEvent):
    """Events about transactions: the table `transaction`, which only runs with transactions have."""

    __slots__ = ()
    TABLE: ClassVar[str] = "transaction"


class QuotaEvent(TraceEvent):
    """Events about quotas of clients, each with a reason: the table `quota`, which only runs with such quotas have."""

    __slots__ = ()
    TABLE: ClassVar[str] = "quota"


class PipelineEvent(TraceEvent):
    """Events about interceptors, serializers and deserializers: the table `pipeline`, which only runs with such clients
    have."""

    __slots__ = ()
    TABLE: ClassVar[str] = "pipeline"


# ---------------------------------------------------------------------------------------------------------------- error
#
# What is wrong with a trace, for those that have not imported Arrow, which reads it.


class TraceError(Exception):
    """A trace folder that is not whole, or was written by another version of the schema."""
