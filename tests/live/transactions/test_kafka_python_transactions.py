"""Transactions of kafka-python against a live cluster: commit, abort, its readers, consume-transform-produce,
and an instance that another one with its transactional.id has replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import ProducerFencedError
from kafka.structs import OffsetAndMetadata
from live_cluster import live_cluster
from test_live_transactions import SETTINGS

from replica.trace.events import HeldBackOffsetDropped, OffsetCommitted
from tests.soak import one_in
from tests.waiting import wait_for

PATIENCE_S = 30
INPUT = TopicPartition("orders", 0)


def producer(bootstrap: str, transactional_id: str) -> KafkaProducer:
    made = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    made.init_transactions()
    return made


def send(by: KafkaProducer, topic: str, *values: str) -> None:
    for value in values:
        by.send(topic, value.encode(), partition=0).get(PATIENCE_S)


def read(bootstrap: str, topic: str, isolation: str, last: str) -> list[str]:
    """From the start of the partition until `last` is there."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    values: list[str] = []

    def is_there() -> bool:
        for records in consumer.poll(timeout_ms=200).values():
            values.extend(record.value.decode() for record in records)
        return last in values

    wait_for(is_there)
    consumer.close()
    return values


@pytest.mark.parametrize("profile", one_in(4, ["kafka-3.5", "kafka-3.9", "kafka-4.1"]))
def test_it_commits_aborts_reads_and_is_fenced(tmp_path: Path, profile: str) -> None:
    with live_cluster(tmp_path, "orders:1:3", settings=SETTINGS, profile=profile) as cluster:
        first = producer(cluster.bootstrap, "tx")
        first.begin_transaction()
        send(first, "orders", "a", "b")
        first.commit_transaction()
        first.begin_transaction()
        send(first, "orders", "c")
        first.abort_transaction()
        first.begin_transaction()
        send(first, "orders", "z")
        successor = producer(cluster.bootstrap, "tx")
        successor.begin_transaction()
        send(successor, "orders", "d")
        successor.commit_transaction()
        with pytest.raises(ProducerFencedError):
            first.commit_transaction()
        assert read(cluster.bootstrap, "orders", "read_committed", "d") == ["a", "b", "d"]
        assert read(cluster.bootstrap, "orders", "read_uncommitted", "d") == ["a", "b", "c", "z", "d"]
        first.close()
        successor.close()


@pytest.mark.soak
def test_it_commits_offsets_with_the_transaction(tmp_path: Path) -> None:
    def transform(*, commit: bool) -> list[str]:
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap,
            group_id="billing",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        inputs: list[str] = []

        def are_there() -> bool:
            for records in consumer.poll(timeout_ms=200).values():
                inputs.extend(record.value.decode() for record in records)
            return len(inputs) == 2

        wait_for(are_there)
        by.begin_transaction()
        send(by, "bills", *(value.upper() for value in inputs))
        offsets = {INPUT: OffsetAndMetadata(consumer.position(INPUT), "", -1)}
        by.send_offsets_to_transaction(offsets, consumer.group_metadata())
        if commit:
            by.commit_transaction()
        else:
            by.abort_transaction()
        consumer.close()
        return inputs

    with live_cluster(tmp_path, "orders:1:3", "bills:1:3", settings=SETTINGS) as cluster:
        plain = KafkaProducer(bootstrap_servers=cluster.bootstrap)
        send(plain, "orders", "a", "b")
        by = producer(cluster.bootstrap, "billing")
        assert [transform(commit=False), transform(commit=True)] == [["a", "b"], ["a", "b"]]
        assert read(cluster.bootstrap, "bills", "read_committed", "B") == ["A", "B"]
        committed = [event.offset for event in cluster.events(OffsetCommitted) if event.group == "billing"]
        assert (len(cluster.events(HeldBackOffsetDropped)), committed) == (1, [2])
        by.close()
        plain.close()
