"""What a log's batches say of its producers, read again: when it is opened, and after a cut.

Source: Kafka LogLoader.load, UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from pathlib import Path

from replica.ids import Offset
from replica.log.batches.control_records import read_end_transaction_marker
from replica.log.batches.records import CONTROL
from replica.log.producers.producer_state import ProducerStateManager
from replica.log.segments import LogSegments


def load_producers(
    directory: Path,
    segments: LogSegments,
    log_start_offset: Offset,
    *,
    recovered: bool,
    sync: bool,
    expiration_ms: int,
    now_ms: int,
) -> ProducerStateManager:
    """The state at the end of a log that is opened. recovered: segments of it were checked"""
    log_end_offset = segments.active.next_offset
    producers = ProducerStateManager(directory, sync=sync, expiration_ms=expiration_ms)
    producers.keep_snapshots_of(segments.bases, and_newest=not recovered)
    rebuild_producers(producers, segments, log_start_offset, log_end_offset, now_ms)
    if recovered:
        # Checking leaves a snapshot at the end, and the state is loaded from it (LogLoader.recoverSegment): as after an
        # orderly stop only the last batch of each producer is known.
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
    """Bring the state to the log end offset, from the latest snapshot below it and the batches after.

    It leaves snapshots there and at the start of the last two segments.    source: UnifiedLog.rebuildProducerState
    Simplified: without a snapshot the whole log is read, also after a shutdown in order (Kafka: an upgrade).
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
