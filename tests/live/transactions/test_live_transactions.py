"""Transactions of real clients, confluent-kafka (librdkafka) and aiokafka, against a live cluster: commit, abort, an
instance that another one with its transactional.id has replaced, and consume-transform-produce with its offsets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from live_cluster import SMALL_COORDINATORS, LiveCluster, live_cluster
from serving import fault, serving

from replica.trace.events import (
    HeldBackOffsetDropped,
    OffsetCommitted,
    TransactionRefused,
    TransactionStateChanged,
)
from tests.soak import one_in
from tests.waiting import wait_for

SETTINGS = (
    *SMALL_COORDINATORS,
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


def read(bootstrap: str, isolation: str, last: str, topic: str = "orders") -> list[str]:
    """From the start of the partition until `last` is there."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": isolation}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []

    def is_there() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
        return last in values

    wait_for(is_there)
    consumer.close()
    return values


@pytest.mark.parametrize("profile", one_in(4, ["kafka-3.5", "kafka-3.9", "kafka-4.1"]))
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


@pytest.mark.soak
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
        assert await aio_read(bootstrap, "read_committed", "c") == ["a", "c"]
        assert await aio_read(bootstrap, "read_uncommitted", "c") == ["a", "b", "c"]

    with live_cluster(tmp_path, "orders:1:3", settings=SETTINGS) as cluster:
        asyncio.run(play(cluster.bootstrap))
        assert read(cluster.bootstrap, "read_committed", "c") == ["a", "c"]


