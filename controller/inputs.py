"""The inputs, actions and replies of `ControllerState.step`.
Inputs have the current time in microseconds. Actions are performed in order. A reply comes last, since Kafka replies
only when the records of a decision are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal, Protocol
from uuid import UUID

from controller.access import Acl, AclFilter
from controller.metadata import Endpoint, MetadataRecord, QuotaEntity
from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from replica.trace.events import TraceEvent

# ------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """BrokerRegistration (62). `previous_broker_epoch` comes from the clean-shutdown file; -1 if there is none."""

    now_us: int
    broker_id: BrokerId
    incarnation_id: str
    host: str
    port: int
    rack: str | None = None
    previous_broker_epoch: BrokerEpoch = -1
    log_dirs: tuple[str, ...] | None = None
    endpoints: tuple[Endpoint, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeat:
    """BrokerHeartbeat (63). `metadata_offset` is the last metadata record that the broker has applied."""

    now_us: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    metadata_offset: Offset
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """UnregisterBroker (64): remove a broker from the cluster."""

    now_us: int
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicas:
    """AssignReplicasToDirs (73): the log directories of replicas of a broker, as (topic, partition, directory)."""

    now_us: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    places: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """One partition of an AlterPartition request. Each ISR member has a broker epoch, which is not checked if -1."""

    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    in_sync_replicas: tuple[BrokerId, ...]
    broker_epochs: tuple[BrokerEpoch, ...]
    recovering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartition:
    """AlterPartition (56), from the leader of the partitions. For an unknown topic id, no topic has the name."""

    now_us: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[IsrProposal, ...]


class PartitionQuota(Protocol):
    """A client's quota of created and deleted partitions (KIP-599)."""

    def record(self, partitions: int, now_us: int) -> bool:
        """Count partitions against the quota. Return False if they exceed it; then they are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """CreateTopics (19), for one topic, with either an assignment or numbers of partitions and replicas.

    Attributes:
        assignment: replicas of partition 0, 1, ...
        partitions: number of partitions; None for num.partitions.
        replication_factor: None for default.replication.factor.
        validate_only: True to check the request without creating the topic.
        quota: quota of the client that sent the request; None for no quota.
    """

    now_us: int
    name: str
    assignment: tuple[tuple[BrokerId, ...], ...] | None = None
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    validate_only: bool = False
    quota: PartitionQuota | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    """CreatePartitions (37), for one topic.

    `count` is the new total; `assignment` has the replicas of the added partitions.
    """

    now_us: int
    topic: str
    count: int
    assignment: tuple[tuple[BrokerId, ...], ...] | None = None
    validate_only: bool = False
    quota: PartitionQuota | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """DeleteTopics (20), for one topic."""

    now_us: int
    name: str
    quota: PartitionQuota | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeConfig:
    """IncrementalAlterConfigs (44) of one topic: set the given keys; None resets a key."""

    now_us: int
    topic: str
    config: Mapping[str, object]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBrokerConfig:
    """IncrementalAlterConfigs (44) of one broker: set the given keys; None restores the static value of a key."""

    now_us: int
    broker_id: BrokerId
    config: Mapping[str, object]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroupConfig:
    """IncrementalAlterConfigs (44) of one group: set the given keys; None restores the brokers' value of a key."""

    now_us: int
    group: str
    config: Mapping[str, object]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeatureLevels:
    """UpdateFeatures (57): change the levels of features, all or none.

    Attributes:
        upgrade_types: upgrade type by feature, a code of features.py; UPGRADE for all other features.
    """

    now_us: int
    levels: Mapping[str, int]
    upgrade_types: Mapping[str, int] = field(default_factory=dict)
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterScramCredential:
    """AlterUserScramCredentials (51), for one user and mechanism.

    A `salted_password` of None removes the credential.
    """

    now_us: int
    user: str
    mechanism: int
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """The first records of a new cluster, as in bootstrap.checkpoint. This input has no reply."""

    now_us: int
    records: tuple[MetadataRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuota:
    """AlterClientQuotas (49), for one entity: set the given quotas; None removes a quota."""

    now_us: int
    entity: QuotaEntity
    quotas: Mapping[str, float | None]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAcl:
    """CreateAcls (30), for one rule."""

    now_us: int
    acl: Acl


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAcls:
    """DeleteAcls (31): delete the rules that match a filter.

    Every filter is applied to the rules as they were before the request.
    """

    now_us: int
    filters: tuple[AclFilter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReassignment:
    """AlterPartitionReassignments (45), for one partition; `replicas` of None cancels the reassignment in progress.

    Attributes:
        may_change_factor: True if the target may have more or fewer replicas than the partition had (KIP-860).
    """

    now_us: int
    topic: str
    partition: int
    replicas: tuple[BrokerId, ...] | None
    may_change_factor: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeader:
    """ElectLeaders (43), for one partition.

    `desired` is a replica to put first in the assignment before the election.
    """

    now_us: int
    topic: str
    partition: int
    kind: Literal["preferred", "unclean"] = "preferred"
    desired: BrokerId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    """AllocateProducerIds (67): a broker asks for a block of producer ids."""

    now_us: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCheckDue:
    """The periodic task that fences at most one broker whose session has expired. Source: maybeFenceReplicas"""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceDue:
    """The periodic task that gives leaderships back to preferred replicas. Source: maybeBalancePartitionLeaders"""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanSweepDue:
    """The periodic task that elects unclean leaders for leaderless partitions. Source: maybeElectUncleanLeaders"""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeVoters:
    """The addition or removal of a voter of the quorum (KIP-853). The quorum itself performs it."""

    now_us: int
    controller_id: BrokerId
    is_addition: bool


SingleInput = (
    RegisterBroker
    | UnregisterBroker
    | BrokerHeartbeat
    | AssignReplicas
    | AlterPartition
    | CreateTopic
    | CreatePartitions
    | DeleteTopic
    | ChangeConfig
    | ChangeBrokerConfig
    | ChangeGroupConfig
    | ChangeFeatureLevels
    | AlterScramCredential
    | Bootstrap
    | AlterClientQuota
    | CreateAcl
    | DeleteAcls
    | AlterReassignment
    | ElectLeader
    | AllocateProducerIds
    | SessionCheckDue
    | RebalanceDue
    | UncleanSweepDue
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """One request with any number of topics or partitions, which are decided together."""

    now_us: int
    inputs: tuple[SingleInput, ...]


ControllerInput = SingleInput | Several

# ------------------------------------------------------------------------------------------------------------ actions


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRecord:
    """The action to append `record` to the metadata log at `offset`. The controller's image includes it already."""

    offset: Offset
    record: MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitNumbered:
    """The action to emit a trace event.

    Attributes:
        number: sequence number of the event among all events of this controller.
        cause: number of the event in the same list of actions that caused this event; None if the event has the same
            cause as the input.
    """

    event: TraceEvent
    number: int
    cause: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationReply:
    error: ErrorCode
    broker_epoch: BrokerEpoch = -1
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    error: ErrorCode
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrResult:
    """The state of a partition after the request. If there is an error, the other fields have no meaning."""

    topic: str
    partition: int
    error: ErrorCode
    leader: BrokerId = NO_BROKER
    leader_epoch: LeaderEpoch = 0
    in_sync_replicas: tuple[BrokerId, ...] = ()
    partition_epoch: PartitionEpoch = 0
    recovering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReply:
    error: ErrorCode
    partitions: tuple[IsrResult, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicReply:
    """The reply to `CreateTopic`. `config` has the topic's stored settings, as in `TopicRecord`."""

    error: ErrorCode
    topic_id: UUID | None = None
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainReply:
    """The reply to inputs without a reply class of their own: an error code, NONE for success."""

    error: ErrorCode
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsReply:
    """The reply to `DeleteAcls`. `deleted` has the deleted rules of each filter, in the order of the filters."""

    deleted: tuple[tuple[Acl, ...], ...]
    error: ErrorCode = ErrorCode.NONE
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsReply:
    """The reply to `AllocateProducerIds`: `length` producer ids from `first` on."""

    error: ErrorCode
    first: int = -1
    length: int = 0
    message: str = ""


SingleReply = (
    RegistrationReply
    | HeartbeatReply
    | AlterPartitionReply
    | CreateTopicReply
    | PlainReply
    | DeleteAclsReply
    | ProducerIdsReply
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralReply:
    """The reply to `Several`: one reply for each of its inputs, in their order."""

    replies: tuple[SingleReply, ...]


Reply = SingleReply | SeveralReply
Action = AppendRecord | EmitNumbered | Reply

OnReply = Callable[[Reply | None], None]
"""A callback for the reply; None if the controller was replaced first. Its decision may still take effect."""
