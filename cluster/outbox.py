"""Where the parts of one core leave what they want done, and the deadlines they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from cluster.clocks import Timers
from cluster.node import (
    Action,
    Close,
    Connect,
    ConnectionId,
    EndProcess,
    LimitRequests,
    Listen,
    OnSent,
    ResumeReading,
    Segment,
    Send,
    WorkApart,
    is_answer,
)


class Outbox:
    """Collects the actions of one step in order; the core hands them to its shell with `take`."""

    __slots__ = ("_actions", "_connections", "timers")

    def __init__(self) -> None:
        self.timers: Timers[Action] = Timers()
        self._actions: list[Action] = []
        self._connections = count(1)

    def connect(self, host: str, port: int) -> ConnectionId:
        connection = next(self._connections)
        self._actions.append(Connect(connection, host, port))
        return connection

    def request(self, connection: ConnectionId, frame: bytes, api: int) -> None:
        self._actions.append(Send(connection, (frame,), api, "request"))

    def respond(
        self,
        connection: ConnectionId,
        segments: Sequence[Segment],
        api: int,
        cause: int | None = None,
        on_sent: OnSent | None = None,
    ) -> None:
        self._actions.append(Send(connection, segments, api, "response", cause, on_sent))

    def resume(self, connection: ConnectionId) -> None:
        self._actions.append(ResumeReading(connection))

    def limit(self, connection: ConnectionId, max_bytes: int) -> None:
        """max_bytes: of each frame that arrives on an accepted connection from now on"""
        self._actions.append(LimitRequests(connection, max_bytes))

    def close(self, connection: ConnectionId) -> None:
        self._actions.append(Close(connection))

    def work_apart(self, job: Callable[[], None], done: Callable[[int], None]) -> None:
        """done: told the time once the job is done"""
        self._actions.append(WorkApart(job, done))

    def raise_soon(self, bug: Exception) -> None:
        """In a step of its own: what is in progress has others to answer, too."""

        def fail(now_us: int) -> None:
            raise bug

        self.timers.at(0, fail)

    def listen(self) -> None:
        self._actions.append(Listen())

    def exit(self, halted: str = "") -> None:
        """halted: why the process ends out of order"""
        self._actions.append(EndProcess(halted))

    def mark(self) -> int:
        """A place in the list, for `withdraw_answers`."""
        return len(self._actions)

    def withdraw_answers(self, since: int) -> list[Action]:
        """Takes back what goes to connections that others opened, as far as it came after `since`."""
        new = self._actions[since:]
        self._actions[since:] = [action for action in new if not is_answer(action)]
        return [action for action in new if is_answer(action)]

    def put_back(self, actions: list[Action]) -> None:
        self._actions += actions

    def take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions
