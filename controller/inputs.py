"""The inputs of the controller, its actions and its replies: the vocabulary of `ControllerState.step`.

Inputs carry the time in integer microseconds. Actions are performed in order; a reply comes last, since Kafka answers
only when the records it speaks of are committed.
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
    """BrokerRegistration(62). `previous_broker_epoch`: from the clean-shutdown file, -1 if there is none."""

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
    """BrokerHeartbeat(63). `metadata_offset`: last record of the metadata log that the broker has applied."""

    now_us: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    metadata_offset: Offset
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """UnregisterBroker(64): the cluster is to forget a broker."""

    now_us: int
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicas:
    """AssignReplicasToDirs(73): (topic, partition, directory) of replicas of this broker."""

    now_us: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    places: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """One partition of an AlterPartition; `broker_epochs` runs parallel to the ISR, -1 skips the check."""

    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    in_sync_replicas: tuple[BrokerId, ...]
    broker_epochs: tuple[BrokerEpoch, ...]
    recovering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartition:
    """AlterPartition(56), from the leader of its partitions; an unknown topic id may be given as any unknown name."""

    now_us: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[IsrProposal, ...]


class PartitionQuota(Protocol):
    """How many partitions a client may have created and deleted (KIP-599)."""

    def record(self, partitions: int, now_us: int) -> bool:
        """Count them; False: they are too many, and not counted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """CreateTopics(19), one topic: either an assignment (replicas of partition 0, 1, ...) or numbers to place.

    partitions, replication_factor: None takes num.partitions and default.replication.factor
    validate_only: answer as if, and do nothing
    quota: of the client that asks, as with the next two; None: it has none
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
    """CreatePartitions(37), one topic: up to `count` in all; `assignment`: replicas of those that are added."""

    now_us: int
    topic: str
    count: int
    assignment: tuple[tuple[BrokerId, ...], ...] | None = None
    validate_only: bool = False
    quota: PartitionQuota | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """DeleteTopics(20), one topic."""

    now_us: int
    name: str
    quota: PartitionQuota | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeConfig:
    """IncrementalAlterConfigs(44) of one topic: set the given keys, None resets one."""

    now_us: int
    topic: str
    config: Mapping[str, object]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBrokerConfig:
    """IncrementalAlterConfigs(44) of one broker: set the given keys, None takes one back to its static value."""

    now_us: int
    broker_id: BrokerId
    config: Mapping[str, object]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroupConfig:
    """IncrementalAlterConfigs(44) of one group: set the given keys, None takes one back to what the brokers have."""

    now_us: int
    group: str
    config: Mapping[str, object]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeatureLevels:
    """UpdateFeatures(57): all features or none.     upgrade_types: by feature (features.py); UPGRADE without one"""

    now_us: int
    levels: Mapping[str, int]
    upgrade_types: Mapping[str, int] = field(default_factory=dict)
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterScramCredential:
    """AlterUserScramCredentials(51), one user and mechanism; `salted_password` None removes the credential."""

    now_us: int
    user: str
    mechanism: int
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """What a new cluster is to begin with (bootstrap.checkpoint). Nothing answers it."""

    now_us: int
    records: tuple[MetadataRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuota:
    """AlterClientQuotas(49), one entity: set the given quotas, None takes one away."""

    now_us: int
    entity: QuotaEntity
    quotas: Mapping[str, float | None]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAcl:
    """CreateAcls(30), one rule."""

    now_us: int
    acl: Acl


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAcls:
    """DeleteAcls(31): every rule that one of the filters matches. All filters see the rules of before."""

    now_us: int
    filters: tuple[AclFilter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReassignment:
    """AlterPartitionReassignments(45), one partition; `replicas` None cancels the one in progress.

    may_change_factor: the target may have more or fewer replicas than the partition had (KIP-860)
    """

    now_us: int
    topic: str
    partition: int
    replicas: tuple[BrokerId, ...] | None
    may_change_factor: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeader:
    """ElectLeaders(43), one partition. `desired`: put this replica first, then elect."""

    now_us: int
    topic: str
    partition: int
    kind: Literal["preferred", "unclean"] = "preferred"
    desired: BrokerId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    """AllocateProducerIds(67): a broker wants a block of producer ids."""

    now_us: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCheckDue:
    """maybeFenceReplicas: fence at most one broker whose session has run out."""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceDue:
    """maybeBalancePartitionLeaders: give leadership back to preferred replicas."""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanSweepDue:
    """maybeElectUncleanLeaders: partitions without a leader whose topic allows unclean election."""

    now_us: int


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
    """One request about several topics or partitions, or about none: decided at once."""

    now_us: int
    inputs: tuple[SingleInput, ...]


ControllerInput = SingleInput | Several

# ------------------------------------------------------------------------------------------------------------ actions


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRecord:
    """Append `record` to the metadata log at `offset`; the state's own image has it already."""

    offset: Offset
    record: MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitNumbered:
    """Put this event into the trace. number: counts the events of this controller

    cause: the number of the event that led to this one, always earlier in the same list of actions; None: what led to
    the input
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
    """The partition after the request; only the error counts if there is one."""

    topic: str
    partition: int
    error: ErrorCode
    leader: BrokerId = NO_BROKER
    leader_epoch: LeaderEpoch = 0
    in_sync_replicas: tuple[BrokerId, ...] = ()
    partition_epoch: PartitionEpoch = 0
    recovering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasReply:
    error: ErrorCode
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReply:
    error: ErrorCode
    partitions: tuple[IsrResult, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicReply:
    """config: the topic's stored settings, as in TopicRecord"""

    error: ErrorCode
    topic_id: UUID | None = None
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReply:
    """Answers CreatePartitions, DeleteTopic, ChangeConfig, ChangeBrokerConfig, ChangeGroupConfig, ChangeFeatureLevels,
    AlterScramCredential, AlterClientQuota, CreateAcl, UnregisterBroker and AlterReassignment."""

    error: ErrorCode
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsReply:
    """deleted: of each filter, in their order"""

    deleted: tuple[tuple[Acl, ...], ...]
    error: ErrorCode = ErrorCode.NONE
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectReply:
    error: ErrorCode
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsReply:
    """The ids from `first` on, `length` of them."""

    error: ErrorCode
    first: int = -1
    length: int = 0
    message: str = ""


SingleReply = (
    RegistrationReply
    | HeartbeatReply
    | AssignReplicasReply
    | AlterPartitionReply
    | CreateTopicReply
    | TopicReply
    | DeleteAclsReply
    | ElectReply
    | ProducerIdsReply
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralReply:
    """Answers Several: a reply for each of its inputs, in their order."""

    replies: tuple[SingleReply, ...]


Reply = SingleReply | SeveralReply
Action = AppendRecord | EmitNumbered | Reply

OnReply = Callable[[Reply | None], None]
"""None: the controller was deposed first; its decisions may happen or not."""
