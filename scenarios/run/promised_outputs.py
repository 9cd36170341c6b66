"""Finds the outputs that transforms owe at the end of a run: one per input record that they have processed."""

from __future__ import annotations

from collections.abc import Iterator

from cluster.client.transform.transform import TransformCore
from cluster.config import GroupConsumerConfig
from cluster.groups.service import replay_batch
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.group import Group
from cluster.groups.state.loading import Replay
from cluster.groups.state.offsets import OffsetAndMetadata
from replica.errors import KafkaError
from replica.ids import OFFSETS_TOPIC, Offset, TopicPartition, partition_of
from replica.trace.events import OutputPromised
from scenarios.language.spec import Workload
from scenarios.observe.final_logs import LogEntry
from scenarios.observe.groups import SkippedInputs
from scenarios.observe.ledger import RecordLedger
from scenarios.run.cluster_under_test import ClusterUnderTest
from scenarios.run.final_state import log_on_disk

CHOSEN_BY_ITS_PRODUCER = -1


def state_promised_outputs(cluster: ClusterUnderTest, ledger: RecordLedger, skipped: SkippedInputs) -> None:
    """Emit OutputPromised for each input record that a transform has read and whose offset it has committed.

    Nothing is emitted for a group without a coordinator at the end, nor for records that an operator's offset reset
    made the group skip.
    """
    for workload in cluster.scenario.transforms:
        core = cluster.machines[workload.name].core
        under_way = core.under_way if isinstance(core, TransformCore) and cluster.running(workload.name) else ()
        group = workload.config["group.id"]
        for partition, committed in _committed(cluster, workload):
            reads = ledger.reads.get((workload.name, partition))
            if reads is None:
                continue
            for entry in ledger.final_log(partition):
                is_done = entry.offset < committed and (partition, entry.offset) not in under_way
                if is_done and reads.ranges.covers(entry.offset) and not skipped.covers(group, partition, entry.offset):
                    cluster.trace.emit(_promise(workload, partition, entry, committed))


def _promise(workload: Workload, partition: TopicPartition, entry: LogEntry, committed: Offset) -> OutputPromised:
    return OutputPromised(
        client=workload.name,
        topic=workload.to,
        partition=CHOSEN_BY_ITS_PRODUCER,
        record=f"{workload.prefix}{entry.record}",
        input=entry.record,
        input_partition=str(partition),
        offset=entry.offset,
        committed_offset=committed,
    )


def _committed(cluster: ClusterUnderTest, workload: Workload) -> Iterator[tuple[TopicPartition, int]]:
    """Yield (partition, committed offset) for a transform's group, as its coordinator has them."""
    config = workload.consumer_config()
    assert isinstance(config, GroupConsumerConfig)
    for broker in cluster.brokers().values():
        try:
            found = broker.groups.coordinator.offsets(config.group_id, None, stable=False)
        except KafkaError:  # This broker does not coordinate the group.
            continue
        for partition, committed in found.items():
            if partition.topic in workload.topics and isinstance(committed, OffsetAndMetadata):
                yield partition, committed.offset
        return
    for group in _groups_on_disk(cluster, config.group_id):
        if group.group_id == config.group_id:
            for partition, written in group.offsets.committed.items():
                if partition.topic in workload.topics:
                    yield partition, written.value.offset


def _groups_on_disk(cluster: ClusterUnderTest, group_id: str) -> Iterator[Group | ConsumerGroup]:
    """Yield the groups in the offsets partition of `group_id`, read from the log of a coordinator in another process.

    Only records below the high watermark count.
    """
    partitions = cluster.view.partitions
    count = sum(name.topic == OFFSETS_TOPIC for name in partitions)
    kept_in = TopicPartition(OFFSETS_TOPIC, partition_of(group_id, count)) if count else None
    leader = partitions[kept_in].leader if kept_in in partitions else None
    if kept_in is None or leader is None or not cluster.running(leader):
        return
    replay = Replay()
    with log_on_disk(cluster, kept_in, leader, cluster.machines[leader]) as found:
        if found is None:
            return
        log, high_watermark = found
        for header, batch in log.raw_batches():
            if header.last_offset < high_watermark:
                replay_batch(replay, header, bytes(batch))
    yield from replay.groups(0)
    yield from replay.consumer_groups()
