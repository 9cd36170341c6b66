"""The applications of a run: what they ask of their producers and consumers, wherever those are, and what they send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from cluster.client.producer.producer import ProducerRecord, TransactionCall
from cluster.node import Action
from cluster.operated import ClientOrder
from replica.ids import TopicPartition
from scenarios.language.spec import Scenario, Workload
from scenarios.language.verbs.clients import Produce

MIN_VALUE_BYTES = 1


@runtime_checkable
class OperatedProducer(Protocol):
    """As of cluster.client.producer.producer.ProducerCore."""

    def send(self, record: ProducerRecord, now_us: int) -> list[Action]: ...

    def send_batch(self, records: Sequence[ProducerRecord], now_us: int) -> list[Action]: ...


@runtime_checkable
class TransactionalProducer(OperatedProducer, Protocol):
    """Kafka's own producer, in its JVM, is none: it is given no transactions yet."""

    def transaction(self, call: TransactionCall, now_us: int) -> list[Action]: ...


@runtime_checkable
class OperatedConsumer(Protocol):
    """As of cluster.client.consumer.consumer.ConsumerCore."""

    def seek(self, tp: TopicPartition, target: int | Literal["beginning", "end"], now_us: int) -> list[Action]: ...

    def ask_end_offset(self, tp: TopicPartition, now_us: int) -> list[Action]: ...


def value_of(name: str, size_bytes: int) -> bytes:
    """A record's value, which begins with its name."""
    value = f"{name} ".encode()
    return value + b"x" * max(MIN_VALUE_BYTES, size_bytes - len(value))


def client_order(scenario: Scenario, workload: Workload) -> ClientOrder:
    """For a client that runs elsewhere."""
    if workload.kind == "consumer":
        return ClientOrder(topics=workload.topics, config=workload.consumer_config())
    # Sizes decide, not names: that of a batch is as large as its values.
    batches: list[tuple[int, int, str | None]] = (
        [(workload.batch, workload.size_bytes, None)] if workload.arrival is not None else []
    )
    for step in scenario.timeline:
        if isinstance(step.payload, Produce) and step.payload.producer == workload.name:
            payload = step.payload
            batches.append((min(payload.batch, payload.count), payload.size_bytes, payload.record_key))
    count, size_bytes, key = max(batches, key=lambda batch: (batch[0] > 1, batch[0] * batch[1]), default=(1, 1, None))
    record = (None if key is None else key.encode(), value_of(workload.prefix, size_bytes))
    return ClientOrder(
        topics=workload.topics,
        partitions=scenario.topics[workload.topic].partitions,
        config=workload.producer_config(scenario.rules.release),
        largest_batch=(record,) * count,
    )
