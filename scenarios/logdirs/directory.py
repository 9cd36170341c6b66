"""Reads the files in a broker's log directory except the segments: owner, checkpoints, and the files of partitions.

The sizes of all segments are read after the checkpoints. Data that a running broker appends later is ignored.

Source: Kafka LogManager, MetaPropertiesEnsemble, OffsetCheckpointFile, PartitionMetadataFile
"""

from __future__ import annotations

import os
import re
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from replica.ids import LeaderEpoch, Offset, TopicPartition
from replica.log.files.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    as_kafka_spells,
    read_checkpoint,
    read_partition_metadata,
    read_properties,
)
from replica.log.files.disk import LOG_SUFFIX, partition_of
from replica.log.producers.producer_snapshots import SNAPSHOT_SUFFIX, read_snapshot
from scenarios.logdirs.files import LogDirectoryUnreadable, is_there, name_text, open_to_read, readable

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LOCK = ".lock"
OFFSET_MAX = 2**63 - 1

_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_SEGMENT = re.compile(r"\d{20}\.log", re.ASCII)
_SNAPSHOT = re.compile(r"\d{20}\.snapshot", re.ASCII)
_FIX = "name a log directory of each broker (log.dirs), which has meta.properties in it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """A segment file. `size` is its size in bytes when the directory was opened."""

    path: Path
    base_offset: Offset
    size: int
    index: Path | None
    """File of the offset index, None if it is missing. The broker then checks the segment at its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSnapshot:
    """A snapshot of producer states. `producers` is their number, None if the file is damaged."""

    offset: Offset
    producers: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """The files in the folder of one partition.

    Attributes:
        topic_id: topic id in Kafka's base64 form, None if partition.metadata is missing or damaged.
        leader_epochs: entries of the leader-epoch-checkpoint, None if the file is missing or damaged.
        notes: sentences about anomalies.
    """

    path: Path
    topic_id: str | None
    leader_epochs: tuple[tuple[LeaderEpoch, Offset], ...] | None
    segments: tuple[SegmentFile, ...]
    snapshots: tuple[ProducerSnapshot, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """A log directory of a broker.

    Attributes:
        node: `node.id` or `broker.id` in meta.properties, otherwise the name of the folder.
        was_clean: True if the marker file of a clean shutdown exists.
        locked: True if a broker holds the lock on `.lock`.
        cleaned_to: offsets below which the log cleaner has compacted.
        left_out: folders that are not partitions, such as those of deleted partitions.
        notes: sentences about anomalies.
    """

    path: Path
    node: str
    cluster_id: str | None
    directory_id: str | None
    was_clean: bool
    locked: bool
    high_watermarks: Mapping[TopicPartition, Offset]
    recovery_points: Mapping[TopicPartition, Offset]
    log_start_offsets: Mapping[TopicPartition, Offset]
    cleaned_to: Mapping[TopicPartition, Offset]
    partitions: Mapping[TopicPartition, PartitionFiles]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


def open_directory(path: Path) -> LogDirectory:
    """Read the checkpoints and list the files of a log directory. Raises LogDirectoryUnreadable."""
    notes: list[str] = []
    names = _names_in(path)
    properties = _properties(path / META_PROPERTIES, notes)
    offsets = {
        name: _offsets(path / name, notes)
        for name in (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_START_OFFSETS, CLEANER_OFFSETS)
    }
    folders = {name: _partition_named(path / name) for name in names if stat.S_ISDIR(_mode(path / name))}
    known = {partition: path / name for name, partition in folders.items() if partition is not None}
    if not properties and not (known and any(offsets.values())):
        raise LogDirectoryUnreadable(path, "it is not a log directory of a Kafka broker" + _inside(path, names), _FIX)
    node = properties.get("node.id", properties.get("broker.id", ""))
    if not re.fullmatch(r"\d{1,10}", node, re.ASCII):
        node = name_text(path.resolve().name) or "/"
        notes.append(f"{META_PROPERTIES} has no node.id, so the folder's name stands for the broker")
    return LogDirectory(
        path=path,
        node=node,
        cluster_id=_shown_or_none(properties.get("cluster.id")),
        directory_id=_shown_or_none(properties.get("directory.id")),
        was_clean=is_there(path / CLEAN_SHUTDOWN),
        locked=_is_locked(path / LOCK),
        high_watermarks=offsets[HIGH_WATERMARKS],
        recovery_points=offsets[RECOVERY_POINTS],
        log_start_offsets=offsets[LOG_START_OFFSETS],
        cleaned_to=offsets[CLEANER_OFFSETS],
        partitions={partition: _partition_files(folder) for partition, folder in sorted(known.items())},
        left_out=tuple(name_text(name) for name, partition in folders.items() if partition is None),
        notes=tuple(notes),
    )


def _shown_or_none(text: str | None) -> str | None:
    return None if text is None else name_text(text)


def _names_in(path: Path) -> list[str]:
    try:
        with readable(path):
            return sorted(entry.name for entry in path.iterdir())
    except FileNotFoundError:
        raise LogDirectoryUnreadable(path, "there is no such directory", _FIX) from None


def _inside(path: Path, names: list[str]) -> str:
    """Return a hint for an error message if subfolders are log directories, as in a run's `logs`, otherwise ""."""
    inside = [name for name in names[:100] if _is_readable(path / name / META_PROPERTIES)]
    return f"; log directories in it: {', '.join(name_text(name) for name in inside[:5])}" if inside else ""


def _is_readable(path: Path) -> bool:
    try:
        return is_there(path)
    except LogDirectoryUnreadable:
        return False


def _mode(path: Path) -> int:
    """Return the mode of a file without following links, 0 if there is no file. Raises LogDirectoryUnreadable."""
    try:
        with readable(path):
            return path.lstat().st_mode
    except FileNotFoundError:
        return 0


def _partition_named(path: Path) -> TopicPartition | None:
    """Return the partition that a folder is named after, None if it is no partition's name, as after a deletion."""
    if not path.name.isascii() or len(path.name) > 260:
        return None
    found = partition_of(path)
    legal = found is not None and _LEGAL_TOPIC.fullmatch(found.topic) and found.partition < 2**31
    return found if legal else None


def _properties(path: Path, notes: list[str]) -> dict[str, str]:
    if not is_there(path):
        return {}
    try:
        with readable(path):
            return read_properties(path)
    except UnicodeDecodeError:
        notes.append(f"{path.name} is damaged: it is not text")
        return {}


def _offsets(path: Path, notes: list[str]) -> dict[TopicPartition, Offset]:
    """Return the offsets in a checkpoint file, {} if it is missing or (with a note) if it is damaged."""
    if not is_there(path):
        return {}
    try:
        with readable(path):
            entries = read_checkpoint(path, 3)
        found = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in entries}
        if not all(0 <= offset <= OFFSET_MAX for offset in found.values()):
            raise CorruptCheckpoint(f"{path.name} has an offset out of range")
    except (CorruptCheckpoint, ValueError) as error:
        notes.append(f"{name_text(str(error))}: the file is damaged and not used")
        return {}
    return found


