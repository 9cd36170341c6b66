"""The small files beside the logs: each is written whole, to a temporary name, and renamed over the old one.

So a reader finds the old content or the new, never a mixture, and a power loss cannot take them back.
Source: Kafka CheckpointFile, OffsetCheckpointFile, CleanShutdownFileHandler, PartitionMetadataFile, MetaProperties.
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
    """A checkpoint file that does not say what it should."""


def write_atomically(path: Path, content: bytes, *, sync: bool) -> None:
    """Replace a file by another in one step; with `sync` it and its directory entry are on disk afterwards.

    Without `sync` the disk is a simulated one: nothing can happen between two steps of a write, so it is made in place.
    """
    if not sync:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            # Cut to length last: ext4 writes a file that was emptied first back at once, which takes milliseconds.
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
    """Make the directory's entries durable: new, renamed and removed files."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_checkpoint(path: Path, entries: Iterable[tuple[object, ...]], *, sync: bool) -> None:
    """Kafka's text format: version 0, number of entries, one entry per line with its fields separated by spaces."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    write_atomically(path, "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode(), sync=sync)


def read_checkpoint(path: Path, fields: int) -> list[list[str]]:
    """The entries of a checkpoint, each split into `fields` words; [] when there is no file, or an empty one, as a
    starting broker leaves it until it first writes it.

    raises: CorruptCheckpoint         source: CheckpointFile.read
    """
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path.name}: not text") from error
    if not lines:
        return []
    if len(lines) < 2 or lines[0] != _VERSION or lines[1] != str(len(lines) - 2):
        raise CorruptCheckpoint(
            f"{path.name}: expected version {_VERSION} and the number of entries, found {lines[:2]}"
        )
    # Neither epochs nor topic names contain spaces.
    entries = [line.split(" ") for line in lines[2:]]
    if any(len(entry) != fields for entry in entries):
        raise CorruptCheckpoint(f"{path.name}: expected {fields} fields in every line")
    return entries


def write_offsets(path: Path, offsets: Mapping[TopicPartition, Offset], *, sync: bool) -> None:
    """`topic partition offset` per line, in order of partition."""
    write_checkpoint(path, ((tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items())), sync=sync)


def read_offsets(path: Path) -> dict[TopicPartition, Offset]:
    """{} when the file is missing or unreadable: Kafka then recovers from offset 0 (LogManager.loadLogs)."""
    try:
        entries = read_checkpoint(path, 3)
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in entries}
    except (CorruptCheckpoint, ValueError):
        return {}


def write_clean_shutdown(path: Path, broker_epoch: BrokerEpoch, *, sync: bool) -> None:
    """KIP-966: the marker also says in which registration the broker stopped in order."""
    write_atomically(path, json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode(), sync=sync)


def take_clean_shutdown(path: Path) -> BrokerEpoch | None:
    """The broker epoch of the orderly shutdown, -1 when the marker does not say; None without a marker.

    The marker is gone afterwards: if this start dies half-way, the next one must recover (LogManager.loadLogs).
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
    """Java's `key=value` lines, in the given order."""
    write_atomically(path, "".join(f"{key}={value}\n" for key, value in properties.items()).encode(), sync=sync)


def read_properties(path: Path) -> dict[str, str]:
    """{} when there is no file."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def as_kafka_spells(uuid: UUID) -> str:
    """URL-safe base64 without padding, as Kafka has it in files and prints it. source: Uuid.toString"""
    return base64.urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode()


def write_partition_metadata(path: Path, topic_id: UUID, *, sync: bool) -> None:
    write_atomically(path, f"version: 0\ntopic_id: {as_kafka_spells(topic_id)}\n".encode(), sync=sync)


def read_partition_metadata(path: Path) -> UUID | None:
    """None when there is no file. raises: CorruptCheckpoint"""
    try:
        lines = dict(line.split(": ", 1) for line in path.read_text().splitlines())
    except FileNotFoundError:
        return None
    except ValueError as strange:
        raise CorruptCheckpoint(f"{path.name}: expected `key: value` lines") from strange
    try:
        return UUID(bytes=base64.urlsafe_b64decode(lines["topic_id"] + "=="))
    except (KeyError, ValueError) as error:
        raise CorruptCheckpoint(f"{path.name}: no topic id") from error
