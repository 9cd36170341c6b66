"""Connections of clients that have to wait: mute until their time is over and their answer has left (KIP-219).
source: RequestChannel.startThrottling, SocketServer.tryUnmuteChannel, ThrottledChannel
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cluster.node import Action, ConnectionId, ResumeReading, Send
from cluster.outbox import Outbox


class ThrottledChannels:
    """until_us: of each whose answer has yet to leave"""

    __slots__ = ("_outbox", "until_us")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.until_us: dict[ConnectionId, int] = {}

    def throttle(self, connection: ConnectionId, throttle_ms: int, now_us: int) -> None:
        """To be called before its answer leaves."""
        self.until_us[connection] = now_us + throttle_ms * 1000

    def gone(self, connection: ConnectionId) -> None:
        self.until_us.pop(connection, None)

    def outgoing(self, actions: list[Action], now_us: int) -> list[Action]:
        """The same actions, but none after which a throttled connection is read from at once."""
        out: list[Action] = []
        for action in actions:
            if not isinstance(action, Send | ResumeReading):
                out.append(action)
                continue
            until_us = self.until_us.pop(action.connection, None)
            if until_us is None:
                out.append(action)
                continue
            self._outbox.timers.at(max(until_us, now_us), partial(self._unmute, action.connection))
            if isinstance(action, Send):
                out.append(replace(action, stays_mute=True))
        return out

    def _unmute(self, connection: ConnectionId, now_us: int) -> None:
        self._outbox.resume(connection)
