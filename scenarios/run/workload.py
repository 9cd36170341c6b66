"""Performs the actions of a scenario's clients at their times: starts, arrivals of records, `produce` steps, stops."""

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
from replica.log.batches.records import Headers
from scenarios.language.spec import RecordFields, Scenario, TransactionPattern, Workload
from scenarios.language.verbs.clients import Produce

if TYPE_CHECKING:
    from scenarios.run.cluster_under_test import ClusterUnderTest

# --------------------------------------------------------------------------------------------------------- applications
#
# The methods of producers and consumers that the applications of a run call, in any process.

MIN_VALUE_BYTES = 1


@runtime_checkable
class OperatedProducer(Protocol):
    """The interface of a producer to its application. See cluster.client.producer.producer.ProducerCore."""

    def send(self, record: ProducerRecord, now_us: int) -> list[Action]: ...

    def send_batch(self, records: Sequence[ProducerRecord], now_us: int) -> list[Action]: ...


@runtime_checkable
class TransactionalProducer(OperatedProducer, Protocol):
    """The interface of a transactional producer to its application. Producers in a JVM do not implement it yet."""

    def transaction(self, call: TransactionCall, now_us: int) -> list[Action]: ...


@runtime_checkable
class OperatedConsumer(Protocol):
    """The interface of a consumer to its application. See cluster.client.consumer.consumer.ConsumerCore."""

    def seek(self, tp: TopicPartition, target: int | Literal["beginning", "end"], now_us: int) -> list[Action]: ...

    def ask_end_offset(self, tp: TopicPartition, now_us: int) -> list[Action]: ...


def value_of(name: str, size_bytes: int) -> bytes:
    """Return a record's value: the record's name, padded to `size_bytes`."""
    value = f"{name} ".encode()
    return value + b"x" * max(MIN_VALUE_BYTES, size_bytes - len(value))


def client_order(scenario: Scenario, workload: Workload) -> ClientOrder:
    """Return the configuration with which a client is started in another process."""
    if workload.kind == "consumer":
        return ClientOrder(topics=workload.topics, config=workload.consumer_config(scenario.rules.release))
    # Batches depend on the size of values, not on names.
    batches: list[tuple[int, int, str | None]] = (
        [(workload.batch, workload.size_bytes, max(workload.records.keys, key=len, default=None))]
        if workload.arrival is not None
        else []
    )
    for step in scenario.timeline:
        if isinstance(step.payload, Produce) and step.payload.producer == workload.name:
            payload = step.payload
            keys = payload.fields_for(workload).keys
            batches.append((min(payload.batch, payload.count), payload.size_bytes, max(keys, key=len, default=None)))
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
    """The progress of a client process in its transactions.

    Attributes:
        begun: number of transactions so far.
        sent: number of records in the open transaction.
    """

    begun: int = 0
    sent: int = 0


class Workloads:
    """The clients' applications of a run.

    The records of each producer are named in the order of sending: r0, r1, … The numbers continue when the producer's
    process is restarted.
    """

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self._cluster = cluster
        self._sent: dict[str, int] = {}
        self._streams: dict[str, random.Random] = {}
        self.pending_stops: list[str] = []
        self._transactions: dict[tuple[str, int], _Progress] = {}
        self._producers: dict[type, bool] = {}

    def begin(self) -> None:
        """Schedule the starts, stops and first arrivals of all workloads."""
        for workload in self._cluster.scenario.workloads.values():
            self._sent[workload.name] = 0
            self._streams[workload.name] = random.Random(f"{self._cluster.scenario.seed}/arrivals/{workload.name}")
            self._cluster.time.at_by_file(workload.start_us, partial(self._start, workload.name))
            if workload.arrival is not None:
                # The first record is sent at `start`.
                self._cluster.time.at_by_file(workload.start_us, partial(self._arrive, workload, 0, workload.start_us))
            elif workload.kind != "producer" and workload.stop_us is not None:
                self._cluster.time.at_by_file(workload.stop_us, partial(self.pending_stops.append, workload.name))

    def _start(self, name: str) -> None:
        if not self._cluster.running(name):
            self._cluster.start(name)

    async def perform_due(self) -> None:
        """Close the consumers and transforms whose `stop` time has come."""
        while self.pending_stops:
            await self._cluster.close(self.pending_stops.pop(0))

    # ------------------------------------------------------------------------------------------------------ arrivals

    def _arrive(self, workload: Workload, number: int, due_us: int) -> None:
        """Send the records of one arrival, and schedule the next arrival at a time that does not depend on acks.

        Args:
            number: number of earlier arrivals.
            due_us: time of this arrival.
        """
        arrival = workload.arrival
        assert arrival is not None
        if due_us >= self._cluster.scenario.sends_until_us(workload):
            return
        self._send(workload, workload.batch, workload.batch, workload.size_bytes, workload.records)
        if arrival.poisson:
            mean_us = arrival.period_us * workload.batch / arrival.count
            next_us = due_us + max(1, round(self._streams[workload.name].expovariate(1 / mean_us)))
        else:
            # Count from the start and not from the last arrival, so that rounding does not change the rate.
            next_us = workload.start_us + (number + 1) * workload.batch * arrival.period_us // arrival.count
        self._cluster.time.at_by_file(next_us, partial(self._arrive, workload, number + 1, next_us))

    def produce(self, step: Produce) -> None:
        workload = self._cluster.scenario.workloads[step.producer]
        size_bytes = None if step.tombstone else step.size_bytes
        self._send(workload, step.count, step.batch, size_bytes, step.fields_for(workload))

    def _send(self, workload: Workload, count: int, batch: int, size_bytes: int | None, fields: RecordFields) -> None:
        """Send `count` records in groups of `batch`, or nothing if the client is down; no names are used up then."""
        machine = self._cluster.machines[workload.name]
        if not machine.takes_calls or not self._is_producer(machine.core):
            return
        host, core = machine.host, machine.core
        timestamp_ms = None
        if fields.time is not None:
            # The time can be negative only in a step without `at`, because `check` refuses it in all others.
            timestamp_ms = max(0, fields.time.ms(machine.clock.at(self._cluster.time.now_us)))
        headers = tuple((name, None if value is None else value.encode()) for name, value in fields.headers)
        records = [self._record(workload, size_bytes, fields, timestamp_ms, headers) for _ in range(count)]
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
        """Send records in transactions of `pattern.records` records. An incomplete transaction stays open.

        A restarted client begins a new transaction.
        """
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
        """Return True if a core is a producer. The result is cached per class, because checking a protocol is slow."""
        kind = type(core)
        if kind not in self._producers:
            self._producers[kind] = isinstance(core, OperatedProducer)
        return self._producers[kind]

    def _record(
        self,
        workload: Workload,
        size_bytes: int | None,
        fields: RecordFields,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> ProducerRecord:
        """Create the next record of a workload: a tombstone if `size_bytes` is None."""
        number = self._sent[workload.name]
        self._sent[workload.name] += 1
        name, key = f"{workload.prefix}{number}", fields.key_of(number)
        return ProducerRecord(
            workload.topic,
            fields.partition,
            None if key is None else key.encode(),
            None if size_bytes is None else value_of(name, size_bytes),
            name,
            timestamp_ms=timestamp_ms,
            own_headers=headers,
        )

    def ask_end_offset(self, client: str, topic_partition: TopicPartition) -> None:
        """Let a consumer request the end offset of a partition (ListOffsets with LATEST), if it is running."""
        machine = self._cluster.machines[client]
        if machine.takes_calls and isinstance(machine.core, OperatedConsumer):
            machine.host.call(partial(machine.core.ask_end_offset, topic_partition))
