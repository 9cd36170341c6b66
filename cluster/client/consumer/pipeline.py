"""The processing of fetched records before the application gets them: deserializers, then interceptors.

At a record that cannot be deserialized, every poll raises an error until the application seeks past it (KIP-334). Until
then, records of other partitions are not returned either.
Simplified: onConsume is called for each partition of a response; in Java once for all records that a poll returns.
Source: CompletedFetch.parseRecord, FetchCollector.collectFetch, ConsumerInterceptors.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cluster.client.events import ClientEvents, record_name
from cluster.client.interceptors import (
    NO_TIME,
    ON_COMMIT,
    ON_CONSUME,
    ClientCpuTimes,
    InterceptorChain,
)
from cluster.client.serialization import READS_TEXT, Deserializers, deserializers_of
from cluster.config import ConsumerConfig
from replica.errors import RECORD_DESERIALIZATION, NotConvertible
from replica.ids import Offset, TopicPartition
from replica.log.batches.records import Record
from replica.trace import events as trace


class ConsumerPipeline:
    """The deserializers and interceptors of one consumer."""

    def __init__(
        self, deserializers: Deserializers, chain: InterceptorChain, cpu: ClientCpuTimes, events: ClientEvents
    ) -> None:
        self._deserializers = deserializers
        self._chain = chain
        self._cpu = cpu
        self._events = events

    @property
    def record_us(self) -> int:
        """The time that the application's thread spends on one record, in microseconds."""
        return self._cpu.deserializer_us + self._cpu.interceptor_us * len(self._chain.names)

    def reads(self, tp: TopicPartition, record: Record, peer: str) -> bool:
        """Deserialize a record and emit the outcome as an event; return False if a deserializer fails."""
        name = record_name(record)
        about: dict[str, Any] = {
            "offset": record.offset,
            "record": name,
            "key_format": self._deserializers.key,
            "value_format": self._deserializers.value,
        }
        try:
            self._deserializers.read(record.key, record.value, name)
        except NotConvertible as why:
            failed = trace.FetchFailed(
                self._events.client, *tp, peer=peer, offset=record.offset, error=RECORD_DESERIALIZATION
            )
            cause = self._events.emit(failed)
            self._tell(trace.DeserializationFailed, tp, cause, **about, message=str(why))
            return False
        self._tell(trace.RecordDeserialized, tp, **about, took_us=self._cpu.deserializer_us)
        return True

    def on_consume(self, tp: TopicPartition, first: Offset, end: Offset) -> None:
        """Call onConsume of each interceptor for the records from `first` up to, but not including, `end`."""
        took_us = self._cpu.interceptor_us
        for name in self._chain.names:
            call = self._chain.called(name, ON_CONSUME, took_us)
            self._tell(trace.PositionIntercepted, tp, offset=end, first_offset=first, **call._asdict())

    def on_commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Call onCommit of each interceptor with the committed offsets."""
        for name in self._chain.names:
            for tp, offset in offsets.items():
                call = self._chain.called(name, ON_COMMIT, 0)
                self._tell(trace.PositionIntercepted, tp, offset=offset, **call._asdict())

    def _tell(
        self, event: Callable[..., trace.TraceEvent], tp: TopicPartition, cause: int | None = None, **columns: Any
    ) -> None:
        self._events.emit(event(self._events.client, *tp, **columns), cause)


def pipeline_of(config: ConsumerConfig, cpu: ClientCpuTimes, events: ClientEvents) -> ConsumerPipeline | None:
    """Return a consumer's pipeline, None if it has no interceptors, deserializers or CPU times to simulate."""
    deserializers = deserializers_of(config)
    chain = InterceptorChain(config.interceptor_classes)
    if deserializers is None and not chain.names and cpu == NO_TIME:
        return None
    return ConsumerPipeline(deserializers or READS_TEXT, chain, cpu, events)
