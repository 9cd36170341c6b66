"""Groups of real consumers: confluent-kafka (librdkafka), kafka-python and aiokafka; and a coordinator that dies."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer
from live_cluster import live_cluster
from verdicts import expect_nothing_broken

from replica.trace.events import GroupAssigned, GroupMemberLeft, GroupRebalanced, GroupsLoaded, OffsetCommitted
from tests.waiting import wait_for

SETTINGS = (
    "cluster.config.group.initial.rebalance.delay.ms=200",
    "cluster.config.offsets.topic.num.partitions=4",
    "cluster.config.broker.session.timeout.ms=2000",
    "cluster.config.broker.heartbeat.interval.ms=300",
)


def produce(bootstrap: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in values:
        producer.produce("orders", value=str(number).encode(), partition=number % 3)
    assert producer.flush(20) == 0


def librdkafka(bootstrap: str, group: str) -> Consumer:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 300,
    }
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    return consumer


def read(consumer: Consumer, count: int) -> list[int]:
    values: list[int] = []

    def enough() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(int(message.value()))
        return len(values) >= count

    wait_for(enough)
    return values


def test_two_members_share_and_the_next_goes_on_where_they_stopped(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:3:3", settings=SETTINGS) as cluster:
        produce(cluster.bootstrap, range(30))
        first, second = librdkafka(cluster.bootstrap, "g"), librdkafka(cluster.bootstrap, "g")

        def both_have_some() -> bool:
            parts = []
            for consumer in (first, second):
                consumer.poll(0.05)
                parts.append([one.partition for one in consumer.assignment()])
            return all(parts) and sorted(parts[0] + parts[1]) == [0, 1, 2]

        wait_for(both_have_some)
        first.close()
        second.close()
        third = librdkafka(cluster.bootstrap, "g")
        assert sorted(read(third, 30)) == list(range(30))
        assert [one.offset for one in third.commit(asynchronous=False)] == [10, 10, 10]
        third.close()
        produce(cluster.bootstrap, range(30, 36))
        fourth = librdkafka(cluster.bootstrap, "g")
        assert sorted(read(fourth, 6)) == list(range(30, 36))
        fourth.close()
    expect_nothing_broken(cluster.result.summary)


@pytest.mark.soak
@pytest.mark.parametrize("profile", ["kafka-4.1", "kafka-2.7"])
def test_a_coordinator_that_dies_in_mid_stream_takes_nothing_with_it(tmp_path: Path, profile: str) -> None:
    """The next one reads the group from its log: the member goes on, it does not even have to join again."""
    with live_cluster(tmp_path, "orders:3:3", settings=SETTINGS, profile=profile) as cluster:
        produce(cluster.bootstrap, range(30))
        consumer = librdkafka(cluster.bootstrap, "g")
        seen = read(consumer, 30)
        consumer.commit(asynchronous=False)
        old = cluster.coordinator("g")
        assert old is not None
        cluster.kill(old)
        produce(cluster.bootstrap, range(30, 60))
        seen += read(consumer, 30)
        assert sorted(seen) == list(range(60))
        committed: list[TopicPartition] = []

        def commits() -> bool:
            try:
                committed[:] = consumer.commit(asynchronous=False)
            except KafkaException:
                return False
            return True

        wait_for(commits)
        assert [one.offset for one in committed] == [20, 20, 20]
        new = cluster.coordinator("g")
        assert new != old and any(event.node == new for event in cluster.events(GroupsLoaded))
        assert len(cluster.events(GroupRebalanced)) == 1
        cluster.start(old)
        consumer.close()
        other = librdkafka(cluster.bootstrap, "g")
        wanted = [TopicPartition("orders", number) for number in range(3)]
        assert [one.offset for one in other.committed(wanted, timeout=20)] == [20, 20, 20]
        other.close()
    expect_nothing_broken(cluster.result.summary)


@pytest.mark.soak
def test_kafka_python_joins_commits_and_goes_on(tmp_path: Path) -> None:
    def consume(bootstrap: str, count: int) -> list[int]:
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id="py",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
        )
        values: list[int] = []

        def enough() -> bool:
            values.extend(int(record.value) for part in consumer.poll(200).values() for record in part)
            return len(values) >= count

        wait_for(enough)
        consumer.commit()
        consumer.close()
        return sorted(values)

    with live_cluster(tmp_path, "orders:3:3", settings=SETTINGS) as cluster:
        produce(cluster.bootstrap, range(12))
        assert consume(cluster.bootstrap, 12) == list(range(12))
        produce(cluster.bootstrap, range(12, 15))
        assert consume(cluster.bootstrap, 3) == [12, 13, 14]
        assert {event.offset for event in cluster.events(OffsetCommitted)} == {4, 5}


@pytest.mark.soak
def test_aiokafka_joins_commits_and_goes_on(tmp_path: Path) -> None:
    async def consume(bootstrap: str, count: int) -> list[int]:
        settings: dict[str, Any] = {"enable_auto_commit": False, "session_timeout_ms": 6000}
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=bootstrap, group_id="aio", auto_offset_reset="earliest", **settings
        )
        await consumer.start()
        try:
            values = [int((await asyncio.wait_for(consumer.getone(), 20)).value) for _ in range(count)]
            await consumer.commit()
        finally:
            await consumer.stop()
        return sorted(values)

    with live_cluster(tmp_path, "orders:3:3", settings=SETTINGS) as cluster:
        produce(cluster.bootstrap, range(12))
        assert asyncio.run(consume(cluster.bootstrap, 12)) == list(range(12))
        produce(cluster.bootstrap, range(12, 15))
        assert asyncio.run(consume(cluster.bootstrap, 3)) == [12, 13, 14]
        assert len(cluster.events(GroupAssigned)) == len(cluster.events(GroupMemberLeft)) == 2


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed here")
def test_kcat_reads_in_a_group_and_the_next_time_nothing_twice(tmp_path: Path) -> None:
    def read_to_the_end(bootstrap: str) -> list[str]:
        words = ["kcat", "-b", bootstrap, "-G", "k", "-X", "auto.offset.reset=earliest", "-e", "orders"]
        return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout.split()

    with live_cluster(tmp_path, "orders:3:3", settings=SETTINGS) as cluster:
        produce(cluster.bootstrap, range(12))
        assert sorted(map(int, read_to_the_end(cluster.bootstrap))) == list(range(12))
        assert read_to_the_end(cluster.bootstrap) == []
