"""What has happened in a run that makes an old rule's gap matter (promises.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replica.trace import events as trace
from replica.trace.events import TraceRow

BYTES_LOST = "a disk has lost bytes"
RETURNED_UNFENCED = "a broker has registered that was not fenced for its former life"


class Circumstances:
    """`handlers` take the events of a run in order; `seen` holds BYTES_LOST and RETURNED_UNFENCED once they are so."""

    def __init__(self) -> None:
        self.seen: dict[str, None] = {}
        self._unfenced: dict[str, None] = {}
        self._broker_epochs: dict[str, int] = {}
        self.handlers: dict[type, Callable[[TraceRow, Any], None]] = {
            trace.DataLost: self._data_lost,
            trace.BrokerUnfenced: self._unfenced_now,
            trace.BrokerFenced: self._fenced_now,
            trace.BrokerRegistered: self._registered,
        }

    @property
    def bytes_lost(self) -> bool:
        return BYTES_LOST in self.seen

    def _data_lost(self, row: TraceRow, event: trace.DataLost) -> None:
        self.seen[BYTES_LOST] = None

    def _unfenced_now(self, row: TraceRow, event: trace.BrokerUnfenced) -> None:
        self._unfenced[event.broker or event.node] = None

    def _fenced_now(self, row: TraceRow, event: trace.BrokerFenced) -> None:
        self._unfenced.pop(event.broker or event.node, None)

    def _registered(self, row: TraceRow, event: trace.BrokerRegistered) -> None:
        broker = event.broker or event.node
        if self._broker_epochs.get(broker) == event.broker_epoch:
            return  # the same life once more
        self._broker_epochs[broker] = event.broker_epoch
        if broker in self._unfenced:
            del self._unfenced[broker]
            self.seen[RETURNED_UNFENCED] = None
