"""The checkpoints and other small files beside the logs, and how they are replaced in one step.

A new file is written completely under a temporary name, then renamed over the old file. So a reader gets either the old
or the new content, even after a power loss.

Source: Kafka CheckpointFile, OffsetCheckpointFile, CleanShutdownFileHandler, PartitionMetadataFile, MetaProperties
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from uuid import UUID

from replica.ids import BrokerEpoch, Offset, TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"

_VERSION = "0"


class CorruptCheckpoint(Exception):
    """The error for a checkpoint file with invalid content."""


def write_atomically(path: Path, content: bytes, *, sync: bool) -> None:
    """Replace a file in one step. With `sync`, flush the file and its directory entry to disk.

    Without `sync` the disk is simulated. Then nothing can interrupt a write, so the file is overwritten in place.
    """
    if not sync:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            # Truncate last: if a file is emptied first, ext4 writes it to disk immediately, which takes milliseconds.
            os.pwrite(fd, content, 0)
            os.ftruncate(fd, len(content))
        finally:
            os.close(fd)
        return
    temporary = f"{path}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        view = memoryview(content)
        while view:
            written = os.write(fd, view)
            view = view[written:]
        os.fsync(fd)
    finally:
        os.close(fd)
    Path(temporary).replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Flush the directory's entries: new, renamed and removed files."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_checkpoint(path: Path, entries: Iterable[tuple[object, ...]], *, sync: bool) -> None:
    """Write a checkpoint in Kafka's format: version 0, number of entries, one line per entry with spaces in between."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    write_atomically(path, "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode(), sync=sync)


def read_checkpoint(path: Path, fields: int) -> list[list[str]]:
    """Return the entries of a checkpoint, each split into `fields` words; [] if the file is missing or empty.

    A starting broker creates empty checkpoint files.

    Raises:
        CorruptCheckpoint: if the content is invalid.

    Source: CheckpointFile.read
    """
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path.name} is not a text file") from error
    if not lines:
        return []
    if len(lines) < 2 or lines[0] != _VERSION or lines[1] != str(len(lines) - 2):
        raise CorruptCheckpoint(
            f"{path.name}: expected version {_VERSION} and the number of entries, found {lines[:2]}"
        )
    # Neither epochs nor topic names contain spaces.
    entries = [line.split(" ") for line in lines[2:]]
    for number, entry in enumerate(entries, 3):
        if len(entry) != fields:
            raise CorruptCheckpoint(f"{path.name}, line {number}: expected {fields} fields, found {len(entry)}")
    return entries


def write_offsets(path: Path, offsets: Mapping[TopicPartition, Offset], *, sync: bool) -> None:
    """Write one line `topic partition offset` per partition, sorted by partition."""
    write_checkpoint(path, ((tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items())), sync=sync)


def read_offsets(path: Path) -> dict[TopicPartition, Offset]:
    """Return the offset of each partition; {} if the file is missing or invalid, so that logs recover from offset 0.

    Source: LogManager.loadLogs
    """
    try:
        entries = read_checkpoint(path, 3)
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in entries}
    except (CorruptCheckpoint, ValueError):
        return {}


def write_clean_shutdown(path: Path, broker_epoch: BrokerEpoch, *, sync: bool) -> None:
    """Write the clean-shutdown file, with the epoch of the broker that shuts down (KIP-966)."""
    write_atomically(path, json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode(), sync=sync)


def take_clean_shutdown(path: Path) -> BrokerEpoch | None:
    """Remove the clean-shutdown file and return its broker epoch, -1 if it has none; None without a file.

    The file is removed so that, if this start fails, the next start recovers the logs (LogManager.loadLogs).
    """
    try:
        content = path.read_text()
    except FileNotFoundError:
        return None
    path.unlink()
    try:
        return int(json.loads(content)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1


def write_properties(path: Path, properties: Mapping[str, object], *, sync: bool) -> None:
    """Write a Java properties file with `key=value` lines, in the order of the mapping."""
    write_atomically(path, "".join(f"{key}={value}\n" for key, value in properties.items()).encode(), sync=sync)


def read_properties(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def as_kafka_spells(uuid: UUID) -> str:
    """Return an id in URL-safe base64 without padding, as Kafka writes it. Source: Uuid.toString"""
    return base64.urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode()


def uuid_of(text: str) -> UUID:
    """Return the id that `as_kafka_spells` writes as `text`. Raises ValueError if `text` is no id."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def write_partition_metadata(path: Path, topic_id: UUID, *, sync: bool) -> None:
    write_atomically(path, f"version: 0\ntopic_id: {as_kafka_spells(topic_id)}\n".encode(), sync=sync)


def read_partition_metadata(path: Path) -> UUID | None:
    """Return the topic id in a partition.metadata file, None without a file. Raises CorruptCheckpoint."""
    try:
        lines = dict(line.split(": ", 1) for line in path.read_text().splitlines())
    except FileNotFoundError:
        return None
    except ValueError as strange:
        raise CorruptCheckpoint(f"{path.name}: expected `key: value` lines") from strange
    try:
        return uuid_of(lines["topic_id"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpoint(f"{path.name} has no valid topic_id") from error
