"""The tables of a reading, which are written to JSON and to Parquet with the same rows. None becomes null."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scenarios.logdirs.comparison import LogDifference, samples
from scenarios.logdirs.files import path_text
from scenarios.logdirs.reading import FollowerReading, PartitionReading, Reading
from scenarios.logdirs.replica_log import StoredReplica
from scenarios.logdirs.returning import old_formats, starting

Row = dict[str, Any]

_REPLICA = {"node": str, "topic": str, "partition": int}
_PAIR = {"topic": str, "partition": int, "leader": str, "replica": str}

COLUMNS: Mapping[str, Mapping[str, type]] = {
    "directories": {
        "node": str,
        "path": str,
        "cluster_id": str,
        "directory_id": str,
        "was_clean": bool,
        "locked": bool,
        "partitions": int,
        "left_out": str,
        "notes": str,
    },
    "replicas": {
        **_REPLICA,
        "topic_id": str,
        "is_leader": bool,
        "leader_is_assumed": bool,
        "is_live": bool,
        "log_start_offset": int,
        "log_end_offset": int,
        "log_end_on_start": int,
        "high_watermark": int,
        "recovery_point": int,
        "latest_epoch": int,
        "cleaned_to": int,
        "segments": int,
        "batches": int,
        "records": int,
        "size_bytes": int,
        "damages": int,
        "notes": str,
        "cut_on_start_bytes": int,
        "lost_on_start_records": int,
        "start": str,
        "old_formats": str,
    },
    "epochs": {**_REPLICA, "leader_epoch": int, "start_offset": int},
    "segments": {
        **_REPLICA,
        "base_offset": int,
        "end_offset": int,
        "size_bytes": int,
        "batches": int,
        "records": int,
        "damages": int,
    },
    "snapshots": {**_REPLICA, "offset": int, "producers": int},
    "damages": {
        **_REPLICA,
        "segment_base_offset": int,
        "position": int,
        "kind": str,
        "why": str,
        "cut_to": int,
        "unread_bytes": int,
    },
    "returns": {
        **_PAIR,
        "compared_from": int,
        "parts_at": int,
        "leader_epoch_there": int,
        "replica_epoch_there": int,
        "differences": int,
        "cut_to": int,
        "cut_offsets": int,
        "cut_below_high_watermark": int,
        "kept_apart": int,
        "gives_up": str,
        "steps": str,
    },
    "differences": {
        **_PAIR,
        "start_offset": int,
        "end_offset": int,
        "kind": str,
        "leader_records": int,
        "leader_first_epoch": int,
        "leader_last_epoch": int,
        "replica_records": int,
        "replica_first_epoch": int,
        "replica_last_epoch": int,
    },
    "samples": {**_PAIR, "node": str, "offset": int, "key": str, "value": str},
}
"""The tables and their columns. Any column may be null."""

BATCHES: Mapping[str, type] = {
    **_REPLICA,
    "segment_base_offset": int,
    "position": int,
    "base_offset": int,
    "last_offset": int,
    "leader_epoch": int,
    "size_bytes": int,
    "records": int,
    "crc": int,
    "codec": str,
    "base_timestamp_ms": int,
    "max_timestamp_ms": int,
    "producer_id": int,
    "producer_epoch": int,
    "base_sequence": int,
    "is_transactional": bool,
    "is_control": bool,
}
"""Columns of the table `batches`, which is written only to Parquet, since it may have millions of rows."""


def tables(reading: Reading) -> dict[str, list[Row]]:
    return {name: [_row(columns, row) for row in _ROWS[name](reading)] for name, columns in COLUMNS.items()}


def _row(columns: Mapping[str, type], values: Sequence[Any]) -> Row:
    return dict(zip(columns, values, strict=True))


def _directories(reading: Reading) -> Iterator[Sequence[Any]]:
    for directory in reading.directories:
        ids = (directory.node, path_text(directory.path), directory.cluster_id, directory.directory_id)
        yield (
            *ids,
            directory.was_clean,
            directory.locked,
            len(directory.partitions),
            ", ".join(directory.left_out) or None,
            "; ".join(directory.notes) or None,
        )


def _key(replica: StoredReplica) -> tuple[str, str, int]:
    return replica.node, replica.place.topic_partition.topic, replica.place.topic_partition.partition


def _every_replica(reading: Reading) -> Iterator[tuple[PartitionReading, StoredReplica]]:
    for partition in reading.partitions:
        for replica in partition.replicas:
            yield partition, replica


def _replicas(reading: Reading) -> Iterator[Sequence[Any]]:
    for partition, item in _every_replica(reading):
        is_leader = item is partition.leader
        offsets = (item.log_start_offset, item.log_end_offset, item.log_end_on_start, item.high_watermark)
        counts = (len(item.segments), item.batches, item.records, item.size, item.damage_count)
        notes = (*item.files.notes, *((item.moved,) if item.moved else ()))
        yield (
            *_key(item),
            item.files.topic_id,
            is_leader,
            partition.is_assumed,
            item.is_live,
            *offsets,
            item.recovery_point,
            item.latest_epoch,
            item.cleaned_to,
            *counts,
            "; ".join(notes) or None,
            item.start.cut_bytes,
            item.start.lost_records,
            None if item.is_live else "; ".join(starting(item)),
            old_formats(item),
        )


def _epochs(reading: Reading) -> Iterator[Sequence[Any]]:
    for _, item in _every_replica(reading):
        for epoch, start in item.files.leader_epochs or ():
            yield (*_key(item), epoch, start)


def _segments(reading: Reading) -> Iterator[Sequence[Any]]:
    for _, item in _every_replica(reading):
        for segment in item.segments:
            yield (
                *_key(item),
                segment.base_offset,
                segment.end_offset,
                segment.size,
                segment.batches,
                segment.records,
                segment.damages,
            )


def _snapshots(reading: Reading) -> Iterator[Sequence[Any]]:
    for _, item in _every_replica(reading):
        for snapshot in item.files.snapshots:
            yield (*_key(item), snapshot.offset, snapshot.producers)


def _damages(reading: Reading) -> Iterator[Sequence[Any]]:
    for _, item in _every_replica(reading):
        for damage in item.damages:
            where = (damage.file.base_offset, damage.position)
            yield (*_key(item), *where, damage.kind, damage.why, damage.cut_to, damage.rest)


def _pairs(reading: Reading) -> Iterator[tuple[tuple[str, int, str, str], FollowerReading]]:
    for partition in reading.partitions:
        name = partition.topic_partition
        for follower in partition.followers:
            yield (name.topic, name.partition, partition.leader.node, follower.replica.node), follower


def _returns(reading: Reading) -> Iterator[Sequence[Any]]:
    for key, item in _pairs(reading):
        parts = item.comparison.parts_at
        epochs = (None, None) if parts is None else (_ends(parts.leader.epochs)[0], _ends(parts.replica.epochs)[0])
        cut = (item.returns.log_end_offset, item.cut_offsets, item.cut_below_high_watermark, item.kept_apart)
        yield (
            *key,
            item.comparison.compared_from,
            None if parts is None else parts.start,
            *epochs,
            item.comparison.count,
            *cut,
            item.returns.gives_up,
            "; ".join(item.returns.steps) or None,
        )


def _ends(epochs: tuple[int, int] | None) -> tuple[int | None, int | None]:
    return (None, None) if epochs is None else epochs


def _every_difference(reading: Reading) -> Iterator[tuple[tuple[str, int, str, str], LogDifference]]:
    for key, follower in _pairs(reading):
        for difference in follower.comparison.differences:
            yield key, difference


def _differences(reading: Reading) -> Iterator[Sequence[Any]]:
    for key, item in _every_difference(reading):
        of_leader = (item.leader.records, *_ends(item.leader.epochs))
        of_replica = (item.replica.records, *_ends(item.replica.epochs))
        yield (*key, item.start, item.end, item.kind, *of_leader, *of_replica)


def _samples(reading: Reading) -> Iterator[Sequence[Any]]:
    for key, item in _every_difference(reading):
        for node, side in ((key[2], item.leader), (key[3], item.replica)):
            for sample in samples(item, side):
                yield (*key, node, *sample)


_ROWS = {
    "directories": _directories,
    "replicas": _replicas,
    "epochs": _epochs,
    "segments": _segments,
    "snapshots": _snapshots,
    "damages": _damages,
    "returns": _returns,
    "differences": _differences,
    "samples": _samples,
}
