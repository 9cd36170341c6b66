"""A client's trace events: its actions and their causes."""

from __future__ import annotations

from typing import Protocol

from replica.log.batches.records import Record
from replica.trace import events as trace
from replica.trace.events import Recorder

NAME_HEADER = "name"
"""A record without a value carries its name, by which the trace knows it, in this header."""
NAMED_APART_HEADER = "highwater.name"
"""So does one whose value is no text; applications have no header of this name."""


def record_name(record: Record) -> str:
    """The first word of the value. A tombstone has its name in a header, and so has a value that is no text; a
    tombstone of another client goes by its key."""
    text = record.value
    if record.headers and text is not None:
        text = dict(record.headers).get(NAMED_APART_HEADER) or text
    if text is None:
        text = dict(record.headers).get(NAME_HEADER) or record.key or b"?"
    return text.split(b" ", 1)[0].decode("utf-8", "replace")


class CausalRecorder(Recorder, Protocol):
    """A recorder that also knows what led to the step in progress (`TraceLog` does)."""

    cause: int | None


class ClientEvents:
    """Events of one client; call `begin_step` first in every step. Events of one step share its cause."""

    def __init__(self, client: str, recorder: CausalRecorder) -> None:
        self.client = client
        self._recorder = recorder
        self._step_cause: int | None = None

    def begin_step(self, *, from_outside: bool) -> None:
        """Settle what the events of the step that begins now follow from, besides their own causes.

        from_outside: a message or the end of a connection: what the shell says led here. Otherwise the application or
        the clock began the step, and what happens to be the latest event has nothing to do with it.
        """
        if not from_outside:
            self._recorder.cause = None
        self._step_cause = self._recorder.cause

    def emit(self, event: trace.TraceEvent, *own_causes: int | None) -> int:
        """own_causes: numbers of events; None or a negative number stands for none"""
        causes = {seq for seq in (*own_causes, self._step_cause) if seq is not None and seq >= 0}
        return self._recorder.emit(event, *sorted(causes))
