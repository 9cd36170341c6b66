"""The base classes of events, and the columns that several kinds of events share.

A column is a type that is annotated with its description. `events.py` derives the schema from both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import fields
from typing import Annotated, ClassVar, Self, TypeVar

from replica.causes import ConnectionEnd, FailureCause, FencingCause, OccasionKind
from replica.frozen import dataclass
from replica.trace.ranges import ranges_of_partitions
from replica.wording import listed

Node = Annotated[str, "the node that emitted the event"]
Topic = Annotated[str, "topic"]
Partition = Annotated[int, "partition number"]
Epoch = Annotated[int, "leader epoch of the partition"]
PartitionEpoch = Annotated[int, "partition epoch: version of the partition's state at the controller"]
ControllerEpoch = Annotated[int, "controller epoch: the term of a controller"]
Replicas = Annotated[tuple[str, ...], "assigned replicas in preference order"]
Isr = Annotated[tuple[str, ...], "in-sync replicas after the event"]
PreviousIsr = Annotated[tuple[str, ...], "in-sync replicas before the event"]
Broker = Annotated[str | None, "the broker that the event is about, if it is not `node`"]
Peer = Annotated[str, "the node at the other end"]
Offset = Annotated[int, "the offset that the event is about"]
Leo = Annotated[int, "log end offset of `node` after the event (exclusive)"]
PreviousLeo = Annotated[int, "log end offset of `node` before the event"]
Hw = Annotated[int, "high watermark of `node` after the event (exclusive)"]
PreviousHw = Annotated[int, "high watermark of `node` before the event"]
Error = Annotated[str, "Kafka's error name"]
Role = Annotated[str, "leader or follower"]
Size = Annotated[int, "bytes"]
Crc = Annotated[int, "CRC-32C of the batch; identifies the batch on every replica"]
Client = Annotated[str, "the producer or consumer"]
Records = Annotated[tuple[str, ...], "names of the records in the batch, in offset order"]
Record = Annotated[str, "name of the record, such as r12"]
Fault = Annotated[str, "name of the fault: `as` of the step, or verb-N without `as`"]
Verb = Annotated[str, "verb of the timeline step"]
Effect = Annotated[str, "what the step did, as a sentence"]
Targets = Annotated[tuple[str, ...], "the nodes that the step affected"]
Api = Annotated[str, "API of the message, as Kafka spells it"]
Part = Annotated[str, "request, response or body (the bytes of segment files in a response)"]
ProposedBy = Annotated[str | None, "the leader that proposed the ISR; null: the controller decided it"]
Acks = Annotated[int, "acks of the producer: 0, 1 or -1"]


# --------------------------------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """Base class of all events. An event has typed fields for programs, and an English sentence for people."""

    TABLE: ClassVar[str]

    def sentence(self) -> str:
        """Return the event as one sentence without a full stop; empty for events that record a final state."""
        return ""

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        """Return one sentence about all of these events, which have the same `fold_key`."""
        return many[0].sentence()

    def fold_key(self) -> Hashable:
        """Return a key that is equal for events that can share a sentence."""
        return type(self), *(getattr(self, field.name) for field in fields(self))

    def full_sentence(self) -> str:
        """Return the sentence with exactly one full stop at its end."""
        return f"{self.sentence().removesuffix('.')}."


class Frequent(TraceEvent):
    """Base class of events that occur thousands of times in a run. To save space, their `reason` is not stored."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class OnPartition(TraceEvent):
    """An event about one replica of a partition, or about the partition itself. Its fields are positional arguments."""

    node: Node
    topic: Topic
    partition: Partition

    @property
    def name(self) -> str:
        """The partition's name, such as `t-0`."""
        return f"{self.topic}-{self.partition}"


