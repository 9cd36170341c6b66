"""The start offset of each leader epoch, by which replicas find where their logs diverge (KIP-101, KIP-279).

Source: Kafka LeaderEpochFileCache
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path

from replica.ids import UNDEFINED_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Offset
from replica.log.files.checkpoints import CorruptCheckpoint, read_checkpoint, write_checkpoint


class LeaderEpochCache:
    """Leader epochs with their start offsets, both strictly increasing. Each change is written to the file.

    `path` is the partition's leader-epoch-checkpoint, None to keep the cache in memory only.
    """

    def __init__(self, path: Path | None = None, *, sync: bool = False) -> None:
        self._path = path
        self._sync = sync
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []
        if path is not None:
            self._load(path)

    @property
    def entries(self) -> tuple[tuple[LeaderEpoch, Offset], ...]:
        """The pairs (epoch, start offset), oldest first."""
        return tuple(zip(self._epochs, self._starts, strict=True))

    @property
    def latest_epoch(self) -> LeaderEpoch | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Add `epoch` with its `start_offset`, after removing entries that contradict it."""
        if epoch < 0:
            return
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._write()

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch <= `epoch` and its end offset; (-1, -1) if `epoch` is -1 or later than all.

        If `epoch` is older than all known epochs, return `epoch` and the start of the first entry.
        """
        latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        if epoch == UNDEFINED_EPOCH or epoch > latest:
            return UNDEFINED_EPOCH, UNKNOWN_OFFSET
        if epoch == latest:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == 0:
            return epoch, self._starts[0]
        return self._epochs[higher - 1], self._starts[higher]

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch | None:
        """Return the epoch in which the record at `offset` was written, None before the first entry."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else None

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Remove epochs that begin at or after `end_offset`."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self._write()

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Remove epochs that end at or before `start_offset`; the epoch that contains the offset then begins there."""
        first = bisect_right(self._starts, start_offset) - 1
        if first < 0 or (first == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:first], self._starts[:first]
        self._starts[0] = start_offset
        self._write()

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self._write()

    def _load(self, path: Path) -> None:
        try:
            entries = [(int(epoch), int(start)) for epoch, start in read_checkpoint(path, 2)]
        except (CorruptCheckpoint, ValueError):
            # Differs from Kafka, which fails the log directory. The loss of this file is safe: followers may truncate
            # more than necessary, and recovery restores the epochs in the log.
            return
        for epoch, start in entries:
            if not self._epochs or (epoch > self._epochs[-1] and start > self._starts[-1]):
                self._epochs.append(epoch)
                self._starts.append(start)

    def _write(self) -> None:
        if self._path is not None:
            write_checkpoint(self._path, self.entries, sync=self._sync)
