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
from scenarios.check.invariants.checker import InvariantChecker

EXPIRATION_KEY = "producer.id.expiration.ms"
_BY_DEFAULT_US = PRODUCER_ID_EXPIRATION_MS * 1000


class ForgottenProducers:
    """How long a producer was silent, a broker says by its wall clock, which jumps move away from that of the producer.

    Its last timestamp is that of a record, from when that was sent. Kept is this only where some broker has a shorter
    expiration than Kafka's default from the start on. With the default of a day, the time of the append stands for it;
    else, and of records without a name, it is known that no producer was silent for longer than the run so far.
    """

    def __init__(self, checker: InvariantChecker) -> None:
        self._checker = checker
        known_us = checker.producer_expiration_us
        self._expiration_us = _BY_DEFAULT_US if known_us is None else known_us
        self._sent_us: dict[str, int] = {}
        """When each record was sent first."""

    def handlers(self) -> dict[type, Handler]:
        found: dict[type, Handler] = {trace.ConfigAltered: self._altered}
        if self._expiration_us < _BY_DEFAULT_US:
            found[trace.RecordSent] = self._sent
        return found

    def _sent(self, row: TraceRow, event: trace.RecordSent) -> None:
        self._sent_us.setdefault(event.record, row.at_us)

    def _altered(self, row: TraceRow, event: trace.ConfigAltered) -> None:
        if event.key == EXPIRATION_KEY and event.value is not None:
            self._expiration_us = min(self._expiration_us, int(event.value) * 1000)

    def may_include(self, row: TraceRow, event: trace.BatchAppended, appended_us: int) -> bool:
        """The producer of a batch that is the latest of its log, before it came.

        appended_us: when the one before it came
        """
        cores = self._checker.cores
        apart_us = 0 if cores is None else cores.clocks_apart_us()
        since_us = appended_us if self._expiration_us >= _BY_DEFAULT_US else self._last_sent_us(event)
        return row.at_us - since_us + apart_us >= self._expiration_us

    def _last_sent_us(self, event: trace.BatchAppended) -> int:
        """When the last record in the producer's last batch but this one was sent: what its timestamp says, or less."""
        mirror = self._checker.mirror
        partition = TopicPartition(event.topic, event.partition)
        before = [
            batch
            for batch in mirror.log(partition, event.node).between(0, event.base_offset)
            if batch.producer_id == event.producer_id
        ]
        names = mirror.sent.records(partition, before[-1].base_offset, before[-1].crc) if before else ()
        return self._sent_us.get(names[-1], 0) if names else 0
