"""Transactions of real clients, confluent-kafka (librdkafka) and aiokafka, against a live cluster: commit, abort, and
an instance that another one with its transactional.id has replaced."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from live_cluster import live_cluster

from replica.trace.events import TransactionStateChanged
from tests.waiting import wait_for

SETTINGS = (
    "cluster.config.transaction.state.log.num.partitions=4",
    "cluster.config.broker.session.timeout.ms=2000",
    "cluster.config.broker.heartbeat.interval.ms=300",
)
PATIENCE_S = 60


def producer(bootstrap: str, transactional_id: str) -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    made.init_transactions(PATIENCE_S)
    return made


def transaction(by: Producer, *values: str, commit: bool) -> None:
    by.begin_transaction()
    for value in values:
        by.produce("orders", value=value.encode(), partition=0)
    by.flush(PATIENCE_S)
    if commit:
        by.commit_transaction(PATIENCE_S)
    else:
        by.abort_transaction(PATIENCE_S)


def read(bootstrap: str, isolation: str, last: str) -> list[str]:
    """From the start of the partition until `last` is there."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": isolation}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("orders", 0, 0)])
    values: list[str] = []

    def is_there() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
        return last in values

    wait_for(is_there)
    consumer.close()
    return values


@pytest.mark.parametrize("profile", ["kafka-3.5", "kafka-3.9", "kafka-4.1"])
def test_librdkafka_commits_and_aborts(tmp_path: Path, profile: str) -> None:
    with live_cluster(tmp_path, "orders:1:3", settings=SETTINGS, profile=profile) as cluster:
        first = producer(cluster.bootstrap, "tx")
        transaction(first, "a", "b", commit=True)
        transaction(first, "c", commit=False)
        transaction(first, "d", commit=True)
        assert read(cluster.bootstrap, "read_committed", "d") == ["a", "b", "d"]
        assert read(cluster.bootstrap, "read_uncommitted", "d") == ["a", "b", "c", "d"]
        states = [event.state for event in cluster.events(TransactionStateChanged)]
        assert states.count("CompleteCommit") == 2 and states.count("CompleteAbort") == 1


def test_an_instance_that_was_replaced_is_fenced(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:1:3", settings=SETTINGS) as cluster:
        zombie = producer(cluster.bootstrap, "tx")
        zombie.begin_transaction()
        zombie.produce("orders", value=b"a", partition=0)
        zombie.flush(PATIENCE_S)
        successor = producer(cluster.bootstrap, "tx")
        transaction(successor, "b", commit=True)
        with pytest.raises(KafkaException) as raised:
            zombie.commit_transaction(PATIENCE_S)
        assert raised.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
        assert read(cluster.bootstrap, "read_committed", "b") == ["b"]


def test_aiokafka_commits_aborts_and_is_fenced(tmp_path: Path) -> None:
    async def play(bootstrap: str) -> None:
        first = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="tx")
        await first.start()
        async with first.transaction():
            await first.send_and_wait("orders", b"a", partition=0)
        with pytest.raises(LookupError):
            async with first.transaction():
                await first.send_and_wait("orders", b"b", partition=0)
                raise LookupError
        second = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="tx")
        await second.start()
        async with second.transaction():
            await second.send_and_wait("orders", b"c", partition=0)
        with pytest.raises(ProducerFenced):
            async with first.transaction():
                await first.send_and_wait("orders", b"d", partition=0)
        await first.stop()
        await second.stop()

    with live_cluster(tmp_path, "orders:1:3", settings=SETTINGS) as cluster:
        asyncio.run(play(cluster.bootstrap))
        assert read(cluster.bootstrap, "read_committed", "c") == ["a", "c"]