class OfPartitions(TraceEvent):
    """Base class of events about a partition that can share a sentence with events about other partitions."""

    __slots__ = ()
    MAY_DIFFER: ClassVar[tuple[str, ...]] = ()
    """Fields besides the partition that may differ in events that share a sentence; tuples must have equal lengths."""
    topic: Topic
    partition: Partition

    def sentence(self) -> str:
        return self.sentence_of((self,))

    def fold_key(self) -> Hashable:
        decides = (field.name for field in fields(self) if field.name not in ("topic", "partition"))
        return type(self), *(self._decisive(name) for name in decides)

    def _decisive(self, name: str) -> object:
        value = getattr(self, name)
        if name not in self.MAY_DIFFER:
            return value
        return len(value) if isinstance(value, tuple) else value is None


MOST_TOLD = 3
"""The largest number of different values that a sentence about several partitions lists."""


def where(many: Iterable[OfPartitions]) -> str:
    """Return the partitions of the events as text, such as `t-0..t-5, t-7`."""
    return ranges_of_partitions(dict.fromkeys((event.topic, event.partition) for event in many))


def either(texts: Iterable[str], word: str) -> str:
    """Return `word` and the distinct texts, such as `, now {b1} or {b2}`; "" for more than MOST_TOLD distinct texts."""
    different = list(dict.fromkeys(texts))
    return word + " or ".join(different) if len(different) <= MOST_TOLD else ""


E = TypeVar("E", bound=OfPartitions)


def of_each(
    many: Sequence[E], write: Callable[[E], str], again: Callable[[E], str] | None = None, *, before: str = ": "
) -> str:
    """Return the end of a sentence about several partitions.

    For a text that is equal for all events, this is like `: b2 has caught up to 623`. Otherwise the first partitions
    are listed: `. t-1: b2 has caught up to 623; t-2: to 22`.

    Args:
        write: returns the text for one event.
        again: returns a shorter text for all partitions but the first; None to use `write`.
        before: separator before a text that is equal for all events.
    """
    described: dict[str, list[E]] = {}
    for event in many:
        described.setdefault(write(event), []).append(event)
    if len(described) == 1:
        return f"{before}{next(iter(described))}"
    groups = list(described.values())
    parts = [f"{where(group)}: {(again if again and n else write)(group[0])}" for n, group in enumerate(groups)]
    if len(groups) <= MOST_TOLD + 1:
        return f". {'; '.join(parts)}"
    more = sum(map(len, groups[MOST_TOLD:]))
    return f". {'; '.join(parts[:MOST_TOLD])}; {more} more partitions"


