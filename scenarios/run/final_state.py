"""Emits the final content of the disks when a run ends: all records of all replicas, and the end of each log."""

from __future__ import annotations

import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cluster.broker.replicas.partition import keys_appended
from cluster.client.events import record_name
from replica.config import TopicConfig
from replica.errors import KafkaError
from replica.ids import INTERNAL_TOPICS, UNDEFINED_EPOCH, TopicPartition
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import BatchHeader, as_sent, check_crc, read_records
from replica.log.files.checkpoints import HIGH_WATERMARKS, read_offsets
from replica.log.files.disk import Disk
from replica.log.log import Log
from replica.trace.events import AbortedBatchFound, LogEntriesFound, OpenBatchFound, ReplicaFound
from scenarios.observe.columns.names import Integers, LazyNames, NameIndex, PlaceRuns
from scenarios.observe.sent_batches import SentBatches
from scenarios.run.cluster_under_test import ClusterUnderTest, Machine

if TYPE_CHECKING:
    from scenarios.run.running_log import RunningLog

    StoredLog = Log | RunningLog

# ---------------------------------------------------------------------------------------------- transactions at the end
#
# Finds the aborted and open transactions of a log, whose records are hidden from read_committed consumers.


class TransactionalBatch(NamedTuple):
    """A batch of a transaction. `last_offset` is the offset of its last record (inclusive)."""

    producer_id: int
    base_offset: int
    last_offset: int


class Uncommitted(NamedTuple):
    """The batches of a log whose transactions are aborted or still open.

    Attributes:
        aborted: batches of aborted transactions, in the order of their markers.
        open: batches of transactions without a marker in this log, in the order of their offsets.
    """

    aborted: list[TransactionalBatch]
    open: list[TransactionalBatch]


def uncommitted_batches(batches: Iterable[tuple[BatchHeader, bytes]]) -> Uncommitted:
    """Return the batches of aborted and open transactions of a log.

    A transaction without a marker in this log counts as open, even if its coordinator has decided it.

    Args:
        batches: headers and bytes of all batches of the log, in order of offsets.
    """
    undecided: dict[int, list[TransactionalBatch]] = {}
    aborted: list[TransactionalBatch] = []
    for header, batch in batches:
        if not header.is_transactional:
            continue
        if not header.is_control:
            found = TransactionalBatch(header.producer_id, header.base_offset, header.last_offset)
            undecided.setdefault(header.producer_id, []).append(found)
            continue
        try:
            marker = read_end_transaction_marker(batch)
        except KafkaError:  # The marker is damaged.
            continue
        ended = undecided.pop(header.producer_id, [])
        if marker is not None and marker.control_type is ControlRecordType.ABORT:
            aborted += ended
    remaining = [batch for batches_of_one in undecided.values() for batch in batches_of_one]
    return Uncommitted(aborted, sorted(remaining, key=lambda batch: batch.base_offset))


FindPlaces = Callable[[TopicPartition, int, int], "Integers | None"]
"""A function that returns the name indexes of a batch's records (NameIndex) by partition, base offset and CRC.

The result is empty if the sender of the batch is unknown, and None if the batch's records are not reported one by one.
"""


class Naming(NamedTuple):
    """The source of the names of records in logs.

    Attributes:
        sent: batches that producers sent, with the names of their records.
        find_places: returns the name indexes of a batch.
    """

    sent: SentBatches
    find_places: FindPlaces


def state_final_logs(cluster: ClusterUnderTest, naming: Naming) -> None:
    """Emit LogEntriesFound and ReplicaFound for every replica, in order of partitions and brokers."""
    brokers = cluster.brokers()
    for topic_partition in sorted(cluster.view.partitions):
        for name in cluster.view.partitions[topic_partition].assigned:
            if name in brokers:
                partition = brokers[name].replicas.partitions.get(topic_partition)
                if partition is not None:
                    _state_replica(cluster, naming, topic_partition, name, partition.log, partition.high_watermark)
                # The replica is on disk, but the broker has no order to host it.
                elif topic_partition in brokers[name].logs.logs:
                    logs = brokers[name].logs
                    checkpointed = logs.high_watermark_checkpoint(topic_partition)
                    _state_replica(cluster, naming, topic_partition, name, logs.logs[topic_partition], checkpointed)
            elif name in cluster.machines:  # Otherwise a client has registered as a broker, and has no disk here.
                _state_stopped(cluster, naming, topic_partition, name, cluster.machines[name])


def _state_stopped(
    cluster: ClusterUnderTest,
    naming: Naming,
    topic_partition: TopicPartition,
    name: str,
    machine: Machine,
) -> None:
    with log_on_disk(cluster, topic_partition, name, machine) as found:
        if found is not None:
            _state_replica(cluster, naming, topic_partition, name, *found)


