"""Requests that wait for a coordinator's answer, and the timer of a coordinator's earliest deadline."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from cluster.clocks import Timer, Timers
from cluster.coordinators.core import RequestId
from cluster.node import Action, ConnectionId

R = TypeVar("R")


class _Waiting(NamedTuple, Generic[R]):
    connection: ConnectionId
    respond: Callable[[R], None]


class WaitingRequests(Generic[R]):
    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: dict[RequestId, _Waiting[R]] = {}
        self._in_progress: dict[ConnectionId, list[RequestId]] = {}

    def enter(self, connection: ConnectionId, respond: Callable[[R], None]) -> RequestId:
        """Add a request and return its number. `respond` is called once, unless the client disconnects first."""
        request = next(self._numbers)
        self._waiting[request] = _Waiting(connection, respond)
        self._in_progress.setdefault(connection, []).append(request)
        return request

    def answer(self, request: RequestId, result: R) -> None:
        waiting = self._waiting.pop(request, None)
        if waiting is not None:
            left = self._in_progress[waiting.connection]
            left.remove(request)
            if not left:
                del self._in_progress[waiting.connection]
            waiting.respond(result)

    def gone(self, connection: ConnectionId) -> None:
        """Drop the requests of a closed connection."""
        for request in self._in_progress.pop(connection, ()):
            del self._waiting[request]


class EarliestDeadline:
    """A timer that calls a coordinator when its earliest deadline is reached."""

    def __init__(self, timers: Timers[Action], ring: Callable[[int], None]) -> None:
        self._timers = timers
        self._ring = ring
        self._set: tuple[int, Timer] | None = None

    def set(self, due_us: int | None) -> None:
        if self._set is not None and self._set[0] == due_us:
            return
        if self._set is not None:
            self._set[1].cancel()
            self._set = None
        if due_us is not None:
            self._set = (due_us, self._timers.at(due_us, self._rings))

    def _rings(self, now_us: int) -> None:
        self._set = None
        self._ring(now_us)
