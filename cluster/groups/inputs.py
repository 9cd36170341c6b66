"""The inputs that `GroupCoordinator.step` takes, and the actions that it returns.

Inputs and actions that other coordinators share are in cluster/coordinators/core.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from cluster.coordinators.core import CommonAction, InTransaction, RequestId
from cluster.groups.state.assignors import Partitions, TopicIdPartition
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.group import Group, Protocols
from cluster.groups.state.offsets import OffsetAndMetadata
from cluster.groups.state.share_group import ShareGroup
from cluster.groups.state.streams_group import EndpointPartitions, Pairs, UserEndpoint
from cluster.groups.state.tasks import Tasks
from cluster.groups.state.topology import MissingTopic, Status
from cluster.protocol.entities import Entity
from replica.errors import ErrorCode
from replica.ids import LeaderEpoch, Offset, TopicPartition

NO_MEMBER_ID = ""
NO_GENERATION = -1

# ------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """A JoinGroup request.

    Attributes:
        requires_member_id: True if a new client has to join again with an assigned id (since version 4, KIP-394).
        may_skip_assignment: True if the client supports SkipAssignment (since version 9).
        reason: why the client joins, possibly empty.
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
    """A SyncGroup request.

    Attributes:
        protocol_type: protocol type that the client expects, None if the request has none.
        protocol: assignor that the client expects, None if the request has none.
        assignments: assignments by member id; only the leader sends them.
    """

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
    """A member to remove. An operator may give the instance id of a static member without a member id (KIP-345)."""

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
class MemberHeartbeat:
    """A heartbeat of a group member. A field that is None, or a timeout of -1, means that the value is unchanged.

    Attributes:
        member_epoch: current epoch; 0 to join; LEAVES or LEAVES_FOR_A_WHILE (see `consumer_member`) to leave.
    """

    now_us: int
    request: RequestId
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat(MemberHeartbeat):
    """A heartbeat of a KIP-848 group member.

    Attributes:
        owned: partitions that the member reads.
        makes_its_id: True if this version requires that the client makes its member id (KIP-1082).
    """

    instance_id: str | None
    rebalance_timeout_ms: int
    topics: tuple[str, ...] | None
    topic_regex: str | None
    assignor: str | None
    owned: Partitions | None
    makes_its_id: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """An OffsetCommit or TxnOffsetCommit request.

    Attributes:
        generation: generation, or member epoch in a KIP-848 group; -1 from an operator, or from a consumer that assigns
            itself partitions.
        knows_epochs: True if this version of the request can be answered with errors about member epochs.
        transaction: transaction at whose commit the offsets take effect; None if they do so when written.
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
    """The end of a producer's transaction: every in-sync replica of an offsets partition has its marker."""

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
    """The partitions of topics that were just deleted."""

    now_us: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The groups in the log of an offsets partition, in the order of their first records.

    Attributes:
        unreadable: number of records that were skipped because they are damaged or of an unknown version.
    """

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch
    groups: tuple[Group, ...]
    consumer_groups: tuple[ConsumerGroup, ...] = ()
    share_groups: tuple[ShareGroup, ...] = ()
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeat(MemberHeartbeat):
    """A heartbeat of a share group's member."""

    topics: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsHeartbeat(MemberHeartbeat):
    """A heartbeat of a streams group's member.

    Attributes:
        topology: topology of the application; only a member that joins sends it.
        owned: active, standby and warm-up tasks of the member.
        shuts_down: True to stop all members of the application.
        endpoints_epoch: epoch of the endpoints that the member knows.
    """

    instance_id: str | None
    rebalance_timeout_ms: int
    topology: Entity | None
    owned: tuple[Tasks | None, Tasks | None, Tasks | None]
    process_id: str | None
    user_endpoint: UserEndpoint | None
    client_tags: Pairs | None
    shuts_down: bool
    endpoints_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesInitialized:
    """The outcome of an `InitializeShares` action."""

    now_us: int
    group_id: str
    partitions: Partitions
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesDeleted:
    """The outcome of a `DeleteShares` action."""

    now_us: int
    group_id: str
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareOffsets:
    """Start offsets for the share partitions of a group, by topic and partition number."""

    now_us: int
    request: RequestId
    group_id: str
    offsets: Mapping[str, Mapping[int, Offset]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareOffsets:
    now_us: int
    request: RequestId
    group_id: str
    topics: tuple[str, ...]


class ShareRefusal(NamedTuple):
    """An error and its message, None if the error needs none."""

    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesChanged:
    """The outcome of an `AlterShares` or `ForgetShares`; `refused` has the partitions that failed."""

    now_us: int
    number: int
    refused: Mapping[TopicIdPartition, ShareRefusal]


CoordinatorInput = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | ConsumerHeartbeat
    | ShareHeartbeat
    | StreamsHeartbeat
    | SharesInitialized
    | SharesDeleted
    | AlterShareOffsets
    | DeleteShareOffsets
    | SharesChanged
    | CommitOffsets
    | TransactionCompleted
    | DeleteGroups
    | DeleteOffsets
    | PartitionsDeleted
    | Loaded
)

