"""Classes of the responses TxnOffsetCommit 6 (KIP-1319) and DeleteGroups 3 (KIP-1331)."""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.delete_groups.v2 import response as delete_groups
from kio.schema.txn_offset_commit.v5 import response as txn_offset_commit
from kio.static.constants import EntityType
from kio.static.primitive import i16


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(28)
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[txn_offset_commit.TxnOffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse(txn_offset_commit.TxnOffsetCommitResponse):
    __version__: ClassVar[i16] = i16(6)
    topics: tuple[TxnOffsetCommitResponseTopic, ...]  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableGroupResult(delete_groups.DeletableGroupResult):
    __version__: ClassVar[i16] = i16(3)
    error_message: str | None = field(metadata={"kafka_type": "string"}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse(delete_groups.DeleteGroupsResponse):
    __version__: ClassVar[i16] = i16(3)
    results: tuple[DeletableGroupResult, ...]
