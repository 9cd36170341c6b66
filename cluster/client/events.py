"""A client's trace events: its actions and their causes."""

from __future__ import annotations

from typing import Protocol

from replica.log.batches.records import Record
from replica.trace import events as trace
from replica.trace.events import Recorder

NAME_HEADER = "name"
"""The header that has a record's name if the record has no value; the trace refers to records by these names."""
NAMED_APART_HEADER = "highwater.name"
"""The header that has a record's name if the value is not text; applications do not use this header."""
DEAD_LETTER_HEADERS = ("__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset")


def record_name(record: Record) -> str:
    """Return the name of a record: the first word of its value.

    If the value is missing or is not text, the name is in a header. A tombstone without such a header is named by its
    key. A dead letter of a share group is named by the record's place, as in `t-0@3`.
    """
    text = record.value
    if record.headers:
        headers = dict(record.headers)
        if DEAD_LETTER_HEADERS[0] in headers:
            topic, partition, offset = (_text(headers.get(item)) for item in DEAD_LETTER_HEADERS)
            return f"{topic}-{partition}@{offset}"
        if text is not None:
            text = headers.get(NAMED_APART_HEADER) or text
    if text is None:
        text = dict(record.headers).get(NAME_HEADER) or record.key or b"?"
    return _text(text.split(b" ", 1)[0])


def _text(data: bytes | None) -> str:
    return (data or b"?").decode("utf-8", "replace")


class CausalRecorder(Recorder, Protocol):
    """A recorder that also has the number of the event that caused the current step, as `TraceLog` does."""

    cause: int | None


class ClientEvents:
    """The events of one client; call `begin_step` first in every step, since the events of a step share its cause."""

    def __init__(self, client: str, recorder: CausalRecorder) -> None:
        self.client = client
        self._recorder = recorder
        self._step_cause: int | None = None

    def begin_step(self, *, from_outside: bool) -> None:
        """Set the shared cause of the events in the step that begins.

        Args:
            from_outside: True if the network began the step; the recorder then has its cause already. False if the
                application or a timer began the step, which then has no cause.
        """
        if not from_outside:
            self._recorder.cause = None
        self._step_cause = self._recorder.cause

    def emit(self, event: trace.TraceEvent, *own_causes: int | None) -> int:
        """Emit an event and return its number.

        Args:
            own_causes: numbers of events that caused this one, besides the cause of the step; None and negative numbers
                are ignored.
        """
        causes = {seq for seq in (*own_causes, self._step_cause) if seq is not None and seq >= 0}
        return self._recorder.emit(event, *sorted(causes))
