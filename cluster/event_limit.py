"""A limit for events about what clients from outside do without leaving bytes behind: a burst, then a rate.

A client's writes are limited by the room their bytes take; a request of twenty bytes, or one that reads the same
records again, can be made without end, and each would be an event on the disk. Omitted events are counted.
"""

from __future__ import annotations

from collections.abc import Callable

from replica.ids import OUTSIDE
from replica.trace.events import EventsLeftOut, Recorder

CONNECTIONS_AT_ONCE, CONNECTIONS_PER_SECOND = 10_000, 50
"""Ends of connections of one client; all unidentified clients count as one."""
STATED_EVERY_US = 10_000_000
"""How often it is stated of one client how much was left out."""


class Bucket:
    """So much at once, and so much more with every second. source: KIP-599 (TokenBucket), without its debts"""

    __slots__ = ("_at_once", "_left", "_per_second", "_since_us")

    def __init__(self, at_once: int, per_second: int) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._left = at_once * 1_000_000
        self._since_us = 0

    def has(self, count: int, now_us: int) -> bool:
        passed_us = max(0, now_us - self._since_us)
        self._since_us += passed_us
        self._left = min(self._at_once * 1_000_000, self._left + passed_us * self._per_second)
        return count * 1_000_000 <= self._left

    def take(self, count: int) -> None:
        self._left -= count * 1_000_000


class _Client:
    """left_out: since it was last stated"""

    __slots__ = ("bucket", "left_out", "stated_us")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.left_out = 0
        self.stated_us = -STATED_EVERY_US


class EventLimit:
    """at_once, per_second: of one client; all of them together have `clients` times as much"""

    def __init__(self, at_once: int, per_second: int, clients: int = 4) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._all = Bucket(at_once * clients, per_second * clients)
        self._clients: dict[str, _Client] = {}

    def allows(self, client: str, now_us: int, count: int = 1) -> bool:
        """Whether so many events may be emitted; otherwise they are counted as left out."""
        known = self._clients.get(client)
        if known is None:
            known = self._clients[client] = _Client(Bucket(self._at_once, self._per_second))
        if known.bucket.has(count, now_us) and self._all.has(count, now_us):
            known.bucket.take(count)
            self._all.take(count)
            return True
        known.left_out += count
        return False

    def to_state(self, client: str, now_us: int) -> int:
        """How much was left out, when it is time to state that; else 0."""
        known = self._clients[client]
        if now_us - known.stated_us < STATED_EVERY_US:
            return 0
        left_out, known.left_out, known.stated_us = known.left_out, 0, now_us
        return left_out

    def may_emit(
        self, recorder: Recorder, node: str, client: str, now_us: int, words: Callable[[int], str], count: int = 1
    ) -> bool:
        """`allows`; from time to time an event says how much it did not. words: the reason, given how much that was"""
        if self.allows(client, now_us, count):
            return True
        left_out = self.to_state(client, now_us)
        if left_out:
            recorder.aside(EventsLeftOut(node=node, peer=client, left_out=left_out, reason=words(left_out)))
        return False


def outsider(peer: str) -> str | None:
    """The name under which a client from outside is counted, if need be its address; None: one of our own nodes."""
    if peer.startswith(OUTSIDE):
        return peer
    return f"{OUTSIDE}-" if ":" in peer else None


class EndsOfConnections:
    """Which ends of connections from outside to this node become events."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._limit = EventLimit(CONNECTIONS_AT_ONCE, CONNECTIONS_PER_SECOND)

    def may_emit(self, node: str, peer: str) -> bool:
        client = outsider(peer)
        return client is None or self._limit.may_emit(
            self._recorder,
            node,
            client,
            self._recorder.at_us,
            lambda count: f"{client} opens more connections to {node} than the trace keeps: {count} ends were left out",
        )
