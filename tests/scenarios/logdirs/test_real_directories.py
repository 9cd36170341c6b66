"""Directories that brokers of Apache Kafka 3.9.1 and 4.1.0 have left: killed, and parted by an unclean election."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker_directories import read_all, real_directories
from stories import compare_with_golden

from replica.config import TopicConfig
from replica.ids import TopicPartition
from replica.log.files.disk import Disk
from replica.log.log import Log
from scenarios.cli.read.screen import reading_text
from scenarios.logdirs.reading import open_all
from scenarios.terminal.style import Style

T = TopicPartition("t", 0)


@pytest.mark.parametrize("version", ["3.9", "4.1"])
def test_the_screen(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    real_directories(version, tmp_path)
    monkeypatch.chdir(tmp_path)
    screen = reading_text(read_all(Path("b1"), Path("b2"), Path("b3")), Style(plain=True), "kafka-4.1", verbose=False)
    assert screen.isascii() and max(len(line) for line in screen.splitlines()) <= 80
    compare_with_golden(f"logdirs/read_kafka_{version}.txt", screen, request)


@pytest.mark.parametrize("version", ["3.9", "4.1"])
def test_every_batch_is_sound_and_every_codec_is_read(version: str, tmp_path: Path) -> None:
    brokers = real_directories(version, tmp_path)
    (partition,) = read_all(*brokers).partitions
    assert [(log.log_end_offset, log.records, log.damages) for log in partition.replicas] == [
        (47, 47, ()),
        (42, 42, ()),
        (35, 35, ()),
    ]
    disk = Disk(brokers[0], sync=False)
    log, recovery = Log.open(brokers[0] / str(T), T, TopicConfig(), disk, clean=False)
    words = [str(record.value, "ascii").split()[0] for _, record in log.records(0, 30) if record.value is not None]
    assert words[::6] == [f"s-{codec}-0" for codec in ("none", "gzip", "snappy", "lz4", "zstd")]
    assert (recovery.first_bad_offset, log.log_end_offset) == (None, 47)


@pytest.mark.parametrize("version", ["3.9", "4.1"])
def test_the_follower_would_cut_where_kafka_cut(version: str, tmp_path: Path) -> None:
    """Kafka's own b1 was started again beside b2, and did: "Truncating partition t-0 ... to offset 35"."""
    (partition,) = read_all(*real_directories(version, tmp_path)).partitions
    cuts = {one.replica.node: (one.returns.log_end_offset, one.cut_offsets) for one in partition.followers}
    assert cuts == {"1": (35, 12), "3": (35, 0)}


def test_an_empty_checkpoint_is_one_that_was_not_written_yet(tmp_path: Path) -> None:
    for directory in open_all(real_directories("4.1", tmp_path)):
        assert (directory.path / "recovery-point-offset-checkpoint").stat().st_size == 0
        assert directory.notes == ()
