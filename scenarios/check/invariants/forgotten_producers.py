"""Producers that a broker may have forgotten, by the time alone: what its state says of them is what is to be checked.

A broker forgets a producer that was silent for producer.id.expiration.ms, by the timestamp of its last batch; from then
on it takes any sequence of it, an older one and a batch that it has included.
source: ProducerStateManager.isProducerExpired, ProducerAppendInfo.checkSequence (no current producer epoch)
"""

from __future__ import annotations

from replica.ids import TopicPartition
from replica.log.producers.producer_state import PRODUCER_ID_EXPIRATION_MS
from replica.trace import events as trace
from replica.trace.events import Handler, TraceRow
from scenarios.observe.mirror import LogMirror

EXPIRATION_KEY = "producer.id.expiration.ms"
_BY_DEFAULT_US = PRODUCER_ID_EXPIRATION_MS * 1000
_CLOCKS = ("bump_clock", "strobe_clock")


class ForgottenProducers:
    """expiration_us: the shortest of all brokers at the start, None for Kafka's default.

    Without a shorter one than that nothing is kept, and no producer is forgotten. With one, any producer may have been
    where it is not known how long it was silent: brokers' clocks were moved, or its records were sent before there was
    a shorter one.
    """

    def __init__(self, mirror: LogMirror, expiration_us: int | None) -> None:
        self._mirror = mirror
        self._expiration_us = _BY_DEFAULT_US if expiration_us is None else expiration_us
        self._are_clocks_moved = False
        self._sent_us: dict[str, int] = {}
        """When each record was sent first."""

    def handlers(self) -> dict[type, Handler]:
        found: dict[type, Handler] = {trace.ConfigAltered: self._altered, trace.FaultBegan: self._fault_began}
        if self._expiration_us < _BY_DEFAULT_US:
            found[trace.RecordSent] = self._sent
        return found

    def _sent(self, row: TraceRow, event: trace.RecordSent) -> None:
        self._sent_us.setdefault(event.record, row.at_us)

    def _altered(self, row: TraceRow, event: trace.ConfigAltered) -> None:
        if event.key == EXPIRATION_KEY and event.value is not None:
            self._expiration_us = min(self._expiration_us, int(event.value) * 1000)

    def _fault_began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        self._are_clocks_moved |= event.verb in _CLOCKS

    def may_include(self, row: TraceRow, event: trace.BatchAppended) -> bool:
        """The producer of a batch that is the latest of its log, before it came."""
        if self._expiration_us >= _BY_DEFAULT_US:
            return False
        sent_us = self._last_sent_us(event)
        return self._are_clocks_moved or sent_us is None or row.at_us - sent_us >= self._expiration_us

    def _last_sent_us(self, event: trace.BatchAppended) -> int | None:
        """When the last record in the producer's last batch but this one was sent: what its timestamp says, or less."""
        partition = TopicPartition(event.topic, event.partition)
        before = [
            batch
            for batch in self._mirror.log(partition, event.node).between(0, event.base_offset)
            if batch.producer_id == event.producer_id
        ]
        names = self._mirror.sent.records(partition, before[-1].base_offset, before[-1].crc) if before else ()
        return self._sent_us.get(names[-1]) if names else None
