"""The shop with confluent-kafka."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from cluster.shop import report_orders, write_orders

ORDERS = [f"order-{number}" for number in range(5)]


def read(servers: str, topic: str, count: int, **config: object) -> list[str]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "auto.offset.reset": "earliest", **config})
    consumer.subscribe([topic])
    found = []
    while len(found) < count:
        message = consumer.poll(20)
        assert message is not None, found
        found.append(message.value().decode())
    consumer.close()
    return found


def test_orders_are_written_and_read(kafka):
    write_orders(kafka.bootstrap_servers, kafka.topic(), ORDERS)
    assert read(kafka.bootstrap_servers, kafka.topic(), 5) == ORDERS


def test_a_key_stays_in_its_partition(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    partitions = set()
    for order in ORDERS:
        producer.produce(
            kafka.topic(partitions=3),
            order,
            key="customer-1",
            on_delivery=lambda _, sent: partitions.add(sent.partition()),
        )
    assert producer.flush(30) == 0
    assert len(partitions) == 1


def test_orders_of_an_aborted_transaction_are_not_read(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": kafka.name("shop")})
    producer.init_transactions(30)
    for order, ends in (("bad", producer.abort_transaction), ("good", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(kafka.topic(), order)
        producer.flush(30)
        ends(30)
    assert read(kafka.bootstrap_servers, kafka.topic(), 1, **{"isolation.level": "read_committed"}) == ["good"]


@pytest.mark.highwater(config={"broker.session.timeout.ms": 3000})
def test_confirmed_orders_survive_the_leader(kafka_cluster):
    kafka = kafka_cluster
    kafka.wait_until("isr(orders-0) == 3")
    kafka.fault("hold b1-b2 Fetch --for 5s")
    kafka.fault("hold b1-b3 Fetch --for 5s")
    try:
        write_orders(kafka.bootstrap_servers, "orders", ORDERS)
    except (KafkaException, AssertionError):
        pytest.skip("the orders were not confirmed")
    kafka.fault("kill leader(orders-0)")
    kafka.wait_until("leader(orders-0) != b1")
    verdict = kafka.stop()
    assert not verdict.lost, verdict.explain(verdict.lost[0])


def test_reported_orders_are_there(kafka_cluster):
    kafka = kafka_cluster
    kafka.fault("stop b2")
    kafka.fault("stop b3")
    kafka.wait_until("isr(orders-0) == 1")
    reported = report_orders(kafka.bootstrap_servers, "orders", ORDERS)
    written = next(
        one["replicas"][0]["log_end_offset"] for one in kafka.state["partitions"] if one["partition"] == "orders-0"
    )
    assert reported == written
