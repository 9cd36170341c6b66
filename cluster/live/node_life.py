"""One process of a node, from its start to its end: its state, and the signals to it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import trio

from cluster.live.control import NodeState, ToldParts
from cluster.live.gathering import EventSource
from cluster.live.observations import Observation
from cluster.live.remote_core import RemoteCore
from cluster.network.world import SETTLE_S
from replica.trace.events import MessageDropped, MessageHeld, MessageReleased, TraceEvent

STOPPED = frozenset("TtZXx")
"""The states in /proc/PID/stat of a stopped or ended process."""

SENT_BY_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""Signals from outside that end a process. A process that they end has not crashed."""

Observer = Callable[[Observation, int], None]


class OwnProcess(Protocol):
    """The methods of multiprocessing.Process that are used here, and `last_words`."""

    @property
    def pid(self) -> int | None: ...

    @property
    def exitcode(self) -> int | None: ...

    def join(self, timeout: float | None = None) -> None: ...

    def last_words(self) -> str:
        """Return the last line of the process's standard error, or "" if there was none."""

    def close(self) -> None:
        """Close the descriptors of an ended process.

        Raises:
            ValueError: if the process still runs.
        """


@dataclass(slots=True)
class Life:
    """One process of a node, from its start to its last message."""

    own: OwnProcess
    control: socket.socket
    core: RemoteCore
    source: EventSource
    finished: trio.Event = field(default_factory=trio.Event)
    exit_code: int | None = None
    state: NodeState | None = None
    asked_to_settle: int = 0
    settled: int = 0
    answers: dict[int, Callable[..., None]] = field(default_factory=dict)
    observers: dict[int, Observer] = field(default_factory=dict)
    parts: ToldParts = field(default_factory=ToldParts)
    held: list[MessageHeld] = field(default_factory=list)
    """Messages to other nodes that a fault holds in this process's memory."""
    said_why: bool = False
    seized: bool = False
    at_end: bool = False

    def end(self) -> None:
        """Wait for the end of a process that has ended or is about to, and release its resources."""
        if self.finished.is_set():
            return
        self.own.join(SETTLE_S)
        self.exit_code = self.own.exitcode
        if self.exit_code is not None:
            self.own.close()
        self.finished.set()

    def note_held(self, event: TraceEvent) -> None:
        match event:
            case MessageHeld():
                self.held.append(event)
            case MessageReleased() | MessageDropped():
                label = (event.node, event.peer, event.api, event.part)
                for index, held in enumerate(self.held):
                    if (held.node, held.peer, held.api, held.part) == label:
                        del self.held[index]
                        return

    def signal(self, number: int) -> None:
        if not self.finished.is_set() and self.own.pid is not None and self.own.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.own.pid, number)

    @property
    def is_stopped(self) -> bool:
        """True if the process is stopped or has ended (proc(5), field 3 of /proc/pid/stat)."""
        if self.finished.is_set():
            return True
        try:
            text = Path(f"/proc/{self.own.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return True
        return text.rpartition(")")[2].split()[0] in STOPPED

    @property
    def death(self) -> tuple[str, str]:
        """How and why the process ended without sending an ExitTold; the same values as in ProcessExit."""
        code = self.exit_code
        if code is None:
            return "crash", "its process closed its control sockets but is still running"
        how = "died" if -code in SENT_BY_OTHERS else "crash"
        by = f"signal {-code}" if code < 0 else f"exit code {code}"
        words = f": {said}" if how == "crash" and (said := self.own.last_words()) else ""
        return how, f"its process died ({by}){words}"
