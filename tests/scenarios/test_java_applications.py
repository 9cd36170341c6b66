"""Kafka's own clients are applications of a run as Highwater's are: a record that is due is sent by either."""

from cluster.client.consumer.consumer import ConsumerCore
from cluster.client.producer.producer import ProducerCore
from cluster.config import ProducerConfig
from cluster.kafka.clients.consumer import JavaConsumer
from cluster.kafka.clients.orders import producer_settings
from cluster.kafka.clients.producer import JavaProducer
from scenarios.run.workload import OperatedConsumer, OperatedProducer, TransactionalProducer


def test_clients_of_both_worlds_can_be_operated() -> None:
    assert all(issubclass(kind, OperatedProducer) for kind in (ProducerCore, JavaProducer))
    assert all(issubclass(kind, OperatedConsumer) for kind in (ConsumerCore, JavaConsumer))
    assert issubclass(ProducerCore, TransactionalProducer) and not issubclass(JavaProducer, TransactionalProducer)


def test_what_is_not_set_is_left_out_of_the_settings_of_a_java_producer() -> None:
    assert ProducerConfig().transactional_id == ""
    assert "transactional.id" not in producer_settings("p1", "b1:9092", ProducerConfig(), [])
