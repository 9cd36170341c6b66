"""How long a handler is busy with the request in progress of each connection, for quotas of threads.
source: RequestChannel.Request.requestThreadTimeNanos"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.node import ConnectionId
from cluster.server.cpu import HandlerTime


@dataclass(slots=True)
class _Handled:
    """ended_us: None while a handler is busy with it     work_us: what that takes by the scenario"""

    began_us: int
    ended_us: int | None = None
    work_us: int = 0


class ThreadTimes:
    """clock: microseconds; live it goes on while a request is handled"""

    __slots__ = ("_clock", "_current", "_handled", "_handler_time")

    def __init__(self, clock: Callable[[], int], handler_time: HandlerTime) -> None:
        self._clock = clock
        self._handler_time = handler_time
        self._handled: dict[ConnectionId, _Handled] = {}
        self._current: ConnectionId | None = None

    def began(self, connection: ConnectionId) -> None:
        """A handler takes the request up."""
        self._handled[connection] = _Handled(self._clock())
        self._current = connection

    def worked(self, connection: ConnectionId) -> None:
        """It has done its part, or waits for the disk; its time is not over yet, where work takes any."""
        self._current = None
        handled = self._handled.get(connection)
        if handled is not None:
            handled.work_us = self._handler_time.spent_us

    def ended(self, connection: ConnectionId) -> None:
        """The handler is free again."""
        handled = self._handled.get(connection)
        if handled is not None:
            handled.ended_us = self._clock()

    def gone(self, connection: ConnectionId) -> None:
        self._handled.pop(connection, None)

    def of(self, connection: ConnectionId) -> int:
        """So far; in the handler, that is what its work has taken up to now."""
        handled = self._handled.get(connection)
        if handled is None:
            return 0
        work_us = self._handler_time.spent_us if self._current == connection else handled.work_us
        until_us = self._clock() if handled.ended_us is None else handled.ended_us
        return max(work_us, until_us - handled.began_us)
