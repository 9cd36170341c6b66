"""Events about topics with `cleanup.policy=compact`: the keys of records, and what compaction removes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import CompactionEvent, ControlEvent, Frequent, OfPartitions, OnPartition, of_each, where
from replica.trace.ranges import counted, span_of_offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompacted(OfPartitions, OnPartition, ControlEvent):
    """A broker's log cleaner has finished a round on one log. The table `compaction` has the changes."""

    role: column.Role
    leader_epoch: column.Epoch
    offset: Annotated[int, "below this offset, the log has only the last record of each key"]
    size_bytes: Annotated[int, "bytes that the log became smaller by"]
    first_dirty_offset: Annotated[int, "offset at which the round began; the log below was compacted before"]
    dirty_percent: Annotated[int, "percentage of the log that was not compacted before"]
    records_removed: Annotated[int, "number of records removed"]
    message: Annotated[str | None, "error that stopped the round; null: none"] = None

    MAY_DIFFER = (
        "leader_epoch", "offset", "size_bytes", "first_dirty_offset", "dirty_percent", "records_removed",
    )  # fmt: skip

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        if first.message is not None:
            return f"{first.node} gave up compacting {where(many)}: {first.message}"
        return f"{first.node} compacted {where(many)}{of_each(many, cls._result)}"

    def _result(self) -> str:
        removed = "1 record was" if self.records_removed == 1 else f"{self.records_removed} records were"
        dirty = f"{self.dirty_percent}% of the log was dirty, from offset {self.first_dirty_offset}"
        return f"{removed} removed below offset {self.offset} ({dirty})"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysAppended(OnPartition, Frequent, CompactionEvent):
    """The keys of a batch, emitted when a leader appends it to a compacted topic, or when a cleaner reads it.

    If a batch was appended before its topic became compacted, each replica emits the event: when its cleaner reads the
    batch, or else at the end of the run.
    """

    leader_epoch: Annotated[int, "leader epoch stamped on the batch"]
    base_offset: Annotated[int, "first offset of the batch"]
    crc: column.Crc
    keys: Annotated[tuple[str, ...], "key of each record; a digest, if the key is not a short text"]
    tombstones: Annotated[tuple[int, ...], "offsets of the records without a value, or without a key"]

    def sentence(self) -> str:
        where = span_of_offsets(self.base_offset, self.base_offset + len(self.keys) - 1)
        batch = f"the batch at {where} of {self.topic}-{self.partition} on {self.node}"
        return f"{batch} has {counted(len(set(self.keys)), 'key')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCompacted(OnPartition, Frequent, CompactionEvent):
    """The log cleaner rewrote or removed a batch. This event follows the event `log_compacted` of the log."""

    leader_epoch: Annotated[int, "leader epoch stamped on the batch"]
    base_offset: Annotated[int, "first offset of the batch"]
    last_offset: Annotated[int, "last offset of the batch (inclusive)"]
    crc: Annotated[int, "CRC-32C of the batch before the event"]
    new_crc: Annotated[int | None, "CRC-32C of the batch after the event; null: the batch was removed"]
    cleaned_to: Annotated[int, "offset at which the round ended; the log below has the last record of each key"]
    removed: Annotated[tuple[int, ...], "offsets of the records that this round removed"]
    aborted: Annotated[bool, "true: they were removed because their transaction was aborted"]

    def sentence(self) -> str:
        where = f"the batch at {span_of_offsets(self.base_offset, self.last_offset)} of {self.topic}-{self.partition}"
        why = ", because its transaction was aborted" if self.aborted else ""
        if self.new_crc is None:
            return f"the cleaner of {self.node} deleted {where}{why}"
        return f"the cleaner of {self.node} removed {counted(len(self.removed), 'record')} from {where}{why}"
