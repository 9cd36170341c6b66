"""What turns the work of a client: a request of it is refused, its position is moved, a record has no meaning for it,
or it has to wait for its quota. The timeline has the first of a kind; the trace has all.
"""

from __future__ import annotations

from typing import ClassVar

from replica.errors import RETRIABLE, ErrorCode
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from scenarios.observe.availability import IsGone, drop

Kind = tuple[str, str, str]
"""What the timeline has once."""

_NO_SUCH_OFFSET = ("OFFSET_OUT_OF_RANGE", "NO_OFFSET_FOR_PARTITION")
"""Errors that move a position, or with auto.offset.reset=none end the reading."""


class ClientTurns:
    WANTED: ClassVar[tuple[type[TraceEvent], ...]] = (
        trace.RecordRead,
        trace.PositionReset,
        trace.FetchFailed,
        trace.RequestRefused,
        trace.OffsetCommitRefused,
        trace.DeserializationFailed,
        trace.ClientThrottled,
    )

    def __init__(self) -> None:
        self._read: dict[tuple[str, int], None] = {}
        """partitions of which a client has read a record"""

    def told(self, event: TraceEvent) -> tuple[Kind, str] | None:
        match event:
            case trace.RecordRead():
                self._read[event.topic, event.partition] = None
            case trace.PositionReset() if event.error is not None and self._goes_on(event):
                # Reasons tell of each partition; the same sentence of several partitions is one line.
                text = f"{event.client} goes to offset {event.offset}: {event.reason}"
                return (event.client, f"{event.topic}-{event.partition} {event.offset}", event.reason), text
            case trace.FetchFailed() if event.error in _NO_SUCH_OFFSET:
                where = f" at offset {event.offset}" if event.offset >= 0 else ""
                text = f"{event.client} gets {event.error}{where} of {event.topic}-{event.partition}"
                return (event.client, f"{event.topic}-{event.partition}", event.error), text
            case trace.RequestRefused() if (
                isinstance(event, trace.OffsetCommitRefused) or ErrorCode[event.error] not in RETRIABLE
            ):
                return (event.client, f"{event.api} {event.group or ''}", event.error), event.reason
            case trace.DeserializationFailed():
                return (event.client, event.record, ""), event.reason
            case trace.ClientThrottled():
                return (event.node, event.peer, event.key), event.reason
        return None

    def forget(self, is_gone: IsGone) -> None:
        drop(is_gone, self._read)

    def _goes_on(self, event: trace.PositionReset) -> bool:
        """A client has read of the partition: where its first reader begins is no news."""
        return event.previous_offset >= 0 or (event.topic, event.partition) in self._read
