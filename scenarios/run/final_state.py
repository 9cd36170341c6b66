"""The content of the disks when a run ends: every record of every replica, and how far each log goes."""

from __future__ import annotations

import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cluster.broker.replicas.partition_events import keys_of
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
from scenarios.observe.columns.names import NameIndex
from scenarios.observe.sent_batches import SentBatches
from scenarios.run.cluster_under_test import ClusterUnderTest, Machine

if TYPE_CHECKING:
    from scenarios.run.running_log import RunningLog

    StoredLog = Log | RunningLog

# ---------------------------------------------------------------------------------------------- transactions at the end
#
# What became of the transactions in a log: readers of committed records leave out the records of aborted ones, and do
# not get those of open ones.


class TransactionalBatch(NamedTuple):
    """Both offsets are of records of the batch."""

    producer_id: int
    base_offset: int
    last_offset: int


class Uncommitted(NamedTuple):
    """aborted: in the order of their markers     open: without a marker, in the order of their offsets"""

    aborted: list[TransactionalBatch]
    open: list[TransactionalBatch]


def uncommitted_batches(batches: Iterable[tuple[BatchHeader, bytes]]) -> Uncommitted:
    """batches: of the whole log, in the order of their offsets

    One that is decided, and whose marker is not in this log yet, is open here.
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
        except KafkaError:  # It is damaged.
            continue
        ended = undecided.pop(header.producer_id, [])
        if marker is not None and marker.control_type is ControlRecordType.ABORT:
            aborted += ended
    remaining = [batch for batches_of_one in undecided.values() for batch in batches_of_one]
    return Uncommitted(aborted, sorted(remaining, key=lambda batch: batch.base_offset))


FindPlaces = Callable[[TopicPartition, int, int], list[int] | None]
"""Where the names of a batch's records are, by partition, base offset and CRC; [] for one of unknown sender.

None: no event for each record
"""


class Naming(NamedTuple):
    """sent: has the names; batches that the cleaner has written anew go by the CRC that they had before"""

    sent: SentBatches
    find_places: FindPlaces


def state_final_logs(cluster: ClusterUnderTest, naming: Naming) -> None:
    """Emit LogEntriesFound and ReplicaFound for every replica, in the order of partitions and brokers."""
    brokers = cluster.brokers()
    for topic_partition in sorted(cluster.view.partitions):
        for name in cluster.view.partitions[topic_partition].assigned:
            if name in brokers:
                partition = brokers[name].replicas.partitions.get(topic_partition)
                if partition is not None:
                    _state_replica(cluster, naming, topic_partition, name, partition.log, partition.high_watermark)
                elif topic_partition in brokers[name].logs.logs:  # on its disk, and it has no orders about it
                    logs = brokers[name].logs
                    checkpointed = logs.high_watermark_checkpoint(topic_partition)
                    _state_replica(cluster, naming, topic_partition, name, logs.logs[topic_partition], checkpointed)
            elif name in cluster.machines:  # else a client has registered as a broker, and has no disk here
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
    """A log, and its high watermark, of a broker that is not in this process.

    One that is stopped: as its next start would recover it, from a copy, so that the disk stays as the run left it.
    """
    disk = next((disk for disk in machine.disks.values() if (disk.root / str(topic_partition)).is_dir()), None)
    if disk is None or disk.broken:
        yield None
        return
    directory = disk.root / str(topic_partition)
    if cluster.running(name):  # in a separate process, which stands still
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
    header: BatchHeader, batch: bytearray | bytes | memoryview, places: list[int], names: NameIndex
) -> tuple[Sequence[int], list[int]]:
    """The offsets of a batch, and the places of its records' names; those without are named by their values.

    An unreadable batch that claims more records than it can hold counts as one record.
    """
    if len(places) == header.record_count:
        return range(header.base_offset, header.base_offset + len(places)), places
    try:
        records = read_records(batch)
        offsets: Sequence[int] = [record.offset for record in records]
        if len(places) == header.last_offset_delta + 1:  # Compaction has taken some of them.
            return offsets, [places[offset - header.base_offset] for offset in offsets]
        return offsets, [names.place_or_add(record_name(record)) for record in records]
    except KafkaError:  # its codec is not installed
        from cluster.live.record_names import is_believable

        count = header.record_count if is_believable(header) else 1
        offsets = range(header.base_offset, header.base_offset + count)
        return offsets, [names.place_or_add(f"?{offset}") for offset in offsets]


def _stretches(offsets: Sequence[int], places: list[int], start: int) -> Iterator[tuple[int, int, int]]:
    """(offset, place, number of records) where both count up by one. start: the first offset that is in the log"""
    at, end = bisect_left(offsets, start), len(offsets)
    while at < end:
        offset, place, count = offsets[at], places[at], end - at
        if offsets[-1] != offset + count - 1 or places[at:] != list(range(place, place + count)):
            numbers = range(1, count)
            count = next((n for n in numbers if (offsets[at + n], places[at + n]) != (offset + n, place + n)), count)
        yield offset, place, count
        at += count


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
                    node=name,
                    topic=topic_partition.topic,
                    partition=topic_partition.partition,
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
    replica = (name, topic_partition.topic, topic_partition.partition)
    running = cluster.running(name)
    # No client has sent the records in the offsets topic: they have no names and no fate, and groups interpret them.
    batches = () if topic_partition.topic in INTERNAL_TOPICS else log.raw_batches()
    compacted = naming.sent.compacted
    has_transactions, last_epoch = False, UNDEFINED_EPOCH
    for header, batch in batches:
        if not check_crc(batch, 0, header):
            continue  # It is unreadable now, so it is not there.
        last_epoch = header.leader_epoch
        if header.is_control:
            continue
        has_transactions |= header.is_transactional
        crc = as_sent(batch, header).crc
        places = naming.find_places(topic_partition, header.base_offset, crc)
        if places is None:
            continue
        where = topic_partition, header.base_offset, header.leader_epoch
        if compacted.has_any(topic_partition) and not any(compacted.keyed(*where)):
            # Appended while the topic was not compacted, and not cleaned since: it may replace a record that is gone.
            with suppress(KafkaError):  # Its codec is not installed.
                trace.emit(keys_of(name, topic_partition, as_sent(batch, header), read_records(batch)))
        appended_crc = compacted.crc_as_appended(topic_partition, header.base_offset, crc)
        found = _entries(header, batch, places, names)
        for offset, place, count in _stretches(*found, log.log_start_offset):
            trace.emit_entries(
                LogEntriesFound(*replica, offset, place, count, names, header.leader_epoch, appended_crc)
            )
    if has_transactions:
        _state_uncommitted(cluster, topic_partition, name, uncommitted_batches(log.raw_batches()))
    trace.emit(
        ReplicaFound(
            node=name,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
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
