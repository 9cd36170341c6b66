"""Reads one broker's log of one partition, and predicts how a start of the broker would change it.

Source: Kafka LogLoader, LogSegment.recover, UnifiedLog
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from replica.ids import LeaderEpoch, Offset, TopicPartition
from replica.log.leader_epochs import LeaderEpochCache
from replica.log.loader import checked_from
from scenarios.logdirs.directory import LogDirectory, PartitionFiles, SegmentFile
from scenarios.logdirs.files import open_to_read, readable
from scenarios.logdirs.segment_scan import Damage, StoredBatch, scan

DAMAGES_MAX = 100
"""Largest number of damages that are kept per log. Further damages are only counted."""
INDEX_ENTRY_BYTES = 8

OnBatch = Callable[["ReplicaPlace", StoredBatch], None]


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """The broker and the partition of a replica."""

    node: str
    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """The result of reading one segment.

    Attributes:
        end_offset: one above the last offset, or the base offset if the segment is empty.
        size: size in bytes.
        batches, records, damages: numbers of these.
    """

    base_offset: Offset
    end_offset: Offset
    size: int
    batches: int
    records: int
    damages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartForecast:
    """The predicted effect on a log when its broker starts.

    Source: LogLoader.loadSegmentFiles, recoverLog
    """

    checked_from: Offset | None
    """Base offset of the first segment that is checked, None after a clean shutdown."""
    without_index: tuple[Offset, ...]
    """Base offsets of the segments that are checked because they have no index."""
    end: Offset
    """Log end offset after the start."""
    cuts: tuple[Damage, ...] = ()
    cut_bytes: int = 0
    deleted_segments: int = 0
    lost_records: int = 0
    """Number of records that would be lost, according to the headers of intact batches.

    Records after zeros or a torn batch are not counted.
    """
    unseen: Offset | None = None
    """Base offset of the last segment if the broker would not find the records in it, otherwise None."""
    staying: int = 0
    """Number of damages in segments that are not checked, which therefore remain."""
    fails: str | None = None
    """Reason why the broker would not start, None if it would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplica:
    """A replica in a log directory.

    Attributes:
        log_end_offset: end of the log in the present files.
        start: prediction of what a start of the broker changes.
        high_watermark, recovery_point: offsets in the checkpoints, None if missing.
        cleaned_to: offset below which the log cleaner has compacted.
        epochs_on_start: (leader epoch, start offset) after a start, from the checkpoint and the batches.
        latest_batch_epoch: latest leader epoch of a batch, -1 if there are no batches.
        damages: the first DAMAGES_MAX damages.
        damage_count: number of all damages.
        moved: sentence about a change of the files while they were read, None if there was none.
    """

    place: ReplicaPlace
    directory: LogDirectory
    files: PartitionFiles
    log_start_offset: Offset
    log_end_offset: Offset
    start: StartForecast
    high_watermark: Offset | None
    recovery_point: Offset | None
    cleaned_to: Offset
    epochs_on_start: tuple[tuple[LeaderEpoch, Offset], ...]
    latest_batch_epoch: LeaderEpoch
    segments: tuple[SegmentFacts, ...]
    damages: tuple[Damage, ...]
    damage_count: int
    old_formats: Mapping[str, int]
    """Number of messages in formats from before Kafka 0.11, by format. Their records are not read."""
    read_from: Offset
    """One above the last offset of these messages, 0 if there are none."""
    moved: str | None

    @property
    def is_damaged(self) -> bool:
        """True if a batch cannot be read, or if a start would truncate the log or fail."""
        return bool(self.damage_count or self.start.cut_bytes or self.start.fails)

    @property
    def log_end_on_start(self) -> Offset:
        """The log end offset after the recovery when the broker starts."""
        return self.start.end

    @property
    def node(self) -> str:
        return self.place.node

    @property
    def is_live(self) -> bool:
        return self.directory.locked or self.moved is not None

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def batches(self) -> int:
        return sum(segment.batches for segment in self.segments)

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The latest leader epoch in the checkpoint or a batch, -1 if there is none."""
        of_file = self.files.leader_epochs or ()
        return max(self.latest_batch_epoch, of_file[-1][0] if of_file else -1)

    @property
    def high_watermark_on_start(self) -> Offset:
        """The high watermark that a starting broker takes from its checkpoint.

        Source: UnifiedLog.updateHighWatermark
        """
        return max(self.log_start_offset, min(self.high_watermark or 0, self.log_end_on_start))


def read_replica(
    directory: LogDirectory, topic_partition: TopicPartition, files: PartitionFiles, on_batch: OnBatch | None
) -> StoredReplica:
    """Read all batches of a replica and check their CRCs. `on_batch` is called with each batch in order."""
    return _Reading(directory, topic_partition, files, on_batch).run()


class _Segment(NamedTuple):
    """A segment and its damage.

    Attributes:
        damage: the first damage, None if the segment is intact.
        stop: the damage after which nothing can be read, None if everything can be read.
        records: number of records.
        behind: number of records from the first damage on.
        damages: number of damages.
        end: log end offset after this segment.
    """

    file: SegmentFile
    damage: Damage | None
    stop: Damage | None
    records: int
    behind: int
    damages: int
    end: Offset


def _last_indexed(file: SegmentFile) -> int:
    """Return the file position in the last entry of a segment's offset index, 0 without an index.

    Source: OffsetIndex
    """
    if file.index is None:
        return 0
    with suppress(FileNotFoundError), readable(file.index):
        fd = open_to_read(file.index)
        try:
            entries = os.fstat(fd).st_size // INDEX_ENTRY_BYTES
            last = os.pread(fd, INDEX_ENTRY_BYTES, max(0, entries - 1) * INDEX_ENTRY_BYTES)
        finally:
            os.close(fd)
        return int.from_bytes(last[4:8])
    return 0


class _Reading:
    def __init__(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        files: PartitionFiles,
        on_batch: OnBatch | None,
    ) -> None:
        self._directory = directory
        self._files = files
        self._place = ReplicaPlace(directory.node, topic_partition)
        self._on_batch = on_batch
        self._recovery_point = directory.recovery_points.get(topic_partition)
        bases = [file.base_offset for file in files.segments]
        self._checked_from = checked_from(bases, self._recovery_point or 0)
        first_base = bases[0] if bases else 0
        self._log_start = max(directory.log_start_offsets.get(topic_partition, 0), first_base)
        self._end = bases[0] if bases else self._log_start
        self._latest_epoch: LeaderEpoch = -1
        self._epochs = LeaderEpochCache()
        for epoch, start in files.leader_epochs or ():
            self._epochs.assign(epoch, start)
        self._damages: list[Damage] = []
        self._damage_count = 0
        self._cut_to: Offset | None = None
        self._old: dict[str, int] = {}
        self._read_from: Offset = 0
        self._segments: list[_Segment] = []
        self._moved: str | None = None

    def run(self) -> StoredReplica:
        segments = [facts for file in self._files.segments for facts in self._segment(file)]
        start = self._start()
        self._epochs.truncate_from_end(start.end)
        self._epochs.truncate_from_start(self._log_start)
        name = self._place.topic_partition
        return StoredReplica(
            place=self._place,
            directory=self._directory,
            files=self._files,
            log_start_offset=self._log_start,
            log_end_offset=self._end,
            start=start,
            high_watermark=self._directory.high_watermarks.get(name),
            recovery_point=self._recovery_point,
            cleaned_to=self._directory.cleaned_to.get(name, 0),
            epochs_on_start=self._epochs.entries,
            latest_batch_epoch=self._latest_epoch,
            segments=tuple(segments),
            damages=tuple(self._damages),
            damage_count=self._damage_count,
            old_formats=self._old,
            read_from=self._read_from,
            moved=self._moved,
        )

    def _segment(self, file: SegmentFile) -> Iterator[SegmentFacts]:
        """Read a segment. Yield one result, or none if the file was deleted meanwhile."""
        is_last = file is self._files.segments[-1]
        batches = records = damages = behind = 0
        torn: Damage | None = None
        first: Damage | None = None
        stop: Damage | None = None
        self._end = max(self._end, file.base_offset)
        end = file.base_offset
        try:
            for batch, damage, old in scan(file, check=True, next_offset=self._end):
                if damage is not None and damage.kind == "torn" and is_last:
                    torn = damage  # It counts as damage only if no broker is writing the batch at the moment.
                elif damage is not None:
                    first = first or damage
                    stop = damage if damage.rest else None
                    self._note_damage(damage)
                    damages += 1
                if old is not None:
                    self._old[old.name] = self._old.get(old.name, 0) + 1
                    end = self._read_from = old.last_offset + 1
                    self._end = max(self._end, end)
                if batch is None:
                    continue
                batches += 1
                records += batch.header.record_count
                behind += 0 if first is None else batch.header.record_count
                end = batch.header.last_offset + 1
                self._note_batch(batch, end)
            self._note_change(file)
        except FileNotFoundError:
            self._moved = "a segment was deleted while it was read"
            return
        if torn is not None and self._moved is None and not self._directory.locked:
            first, stop = first or torn, torn
            self._note_damage(torn)
            damages += 1
        self._segments.append(_Segment(file, first, stop, records, behind, damages, self._end))
        yield SegmentFacts(
            base_offset=file.base_offset,
            end_offset=end,
            size=file.size,
            batches=batches,
            records=records,
            damages=damages,
        )

    def _start(self) -> StartForecast:
        """Predict a start, which checks segments without index and, after a crash, those from the recovery point on."""
        clean, left = self._directory.was_clean, list(self._segments)
        without_index = [item for item in left if item.file.index is None]
        cut = [item for item in without_index if item.damage is not None]
        if not clean:
            unflushed = [item for item in left if item.file.base_offset >= self._checked_from]
            bad = next((item for item in unflushed if item.damage is not None and item not in cut), None)
            if bad is not None:
                cut.append(bad)
                left = left[: left.index(bad) + 1]
        end = left[-1].end if left else self._end
        if left and left[-1] in cut:
            damage = left[-1].damage
            assert damage is not None, "only damaged ones are cut"
            end = damage.cut_to
        deleted = self._segments[len(left) :]
        # A log that ends below its log start offset (from the checkpoint) is emptied.
        if end < self._log_start and self._segments:
            end, deleted, cut = self._log_start, self._segments, []
        cuts = [damage for item in cut if item in left and (damage := item.damage) is not None]
        looked_at = [*cut, *deleted]
        lost = sum(item.behind for item in cut) + sum(item.records for item in deleted)
        fails, unseen = self._after_clean_stop(left[-1]) if clean and left and left[-1] not in cut else (None, None)
        if unseen is not None:
            end, lost = unseen.file.base_offset, lost + unseen.records
        return StartForecast(
            checked_from=None if clean else self._checked_from,
            without_index=tuple(item.file.base_offset for item in without_index),
            end=end,
            cuts=tuple(cuts),
            cut_bytes=sum(item.file.size - item.position for item in cuts) + sum(item.file.size for item in deleted),
            deleted_segments=len(deleted),
            lost_records=lost,
            unseen=None if unseen is None else unseen.file.base_offset,
            staying=sum(segment.damages for segment in self._segments if segment not in looked_at),
            fails=fails,
        )

    @staticmethod
    def _after_clean_stop(last: _Segment) -> tuple[str | None, _Segment | None]:
        """Predict how a broker finds the end of a log after a clean shutdown, when it does not check or truncate.

        The broker reads the last segment from the last entry of its index on. If it finds no complete batch there, the
        log continues at the segment's base offset, after the bytes that are in the file.

        Returns:
            The reason why the broker would not start, and the segment whose records it would not find, or None each.

        Source: LogSegment.readNextOffset, FileLogInputStream.nextBatch
        """
        stop, indexed = last.stop, _last_indexed(last.file)
        if stop is None:
            return None, None
        if stop.kind == "zeros" or (stop.kind == "length" and stop.position >= indexed):
            return f"it cannot read the end of its log at byte {stop.position:,} of {stop.file.path.name}", None
        return None, last if stop.kind == "torn" and stop.position <= indexed and last.records else None

    def _note_batch(self, batch: StoredBatch, end: Offset) -> None:
        self._end = max(self._end, end)
        header = batch.header
        self._latest_epoch = max(self._latest_epoch, header.leader_epoch)
        latest = self._epochs.latest_epoch
        if self._is_recovered(batch.file) and (latest is None or header.leader_epoch > latest):
            self._epochs.assign(header.leader_epoch, header.base_offset)
        if self._on_batch is not None:
            self._on_batch(self._place, batch)

    def _is_recovered(self, file: SegmentFile) -> bool:
        """Return True if a start would check this segment, unless earlier damage already ends the log."""
        is_checked = not self._directory.was_clean and file.base_offset >= self._checked_from
        return (is_checked or file.index is None) and self._cut_to is None

    def _note_damage(self, damage: Damage) -> None:
        self._damage_count += 1
        if len(self._damages) < DAMAGES_MAX:
            self._damages.append(damage)
        if self._is_recovered(damage.file):
            self._cut_to = damage.cut_to

    def _note_change(self, file: SegmentFile) -> None:
        try:
            now = file.path.lstat().st_size
        except FileNotFoundError:
            self._moved = "a segment was deleted while it was read"
            return
        if now > file.size:
            self._moved = "segments grew while they were read"
        elif now < file.size:
            self._moved = "segments were cut while they were read"
