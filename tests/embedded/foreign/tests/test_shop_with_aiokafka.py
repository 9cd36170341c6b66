"""The shop with aiokafka."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from cluster.shop import bill

ORDERS = [f"order-{number}" for number in range(6)]


async def write(servers: str, topic: str, **config: object) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers, acks="all", **config) as producer:
        for order in ORDERS:
            await producer.send_and_wait(topic, order.encode())


def test_orders_are_written_and_billed(kafka):
    billed: list[str] = []

    async def play() -> None:
        await write(kafka.bootstrap_servers, kafka.topic())
        await bill(kafka.bootstrap_servers, kafka.topic(), kafka.name("billing"), len(ORDERS), billed.append)

    asyncio.run(asyncio.wait_for(play(), 60))
    assert billed == ORDERS


def test_two_members_of_a_group_read_all_partitions(kafka):
    async def play() -> list[str]:
        topic, found = kafka.topic(partitions=2), []
        members = [
            AIOKafkaConsumer(
                topic, bootstrap_servers=kafka.bootstrap_servers, group_id=kafka.name("g"), auto_offset_reset="earliest"
            )
            for _ in range(2)
        ]
        for member in members:
            await member.start()
        await write(kafka.bootstrap_servers, topic)
        while len(found) < len(ORDERS):
            for member in members:
                for messages in (await member.getmany(timeout_ms=200)).values():
                    found += [message.value.decode() for message in messages]
        for member in members:
            await member.stop()
        return found

    assert sorted(asyncio.run(asyncio.wait_for(play(), 60))) == ORDERS


@pytest.mark.highwater(config={"broker.session.timeout.ms": 3000})
def test_a_writer_outlives_a_leader(kafka_cluster):
    async def play() -> None:
        await asyncio.to_thread(kafka_cluster.fault, "kill leader(orders-0)")
        await write(kafka_cluster.bootstrap_servers, "orders", request_timeout_ms=20_000)

    asyncio.run(asyncio.wait_for(play(), 60))
    assert kafka_cluster.stop().records["acked"] == ORDERS


def test_every_order_is_billed_though_the_biller_crashes(kafka):
    """The biller dies of its third order after a while; a second one goes on."""
    billed: list[str] = []

    class Crash(Exception):
        pass

    def slow_and_fatal(order: str) -> None:
        if order == ORDERS[2]:
            raise Crash
        billed.append(order)

    async def play() -> None:
        servers, topic, group = kafka.bootstrap_servers, kafka.topic(), kafka.name("billing")
        await write(servers, topic)
        with pytest.raises(Crash):
            await bill(servers, topic, group, len(ORDERS), slow_and_fatal)
        await asyncio.wait_for(bill(servers, topic, group, len(ORDERS) - len(billed), billed.append), 15)

    with contextlib.suppress(TimeoutError):
        asyncio.run(asyncio.wait_for(play(), 60))
    assert sorted(set(ORDERS) - set(billed)) == [], "these orders were never billed"
