"""Old segments go by time and by size: whole ones, from the oldest on, and nothing above the high watermark."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_logs import ORDERS, values_of

from replica.config import TopicConfig
from replica.log.batches.records import build_batch
from replica.log.files.disk import Disk
from replica.log.log import Log

BATCH_BYTES = 1000
NOW_US = 100_000_000


def log_of(root: Path, ages_s: list[int], **keys: object) -> Log:
    """A log with one record in each segment, written so many seconds ago at 100 s."""
    config = TopicConfig.from_mapping({"segment.bytes": 1024, **keys})
    log, _ = Log.open(root / "orders-0", ORDERS, config, Disk(root, sync=False), clean=True)
    for number, age_s in enumerate(ages_s):
        at_ms = (100 - age_s) * 1000
        value = b"r%d" % number + b"x" * 927
        log.append_as_leader(build_batch([(b"k", value)], timestamp_ms=at_ms), 0, at_ms * 1000)
    assert log.size_bytes == len(ages_s) * BATCH_BYTES
    return log


def offsets(log: Log) -> list[int]:
    return [offset for offset, _ in values_of(log)]


def files(log: Log, suffix: str) -> list[int]:
    return [int(path.name.partition(".")[0]) for path in sorted(log.directory.glob(f"*{suffix}"))]


@pytest.mark.parametrize(
    ("keys", "high_watermark", "kept"),
    [
        pytest.param({}, 5, [0, 1, 2, 3, 4], id="the default is a week"),
        pytest.param({"retention.ms": 30_000}, 5, [2, 3, 4], id="older than that"),
        pytest.param({"retention.ms": 50_000}, 5, [0, 1, 2, 3, 4], id="as old as that is not older"),
        pytest.param({"retention.ms": 30_000}, 1, [1, 2, 3, 4], id="not what is not committed"),
        pytest.param({"retention.ms": 0}, 5, [], id="a log may become empty"),
        pytest.param({"retention.ms": -1}, 5, [0, 1, 2, 3, 4], id="for ever"),
        pytest.param({"retention.bytes": 2000}, 5, [3, 4], id="what remains has the size"),
        pytest.param({"retention.bytes": 2001}, 5, [2, 3, 4], id="it never has less"),
        pytest.param({"retention.bytes": 0, "cleanup.policy": "compact"}, 5, [0, 1, 2, 3, 4], id="not if compacted"),
        pytest.param({"retention.bytes": 0, "cleanup.policy": "compact,delete"}, 5, [], id="unless both"),
    ],
)
def test_what_goes(tmp_path: Path, keys: dict[str, object], high_watermark: int, kept: list[int]) -> None:
    log = log_of(tmp_path, [50, 40, 30, 20, 10], **keys)
    log.retire_old_segments(high_watermark, NOW_US)
    assert offsets(log) == kept
    assert log.log_start_offset == (kept[0] if kept else 5)
    assert log.log_end_offset == 5


def test_an_old_segment_behind_a_young_one_stays(tmp_path: Path) -> None:
    """Records may be late: the order of the log counts, not that of their timestamps."""
    log = log_of(tmp_path, [50, 10, 40], **{"retention.ms": 30_000})
    log.retire_old_segments(3, NOW_US)
    assert offsets(log) == [1, 2]


def test_files_have_another_name_until_they_are_removed_and_a_restart_removes_them(tmp_path: Path) -> None:
    log = log_of(tmp_path, [50, 40, 10], **{"retention.ms": 30_000})
    (retired,) = log.retire_old_segments(3, NOW_US)
    assert (files(log, ".log"), files(log, ".log.deleted")) == ([2], [0, 1])
    retired.segments[0].remove()
    assert files(log, ".log.deleted") == [1]
    log.abandon()
    again, _ = Log.open(log.directory, ORDERS, log.config, Disk(tmp_path, sync=False), clean=False)
    assert (files(again, ".deleted"), offsets(again)) == ([], [2])
    again.abandon()


def test_segments_that_an_operator_has_emptied_go_whatever_the_policy(tmp_path: Path) -> None:
    log = log_of(tmp_path, [5, 4, 3, 2], **{"cleanup.policy": "compact"})
    log.set_log_start_offset(2)
    assert files(log, ".log") == [0, 1, 2, 3]
    (retired,) = log.retire_old_segments(4, NOW_US)
    assert (retired.cause, files(log, ".log")) == (None, [2, 3])
    assert log.retire_old_segments(4, NOW_US) == []


@settings(deadline=None, max_examples=40)
@given(
    ages_s=st.lists(st.integers(0, 60), min_size=1, max_size=8),
    retention_s=st.none() | st.integers(0, 60),
    retention_bytes=st.none() | st.integers(0, 8 * BATCH_BYTES),
    committed=st.integers(0, 8),
)
def test_the_start_is_where_size_and_time_leave_it(
    tmp_path_factory: pytest.TempPathFactory,
    ages_s: list[int],
    retention_s: int | None,
    retention_bytes: int | None,
    committed: int,
) -> None:
    high_watermark, start = min(committed, len(ages_s)), 0
    if retention_bytes is not None:
        start = min(high_watermark, max(0, len(ages_s) * BATCH_BYTES - retention_bytes) // BATCH_BYTES)
    while retention_s is not None and start < high_watermark and ages_s[start] > retention_s:
        start += 1
    keys = {
        "retention.ms": -1 if retention_s is None else retention_s * 1000,
        "retention.bytes": -1 if retention_bytes is None else retention_bytes,
    }
    log = log_of(tmp_path_factory.mktemp("log"), ages_s, **keys)
    log.retire_old_segments(high_watermark, NOW_US)
    assert (log.log_start_offset, log.log_end_offset) == (start, len(ages_s))
    assert offsets(log) == list(range(start, len(ages_s)))
    log.abandon()
