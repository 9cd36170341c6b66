"""Classes of the requests ApiVersions 5 (KIP-1242) and TxnOffsetCommit 6 (KIP-1319)."""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.api_versions.v4 import request as api_versions
from kio.schema.txn_offset_commit.v5 import request as txn_offset_commit
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest(api_versions.ApiVersionsRequest):
    __version__: ClassVar[i16] = i16(5)
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    """The id of the cluster that the client expects to reach; None for any."""
    node_id: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    """The id of the broker that the client expects to reach; -1 for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(28)
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[txn_offset_commit.TxnOffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest(txn_offset_commit.TxnOffsetCommitRequest):
    __version__: ClassVar[i16] = i16(6)
    topics: tuple[TxnOffsetCommitRequestTopic, ...]  # type: ignore[assignment]
