"""The shop with kafka-python."""

from __future__ import annotations

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from cluster.shop import producer_of_invoices


def test_invoices_are_written_and_read(kafka):
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, acks="all") as producer:
        for number in range(3):
            producer.send(kafka.topic(), b"invoice-%d" % number).get(30)
    consumer = KafkaConsumer(
        kafka.topic(),
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    assert [next(consumer).value for _ in range(3)] == [b"invoice-0", b"invoice-1", b"invoice-2"]
    consumer.close()


def test_an_admin_creates_a_topic(kafka):
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    admin.create_topics([NewTopic(kafka.name("made"), num_partitions=2, replication_factor=3)])
    kafka.wait_until(f"isr({kafka.name('made')}-1) == 3")
    admin.close()


def test_an_invoice_is_sent_once_though_its_answer_is_lost(kafka_cluster):
    kafka = kafka_cluster
    producer = producer_of_invoices(kafka.bootstrap_servers)
    producer.send("orders", b"invoice-1").get(30)
    kafka.fault({"hold": {"from": "b1", "to": "client/invoices", "api": "Produce", "part": "response"}})
    sent = producer.send("orders", b"invoice-2")
    kafka.wait_until("leo(orders-0) == 2")
    kafka.fault("reset_peer b1-client/invoices")
    kafka.fault("release")
    sent.get(30)
    producer.close()
    verdict = kafka.stop()
    assert not verdict.duplicated, str(verdict)
