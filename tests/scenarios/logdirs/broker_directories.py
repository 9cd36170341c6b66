"""Short ways to make the log directories of brokers, with Highwater's own log, and to damage them."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from replica.config import TopicConfig
from replica.ids import TopicPartition
from replica.log.batches.records import build_batch, stamp
from replica.log.files.disk import Disk
from replica.log.manager import LogManager
from replica.rules import PROFILES
from scenarios.logdirs.reading import Reading, open_all, read

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7)
GOLDEN = Path(__file__).parents[2] / "golden" / "logdirs"


def broker_directory(
    root: Path,
    node: int,
    epochs: Sequence[int],
    *,
    names: str = "r",
    hw: int = 0,
    clean: bool = False,
    segment_bytes: int = 1 << 20,
    recovery_point: bool = False,
) -> Path:
    """A broker's directory with one record in a batch of its own for each epoch; `names` are the values' first letters.

    recovery_point: all is flushed and the checkpoint says so
    """
    directory = root / f"b{node}"
    config = TopicConfig(segment_bytes=segment_bytes)
    manager = LogManager.open(directory, Disk(directory, sync=False), node, config)
    log = manager.create(ORDERS, config, TOPIC_ID)
    for offset, epoch in enumerate(epochs):
        value = f"{names[min(offset, len(names) - 1)]}{offset}".encode()
        batch = build_batch([(b"k", value)], timestamp_ms=1_000 + offset)
        stamp(batch, 0, offset, epoch)
        log.append_as_follower(batch, 0)
    manager.checkpoint_high_watermarks({ORDERS: hw})
    if recovery_point:
        log.flush()
        manager.checkpoint_recovery_points()
    if clean:
        manager.close_clean(1, {ORDERS: hw})
    else:
        manager.abandon()
    return directory


def read_all(*directories: Path, leader: str | None = None, profile: str = "kafka-4.1") -> Reading:
    return read(open_all(directories), topics=(), leader=leader, rules=PROFILES[profile])


def segment_of(directory: Path, base_offset: int = 0) -> Path:
    return directory / str(ORDERS) / f"{base_offset:020d}.log"


def change_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def real_directories(version: str, into: Path) -> list[Path]:
    """Of three brokers of Apache Kafka: b2 and b3 were killed, then b1 with what only it had, and b2 was elected
    uncleanly and killed as well."""
    with tarfile.open(GOLDEN / f"kafka-{version}-diverged.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return [into / name for name in ("b1", "b2", "b3")]
