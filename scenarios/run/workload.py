"""The actions of a scenario's producers and consumers, and their times: `produce` steps, arrivals, starts, stops."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeGuard, runtime_checkable

from cluster.client.producer.producer import ProducerRecord, TransactionCall
from cluster.node import Action
from cluster.operated import ClientOrder
from replica.ids import TopicPartition
from scenarios.language.spec import Scenario, TransactionPattern, Workload
from scenarios.language.verbs.clients import Produce

if TYPE_CHECKING:
    from scenarios.run.cluster_under_test import ClusterUnderTest

# --------------------------------------------------------------------------------------------------------- applications
#
# The applications of a run: what they ask of their producers and consumers, wherever those are, and what they send.

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


@dataclass(slots=True)
class _Progress:
    """Of one process. begun: transactions     sent: records of the open one"""

    begun: int = 0
    sent: int = 0


class Workloads:
    """Names records in the order they are sent: r0, r1, ... per producer, across all of its processes."""

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self._cluster = cluster
        self._sent: dict[str, int] = {}
        self._streams: dict[str, random.Random] = {}
        self.pending_stops: list[str] = []
        self._transactions: dict[tuple[str, int], _Progress] = {}
        self._producers: dict[type, bool] = {}

    def begin(self) -> None:
        """Put starts, stops and first arrivals of all workloads into the queue."""
        for workload in self._cluster.scenario.workloads.values():
            self._sent[workload.name] = 0
            self._streams[workload.name] = random.Random(f"{self._cluster.scenario.seed}/arrivals/{workload.name}")
            self._cluster.time.at_by_file(workload.start_us, partial(self._start, workload.name))
            if workload.arrival is not None:
                # The first record leaves at `start`, as the first tick of a clock that is started then.
                self._cluster.time.at_by_file(workload.start_us, partial(self._arrive, workload, 0, workload.start_us))
            elif workload.kind != "producer" and workload.stop_us is not None:
                self._cluster.time.at_by_file(workload.stop_us, partial(self.pending_stops.append, workload.name))

    def _start(self, name: str) -> None:
        if not self._cluster.running(name):
            self._cluster.start(name)

    async def perform_due(self) -> None:
        """Consumers and transforms whose time is over."""
        while self.pending_stops:
            await self._cluster.close(self.pending_stops.pop(0))

    # ------------------------------------------------------------------------------------------------------ arrivals

    def _arrive(self, workload: Workload, number: int, due_us: int) -> None:
        """One arrival: `batch` records at once; the next one keeps the rate, independent of the fate of this one."""
        arrival = workload.arrival
        assert arrival is not None
        if due_us >= self._cluster.scenario.sends_until_us(workload):
            return
        self._send(workload, workload.batch, workload.batch, workload.size_bytes, None, None)
        if arrival.poisson:
            mean_us = arrival.period_us * workload.batch / arrival.count
            next_us = due_us + max(1, round(self._streams[workload.name].expovariate(1 / mean_us)))
        else:
            # From the start, not from the last one: rounding must not change the rate.
            next_us = workload.start_us + (number + 1) * workload.batch * arrival.period_us // arrival.count
        self._cluster.time.at_by_file(next_us, partial(self._arrive, workload, number + 1, next_us))

    def produce(self, step: Produce) -> None:
        workload = self._cluster.scenario.workloads[step.producer]
        size_bytes = None if step.tombstone else step.size_bytes
        self._send(workload, step.count, step.batch, size_bytes, step.record_key, step.partition)

    def _send(
        self, workload: Workload, count: int, batch: int, size_bytes: int | None, key: str | None, partition: int | None
    ) -> None:
        """An application that is down sends nothing; its records are not even named."""
        machine = self._cluster.machines[workload.name]
        if not machine.takes_calls or not self._is_producer(machine.core):
            return
        host, core = machine.host, machine.core
        records = [self._record(workload, size_bytes, key, partition) for _ in range(count)]
        if workload.transaction is not None:
            self._send_in_transactions(workload, workload.transaction, records)
            return
        if batch <= 1:
            for record in records:
                host.call(partial(core.send, record))
            return
        for first in range(0, count, batch):
            host.call(partial(core.send_batch, records[first : first + batch]))

    def _send_in_transactions(
        self, workload: Workload, pattern: TransactionPattern, records: Sequence[ProducerRecord]
    ) -> None:
        """The last transaction stays open until its last record comes; a new process begins with a new one."""
        machine = self._cluster.machines[workload.name]
        core = machine.core
        assert isinstance(core, TransactionalProducer)
        progress = self._transactions.setdefault((workload.name, machine.incarnations), _Progress())
        for record in records:
            if progress.sent == 0:
                progress.begun += 1
                machine.host.call(partial(core.transaction, TransactionCall.BEGIN))
            machine.host.call(partial(core.send, record))
            progress.sent += 1
            if progress.sent == pattern.records:
                progress.sent = 0
                aborts = pattern.abort_every > 0 and progress.begun % pattern.abort_every == 0
                call = TransactionCall.ABORT if aborts else TransactionCall.COMMIT
                machine.host.call(partial(core.transaction, call))

    def _is_producer(self, core: object) -> TypeGuard[OperatedProducer]:
        """To look through a protocol's members for every record would cost as much as to send it."""
        kind = type(core)
        if kind not in self._producers:
            self._producers[kind] = isinstance(core, OperatedProducer)
        return self._producers[kind]

    def _record(
        self, workload: Workload, size_bytes: int | None, key: str | None, partition: int | None
    ) -> ProducerRecord:
        """size_bytes: None for a tombstone"""
        name = f"{workload.prefix}{self._sent[workload.name]}"
        self._sent[workload.name] += 1
        record_key = None if key is None else key.encode()
        value = None if size_bytes is None else value_of(name, size_bytes)
        return ProducerRecord(workload.topic, partition, record_key, value, name)

    def ask_end_offset(self, client: str, topic_partition: TopicPartition) -> None:
        """Let a client ask for the end of a partition (ListOffsets latest)."""
        machine = self._cluster.machines[client]
        if machine.takes_calls and isinstance(machine.core, OperatedConsumer):
            machine.host.call(partial(machine.core.ask_end_offset, topic_partition))
