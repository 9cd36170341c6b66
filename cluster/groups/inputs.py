"""The inputs of a group coordinator and its actions: the vocabulary of `GroupCoordinator.step`.

Inputs carry the time in integer microseconds. A request waits under its `request` number until an
`AnswerRequest` names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cluster.coordinators.waiting import RequestId
from cluster.groups.assignors.specification import Partitions
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.group import Group
from cluster.groups.state.member import Protocols
from cluster.groups.state.offsets import OffsetAndMetadata
from replica.errors import ErrorCode
from replica.ids import LeaderEpoch, Offset, TopicPartition
from replica.trace.events import Emit

NO_MEMBER_ID = ""
NO_GENERATION = -1
WriteId = int

# ------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """requires_member_id: the client understands that it must come again with an id (version 4, KIP-394)

    may_skip_assignment: the client knows the flag of that name (version 9)     reason: the client's own, may be empty
    """

    now_us: int
    request: RequestId
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_member_id: bool
    may_skip_assignment: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    """assignments: of the leader, by member id. protocol_type, protocol: what the client believes; None: not said"""

    now_us: int
    request: RequestId
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    now_us: int
    request: RequestId
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


class Leaving(NamedTuple):
    """An operator removes a static member by its instance id alone; then the member id is empty (KIP-345)."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    now_us: int
    request: RequestId
    group_id: str
    members: tuple[Leaving, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A member of KIP-848's group is alive, and what it wants and has. None, and -1 for the timeout: as it said before.

    member_epoch: 0 joins; see `consumer_member` for those below     owned: what it reads at present
    makes_its_id: the version of the request wants a member id from its first heartbeat on (KIP-1082)
    """

    now_us: int
    request: RequestId
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topics: tuple[str, ...] | None
    topic_regex: str | None
    assignor: str | None
    owned: Partitions | None
    makes_its_id: bool = False


class InTransaction(NamedTuple):
    """The transaction in which offsets are committed. guard: of the question whether it is open (KIP-890)"""

    producer_id: int
    producer_epoch: int
    guard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """generation -1: of a consumer that assigns its partitions itself, or of an operator

    generation: member epoch in a group of KIP-848     knows_epochs: the version of the request has member epochs
    transaction: they count once it is committed; None: at once
    """

    now_us: int
    request: RequestId
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    knows_epochs: bool = False
    transaction: InTransaction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCompleted:
    """Every in-sync replica of this partition of the offsets topic has the marker of a producer's transaction."""

    now_us: int
    partition: int
    producer_id: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroups:
    now_us: int
    request: RequestId
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    now_us: int
    request: RequestId
    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsDeleted:
    """Topics are gone: their partitions take no commits any more."""

    now_us: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """This broker leads a partition of the offsets topic, and so coordinates the groups that are kept there."""

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The contents of the partition's log; groups in the order in which it first names them.

    unreadable: records that were passed over
    """

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch
    groups: tuple[Group, ...]
    consumer_groups: tuple[ConsumerGroup, ...] = ()
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipResigned:
    """leader_epoch: of the current leader; None: the partition is gone"""

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An `Append` came to its end; offset: of its batch in the log, where there was no error."""

    now_us: int
    write: WriteId
    error: ErrorCode
    offset: Offset


CoordinatorInput = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | ConsumerHeartbeat
    | CommitOffsets
    | TransactionCompleted
    | DeleteGroups
    | DeleteOffsets
    | PartitionsDeleted
    | Elected
    | Loaded
    | LeadershipResigned
    | Written
)

# ------------------------------------------------------------------------------------------------------------ results


class JoinedMember(NamedTuple):
    """A member as the leader has to know it to assign partitions to it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    error: ErrorCode
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader_id: str = NO_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class HeartbeatResult(NamedTuple):
    error: ErrorCode


class LeaveResult(NamedTuple):
    """members: the result for each that was to leave"""

    error: ErrorCode
    members: tuple[tuple[Leaving, ErrorCode], ...] = ()


class ConsumerHeartbeatResult(NamedTuple):
    """assigned: what the member is to read; None: no change     message: of a refusal"""

    error: ErrorCode
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: Partitions | None = None
    message: str | None = None


class CommitResult(NamedTuple):
    errors: dict[TopicPartition, ErrorCode]


class DeleteGroupsResult(NamedTuple):
    errors: dict[str, ErrorCode]


class DeleteOffsetsResult(NamedTuple):
    """errors: empty where the whole request is refused"""

    error: ErrorCode
    errors: dict[TopicPartition, ErrorCode]


Result = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | LeaveResult
    | ConsumerHeartbeatResult
    | CommitResult
    | DeleteGroupsResult
    | DeleteOffsetsResult
)

# ------------------------------------------------------------------------------------------------------------ actions


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    request: RequestId
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Append one batch of (key, value) to a partition of the offsets topic; a value None is a tombstone.

    write: `Written` is to follow when every in-sync replica has it; None: nothing waits (acks=0)
    transaction: of which the batch is part
    """

    partition: int
    records: tuple[tuple[bytes, bytes | None], ...]
    timestamp_ms: int
    write: WriteId | None
    transaction: InTransaction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Read a partition of the offsets topic; `Loaded` is to follow."""

    partition: int
    leader_epoch: LeaderEpoch


Action = AnswerRequest | Append | Load | Emit
