"""What a start would do with a log, in sentences: what is checked, what is cut, and what is lost by that."""

from __future__ import annotations

from collections.abc import Iterator

from replica.wording import listed
from scenarios.logdirs.replica_log import StoredReplica


def starting(log: StoredReplica) -> Iterator[str]:
    start = log.start
    yield _checked(log)
    if start.fails is not None:
        yield f"the broker does not start: {start.fails}"
    elif start.unseen is not None:
        yield f"the index points at the torn batch, so it finds no record in segment {start.unseen}: LEO {start.end}"
        yield _lost(log)
    elif not start.cut_bytes:
        yield f"it cuts nothing: LEO {start.end}"
    else:
        later = f", with {_counted(start.deleted_segments, 'whole segment')}" if start.deleted_segments else ""
        yield f"it cuts {_counted(start.cut_bytes, 'byte')}{later}: LEO {start.end}"
        yield _lost(log)
    if start.staying:
        yield f"it does not look at {_counted(start.staying, 'damaged place')}: that damage stays"


def _checked(log: StoredReplica) -> str:
    start = log.start
    others = [base for base in start.without_index if start.checked_from is None or base < start.checked_from]
    missing = listed([str(base) for base in others])
    because = "which has no index" if len(others) == 1 else "which have no index"
    if start.checked_from is None:
        checks = f"checks only segment {missing}, {because}" if missing else "checks nothing"
        return f"it was stopped cleanly (.kafka_cleanshutdown), so a start {checks}"
    known = "no recovery point" if log.recovery_point is None else f"recovery point {log.recovery_point}"
    besides = f", and segment {missing}, {because}" if missing else ""
    return f"it was not stopped cleanly, {known}: a start checks from segment {start.checked_from} on{besides}"


def _lost(log: StoredReplica) -> str:
    start, end = log.start, log.log_end_offset
    torn = next((cut for cut in start.cuts if cut.kind == "torn"), None)
    if start.lost_records or start.end < end:
        offsets = f"offset {start.end}" if end == start.end + 1 else f"offsets {start.end} to {end - 1}"
        words = f"{_counted(start.lost_records, 'record')} {'is' if start.lost_records == 1 else 'are'} lost: {offsets}"
        below = max(0, min(log.high_watermark or 0, end) - start.end)
        return f"{words}, {below:,} of them below its HW" if below else words
    if all(cut.kind == "zeros" for cut in start.cuts):
        return "no record is lost: zeros hold none"
    committed = log.high_watermark or 0
    though = f", though its HW is {committed}" if committed > start.end else ""
    if torn is not None and torn.last_offset is not None:
        return f"lost is the batch up to offset {torn.last_offset}, which is not whole{though}"
    return f"what the bytes held cannot be said{though}"


def old_formats(log: StoredReplica) -> str | None:
    """The formats from before 0.11 that are in it, by name; None: there is none."""
    found = [
        f"message format {name}, not read: {_counted(count, 'message')}" for name, count in log.old_formats.items()
    ]
    return "; ".join(found) or None


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
