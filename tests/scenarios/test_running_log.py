"""The log of a broker that runs: read as it lies on the disk."""

from __future__ import annotations

from pathlib import Path

from replica.config import TopicConfig
from replica.ids import TopicPartition
from replica.log.batches.records import build_batch, check_crc
from replica.log.files.disk import Disk
from replica.log.log import Log
from scenarios.run.running_log import RunningLog

T0 = TopicPartition("t", 0)
RECORD_BYTES, ONE_BATCH = 700, 800


def log_of(disk: Disk, config: TopicConfig, records: int) -> Log:
    log, _ = Log.open(disk.root / str(T0), T0, config, disk, clean=True)
    for _ in range(records):
        log.append_as_leader(build_batch([(None, bytes(RECORD_BYTES))], timestamp_ms=1), 0, 0)
    return log


def test_it_goes_on_behind_a_damaged_batch_where_a_start_would_cut_it(tmp_path: Path) -> None:
    disk = Disk(tmp_path, sync=False)
    log = log_of(disk, TopicConfig(), 10)
    disk.flip_bit(T0, 5)
    found = RunningLog(disk.root / str(T0), 0)
    assert (found.log_start_offset, found.log_end_offset) == (0, 10)
    sound = [header.base_offset for header, batch in found.raw_batches() if check_crc(batch, 0, header)]
    assert sound == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    log.abandon()
    assert Log.open(disk.root / str(T0), T0, TopicConfig(), disk, clean=False)[0].log_end_offset == 5


def test_it_begins_where_its_broker_says_and_ends_with_a_segment_that_is_empty_yet(tmp_path: Path) -> None:
    disk = Disk(tmp_path, sync=False)
    log_of(disk, TopicConfig(segment_bytes=ONE_BATCH), 4).abandon()
    directory = disk.root / str(T0)
    (directory / f"{6:020d}.log").touch()  # Compaction has taken offsets 4 and 5, and the log was rolled after them.
    found = RunningLog(directory, 2)
    assert (found.log_start_offset, found.log_end_offset) == (2, 6)
    assert [header.base_offset for header, _ in found.raw_batches()] == [2, 3]