@contextmanager
def log_on_disk(
    cluster: ClusterUnderTest, topic_partition: TopicPartition, name: str, machine: Machine
) -> Iterator[tuple[StoredLog, int] | None]:
    """Provide a replica's log and high watermark if its broker is stopped or in a separate process; None without a log.

    The log of a stopped broker is recovered as at its next start, but in a copy, which leaves its disk unchanged.
    """
    disk = next((disk for disk in machine.disks.values() if (disk.root / str(topic_partition)).is_dir()), None)
    if disk is None or disk.broken:
        yield None
        return
    directory = disk.root / str(topic_partition)
    if cluster.running(name):  # The broker's separate process is halted.
        from scenarios.run.running_log import RunningLog

        replica = cluster.view.partitions[topic_partition].replica(name)
        running = RunningLog(directory, replica.log_start_offset)
        yield running, min(replica.high_watermark, running.log_end_offset)
        return
    with tempfile.TemporaryDirectory(prefix="highwater-") as scratch:
        copy = Path(scratch) / str(topic_partition)
        shutil.copytree(directory, copy)
        log, _ = Log.open(copy, topic_partition, TopicConfig(), Disk(Path(scratch), sync=False), clean=False)
        high_watermark = read_offsets(disk.root / HIGH_WATERMARKS).get(topic_partition, 0)
        yield log, min(high_watermark, log.log_end_offset)
        log.abandon()


def _entries(
    header: BatchHeader, batch: bytearray | bytes | memoryview, indexes: Integers, names: NameIndex
) -> tuple[Sequence[int], Integers]:
    """Return the offsets of a batch's records and the name indexes of these records.

    Records without known names are named by their values. An unreadable batch that claims more records than it can hold
    counts as one record.

    Args:
        indexes: name indexes of the batch as it was sent, empty if its sender is unknown.
    """
    if len(indexes) == header.record_count:
        return range(header.base_offset, header.base_offset + len(indexes)), indexes
    try:
        records = read_records(batch)
        offsets: Sequence[int] = [record.offset for record in records]
        if len(indexes) == header.last_offset_delta + 1:  # Compaction has removed some records.
            return offsets, indexes[np.array(offsets, np.int64) - header.base_offset]
        return offsets, names.places_or_add(list(map(record_name, records)))
    except KafkaError:  # The codec of the batch is not installed.
        from cluster.live.record_names import is_believable

        count = header.record_count if is_believable(header) else 1
        offsets = range(header.base_offset, header.base_offset + count)
        return offsets, names.places_or_add([f"?{offset}" for offset in offsets])


def _stretches(offsets: Sequence[int], start: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of consecutive offsets as pairs (begin, end) of indexes in `offsets`; `end` is exclusive.

    Args:
        offsets: sorted offsets.
        start: the log start offset. Earlier offsets are left out.
    """
    begin = bisect_left(offsets, start)
    gaps = () if isinstance(offsets, range) else range(begin + 1, len(offsets))
    breaks = [at for at in gaps if offsets[at] != offsets[at - 1] + 1]
    return pairwise((begin, *breaks, len(offsets)))


def _state_uncommitted(
    cluster: ClusterUnderTest, topic_partition: TopicPartition, name: str, found: Uncommitted
) -> None:
    kinds: tuple[tuple[type[AbortedBatchFound] | type[OpenBatchFound], Sequence[TransactionalBatch]], ...] = (
        (AbortedBatchFound, found.aborted),
        (OpenBatchFound, found.open),
    )
    for kind, batches in kinds:
        for batch in batches:
            cluster.trace.emit(
                kind(
                    name,
                    *topic_partition,
                    producer_id=batch.producer_id,
                    base_offset=batch.base_offset,
                    last_offset=batch.last_offset,
                )
            )


def _state_replica(
    cluster: ClusterUnderTest,
    naming: Naming,
    topic_partition: TopicPartition,
    name: str,
    log: StoredLog,
    high_watermark: int,
) -> None:
    view, trace, names = cluster.view, cluster.trace, naming.sent.names
    replica = (name, *topic_partition)
    running = cluster.running(name)
    # Records of the offsets topic have no names and are not judged, since no client has sent them.
    batches = () if topic_partition.topic in INTERNAL_TOPICS else log.raw_batches()
    compacted = naming.sent.compacted
    has_transactions, last_epoch = False, UNDEFINED_EPOCH
    for header, batch in batches:
        if not check_crc(batch, 0, header):
            continue  # The replica cannot be read now, so it counts as absent.
        last_epoch = header.leader_epoch
        if header.is_control:
            continue
        has_transactions |= header.is_transactional
        crc = as_sent(batch, header).crc
        indexes = naming.find_places(topic_partition, header.base_offset, crc)
        if indexes is None:
            continue
        where = topic_partition, header.base_offset, header.leader_epoch
        if compacted.has_any(topic_partition) and not any(compacted.keyed(*where)):
            # The batch was appended before the topic was compacted, and was not cleaned since. It may replace a record
            # that is gone.
            with suppress(KafkaError):  # The codec of the batch is not installed.
                trace.emit(keys_appended(replica, as_sent(batch, header), read_records(batch)))
        appended_crc = compacted.crc_as_appended(topic_partition, header.base_offset, crc)
        offsets, indexes = _entries(header, batch, indexes, names)
        for begin, end in _stretches(offsets, log.log_start_offset):
            if begin < end:
                records = LazyNames(names, PlaceRuns.of(indexes[begin:end]))
                trace.emit(
                    LogEntriesFound(
                        *replica,
                        offset=offsets[begin],
                        records=records,
                        leader_epoch=header.leader_epoch,
                        crc=appended_crc,
                    )
                )
    if has_transactions:
        _state_uncommitted(cluster, topic_partition, name, uncommitted_batches(log.raw_batches()))
    trace.emit(
        ReplicaFound(
            *replica,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=high_watermark,
            is_leader=running and view.leader(topic_partition) == name,
            in_isr=name in view.isr(topic_partition),
            running=running,
            in_elr=name in view.eligible(topic_partition),
            leader_epoch=last_epoch,
        )
    )
