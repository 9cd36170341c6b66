"""The stages of a request's records inside the client: interceptors, serializers, accumulator, deserializers.

The trace has events of these stages only for clients with custom interceptors, serializers or deserializers
(`replica.trace.pipeline`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from replica.trace import events as trace
from replica.trace.events import TraceEvent, TraceRow
from replica.trace.listening import Listener, on
from replica.wording import listed
from scenarios.observe.wording import count_of

TOLD_MAX = 6
"""Largest number of records that are shown by name; of more, only the number is shown."""


class ClientStage(NamedTuple):
    """A stage inside the client, which becomes a `request_journey.Stage`."""

    at_us: int
    name: str
    took_us: int
    text: str
    happened: tuple[tuple[int, str], ...]


class PipelineStages(Listener):
    """Collects the events of stages inside clients from a trace, by client and record."""

    def __init__(self, rows: Iterable[TraceRow]) -> None:
        self._calls: dict[tuple[str, str], int] = {}
        self._of_sent: dict[tuple[str, str], list[TraceRow]] = {}
        self._of_read: dict[tuple[str, int], list[TraceRow]] = {}
        for row in rows:
            self(row)

    @on(trace.RecordSent)
    def _called(self, row: TraceRow, event: trace.RecordSent) -> None:
        self._calls[event.client, event.record] = row.at_us

    @on(trace.RecordIntercepted, trace.RecordSerialized)
    def _sent(self, row: TraceRow, event: trace.RecordIntercepted | trace.RecordSerialized) -> None:
        self._of_sent.setdefault((event.client, event.record), []).append(row)

    @on(trace.RecordDeserialized, trace.DeserializationFailed, trace.PositionIntercepted)
    def _read(self, row: TraceRow, event: Any) -> None:
        self._of_read.setdefault((event.client, row.at_us), []).append(row)

    def before(self, client: str, records: Sequence[str], sent_us: int) -> Iterator[ClientStage]:
        """Yield the producer's stages from the first call of `send` until the batch is sent at `sent_us`."""
        rows = [row for record in records for row in self._of_sent.get((client, record), ()) if row.at_us <= sent_us]
        if not rows:
            return
        called_us = min(self._calls.get((client, record), sent_us) for record in records)
        yield ClientStage(called_us, "send", 0, f"the application hands {_named(records)} to {client}", ())
        calls = [row for row in rows if isinstance(row.event, trace.RecordIntercepted) and row.event.hook == "onSend"]
        if calls:
            yield _interceptors(calls, "onSend")
        formed = [row for row in rows if isinstance(row.event, trace.RecordSerialized)]
        queued_us = called_us
        if formed:
            yield _serializers(formed)
            queued_us = max(row.at_us + _took(row.event) for row in formed)
        waited = "waits in the batch until the sender sends it"
        yield ClientStage(queued_us, "accumulator", max(0, sent_us - queued_us), waited, ())

    def acknowledged(self, client: str, records: Sequence[str], since_us: int) -> Iterator[ClientStage]:
        """Yield the stage of the interceptors' onAcknowledgement after the answer that came at `since_us`, if any."""
        rows = [row for record in records for row in self._of_sent.get((client, record), ())]
        calls = [
            row
            for row in rows
            if isinstance(row.event, trace.RecordIntercepted)
            and row.event.hook == "onAcknowledgement"
            and row.at_us == since_us
        ]
        if calls:
            yield _interceptors(calls, "onAcknowledgement")

    def read(self, client: str, at_us: int) -> Iterator[ClientStage]:
        """Yield the consumer's stages for a fetch response whose records the application gets at `at_us`."""
        rows = self._of_read.get((client, at_us), [])
        calls = [
            row for row in rows if isinstance(row.event, trace.PositionIntercepted) and row.event.hook == "onConsume"
        ]
        formed = [row for row in rows if not isinstance(row.event, trace.PositionIntercepted)]
        took_us = sum(_took(row.event) for row in formed)
        if formed:
            happened = _descriptions(formed)
            many = count_of(len(formed), "record")
            begun_us = at_us - took_us - sum(_took(row.event) for row in calls)
            yield ClientStage(
                begun_us, "deserializer", took_us, f"{client} deserializes keys and values of {many}", happened
            )
        if calls:
            yield _interceptors(calls, "onConsume")


def _took(event: TraceEvent) -> int:
    """Return how long the stage of an event took, in microseconds; 0 for an exception."""
    return int(getattr(event, "took_us", 0))


def _interceptors(calls: Sequence[TraceRow], hook: str) -> ClientStage:
    took_us = sum(_took(row.event) for row in calls)
    text = f"{hook}: {count_of(len(calls), 'call')}"
    return ClientStage(calls[0].at_us, "interceptors", took_us, text, _descriptions(calls))


def _serializers(formed: Sequence[TraceRow]) -> ClientStage:
    took_us = sum(_took(row.event) for row in formed)
    text = f"serializes keys and values of {count_of(len(formed), 'record')}"
    return ClientStage(formed[0].at_us, "serializer", took_us, text, _descriptions(formed))


def _descriptions(rows: Sequence[TraceRow]) -> tuple[tuple[int, str], ...]:
    return tuple((row.at_us, row.event.sentence()) for row in rows[:TOLD_MAX])


def _named(records: Sequence[str]) -> str:
    return listed(records) if len(records) <= TOLD_MAX else count_of(len(records), "record")
