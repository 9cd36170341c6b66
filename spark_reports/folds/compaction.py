"""Records that compaction removed legitimately, for a reason that is still valid at the end of the run.

Compaction must keep the last record of each key. It may remove a record if a later record of the same key is below the
end offset of the cleaning, if the record is a tombstone, or if its transaction was aborted.

A later record of the key justifies the removal only if it is in the final log, was deleted, has expired, or was a
tombstone that was removed legitimately. If it was truncated instead, the earlier record is lost. Removing a tombstone
was not legitimate if the log was later truncated below its offset and still has an earlier record of its key.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

COLUMNS = (
    "what", "seq", "offset", "leader_epoch", "crc", "keys", "tombstones", "removed", "cleaned_to", "aborted",
)  # fmt: skip
KEYS, TAKEN, DELETED, TOPIC_DELETED, ENTRY, END = "keys", "taken", "deleted", "topic deleted", "entry", "end"
OUT = (
    "run string, topic string, partition bigint, base_offset bigint, leader_epoch bigint, crc bigint, seq bigint, "
    "place bigint"
)

Place = tuple[int, int]
"""Offset and leader epoch of a record."""


class _Record(NamedTuple):
    """A record of a compacted partition.

    Attributes:
        batch: base offset, leader epoch, CRC and `seq` of its append, and the record's index in the batch.
    """

    key: str
    is_tombstone: bool
    batch: tuple[int, int, int, int, int]


class _Life:
    """The records of a partition between its topic's creation and deletion."""

    def __init__(self) -> None:
        self.records: dict[Place, _Record] = {}
        self.offsets_of: dict[str, dict[int, None]] = {}
        self.taken: dict[Place, bool] = {}
        """The removed records; True if the reason was an aborted transaction."""
        self.deleted_to: dict[str, int] = {}

    def appended(self, batch: tuple[int, int, int, int], keys: Sequence[str], tombstones: Sequence[int]) -> None:
        base, epoch, _, _ = batch
        for index, key in enumerate(keys):
            offset = base + index
            self.records[offset, epoch] = _Record(key, offset in tombstones, (*batch, index))
            self.offsets_of.setdefault(key, {})[offset] = None

    def took(self, epoch: int, removed: Sequence[int], cleaned_to: int, aborted: bool) -> None:
        for offset in removed:
            record = self.records.get((offset, epoch))
            if record is not None:
                is_old = any(offset < later < cleaned_to for later in self.offsets_of[record.key])
                if aborted or record.is_tombstone or is_old:
                    self.taken[offset, epoch] = aborted or self.taken.get((offset, epoch), False)

    def settled(self, entries: Sequence[tuple[int, int, bool]], end: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the `batch` of each record that was removed legitimately.

        Args:
            entries: (offset, leader epoch, is_aborted) of each record of the final log in order; is_aborted is True for
                records of aborted transactions.
            end: end offset of the final log.
        """
        standing: dict[str, tuple[int, int]] = {}
        for offset, epoch, is_aborted in entries:
            record = self.records.get((offset, epoch))
            if record is not None and not is_aborted:
                standing[record.key] = (standing.get(record.key, (offset, 0))[0], offset)
        offsets = [offset for offset, _, _ in entries]

        def was_cut(offset: int, epoch: int) -> bool:
            index = bisect_right(offsets, offset) - 1
            return end <= offset or (index >= 0 and entries[index][1] > epoch)

        lost: set[Place] = set()
        replaced_to = dict(self.deleted_to)
        for (offset, epoch), aborted in self.taken.items():
            record = self.records[offset, epoch]
            if record.is_tombstone and not aborted:
                first, last = standing.get(record.key, (offset, offset))
                if first < offset and last <= offset and was_cut(offset, epoch):
                    lost.add((offset, epoch))
                else:
                    replaced_to[record.key] = max(offset, replaced_to.get(record.key, -1))
        for position, aborted in self.taken.items():
            record = self.records[position]
            replaced = max(standing.get(record.key, (0, -1))[1], replaced_to.get(record.key, -1))
            if aborted or (position not in lost if record.is_tombstone else replaced > position[0]):
                yield record.batch


def compacted(facts: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the columns of OUT after the partition for each legitimately removed record.

    Memory use grows with the records of a compacted partition.
    """
    life = _Life()
    entries: list[tuple[int, int, bool]] = []
    end = 0
    for what, seq, offset, epoch, crc, keys, tombstones, removed, cleaned_to, aborted in facts:
        if what == KEYS:
            life.appended((offset, epoch, crc, seq), keys, tombstones)
        elif what == TAKEN:
            life.took(epoch, removed, cleaned_to, aborted)
        elif what == DELETED:
            for key in keys:
                life.deleted_to[key] = max(offset, life.deleted_to.get(key, -1))
        elif what == TOPIC_DELETED:
            yield from life.settled((), 0)
            life = _Life()
        elif what == ENTRY:
            entries.append((offset, epoch, aborted))
        else:
            end = offset
    yield from life.settled(sorted(entries), end)
