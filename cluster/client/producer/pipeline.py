"""The processing of a record before the producer queues it: interceptors, then serializers.

The steps of KafkaProducer.send, in the application's thread, are: onSend of each interceptor; the wait for metadata;
the serializers of key and value; the partitioner; the size check; the accumulator. A producer without interceptors,
serializers and CPU times has no pipeline and emits no events about these steps.
Source: KafkaProducer.send, KafkaProducer.doSend, ProducerInterceptors.java
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cluster.client.events import ClientEvents
from cluster.client.interceptors import (
    NO_TIME,
    ON_ACKNOWLEDGEMENT,
    ON_SEND,
    ClientCpuTimes,
    InterceptorChain,
)
from cluster.client.producer.batch import PendingRecord, ProducerRecord
from cluster.client.serialization import TEXT, Serializers, serializers_of
from cluster.config import STAMP, ProducerConfig
from replica.ids import TopicPartition
from replica.trace.columns import PipelineEvent
from replica.trace.events import RecordIntercepted, RecordSerialized

STAMP_TEXT = b" stamped"
"""The text that StampInterceptor appends to a value."""


class ProducerPipeline:
    """The interceptors and serializers of one producer."""

    def __init__(
        self, serializers: Serializers, chain: InterceptorChain, cpu: ClientCpuTimes, events: ClientEvents
    ) -> None:
        self._serializers = serializers
        self._chain = chain
        self._cpu = cpu
        self._events = events

    @property
    def intercept_us(self) -> int:
        """The time that the application's thread spends on all interceptors of one record, in microseconds."""
        return self._cpu.interceptor_us * len(self._chain.names)

    @property
    def serialize_us(self) -> int:
        return self._cpu.serializer_us

    # ---------------------------------------------------------------------------------------------------- the stages

    def on_send(self, pending: PendingRecord) -> PendingRecord:
        """Call onSend of each interceptor, and return the record with their changes."""
        for name in self._chain.names:
            record = self._stamped(pending.record) if name == STAMP else pending.record
            changes = record is not pending.record
            took_us = self._cpu.interceptor_us
            call = self._chain.called(name, ON_SEND, took_us, changes=changes)
            self._tell(RecordIntercepted, pending, pending.record.partition, **call._asdict())
            if changes:
                pending = replace(pending, record=record)
        return pending

    def _stamped(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record with a stamped value, or unchanged if it has no value or the value is not text."""
        if record.value is None or self._serializers.names_apart:
            return record
        return replace(record, value=record.value + STAMP_TEXT)

    def serialize(self, pending: PendingRecord) -> PendingRecord:
        """Return the record with its key and value serialized.

        Raises:
            NotConvertible: if a serializer fails.
        """
        record = pending.record
        key = self._serializers.key_bytes(record.key, record.name)
        value = self._serializers.value_bytes(record.value, record.name)
        self._tell(
            RecordSerialized,
            pending,
            record.partition,
            key_format=self._serializers.key,
            value_format=self._serializers.value,
            size_bytes=len(key or b"") + len(value or b""),
            took_us=self._cpu.serializer_us,
        )
        if key == record.key and value == record.value:
            return pending
        named = replace(record, key=key, value=value, is_named_apart=self._serializers.names_apart)
        return replace(pending, record=named)

    def on_acknowledgement(
        self, tp: TopicPartition, pending: PendingRecord, offset: int | None, error: str | None = None
    ) -> None:
        """Call onAcknowledgement of each interceptor; `offset` is None if the record failed or was sent with acks=0."""
        for name in self._chain.names:
            call = self._chain.called(name, ON_ACKNOWLEDGEMENT, 0)
            self._tell(RecordIntercepted, pending, tp.partition, offset=offset, error=error, **call._asdict())

    def _tell(
        self, event: Callable[..., PipelineEvent], pending: PendingRecord, partition: int | None, **columns: Any
    ) -> None:
        about = {"client": self._events.client, "topic": pending.record.topic, "record": pending.record.name}
        number = -1 if partition is None else partition
        self._events.emit(event(**about, partition=number, **columns), pending.sent_seq)


def pipeline_of(config: ProducerConfig, cpu: ClientCpuTimes, events: ClientEvents) -> ProducerPipeline | None:
    """Return a producer's pipeline, None if it has no interceptors, serializers or CPU times to simulate."""
    serializers = serializers_of(config)
    chain = InterceptorChain(config.interceptor_classes)
    if serializers is None and not chain.names and cpu == NO_TIME:
        return None
    return ProducerPipeline(serializers or TEXT, chain, cpu, events)
