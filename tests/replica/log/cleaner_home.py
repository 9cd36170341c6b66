"""Short ways to fill a compacted log and to clean it."""

from __future__ import annotations

from pathlib import Path

from replica_logs import LogHome

from replica.log.batches.records import build_batch
from replica.log.cleaner.cleanable import filthiest, log_to_clean
from replica.log.cleaner.cleaner import Cleaned, clean
from replica.log.log import Log

BUFFER_BYTES = 1 << 20
Pair = tuple[str, str | None]


def home(root: Path, **keys: object) -> LogHome:
    """Segments of one or two records of `put`, and every log with a dirty byte is due."""
    config = {"cleanup_policy": "compact", "segment_bytes": 1024, "min_cleanable_dirty_ratio": 0.0, **keys}
    return LogHome(root, **config)


def put(log: Log, *pairs: Pair, at_ms: int = 1000, size: int = 400, **header: object) -> int:
    """One batch of records, each value as long as `size` says; None is a tombstone. Returns its first offset."""
    records = [(key.encode(), None if value is None else value.encode().ljust(size, b".")) for key, value in pairs]
    batch = build_batch(records, timestamp_ms=at_ms, **header)  # type: ignore[arg-type]
    return log.append_as_leader(batch, 0, at_ms * 1000).first_offset


def roll(log: Log, at_ms: int = 1000) -> None:
    """What was put before is in segments that are not the active one."""
    put(log, ("filler", "x"), at_ms=at_ms, size=900)


def run(
    log: Log, cleaned_to: int | None = None, *, at_ms: int = 1000, buffer_bytes: int = BUFFER_BYTES
) -> Cleaned | None:
    """One round of cleaning with everything committed; None: nothing is dirty enough."""
    stable = log.last_stable_offset(log.log_end_offset)
    found = filthiest([log_to_clean(log, cleaned_to, stable, at_ms)])
    if found is None:
        return None
    cleaned = clean(found, buffer_bytes, at_ms * 1000)
    assert cleaned.problem is None
    return cleaned


def content(log: Log) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of the records, but for the fillers."""
    return [
        (record.offset, record.key.decode(), None if record.value is None else record.value.decode().rstrip("."))
        for header, record in log.records()
        if not header.is_control and record.key is not None and record.key != b"filler"
    ]


def reopened(log: Log, of: LogHome) -> Log:
    """After a kill: the process is gone, its files are as they were."""
    log.abandon()
    again, recovery = of.open(clean=False)
    assert recovery.truncated_bytes == 0
    return again
