"""The responses; see the package."""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType

from replica.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartitionError:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 5
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 4
    partition_index: int = field(metadata={"kafka_type": "int32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopicError:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 5
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 4
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partition_errors: tuple[LeaderAndIsrPartitionError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrResponse:
    """LeaderAndIsr 5."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[int] = 5
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 4
    __header_schema__: ClassVar[type] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    topics: tuple[LeaderAndIsrTopicError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaPartitionError:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 5
    topic_name: str = field(metadata={"kafka_type": "string"})
    partition_index: int = field(metadata={"kafka_type": "int32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaResponse:
    """StopReplica 3."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 5
    __header_schema__: ClassVar[type] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    partition_errors: tuple[StopReplicaPartitionError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataResponse:
    """UpdateMetadata 7."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[int] = 7
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 6
    __header_schema__: ClassVar[type] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingPartition:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 7
    topic_name: str = field(metadata={"kafka_type": "string"})
    partition_index: int = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownResponse:
    """ControlledShutdown 3: what the broker still leads."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = 7
    __header_schema__: ClassVar[type] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    remaining_partitions: tuple[RemainingPartition, ...]
