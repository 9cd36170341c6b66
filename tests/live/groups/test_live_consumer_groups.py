"""Groups of KIP-848 with real consumers: librdkafka's `group.protocol=consumer`, and admin requests about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from live_cluster import live_cluster
from verdicts import expect_nothing_broken

from replica.trace.events import GroupMemberLeft, GroupMemberReconciled, GroupsLoaded
from tests.waiting import wait_for

SETTINGS = (
    "cluster.config.group.consumer.heartbeat.interval.ms=200",
    "cluster.config.group.consumer.min.heartbeat.interval.ms=200",
    "cluster.config.group.consumer.session.timeout.ms=3000",
    "cluster.config.group.consumer.min.session.timeout.ms=3000",
    "cluster.config.offsets.topic.num.partitions=4",
    "cluster.config.broker.session.timeout.ms=2000",
    "cluster.config.broker.heartbeat.interval.ms=300",
)


def produce(bootstrap: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in values:
        producer.produce("orders", value=str(number).encode(), partition=number % 3)
    assert producer.flush(20) == 0


def member(
    bootstrap: str, group: str = "g", topics: tuple[str, ...] = ("orders",), settings: Mapping[str, str] | None = None
) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **(settings or {}),
        }
    )
    consumer.subscribe(list(topics))
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


def shared_by(*consumers: Consumer) -> bool:
    parts = []
    for consumer in consumers:
        consumer.poll(0.05)
        parts.append([one.partition for one in consumer.assignment()])
    return all(parts) and sorted(one for part in parts for one in part) == [0, 1, 2]


def test_two_members_share_and_the_next_goes_on_where_they_stopped(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:3:3", settings=SETTINGS) as cluster:
        produce(cluster.bootstrap, range(30))
        first = member(cluster.bootstrap)
        wait_for(lambda: shared_by(first))
        second = member(cluster.bootstrap)
        wait_for(lambda: shared_by(first, second))
        first.close()
        second.close()
        third = member(cluster.bootstrap)
        assert sorted(read(third, 30)) == list(range(30))
        assert [one.offset for one in third.commit(asynchronous=False)] == [10, 10, 10]
        third.close()
        produce(cluster.bootstrap, range(30, 36))
        fourth = member(cluster.bootstrap)
        assert sorted(read(fourth, 6)) == list(range(30, 36))
        fourth.close()
        moves = cluster.events(GroupMemberReconciled)
        assert any(event.revoking for event in moves), "the first gave up what the second got"
    expect_nothing_broken(cluster.result.summary)


@pytest.mark.soak
def test_a_pattern_finds_topics_that_come_later(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:3:3", settings=SETTINGS) as cluster:
        consumer = member(cluster.bootstrap, topics=("^orders.*",))
        wait_for(lambda: shared_by(consumer))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders-old", 1)])["orders-old"].result()

        def topics() -> set[str]:
            consumer.poll(0.05)
            return {one.topic for one in consumer.assignment()}

        wait_for(topics, holds=lambda found: found == {"orders", "orders-old"})
        consumer.close()


def test_static_members_and_assignors(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:3:3", settings=SETTINGS) as cluster:
        one = member(cluster.bootstrap, settings={"group.instance.id": "i1", "group.remote.assignor": "range"})
        other = member(cluster.bootstrap, settings={"group.instance.id": "i2", "group.remote.assignor": "range"})
        wait_for(lambda: shared_by(one, other))
        had = other.assignment()
        other.close()
        other = member(cluster.bootstrap, settings={"group.instance.id": "i2", "group.remote.assignor": "range"})
        wait_for(lambda: shared_by(one, other))
        assert other.assignment() == had
        assert not cluster.events(GroupMemberLeft), "one that leaves for a while keeps its place"
        one.close()
        other.close()


@pytest.mark.soak
def test_an_operator_lists_describes_and_deletes(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:3:3", settings=SETTINGS) as cluster:
        consumer = member(cluster.bootstrap)
        wait_for(lambda: shared_by(consumer))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        (listed,) = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result().valid
        assert (listed.group_id, listed.state) == ("g", ConsumerGroupState.STABLE)
        assert not admin.list_consumer_groups(types={ConsumerGroupType.CLASSIC}).result().valid
        described = admin.describe_consumer_groups(["g"])["g"].result()
        assert described.type is ConsumerGroupType.CONSUMER and described.partition_assignor == "uniform"
        (only,) = described.members
        assert sorted(one.partition for one in only.assignment.topic_partitions) == [0, 1, 2]
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups(["g"])["g"].result()
        consumer.close()
        admin.delete_consumer_groups(["g"])["g"].result()
        assert not admin.list_consumer_groups().result().valid


@pytest.mark.soak
def test_a_coordinator_that_dies_takes_nothing_with_it(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:3:3", settings=SETTINGS) as cluster:
        produce(cluster.bootstrap, range(30))
        consumer = member(cluster.bootstrap)
        seen = read(consumer, 30)
        consumer.commit(asynchronous=False)
        old = cluster.coordinator("g")
        assert old is not None
        cluster.kill(old)
        produce(cluster.bootstrap, range(30, 60))
        seen += read(consumer, 30)
        assert sorted(seen) == list(range(60))

        def commits() -> bool:
            try:
                return [one.offset for one in consumer.commit(asynchronous=False)] == [20, 20, 20]
            except KafkaException:
                return False

        wait_for(commits)
        new = cluster.coordinator("g")
        assert new != old and any(event.node == new for event in cluster.events(GroupsLoaded))
        assert not cluster.events(GroupMemberLeft)
        consumer.close()