@dataclass(frozen=True, slots=True)
class OfClient(TraceEvent):
    """An event of a client about a partition. Its fields are positional arguments."""

    client: Client
    topic: Topic
    partition: Partition

    @property
    def name(self) -> str:
        """The partition's name, such as `t-0`."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFailure(TraceEvent):
    """Base class of events about a failed request, record or transaction of a client."""

    error: Error
    cause: Annotated[FailureCause | None, "why it failed; null: the client does not say"] = None
    peer: Annotated[str | None, "the broker to which the request was sent"] = None
    api: Annotated[str | None, "the API of the failed request, for requests to a coordinator"] = None
    answered: Annotated[str | None, "error in the broker's answer; `error` is the one that the client reports"] = None
    message: Annotated[str | None, "error message of the answer, the system or the client's library"] = None
    coordinator_key: Annotated[str | None, "transactional.id or group id in the FindCoordinator request"] = None
    timeout_ms: Annotated[int | None, "delivery.timeout.ms or max.block.ms"] = None
    size_bytes: Annotated[int | None, "bytes of the record"] = None
    limit_bytes: Annotated[int | None, "bytes allowed by max.request.size and buffer.memory"] = None

    def sentence(self) -> str:
        return self._with_why(self.error)

    def why(self) -> str:
        """Return the reason for the failure, for the part of the sentence after the error."""
        blocked = f"within max.block.ms={self.timeout_ms}"
        match self.cause:
            case None:
                return self.message or self.error
            case FailureCause.CONNECTION_LOST:
                is_end = self.message in [end.meaning for end in ConnectionEnd]
                return f"the connection was {self.message}" if is_end else self.message or self.error
            case FailureCause.ERROR:
                who = f"the coordinator answered {self.api} with" if self.api else f"{self.peer} answered"
                return self.message or f"{who} {self.answered or self.error}"
            case FailureCause.REQUEST_TIMEOUT:
                return f"{self.peer} did not answer within request.timeout.ms"
            case FailureCause.SETUP_TIMEOUT:
                return f"no connection to {self.peer} was made within socket.connection.setup.timeout.ms"
            case FailureCause.IDLE:
                return "the connection was idle for longer than connections.max.idle.ms"
            case FailureCause.BAD_ANSWER:
                return f"{self.peer} sent an answer that cannot be read: {self.message}"
            case FailureCause.NO_VERSION:
                return f"{self.peer} offers no version of {self.api} that this client can send"
            case FailureCause.DELIVERY_TIMEOUT:
                return f"delivery.timeout.ms={self.timeout_ms} passed before the batch was acknowledged"
            case FailureCause.NO_METADATA:
                return f"no metadata arrived {blocked}"
            case FailureCause.NO_MEMORY:
                return f"buffer.memory={self.limit_bytes} had no room for the record {blocked}"
            case FailureCause.TOO_LARGE:
                allowed = f"max.request.size and buffer.memory allow {self.limit_bytes} bytes"
                return f"the record takes {self.size_bytes} bytes; {allowed}"
            case FailureCause.NOT_SERIALIZED:
                return f"{self.message}; the record never reached the accumulator"
            case FailureCause.NO_COORDINATOR:
                return f"no coordinator was found for {self.coordinator_key}: {self.answered}"
            case FailureCause.CLOSED | FailureCause.ABORTED | FailureCause.SEQUENCES_LOST:
                return self.cause.meaning

    def _with_why(self, what: str) -> str:
        """Append the reason to `what`, unless the reason is only the error, which `what` contains already."""
        why = self.why()
        return what if why == self.error else f"{what}: {why}"


class ControlEvent(TraceEvent):
    """Base class of rare events, which are in the table `control`; most have a reason."""

    __slots__ = ()
    TABLE: ClassVar[str] = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnOccasion(OfPartitions, OnPartition, ControlEvent):
    """A controller's decision about leader, ISR or ELR of a partition. `occasion` is the event that led to it."""

    MAY_DIFFER: ClassVar[tuple[str, ...]] = ("leader_epoch", "partition_epoch", "isr", "previous_isr")
    leader_epoch: Epoch
    partition_epoch: PartitionEpoch
    occasion: Annotated[OccasionKind | None, "the event that led to the decision, see OccasionKind"] = None
    occasion_brokers: Annotated[tuple[str, ...], "the brokers that `occasion` is about"] = ()
    fencing_cause: Annotated[FencingCause | None, "why the broker was fenced, if `occasion` is `fenced`"] = None
    occasion_amount: Annotated[int | None, "microseconds without a heartbeat, or number of failed log directories"] = (
        None
    )

    def found(self, what: str, why: str = "") -> str:
        """Return `what` followed by the occasion and `why`, such as `what after b2 was fenced: why`."""
        occasion, why = self.on_occasion(), f": {why}" if why else ""
        return f"{what}{why}{occasion}" if occasion.startswith(";") else f"{what}{occasion}{why}"

    def on_occasion(self) -> str:
        """Return the occasion as the end of a sentence, such as ` after b2 was fenced`; "" if unknown."""
        who, number = listed(self.occasion_brokers), self.occasion_amount
        match self.occasion:
            case None:
                return ""
            case OccasionKind.FENCED:
                return f" after {was_fenced(who, self.fencing_cause, number, ' ({})')}"
            case OccasionKind.DIRECTORY_FAILED:
                return f" after {'a log directory' if number == 1 else f'{number} log directories'} of {who} failed"
            case OccasionKind.LEFT_REGISTRY:
                return f" after {who} left the registry"
            case OccasionKind.CAME:
                return f" after {who} joined the registry"
        return _ON_OCCASION[self.occasion].format(who=who, node=self.node)


