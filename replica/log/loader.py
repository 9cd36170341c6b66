"""The loading of a log from its files: its segments, its valid end, and the state derived from its batches.

Without a clean-shutdown file, every segment that may contain unflushed bytes is checked batch by batch. The log ends
where the first bad batch begins. Source: Kafka LogLoader
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from replica.config import TopicConfig
from replica.ids import Offset
from replica.log.batches.control_records import read_end_transaction_marker
from replica.log.batches.records import CONTROL, TRANSACTIONAL, BatchHeader
from replica.log.files.checkpoints import LEADER_EPOCHS
from replica.log.files.disk import LOG_SUFFIX, Disk
from replica.log.leader_epochs import LeaderEpochCache
from replica.log.producers.producer_state import ProducerStateManager
from replica.log.segment import CLEANED_SUFFIX, DELETED_SUFFIX, FILE_SUFFIXES, SWAP_SUFFIX, Segment
from replica.log.segments import LogSegments

# ----------------------------------------------------------------------------------------------------- aborted recovery
#
# After an unclean stop the transaction indexes of checked segments are rebuilt from their batches.
#
# Source: Kafka LogLoader.recoverSegment, LogSegment.recover


def rebuild_aborted(
    checked: Sequence[Segment], batches: Iterable[tuple[Segment, int, BatchHeader]], state: ProducerStateManager
) -> None:
    """Rebuild the transaction indexes of the checked segments.

    Args:
        batches: (segment, position, header) from the offset of `state` on, because a transaction may have begun before
            the checked segments.
    """
    for segment, position, header in batches:
        if not header.attributes & TRANSACTIONAL:
            continue
        is_control = header.attributes & CONTROL
        marker = read_end_transaction_marker(segment.read_batch(position, header)) if is_control else None
        completed = state.update(header, marker)
        if completed is not None:
            if completed.is_aborted and segment in checked:
                segment.aborted.append(state.transactions.aborted(completed))
            state.transactions.complete(completed)
    for segment in checked:
        segment.write_indexes()


# ---------------------------------------------------------------------------------------------------- producer recovery
#
# The producer state is rebuilt from the batches of a log when the log is opened, and after a truncation.
#
# Source: Kafka LogLoader.load, UnifiedLog.rebuildProducerState


def load_producers(
    directory: Path,
    segments: LogSegments,
    log_start_offset: Offset,
    *,
    checkpointed_start: Offset,
    recovered: bool,
    sync: bool,
    expiration_ms: int,
    now_ms: int,
) -> ProducerStateManager:
    """Return the producer state at the end of a log.

    Args:
        checkpointed_start: log start offset in the checkpoint file, 0 if the log starts at its first segment.
        recovered: True if some segments were checked.
    """
    log_end_offset = segments.active.next_offset
    producers = ProducerStateManager(directory, sync=sync, expiration_ms=expiration_ms)
    producers.keep_snapshots_of(segments.bases, and_newest=not recovered)
    if recovered:
        # The state is loaded from the snapshot at the end, as in LogLoader.recoverSegment, so that only the last batch
        # of each producer is known, as after a clean shutdown. That snapshot is made from those above the checkpointed
        # start. So a snapshot at the start of the first segment counts, and with it producers without records.
        rebuild_producers(producers, segments, checkpointed_start, log_end_offset, now_ms)
        producers = ProducerStateManager(directory, sync=sync, expiration_ms=expiration_ms)
    rebuild_producers(producers, segments, log_start_offset, log_end_offset, now_ms)
    return producers


def rebuild_producers(
    producers: ProducerStateManager,
    segments: LogSegments,
    log_start_offset: Offset,
    log_end_offset: Offset,
    now_ms: int,
) -> None:
    """Rebuild the producer state at the log end, from the latest snapshot and the batches after it.

    This writes snapshots at the log end and at the start of the last two segments. Simplified: without a snapshot, the
    whole log is read even after a clean shutdown. Source: UnifiedLog.rebuildProducerState
    """
    nothing_known = not producers.producers and producers.map_end_offset >= log_end_offset
    start = producers.truncate_and_reload(log_start_offset, log_end_offset, now_ms)
    if not nothing_known:
        for segment, position, header in segments.scan(max(log_start_offset, start), log_end_offset):
            if header.base_offset in segments.bases[-2:]:
                producers.map_end_offset = header.base_offset
                producers.take_snapshot()
            is_control = header.attributes & CONTROL
            marker = read_end_transaction_marker(segment.read_batch(position, header)) if is_control else None
            completed = producers.update(header, marker)
            if completed is not None:
                producers.transactions.complete(completed)
    producers.map_end_offset = log_end_offset
    producers.take_snapshot()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The result of checking a log when it was opened.

    Attributes:
        segments_scanned: number of segments of which all batches were checked.
        batches_checked: number of valid batches in these segments.
        truncated_bytes: bytes removed because of a bad batch, including those of later segments.
        first_bad_offset: offset of the bad batch, None if all batches were valid.
        reason: problem of the bad batch.
    """

    segments_scanned: int = 0
    batches_checked: int = 0
    truncated_bytes: int = 0
    first_bad_offset: Offset | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    """A loaded log. It ends at the end of its last segment.

    Every byte below `recovery_point` is on disk. `leader_epochs` and `producers` are the state at the end of the log.

    Source: LoadedLogOffsets
    """

    segments: LogSegments
    log_start_offset: Offset
    recovery_point: Offset
    leader_epochs: LeaderEpochCache
    producers: ProducerStateManager
    recovery: Recovery