async def aio_read(bootstrap: str, isolation: str, last: str) -> list[str]:
    """From the start of the partition until `last` is there."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
    await consumer.start()
    name = AioPartition("orders", 0)
    consumer.assign([name])
    await consumer.seek_to_beginning(name)
    values: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while last not in values:
            values.append((await consumer.getone()).value.decode())
    await consumer.stop()
    return values


def transform(consumer: Consumer, by: Producer, wanted: int, *, commit: bool) -> None:
    """One round of consume-transform-produce, of `wanted` records."""
    messages: list[Any] = []

    def are_there() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            messages.append(message)
        return len(messages) == wanted

    wait_for(are_there)
    by.begin_transaction()
    for message in messages:
        by.produce("bills", value=message.value().upper(), partition=0)
    by.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), PATIENCE_S
    )
    if commit:
        by.commit_transaction(PATIENCE_S)
    else:
        by.abort_transaction(PATIENCE_S)


def of_billing(cluster: LiveCluster, kind: type) -> list[Any]:
    return [event for event in cluster.events(kind) if event.group == "billing"]


@pytest.mark.parametrize("profile", one_in(4, ["kafka-3.5", "kafka-4.1"]))
def test_librdkafka_commits_offsets_with_the_transaction(tmp_path: Path, profile: str) -> None:
    """The first round is aborted, and its records are read again by the member that comes next."""
    with live_cluster(tmp_path, "orders:1:3", "bills:1:3", settings=SETTINGS, profile=profile) as cluster:
        first = producer(cluster.bootstrap, "source")
        transaction(first, "a", "b", commit=True)
        settings: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        for commit in (False, True):
            consumer = Consumer(settings)
            consumer.subscribe(["orders"])
            transform(consumer, producer(cluster.bootstrap, "billing"), 2, commit=commit)
            consumer.close()
        assert read(cluster.bootstrap, "read_committed", "B", "bills") == ["A", "B"]
        assert read(cluster.bootstrap, "read_uncommitted", "B", "bills")[:2] == ["A", "B"]
        # The marker of "source" stands behind its records: whether a position counts it is the client's own affair.
        assert [event.offset >= 2 for event in of_billing(cluster, OffsetCommitted)] == [True]
        assert len(of_billing(cluster, HeldBackOffsetDropped)) == 1
        committed = Consumer(settings).committed([TopicPartition("orders", 0)], PATIENCE_S)
        assert committed[0].offset >= 2


@pytest.mark.soak
def test_aiokafka_commits_offsets_with_the_transaction(tmp_path: Path) -> None:
    async def play(bootstrap: str) -> None:
        source = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await source.start()
        await source.send_and_wait("orders", b"a", partition=0)
        await source.stop()
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        await consumer.start()
        by = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="billing")
        await by.start()
        message = await consumer.getone()
        partition = AioPartition("orders", 0)
        with pytest.raises(LookupError):
            async with by.transaction():
                await by.send_and_wait("bills", b"lost", partition=0)
                await by.send_offsets_to_transaction({partition: message.offset + 1}, "billing")
                raise LookupError
        async with by.transaction():
            await by.send_and_wait("bills", message.value.upper(), partition=0)
            await by.send_offsets_to_transaction({partition: message.offset + 1}, "billing")
        await by.stop()
        await consumer.stop()

    with live_cluster(tmp_path, "orders:1:3", "bills:1:3", settings=SETTINGS) as cluster:
        asyncio.run(play(cluster.bootstrap))
        assert read(cluster.bootstrap, "read_committed", "A", "bills") == ["A"]
        wait_for(lambda: of_billing(cluster, OffsetCommitted))
        assert [event.offset for event in of_billing(cluster, OffsetCommitted)] == [1]
        assert len(of_billing(cluster, HeldBackOffsetDropped)) == 1


@pytest.mark.soak
def test_the_terminal_tells_why_a_coordinator_refuses(tmp_path: Path) -> None:
    """Its log has two replicas, of which two must be in the ISR, and one broker is away."""
    wanted = ("replication.factor=2", "min.isr=2")
    log = [word for one in wanted for word in ("--set", f"cluster.config.transaction.state.log.{one}")]
    small = [word for one in SETTINGS for word in ("--set", one)]
    with serving(tmp_path, "--topic", "orders:1:2", *small, *log, brokers=2) as served:
        made = producer(served.bootstrap, "pay")
        transaction(made, "a", commit=True)
        fault(tmp_path, "kill", "b2")
        made.begin_transaction()
        made.produce("orders", value=b"b", partition=0)
        made.flush(10)
        fault(tmp_path, "start", "b2")
        made.commit_transaction(PATIENCE_S)
        served.stop()
    said = " ".join(served.errors.split())
    assert said.count("b1 refused AddPartitionsToTxn for transactional.id pay (") == 1
    assert "for __transaction_state-" in said and "the ISR {b1} is smaller than min.insync.replicas=2" in said


SHORT = (
    *SETTINGS,
    "cluster.config.transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
)


def timed_out(cluster: LiveCluster) -> None:
    wait_for(lambda: [one for one in cluster.events(TransactionStateChanged) if one.state == "CompleteAbort"])


@pytest.mark.parametrize("commit", one_in(2, [True, False]))
def test_librdkafka_ends_a_transaction_that_has_timed_out(tmp_path: Path, commit: bool) -> None:
    """Its EndTxn is of version 1: the version of the request decides, not that of the cluster."""
    with live_cluster(tmp_path, "orders:1:3", settings=SHORT) as cluster:
        late = Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": "tx", "transaction.timeout.ms": 1000}
        )
        late.init_transactions(PATIENCE_S)
        late.begin_transaction()
        late.produce("orders", value=b"a", partition=0)
        late.flush(PATIENCE_S)
        timed_out(cluster)
        with pytest.raises(KafkaException) as refused:
            (late.commit_transaction if commit else late.abort_transaction)(PATIENCE_S)
        error = refused.value.args[0]
        assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
        told = [one for one in cluster.events(TransactionRefused) if one.api == "EndTxn"]
        assert told and {one.error for one in told} == {"PRODUCER_FENCED"}


@pytest.mark.soak
def test_aiokafka_ends_a_transaction_that_has_timed_out(tmp_path: Path) -> None:
    async def commit_late() -> None:
        late = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="tx", transaction_timeout_ms=1000)
        await late.start()
        await late.begin_transaction()
        await late.send_and_wait("orders", b"a", partition=0)
        await asyncio.to_thread(timed_out, cluster)
        with pytest.raises(ProducerFenced):
            await late.commit_transaction()
        await late.stop()

    with live_cluster(tmp_path, "orders:1:3", settings=SHORT) as cluster:
        asyncio.run(commit_late())