# ------------------------------------------------------------------------------------------------------------ results


class JoinedMember(NamedTuple):
    """A member in the JoinGroup response to the group's leader, which assigns the partitions."""

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
    """The result of LeaveGroup, with one error per leaving member."""

    error: ErrorCode
    members: tuple[tuple[Leaving, ErrorCode], ...] = ()


class ConsumerHeartbeatResult(NamedTuple):
    """The result of a KIP-848, share or streams heartbeat.

    Attributes:
        assigned: partitions or tasks of the member; None if they have not changed.
        message: error message, None if there is none.
        statuses: problems of a streams group, such as a delayed assignment.
        endpoints_epoch: epoch of a streams group's endpoints.
        endpoints: endpoints of a streams group; None if the member knows them.
    """

    error: ErrorCode
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: tuple[Any, ...] | None = None
    message: str | None = None
    statuses: tuple[Status, ...] = ()
    endpoints_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None


class CommitResult(NamedTuple):
    errors: dict[TopicPartition, ErrorCode]


class DeleteGroupsResult(NamedTuple):
    errors: dict[str, ErrorCode]


class DeleteOffsetsResult(NamedTuple):
    """The result of OffsetDelete: one error per partition, none if the whole request failed."""

    error: ErrorCode
    errors: dict[TopicPartition, ErrorCode]


class AlterShareOffsetsResult(NamedTuple):
    """The result of a change of start offsets; `partitions` is empty if the whole request is refused."""

    refusal: ShareRefusal
    partitions: dict[TopicPartition, ShareRefusal]


class DeleteShareOffsetsResult(NamedTuple):
    """The result of a deletion of start offsets; `topics` is empty if the whole request is refused.

    Attributes:
        topics: the outcome for each topic, and its id if its offsets were to be deleted.
    """

    refusal: ShareRefusal
    topics: dict[str, tuple[UUID | None, ShareRefusal]]


Result = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | LeaveResult
    | ConsumerHeartbeatResult
    | CommitResult
    | DeleteGroupsResult
    | DeleteOffsetsResult
    | AlterShareOffsetsResult
    | DeleteShareOffsetsResult
)


# ------------------------------------------------------------------------------------------------------------- actions


@dataclass(frozen=True, slots=True)
class InitializeShares:
    """Initialize the state of share partitions at their share coordinators; `SharesInitialized` follows."""

    group_id: str
    state_epoch: int
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class DeleteShares:
    """Delete the state of all share partitions of a group; `SharesDeleted` follows."""

    group_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class AlterShares:
    """Initialize the state of share partitions with start offsets; `SharesChanged` with this number follows."""

    number: int
    group_id: str
    state_epoch: int
    offsets: Mapping[TopicIdPartition, Offset]


@dataclass(frozen=True, slots=True)
class ForgetShares:
    """Delete the state of some share partitions; `SharesChanged` with this number follows."""

    number: int
    group_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Create internal topics of a streams group; the metadata shows when they exist."""

    topics: tuple[MissingTopic, ...]


ShareAction = InitializeShares | DeleteShares | AlterShares | ForgetShares
OtherAction = ShareAction | CreateTopics
Action = CommonAction[Result] | OtherAction
