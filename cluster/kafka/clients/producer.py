"""Controls one Java producer, and writes its actions into the trace.

The JVM reports each record that was acked or failed, with its offset, time and error. The frames on the producer's
connections show the batch of each record, its attempts, and each response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.client.producer.accumulator import partition_for_key
from cluster.client.producer.batch import ProducerRecord
from cluster.config import ProducerConfig
from cluster.kafka.clients.orders import Order, producer_settings, record_order
from cluster.kafka.clients.sight import AnswerSeen, BatchSeen, ObservedClient
from cluster.node import Action
from cluster.operated import ClientOrder
from replica.causes import FailureCause
from replica.errors import INDEFINITE, RETRIABLE, ErrorCode
from replica.trace import events as trace
from replica.trace.events import TraceLog

UNKNOWN_PARTITION = -1
"""The partition in the trace event RecordSent if the producer has not chosen one yet."""
NOT_ON_ITS_WAY = "-"


@dataclass(slots=True)
class SentRecord:
    """A sent record that is neither acked nor failed yet.

    Attributes:
        partition: partition of the record, or UNKNOWN_PARTITION.
        latest: number of the record's latest trace event, which causes its next one.
        unanswered: number of attempts in flight.
        may_be_written: True if an attempt had no definite response.
    """

    partition: int
    latest: int
    peer: str = NOT_ON_ITS_WAY
    attempts: int = 0
    unanswered: int = 0
    may_be_written: bool = False


@dataclass(frozen=True, slots=True)
class BatchAttempt:
    """One attempt to send one batch. `names` are the names of its records, `seq` is the number of its trace event."""

    batch: BatchSeen
    names: tuple[str, ...]
    attempt: int
    seq: int


class JavaProducer(ObservedClient):
    """A Java producer that a scenario controls (an OperatedProducer).

    Args:
        tell: sends a command to the clients' JVM.
        begin: starts the client's host and returns the brokers' addresses.
    """

    def __init__(
        self,
        name: str,
        order: ClientOrder,
        recorder: TraceLog,
        tell: Callable[[Order], None],
        begin: Callable[[], str],
    ) -> None:
        assert isinstance(order.config, ProducerConfig)
        super().__init__(order.topics)
        (self._topic,) = order.topics
        self._name = name
        self._order = order
        self._acks = order.config.required_acks
        self._config = order.config
        self._recorder = recorder
        self._tell = tell
        self._begin = begin
        self._sent: dict[str, SentRecord] = {}

    def launch(self) -> None:
        config = producer_settings(self._name, self._begin(), self._config, self._order.largest_batch)
        self._tell({"do": "producer", "client": self._name, "topic": self._topic, "config": config})

    # ----------------------------------------------------------------------------------------------- the application

    def send(self, record: ProducerRecord, now_us: int) -> list[Action]:
        return self.send_batch([record], now_us)

    def send_batch(self, records: Sequence[ProducerRecord], now_us: int) -> list[Action]:
        for record in records:
            partition = self._partition_of(record)
            self._recorder.cause = None
            sent = trace.RecordSent(self._name, self._topic, partition, record=record.name, acks=self._acks)
            self._sent[record.name] = SentRecord(partition, self._recorder.emit(sent))
        # Without a batch to fill, linger.ms is 0.
        flush = len(self._order.largest_batch) > 1
        orders = list(map(record_order, records))
        self._tell({"do": "send", "client": self._name, "records": orders, "flush": flush})
        return []

    def _partition_of(self, record: ProducerRecord) -> int:
        """Return the partition that the producer will choose, or UNKNOWN_PARTITION if that cannot be predicted."""
        if record.partition is not None:
            return record.partition
        if record.key is not None:
            return partition_for_key(record.key, self._order.partitions)
        return 0 if self._order.partitions == 1 else UNKNOWN_PARTITION

    # --------------------------------------------------------------------------------------------- what the JVM says

    def heard(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "acked":
            self._acked(event)
        elif event["event"] == "failed":
            self._failed(event)

    def _acked(self, event: Mapping[str, Any]) -> None:
        sent = self._sent.pop(event["record"], None)
        if sent is None:
            return
        if self._acks == 0:
            self._recorder.emit(
                trace.RecordHandedOver(
                    self._name,
                    self._topic,
                    event["partition"],
                    peer=sent.peer,
                    record=event["record"],
                    acks=0,
                    latency_us=event["micros"],
                ),
                sent.latest,
            )
            return
        self._recorder.emit(
            trace.RecordAcked(
                self._name,
                self._topic,
                event["partition"],
                peer=sent.peer,
                record=event["record"],
                offset=event["offset"],
                acks=self._acks,
                latency_us=event["micros"],
            ),
            sent.latest,
        )

    def _failed(self, event: Mapping[str, Any]) -> None:
        sent = self._sent.pop(event["record"], None)
        if sent is None:
            return
        partition = event["partition"] if event["partition"] >= 0 else sent.partition
        self._recorder.emit(
            trace.RecordFailed(
                client=self._name,
                topic=self._topic,
                partition=partition,
                record=event["record"],
                acks=self._acks,
                error=event["error"],
                definite=not (sent.may_be_written or sent.unanswered),
                latency_us=event["micros"],
                message=event["message"],
            ),
            sent.latest,
        )

    # -------------------------------------------------------------------------------------- what its connections show

    def batch_left(self, peer: str, batch: BatchSeen, acks: int) -> BatchAttempt:
        names = tuple(name_of(record.value) for record in batch.records)
        known = [self._sent[name] for name in names if name in self._sent]
        attempt = 1 + max((record.attempts for record in known), default=0)
        seq = self._recorder.emit(
            trace.BatchSent(
                self._name,
                *batch.topic_partition,
                peer=peer,
                records=names,
                crc=batch.header.crc,
                attempt=attempt,
                acks=acks,
                producer_id=batch.header.producer_id,
                base_sequence=batch.header.base_sequence,
            ),
            *sorted({record.latest for record in known}),
        )
        for record in known:
            record.attempts, record.latest, record.peer = attempt, seq, peer
            record.partition = batch.topic_partition.partition
            record.unanswered += 1
        return BatchAttempt(batch, names, attempt, seq)

    def batch_answered(self, peer: str, sending: object, answer: AnswerSeen) -> None:
        assert isinstance(sending, BatchAttempt)
        if answer.error is ErrorCode.NONE:
            for record in self._known(sending):
                record.unanswered -= 1
                record.latest, record.peer = sending.seq, peer
            return
        self._refused(peer, sending, answer.error, FailureCause.ERROR, answer.message)

    def batch_unanswered(self, peer: str, sending: object, reason: str) -> None:
        assert isinstance(sending, BatchAttempt)
        self._refused(peer, sending, ErrorCode.NETWORK_EXCEPTION, FailureCause.CONNECTION_LOST, reason)

    def _refused(
        self, peer: str, sending: BatchAttempt, error: ErrorCode, cause: FailureCause, message: str | None
    ) -> None:
        known = self._known(sending)
        topic, partition = sending.batch.topic_partition
        seq = self._recorder.emit(
            trace.BatchRefused(
                client=self._name,
                peer=peer,
                topic=topic,
                partition=partition,
                records=sending.names,
                crc=sending.batch.header.crc,
                attempt=sending.attempt,
                error=error.name,
                will_retry=bool(known) and error in RETRIABLE,
                cause=cause,
                message=message,
            ),
            sending.seq,
        )
        for record in known:
            record.unanswered -= 1
            record.latest = seq
            record.may_be_written |= error in INDEFINITE

    def _known(self, sending: BatchAttempt) -> list[SentRecord]:
        """Return the records of the attempt's batch that are neither acked nor failed yet."""
        return [self._sent[name] for name in sending.names if name in self._sent]


def name_of(value: bytes | None) -> str:
    """Return the name of a record: the first word of its value."""
    return (value or b"?").split(b" ", 1)[0].decode("utf-8", "replace")
