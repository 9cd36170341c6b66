"""The requests; see the package."""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from kio.schema.request_header.v2.header import RequestHeader
from kio.static.constants import EntityType


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartitionState:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 5
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 4
    partition_index: int = field(metadata={"kafka_type": "int32"})
    controller_epoch: int = field(metadata={"kafka_type": "int32"})
    leader: int = field(metadata={"kafka_type": "int32"})
    leader_epoch: int = field(metadata={"kafka_type": "int32"})
    isr: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    partition_epoch: int = field(metadata={"kafka_type": "int32"})
    replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    adding_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    removing_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    is_new: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopicState:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 5
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 4
    topic_name: str = field(metadata={"kafka_type": "string"})
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partition_states: tuple[LeaderAndIsrPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrLiveLeader:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 5
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 4
    broker_id: int = field(metadata={"kafka_type": "int32"})
    host_name: str = field(metadata={"kafka_type": "string"})
    port: int = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrRequest:
    """LeaderAndIsr 5: `partition_epoch` is the zkVersion; a broker epoch of -1 is not checked (KIP-380)."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[int] = 5
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 4
    __header_schema__: ClassVar[type] = RequestHeader
    controller_id: int = field(metadata={"kafka_type": "int32"})
    controller_epoch: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"}, default=-1)
    type: int = field(metadata={"kafka_type": "int8"})
    topic_states: tuple[LeaderAndIsrTopicState, ...]
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaPartitionState:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 5
    partition_index: int = field(metadata={"kafka_type": "int32"})
    leader_epoch: int = field(metadata={"kafka_type": "int32"})
    delete_partition: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaTopicState:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 5
    topic_name: str = field(metadata={"kafka_type": "string"})
    partition_states: tuple[StopReplicaPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaRequest:
    """StopReplica 3."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 5
    __header_schema__: ClassVar[type] = RequestHeader
    controller_id: int = field(metadata={"kafka_type": "int32"})
    controller_epoch: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"}, default=-1)
    topic_states: tuple[StopReplicaTopicState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataPartitionState:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 7
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 6
    partition_index: int = field(metadata={"kafka_type": "int32"})
    controller_epoch: int = field(metadata={"kafka_type": "int32"})
    leader: int = field(metadata={"kafka_type": "int32"})
    leader_epoch: int = field(metadata={"kafka_type": "int32"})
    isr: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    zk_version: int = field(metadata={"kafka_type": "int32"})
    replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    offline_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataTopicState:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 7
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 6
    topic_name: str = field(metadata={"kafka_type": "string"})
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partition_states: tuple[UpdateMetadataPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataEndpoint:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 7
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 6
    port: int = field(metadata={"kafka_type": "int32"})
    host: str = field(metadata={"kafka_type": "string"})
    listener: str = field(metadata={"kafka_type": "string"})
    security_protocol: int = field(metadata={"kafka_type": "int16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataBroker:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 7
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 6
    id: int = field(metadata={"kafka_type": "int32"})
    endpoints: tuple[UpdateMetadataEndpoint, ...]
    rack: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataRequest:
    """UpdateMetadata 7."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[int] = 7
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 6
    __header_schema__: ClassVar[type] = RequestHeader
    controller_id: int = field(metadata={"kafka_type": "int32"})
    controller_epoch: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"}, default=-1)
    topic_states: tuple[UpdateMetadataTopicState, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownRequest:
    """ControlledShutdown 3: a broker asks the controller to take its leaderships away."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 7
    __header_schema__: ClassVar[type] = RequestHeader
    broker_id: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"}, default=-1)
