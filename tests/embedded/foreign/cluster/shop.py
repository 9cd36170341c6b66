"""Code that a service could have: it writes orders to Kafka and bills them.

Four faults are in it, unless SHOP_FIXED is 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Producer
from kafka import KafkaProducer

FIXED = os.environ.get("SHOP_FIXED") == "1"


def write_orders(servers: str, topic: str, orders: list[str]) -> None:
    """Fault 1: acks=1, so that an order that is confirmed may be on one broker only."""
    producer = Producer({"bootstrap.servers": servers, "client.id": "shop", "acks": "all" if FIXED else "1"})
    for order in orders:
        producer.produce(topic, value=order)
    assert producer.flush(30) == 0


def report_orders(servers: str, topic: str, orders: list[str]) -> int:
    """Return how many orders were written. Fault 2: nobody looks at what became of each of them."""
    producer = Producer({"bootstrap.servers": servers, "client.id": "report", "delivery.timeout.ms": 1500})
    errors: list[Any] = []
    for order in orders:
        producer.produce(topic, value=order, on_delivery=lambda error, _: error and FIXED and errors.append(error))
    producer.flush(30)
    return len(orders) - len(errors)


def producer_of_invoices(servers: str) -> KafkaProducer:
    """Fault 3: retries without idempotence, so that an answer that is lost means a second invoice."""
    return KafkaProducer(
        bootstrap_servers=servers,
        client_id="invoices",
        acks="all",
        retries=10,
        enable_idempotence=FIXED,
        max_in_flight_requests_per_connection=1,
    )


async def bill(servers: str, topic: str, group: str, how_many: int, invoice: Callable[[str], None]) -> None:
    """Bill so many orders. Fault 4: the offset of an order may be committed before it is billed."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=not FIXED,
        auto_commit_interval_ms=100,
    )
    await consumer.start()
    try:
        for _ in range(how_many):
            message = await consumer.getone()
            invoice(message.value.decode())
            if FIXED:
                await consumer.commit()
    finally:
        await consumer.stop()
