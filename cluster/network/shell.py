"""The shell around a node's core: it has the sockets, timers and tasks, and makes no decisions.

One task accepts connections (after a `Listen` action), one waits for the core's next deadline, and one task per
connection reads frames. Every event is passed to the core, and the actions that the core returns are performed in order
and immediately: `_step` is synchronous on purpose, so that there is no checkpoint between a decision and its actions.
Brokers, controllers and clients all run in this shell, in virtual time and in wall time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from cluster.network.world import Connection, ConnectionGone, TornSend
from cluster.node import (
    Action,
    Close,
    Connect,
    ConnectionId,
    EndProcess,
    LimitRequests,
    Listen,
    NodeCore,
    ResumeReading,
    Send,
    WorkApart,
)

if TYPE_CHECKING:
    from cluster.network.host import Host, HostListener


class NodeShell:
    """The tasks and connections of one process of a node.

    `run` returns when the core exits; cancelling `run` kills the node.
    """

    def __init__(self, core: NodeCore, host: Host, *, serves: bool) -> None:
        self.core = core
        self._host = host
        self._time = host.time
        self._tell_of_step = host.tell_of_step
        self._serves = serves
        self._ends: dict[ConnectionId, Connection] = {}
        self._dialling: dict[ConnectionId, trio.CancelScope] = {}
        self._alarm = host.alarm()
        self._accepted = 0
        self._nursery: trio.Nursery | None = None
        self._called_early: list[Callable[[int], list[Action]]] | None = []
        self._is_over = False

    async def run(self) -> None:
        """Serve until the core exits."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._host.start_soon(nursery, self._begin)

    async def _begin(self) -> None:
        assert self._nursery is not None
        self._host.start_soon(self._nursery, self._ticks)
        early, self._called_early = self._called_early or [], None
        for method in (self.core.start, *early):
            self._step(method)

    def end(self) -> None:
        """Mark the process as ended, so that tasks that resume before their cancellation do nothing."""
        self._is_over = True

    def call(self, method: Callable[[int], list[Action]]) -> None:
        """Call a core method that takes only `now_us`, and perform the actions that it returns.

        If a server's core has not started yet, the call is made right after its start. A client takes calls
        immediately.
        """
        if self._called_early is None or not self._serves:
            self._step(method)
        else:
            self._called_early.append(method)

    # ------------------------------------------------------------------------------------------------------ tasks

    async def _ticks(self) -> None:
        await self._alarm.ring(self._tick)

    def _tick(self) -> None:
        try:
            self._step(self.core.tick)
        except Exception as failure:  # A request that had waited may have failed: treat it as one handled immediately.
            if not self._host.contains("a waiting client", failure):
                raise
            self._alarm.arm(self.core.next_deadline_us)

    async def _accept(self, listener: HostListener) -> None:
        assert self._nursery is not None
        while True:
            end = await listener.accept()
            self._accepted += 1
            connection = -self._accepted
            self._ends[connection] = end
            end.allow(self.core.max_request_bytes)
            self._step(self.core.accepted, connection, end.peer, end.listener)
            self._host.start_soon(self._nursery, self._read, connection, end)

    async def _dial(self, connection: ConnectionId, host: str, port: int) -> None:
        with trio.CancelScope() as scope:
            self._dialling[connection] = scope
            try:
                end = await self._host.connect(host, port)
            except ConnectionGone as gone:
                if self._dialling.pop(connection, None) is not None:
                    self._step(self.core.disconnected, connection, str(gone))
                return
            if self._dialling.pop(connection, None) is None:  # Cancelled in the instant in which it was opened.
                end.close()
                return
            self._ends[connection] = end
            self._step(self.core.connected, connection)
            await self._read(connection, end)

    async def _read(self, connection: ConnectionId, end: Connection) -> None:
        """Pass the frames of one connection to the core until the connection ends."""
        accepted = connection < 0
        take = partial(self._handle, connection, end) if accepted else partial(self._received, connection)
        try:
            await end.read(take)
        except ConnectionGone as gone:
            if self._forget(connection) is not None:
                self._step(self.core.disconnected, connection, str(gone))

    def _handle(self, connection: ConnectionId, end: Connection, frame: bytearray) -> None:
        """Pass a frame on an accepted connection to the core.

        In a live run, a bug in its handling costs only this connection.
        """
        if not end.is_identified:
            end.identify(frame)
            self._step(self.core.identified, connection, end.peer)
        try:
            if not self._is_over:
                self._perform_all(self.core.received(connection, frame, self._time.now_us))
        except Exception as failure:  # A bug in Highwater; in a live run it costs this connection only.
            if not self._host.contains(end.peer, failure):
                raise
            self._close(connection)
            self._step(self.core.disconnected, connection, "closed after a bug in Highwater")

    async def _work_apart(self, action: WorkApart) -> None:
        try:
            await self._host.apart(action.job)
            self._step(self._done_apart, action)
        except Exception as failure:  # Treat it as a request that is handled immediately.
            if not self._host.contains("a waiting client", failure):
                raise

    def _done_apart(self, action: WorkApart, now_us: int) -> list[Action]:
        action.done(now_us)
        return self.core.tick(now_us)

    # ---------------------------------------------------------------------------------------------------- actions

    def _received(self, connection: ConnectionId, frame: bytearray) -> None:
        if not self._is_over:
            self._perform_all(self.core.received(connection, frame, self._time.now_us))

    def _step(self, method: Callable[..., list[Action]], *args: object) -> None:
        if not self._is_over:
            self._perform_all(method(*args, self._time.now_us))

    def _perform_all(self, actions: Sequence[Action]) -> None:
        if self._tell_of_step is not None:
            self._tell_of_step()
        for action in actions:
            if type(action) is Send:  # By far the most frequent action.
                self._send(action)
                continue
            self._perform(action)
            if type(action) is EndProcess:
                return
        self._alarm.arm(self.core.next_deadline_us)

    def _perform(self, action: Action) -> None:
        match action:
            case Connect():
                assert self._nursery is not None
                self._host.start_soon(self._nursery, self._dial, action.connection, action.host, action.port)
            case ResumeReading():
                end = self._ends.get(action.connection)
                if end is not None:
                    end.unmute()
            case LimitRequests():
                end = self._ends.get(action.connection)
                if end is not None:
                    end.allow(action.max_bytes)
            case Close():
                self._close(action.connection)
            case Listen():
                assert self._nursery is not None
                self._host.start_soon(self._nursery, self._accept, self._host.listen())
            case WorkApart():
                assert self._nursery is not None
                self._host.start_soon(self._nursery, self._work_apart, action)
            case EndProcess():
                assert self._nursery is not None
                self._host.exited(action.halted, action.refused)
                self._nursery.cancel_scope.cancel()

    def _send(self, action: Send) -> None:
        end = self._ends.get(action.connection)
        if end is None:  # The connection ended while the response was being made.
            return
        try:
            end.send(action)
        except TornSend as torn:
            self._close(action.connection)
            self._step(self.core.disconnected, action.connection, str(torn))
            return
        if action.connection < 0 and not action.stays_mute:
            end.unmute()

    def _close(self, connection: ConnectionId) -> None:
        dialling = self._dialling.pop(connection, None)
        if dialling is not None:
            dialling.cancel()
        end = self._forget(connection)
        if end is not None:
            end.close()

    def _forget(self, connection: ConnectionId) -> Connection | None:
        return self._ends.pop(connection, None)
