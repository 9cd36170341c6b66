"""What the applications that transform owe when a run ends: the outputs of the inputs that they are done with."""

from __future__ import annotations

from collections.abc import Iterator

from cluster.client.transform.transform import TransformCore
from cluster.config import GroupConsumerConfig
from cluster.groups.offsets import OffsetAndMetadata
from replica.errors import KafkaError
from replica.ids import Offset, TopicPartition
from replica.trace.events import OutputPromised
from scenarios.language.spec import Workload
from scenarios.observe.final_logs import LogEntry
from scenarios.observe.ledger import RecordLedger
from scenarios.run.cluster_under_test import ClusterUnderTest

CHOSEN_BY_ITS_PRODUCER = -1


def state_promised_outputs(cluster: ClusterUnderTest, ledger: RecordLedger) -> None:
    """Emit OutputPromised for each input; the ledger has the final logs and knows who has read what.

    Nothing is stated where the group's coordinator is not there in the end, or in a separate process.
    """
    for workload in cluster.scenario.transforms:
        core = cluster.machines[workload.name].core
        under_way = core.under_way if isinstance(core, TransformCore) and cluster.running(workload.name) else ()
        for partition, committed in _committed(cluster, workload):
            reads = ledger.reads.get((workload.name, partition))
            if reads is None:
                continue
            for entry in ledger.final_log(partition):
                is_done = entry.offset < committed and (partition, entry.offset) not in under_way
                if is_done and reads.covers(entry.offset):
                    cluster.trace.emit(_promise(workload, partition, entry, committed))


def _promise(workload: Workload, partition: TopicPartition, entry: LogEntry, committed: Offset) -> OutputPromised:
    return OutputPromised(
        client=workload.name,
        topic=workload.to,
        partition=CHOSEN_BY_ITS_PRODUCER,
        record=f"{workload.prefix}{entry.record}",
        reason=f"{workload.name} has read {entry.record} at offset {entry.offset} of {partition}, "
        f"and its group has committed offset {committed}",
    )


def _committed(cluster: ClusterUnderTest, workload: Workload) -> Iterator[tuple[TopicPartition, int]]:
    """Where its group stands in each partition, as the group's coordinator knows it."""
    config = workload.consumer_config()
    assert isinstance(config, GroupConsumerConfig)
    for broker in cluster.brokers().values():
        try:
            found = broker.groups.coordinator.offsets(config.group_id, None, stable=False)
        except KafkaError:  # It does not coordinate this group.
            continue
        for partition, committed in found.items():
            if partition.topic == workload.topic and isinstance(committed, OffsetAndMetadata):
                yield partition, committed.offset
        return
