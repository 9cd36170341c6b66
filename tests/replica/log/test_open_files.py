"""Segment files are opened as they are needed, and at most the limit of them stay open."""

from __future__ import annotations

from pathlib import Path

import pytest
from replica_logs import batch_of, content_of

from replica.config import TopicConfig
from replica.ids import TopicPartition
from replica.log.files.disk import Disk
from replica.log.files.open_files import OPEN_FILES_MAX, OpenFiles
from replica.log.log import Log
from tests.descriptors import open_descriptors


def descriptors(root: Path) -> list[str]:
    """Files below `root` that this process has open."""
    return [what for what in open_descriptors().values() if what.startswith(str(root))]


def logs_of(root: Path, count: int, limit: int | None = None) -> list[Log]:
    disk = Disk(root)
    if limit is not None:
        disk.open_files = OpenFiles(limit)
    return [
        Log.open(root / f"t-{number}", TopicPartition("t", number), TopicConfig(), disk, clean=False)[0]
        for number in range(count)
    ]


pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")


def test_files_that_were_put_aside_are_opened_again(tmp_path: Path) -> None:
    logs = logs_of(tmp_path, 8, limit=3)
    assert len(descriptors(tmp_path)) == 3
    for turn in range(3):
        for number, log in enumerate(logs):
            log.append_as_leader(batch_of(b"%d of %d" % (turn, number)), 0, 0)
            assert len(descriptors(tmp_path)) == 3
    for number, log in enumerate(logs):
        assert [record.value for _, record in log.records()] == [b"%d of %d" % (turn, number) for turn in range(3)]
        log.flush()
        assert log.truncate_to(1) == 1
    assert len(descriptors(tmp_path)) == 3
    for log in logs:
        log.close()
    assert descriptors(tmp_path) == []


def test_what_is_to_be_sent_stays_open(tmp_path: Path) -> None:
    """Another file with the same descriptor would be sent instead."""
    first, *others = logs_of(tmp_path, 4, limit=2)
    first.append_as_leader(batch_of(b"sent later"), 0, 0)
    part = first.read(0, 1000, 1)
    before = content_of(part)
    for log in others:
        log.append_as_leader(batch_of(b"something else"), 0, 0)
    assert content_of(part) == before and b"sent later" in before
    assert len(descriptors(tmp_path)) == 3
    del part
    assert len(descriptors(tmp_path)) == 2
    for log in (first, *others):
        log.abandon()


def test_a_broker_s_directory_has_its_limit(tmp_path: Path) -> None:
    logs = logs_of(tmp_path, OPEN_FILES_MAX + 20)
    assert len(descriptors(tmp_path)) == OPEN_FILES_MAX
    for log in logs:
        log.abandon()
    assert descriptors(tmp_path) == []