# ------------------------------------------------------------------------------------------------------- a partition


def _partition_files(path: Path) -> PartitionFiles:
    notes: list[str] = []
    names = _names_in(path)
    return PartitionFiles(
        path=path,
        topic_id=_topic_id(path / PARTITION_METADATA, notes),
        leader_epochs=_leader_epochs(path / LEADER_EPOCHS, notes),
        segments=tuple(_segments(path, names, notes)),
        snapshots=tuple(_snapshots(path, names)),
        notes=tuple(notes),
    )


def _segments(path: Path, names: list[str], notes: list[str]) -> Iterator[SegmentFile]:
    for name in names:
        if not name.endswith(LOG_SUFFIX):
            continue
        base_offset = int(name.removesuffix(LOG_SUFFIX)) if _SEGMENT.fullmatch(name) else OFFSET_MAX + 1
        file = path / name
        try:
            with readable(file):
                found = file.lstat()
        except FileNotFoundError:
            continue  # A running broker has deleted the file.
        if base_offset > OFFSET_MAX or not stat.S_ISREG(found.st_mode):
            notes.append(f"{name_text(name)} is not a segment and is not read")
            continue
        index = f"{name.removesuffix(LOG_SUFFIX)}.index"
        folder = path / index if index in names else None
        yield SegmentFile(path=file, base_offset=base_offset, size=found.st_size, index=folder)


def _topic_id(path: Path, notes: list[str]) -> str | None:
    if not is_there(path):
        notes.append(f"{PARTITION_METADATA} is missing")
        return None
    try:
        with readable(path):
            found = read_partition_metadata(path)
    except (CorruptCheckpoint, UnicodeDecodeError):
        notes.append(f"{PARTITION_METADATA} is damaged")
        return None
    return None if found is None else as_kafka_spells(found)


def _leader_epochs(path: Path, notes: list[str]) -> tuple[tuple[LeaderEpoch, Offset], ...] | None:
    if not is_there(path):
        notes.append(f"{LEADER_EPOCHS} is missing")
        return None
    try:
        with readable(path):
            entries = tuple((int(epoch), int(start)) for epoch, start in read_checkpoint(path, 2))
    except (CorruptCheckpoint, ValueError):
        entries = ((-1, -1),)
    rising = all(item[0] < two[0] and item[1] <= two[1] for item, two in pairwise(entries))
    if not rising or not all(0 <= epoch < 2**31 and 0 <= start <= OFFSET_MAX for epoch, start in entries):
        notes.append(f"{LEADER_EPOCHS} is damaged")
        return None
    return entries


def _snapshots(path: Path, names: list[str]) -> Iterator[ProducerSnapshot]:
    for name in names:
        file = path / name
        if _SNAPSHOT.fullmatch(name) and is_there(file):
            offset = min(int(name.removesuffix(SNAPSHOT_SUFFIX)), OFFSET_MAX)
            try:
                with readable(file):
                    producers = read_snapshot(file)
            except FileNotFoundError:
                continue
            except struct.error:
                producers = None
            yield ProducerSnapshot(offset=offset, producers=None if producers is None else len(producers))


# ------------------------------------------------------------------------------------------------------------ in use


def _is_locked(path: Path) -> bool:
    """Return True if another process holds Kafka's lock on the directory, without acquiring the lock."""
    if sys.platform != "linux" or not is_there(path):
        return False
    import fcntl

    fd = open_to_read(path)
    try:
        question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        (kind,) = struct.unpack_from("h", fcntl.fcntl(fd, fcntl.F_GETLK, question))
    except OSError:
        return False  # The file system has no locks.
    finally:
        os.close(fd)
    return bool(kind != fcntl.F_UNLCK)
