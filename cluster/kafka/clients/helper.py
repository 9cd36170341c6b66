"""Runs the JVM with all Java clients: it reads commands from standard input and writes events to standard output."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

import trio

from cluster.child_process import dies_with_parent
from cluster.kafka.clients.orders import Order

_CHUNK = 65_536


class ClientsJvm:
    """The JVM process with all Java clients.

    Args:
        console: file for Java's standard error.
        heard: called with each event from the JVM.
    """

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
        """Queue a command without waiting until the JVM reads it."""
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
            pass  # The JVM has ended, which `_read` reports.

    async def _read(self) -> None:
        assert self._process.stdout is not None
        rest = b""
        async with trio.lowlevel.FdStream(os.dup(self._process.stdout.fileno())) as stream:
            while data := await stream.receive_some(_CHUNK):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        self.died_of = f"the JVM of the Java clients ended; see {self._console}"

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "ready":
            self.is_ready = True
        else:
            self._heard(event)

    def stop(self) -> None:
        """Stop the JVM by SIGSTOP; its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def end_at_once(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


# ------------------------------------------------------------------------------------------------------------ compiling
#
# The program of the clients' JVM: one Java source, compiled against the jars of a version of Kafka.


SOURCE = Path(__file__).with_name("KafkaClients.java")
MAIN = "KafkaClients"
COMPILE_S = 180


class NotCompiled(Exception):
    """`javac` failed; the text is its output."""


def classes_place(folder: Path) -> Path:
    """Return the folder below `folder` for the compiled classes. Its name contains a hash of the source."""
    return folder / f"clients-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}"


def compiled(compiler: Path, classpath: str, folder: Path) -> Path:
    """Return the folder below `folder` that has the compiled classes; compile them if they are missing.

    Raises:
        NotCompiled: if the compiler fails.
        OSError: if a file cannot be written.
    """
    path = classes_place(folder)
    if path.is_dir():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    classes = Path(tempfile.mkdtemp(prefix=".clients-", dir=folder))
    try:
        command = [str(compiler), "-nowarn", "-proc:none", "-cp", classpath, "-d", str(classes), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
        if done.returncode:
            raise NotCompiled(f"{compiler} could not compile {SOURCE.name}: {done.stderr.strip()[-2000:]}")
        try:
            classes.rename(path)
        except OSError:
            if not path.is_dir():
                raise
            # Another process was faster.
    except subprocess.TimeoutExpired as error:
        raise NotCompiled(f"{compiler} did not compile {SOURCE.name} within {COMPILE_S} s") from error
    finally:
        shutil.rmtree(classes, ignore_errors=True)
    return path
