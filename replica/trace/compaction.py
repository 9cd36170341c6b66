"""Events about topics with `cleanup.policy=compact`: which keys records have, and what compaction takes."""

from __future__ import annotations

from typing import Annotated

from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import CompactionEvent, ControlEvent, OnPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompacted(OnPartition, ControlEvent):
    """The cleaner of a broker has been through one log. What changed is in the table `compaction`."""

    role: column.Role
    leader_epoch: column.Epoch
    offset: Annotated[int, "of the records below it, the log holds the last of each key"]
    size_bytes: Annotated[int, "bytes of the segments that were replaced, less those of the new ones"]
    first_dirty_offset: Annotated[int, "where the round began: below it everything was compacted before"]
    dirty_percent: Annotated[int, "the share of the log that was not"]
    records_removed: Annotated[int, "how many are gone"]
    message: Annotated[str | None, "what kept the round from coming to its end; null: nothing"] = None

    def sentence(self) -> str:
        if self.message is not None:
            return f"{self.node} gives up compacting {self.name}: {self.message}"
        removed = "1 record is" if self.records_removed == 1 else f"{self.records_removed} records are"
        return (
            f"{self.node} compacts {self.name} up to {self.offset}: {self.dirty_percent}% of it was new since "
            f"{self.first_dirty_offset}; {removed} gone"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysAppended(CompactionEvent):
    """A leader appended a batch to a compacted topic, or a cleaner read it: the keys of its records. A batch that was
    appended before its topic became compacted is stated by each replica's cleaner, or when the run ends."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    leader_epoch: Annotated[int, "leader epoch stamped on the batch"]
    base_offset: Annotated[int, "first offset of the batch"]
    crc: column.Crc
    keys: Annotated[tuple[str, ...], "key of each record; one that is no short text by its digest"]
    tombstones: Annotated[tuple[int, ...], "offsets of the records without a value, or without a key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCompacted(CompactionEvent):
    """The cleaner wrote a batch anew, or left it out. It follows the `log_compacted` of its log."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    leader_epoch: Annotated[int, "leader epoch stamped on the batch"]
    base_offset: Annotated[int, "first offset of the batch"]
    last_offset: Annotated[int, "last offset of the batch (inclusive)"]
    crc: Annotated[int, "CRC-32C of the batch before"]
    new_crc: Annotated[int | None, "CRC-32C of the batch now; null: it is gone"]
    cleaned_to: Annotated[int, "where the round ended: below it lies the last record of each key"]
    removed: Annotated[tuple[int, ...], "offsets of the records that were taken out this time"]
    aborted: Annotated[bool, "they went because their transaction was aborted"]
