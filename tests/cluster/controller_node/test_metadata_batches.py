"""The metadata log takes all records of one decision, in batches of Kafka's size."""

from __future__ import annotations

from pathlib import Path

from cluster.controller_node.metadata_log import MAX_RECORDS_PER_BATCH, MetadataLog
from controller.metadata import PartitionChangeRecord
from replica.config import TopicConfig
from replica.log.files.disk import Disk


def test_a_broker_that_led_many_partitions_falls_silent(tmp_path: Path) -> None:
    """12,000 changes are more than one batch of the controller, and more bytes than a topic takes in one."""
    log = MetadataLog(tmp_path, Disk(tmp_path, sync=False), 1, 0)
    records = [
        PartitionChangeRecord(topic="t" * 249, partition=number, in_sync_replicas=(1, 2), leader=1)
        for number in range(MAX_RECORDS_PER_BATCH + 2000)
    ]
    log.append(records, 1, 0)
    batches = list(log.log.headers())
    assert [header.last_offset for header in batches] == [MAX_RECORDS_PER_BATCH - 1, len(records) - 1]
    assert batches[0].size_bytes > TopicConfig().max_message_bytes
    assert list(log.records(0)) == records
    log.abandon()


def test_its_topic_has_the_id_that_kafka_gives_it(tmp_path: Path) -> None:
    """A broker of Apache Kafka 4.1 has written: topic_id: AAAAAAAAAAAAAAAAAAAAAQ."""
    MetadataLog(tmp_path, Disk(tmp_path, sync=False), 1, 0).abandon()
    metadata = tmp_path / "__cluster_metadata-0" / "partition.metadata"
    assert metadata.read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