_ON_OCCASION = {
    OccasionKind.UNFENCED: " after {who} was unfenced",
    OccasionKind.REGISTERED: " as {who} registered",
    OccasionKind.NO_CLEAN_SHUTDOWN_FILE: " after {who} registered without a clean-shutdown file",
    OccasionKind.OTHER_CLEAN_SHUTDOWN_FILE: " after {who} registered with another clean-shutdown file",
    OccasionKind.CONTROLLED_SHUTDOWN: " after {who} began a controlled shutdown",
    OccasionKind.DIRECTORY_REPORTED: " after {who} reported the log directory of its replica",
    OccasionKind.PREFERRED_ASKED: "; an operator asked for a preferred election",
    OccasionKind.UNCLEAN_ASKED: "; an operator asked for an unclean election",
    OccasionKind.LEADER_ASKED: "; an operator asked for {who} as leader",
    OccasionKind.PREFERRED_CHECK: "; the periodic check for preferred leaders made this change",
    OccasionKind.UNCLEAN_CHECK: "; the periodic check for unclean elections made this change",
    OccasionKind.REASSIGNMENT: " as a reassignment changed the replicas",
    OccasionKind.REASSIGNMENT_CANCELLED: " as the reassignment was cancelled",
    OccasionKind.NEW_CONTROLLER: " after {node} became the controller",
    OccasionKind.TOPIC_CONFIG: " after the topic's configuration was changed",
}


def was_fenced(who: str | None, cause: FencingCause | None, silent_us: int | None, why: str = ": {}") -> str:
    """Return the clause that the broker `who` was fenced, with the cause.

    Args:
        silent_us: microseconds without a heartbeat, None if unknown.
        why: format string of the cause.
    """
    if cause is FencingCause.NOT_LISTED:
        return f"{who} disappeared from the cluster's list of live brokers: it was fenced or stopped"
    silence = "in time" if silent_us is None else f"for {silent_us / 1_000_000:.1f} s"
    return f"{who} was fenced" + ("" if cause is None else why.format(_FENCED[cause].format(silence=silence)))


_FENCED = {
    FencingCause.NO_HEARTBEAT: "no heartbeat {silence}",
    FencingCause.ASKED: "it asked to be fenced",
    FencingCause.SHUTDOWN: "it is shutting down cleanly",
    FencingCause.UNREGISTERED: "an operator unregistered it",
    FencingCause.NOT_IN_REGISTRY: "it is no longer in the registry",
}


class GroupEvent(TraceEvent):
    """Base class of events about consumer groups, in the table `group`, which exists only in runs with groups."""

    __slots__ = ()
    TABLE: ClassVar[str] = "group"


@dataclass(frozen=True, slots=True)
class OfMember(GroupEvent):
    """An event about one member of a group. Its fields are positional arguments."""

    node: Node
    group: Annotated[str, "group id"]
    member: Annotated[str, "member id of the group member"]
    client_id: Annotated[str, "client.id of the member"]
    instance: Annotated[str | None, "group.instance.id of a static member"] = None


class CompactionEvent(TraceEvent):
    """Base class of events about compacted topics, in the table `compaction`, only in runs with such topics."""

    __slots__ = ()
    TABLE: ClassVar[str] = "compaction"


class TransactionEvent(TraceEvent):
    """Base class of events about transactions, in the table `transaction`, only in runs with transactions."""

    __slots__ = ()
    TABLE: ClassVar[str] = "transaction"


class ShareEvent(TraceEvent):
    """Base class of events about share groups, in the table `share`, only in runs with share groups."""

    __slots__ = ()
    TABLE: ClassVar[str] = "share"


class QuotaEvent(TraceEvent):
    """Base class of events about client quotas, in the table `quota`, only in runs with client quotas."""

    __slots__ = ()
    TABLE: ClassVar[str] = "quota"


class PipelineEvent(TraceEvent):
    """Base class of events about interceptors and serializers, in the table `pipeline`, only in runs with them."""

    __slots__ = ()
    TABLE: ClassVar[str] = "pipeline"


# ---------------------------------------------------------------------------------------------------------------- error
#
# The error of reading a trace. It is in this module so that its users need not import Arrow.


class TraceError(Exception):
    """The error for a trace folder that is incomplete, or was written by another version of the schema."""