def checked_from(bases: Sequence[Offset], recovery_point: Offset) -> Offset:
    """Return the base offset of the first segment to check if the clean-shutdown file is missing.

    That is the segment with the recovery point, even if the segment ends there (LogSegments.values).
    """
    below = [base for base in bases if base <= recovery_point]
    return below[-1] if below else 0


def _base_of(name: str) -> Offset:
    """Return the base offset in the name of a segment's file. Source: LogFileUtils.offsetFromFile"""
    return int(name.partition(".")[0])


class LogLoader:
    """The loader of one partition's log."""

    def __init__(
        self, directory: Path, config: TopicConfig, disk: Disk, now_us: int, producer_id_expiration_ms: int
    ) -> None:
        self._directory = directory
        self._config = config
        self._disk = disk
        self._now_us = now_us
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._leader_epochs = LeaderEpochCache(directory / LEADER_EPOCHS, sync=disk.sync)
        self._segments: list[Segment] = []
        self._scanned = 0
        self._checked = 0
        self._truncated = 0
        self._bad: tuple[Offset, str] | None = None
        self._has_markers = False
        self._lacks_aborted: list[Segment] = []
        """Checked segments with markers, whose transaction indexes have to be rebuilt."""

    def load(self, *, clean: bool, recovery_point: Offset, log_start_offset: Offset) -> LoadedLog:
        recovery = self._load_segments(clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset)
        segments = LogSegments(self._segments)
        start, end = max(log_start_offset, segments.bases[0]), segments.active.next_offset
        self._leader_epochs.truncate_from_end(end)
        self._leader_epochs.truncate_from_start(start)
        producers = load_producers(
            self._directory,
            segments,
            start,
            checkpointed_start=log_start_offset,
            recovered=recovery.segments_scanned > 0,
            sync=self._disk.sync,
            expiration_ms=self._producer_id_expiration_ms,
            now_ms=self._now_us // 1000,
        )
        if self._lacks_aborted:
            snapshot, state = producers.state_before(self._lacks_aborted[0].base_offset)
            rebuild_aborted(self._lacks_aborted, segments.scan(max(start, snapshot), end), state)
        return LoadedLog(
            segments=segments,
            log_start_offset=start,
            recovery_point=end if clean else min(recovery_point, end),
            leader_epochs=self._leader_epochs,
            producers=producers,
            recovery=recovery,
        )

    def _load_segments(self, *, clean: bool, recovery_point: Offset, log_start_offset: Offset) -> Recovery:
        """Open the segments, and check them where necessary. Create a segment if there is none."""
        unsound = self._open_segments()
        unflushed_from = checked_from([segment.base_offset for segment in self._segments], recovery_point)
        suspects = [
            segment
            for segment in self._segments
            if segment.base_offset in unsound or (not clean and segment.base_offset >= unflushed_from)
        ]
        for segment in suspects:
            # Differs from Kafka: if a segment without an index has a bad batch, Kafka truncates only this segment and
            # keeps the later ones (LogLoader.loadSegmentFiles).
            if not self._recover(segment):
                self._delete_after(segment)
                break
        if self._segments and self._segments[-1].next_offset < log_start_offset:
            # Files were lost, but not the checkpoint, so no remaining record may be read.
            self._delete_from(0)
            self._leader_epochs.clear()
        if not self._segments:
            self._segments = [Segment.create(self._directory, log_start_offset, self._disk, self._now_us)]
        first_bad_offset, reason = self._bad or (None, None)
        return Recovery(
            segments_scanned=self._scanned,
            batches_checked=self._checked,
            truncated_bytes=self._truncated,
            first_bad_offset=first_bad_offset,
            reason=reason,
        )

    def _open_segments(self) -> list[Offset]:
        """Open all segments, and return the base offsets of those with missing or implausible indexes."""
        self._finish_swap()
        names = sorted(entry.name for entry in os.scandir(self._directory))
        bases = [int(name.removesuffix(LOG_SUFFIX)) for name in names if name.endswith(LOG_SUFFIX)]
        for name in names:
            stem, dot, suffix = name.rpartition(".")
            orphaned = dot + suffix in FILE_SUFFIXES and f"{stem}{LOG_SUFFIX}" not in names
            if orphaned or suffix in ("tmp", DELETED_SUFFIX.removeprefix(".")):
                (self._directory / name).unlink()
        unsound = []
        for base_offset in bases:
            segment, sound = Segment.load(self._directory, base_offset, self._disk, self._now_us)
            self._segments.append(segment)
            if not sound:
                unsound.append(base_offset)
        return unsound

    def _finish_swap(self) -> None:
        """Finish an interrupted round of compaction: delete incomplete new segments, and swap in complete ones.

        Source: LogLoader.load, removeTempFilesAndCollectSwapFiles
        """
        names = sorted(entry.name for entry in os.scandir(self._directory))
        cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
        first_cleaned = min(map(_base_of, cleaned), default=None)
        swaps = []
        for name in names:
            # A new segment with some files named .cleaned is not swapped in, since all old segments still exist.
            is_swap = name.endswith(SWAP_SUFFIX)
            if name in cleaned or (is_swap and first_cleaned is not None and _base_of(name) >= first_cleaned):
                (self._directory / name).unlink()
            elif is_swap:
                swaps.append(name)
        bases: list[Offset] = []
        ends: list[Offset] = []
        for name in swaps:
            if name.endswith(f"{LOG_SUFFIX}{SWAP_SUFFIX}"):
                bases.append(_base_of(name))
                ends.append(Segment.end_of_file(self._directory / name, bases[-1]))
        for name in names:
            stem, _, kind = name.partition(".")
            is_of_segment = f".{kind}" in FILE_SUFFIXES and stem.isdecimal()
            if bases and is_of_segment and min(bases) <= int(stem) < max(ends):
                (self._directory / name).unlink()
        for name in swaps:
            (self._directory / name).rename(self._directory / name.removesuffix(SWAP_SUFFIX))

    def _recover(self, segment: Segment) -> bool:
        """Check every batch of a segment. Return False if the segment was truncated."""
        before = segment.size
        self._has_markers = False
        problem = segment.recover(self._note_batch, self._config.index_interval_bytes)
        self._scanned += 1
        if self._has_markers:
            self._lacks_aborted.append(segment)
        if problem is None:
            return True
        self._truncated += before - segment.size
        self._bad = (segment.next_offset, problem)
        return False

    def _note_batch(self, header: BatchHeader) -> None:
        self._checked += 1
        self._has_markers |= header.is_control
        latest = self._leader_epochs.latest_epoch
        if latest is None or header.leader_epoch > latest:
            self._leader_epochs.assign(header.leader_epoch, header.base_offset)

    def _delete_after(self, segment: Segment) -> None:
        self._delete_from(self._segments.index(segment) + 1)

    def _delete_from(self, index: int) -> None:
        for segment in self._segments[index:]:
            if segment in self._lacks_aborted:
                self._lacks_aborted.remove(segment)
            self._truncated += segment.size
            segment.close()
            segment.delete()
        del self._segments[index:]
