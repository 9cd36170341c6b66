"""The seam between the two worlds: what a node's shell needs of time and network, and nothing else.

`cluster.fabric` is virtual time over AF_UNIX socket pairs. The live world (TCP, wall clock) will be another
implementation of the same three protocols, so a broker cannot tell in which of them it runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio

from cluster.node import Segment


class ConnectionGone(Exception):
    """A connection ended or could not be made; the text says how, for the trace."""


class TornSend(Exception):
    """A segment file ended before the bytes its frame had promised: only closing the connection is honest (KIP-74)."""


class Wire(Protocol):
    """One end of one connection."""

    peer: str

    async def read(self, take: Callable[[bytearray], None]) -> None:
        """Hand every whole frame, without its size prefix, to `take` as it comes. raises: ConnectionGone at the end

        On an accepted connection the wire is mute after each frame: the next one is read after `unmute` (a server
        executes one request per connection at a time, and lets TCP hold the others back). No frame is handed over once
        this end was closed.
        """
        ...

    def unmute(self) -> None: ...

    def send(self, segments: Sequence[Segment], api: int, part: str, cause: int | None) -> None:
        """Queue one frame; never blocks a decision. raises: TornSend"""
        ...

    def close(self) -> None: ...


class Alarm(Protocol):
    """One node's next deadline."""

    def arm(self, at_us: int | None) -> None: ...

    async def ring(self, due: Callable[[], None]) -> None:
        """Call `due` each time the deadline has come; never returns."""
        ...


class Listener(Protocol):
    async def accept(self) -> Wire: ...


class World(Protocol):
    """Time and network of one node."""

    def now_us(self) -> int: ...

    def alarm(self) -> Alarm: ...

    def listen(self) -> Listener: ...

    async def connect(self, host: str, port: int) -> Wire:
        """raises: ConnectionGone when refused; waits for as long as the network is silent"""
        ...

    def exited(self, halted: str) -> None:
        """The process ends by itself: its connections close now, before anything else can happen.

        halted: why out of order, empty when in order
        """
        ...

    def start_soon(self, nursery: trio.Nursery, task: Callable[..., Awaitable[None]], *args: object) -> None:
        """Start a task of this node at a place in the world's order."""
        ...
