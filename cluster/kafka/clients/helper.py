"""The JVM that all Java clients of a run are in: orders go to its standard input, its events come from the output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

import trio

from cluster.child_process import dies_with_parent
from cluster.kafka.clients.orders import Order

_CHUNK = 65_536


class ClientsJvm:
    """heard: is called with each event, a step at a time     console: for what Java itself has to say"""

    def __init__(self, command: Sequence[str], console: Path, heard: Callable[[dict[str, Any]], None]) -> None:
        with console.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                start_new_session=True,
                preexec_fn=dies_with_parent(),
            )
        self._console = console
        self._heard = heard
        self._orders, self._waiting = trio.open_memory_channel[Order](inf)
        self.is_ready = False
        self.died_of: str | None = None

    def tell(self, order: Order) -> None:
        """Never waits: what the JVM has not read yet is kept here."""
        self._orders.send_nowait(order)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            await self._read()
            nursery.cancel_scope.cancel()

    async def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            async with trio.lowlevel.FdStream(os.dup(self._process.stdin.fileno())) as stream:
                async for order in self._waiting:
                    await stream.send_all(json.dumps(order).encode() + b"\n")
        except trio.BrokenResourceError:
            pass  # It has died, and the reader says so.

    async def _read(self) -> None:
        assert self._process.stdout is not None
        rest = b""
        async with trio.lowlevel.FdStream(os.dup(self._process.stdout.fileno())) as stream:
            while data := await stream.receive_some(_CHUNK):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        self.died_of = f"the JVM of the clients has ended; see {self._console}"

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "ready":
            self.is_ready = True
        else:
            self._heard(event)

    def stop(self) -> None:
        """SIGSTOP: it does nothing more, and its connections stay."""
        self._process.send_signal(signal.SIGSTOP)

    def end_at_once(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
