"""JVMs: their command lines, and one process from its start to its end.

Nothing outlives the process that runs the cluster: each JVM has a process group of its own, out of reach of Ctrl-C, and
dies when its parent does, even if it is stopped or the parent was killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from cluster.kafka.home import KafkaHome

HEAP_MB = 256
STARTED = b"Kafka Server started"
"""source: KafkaBroker.STARTED_MESSAGE, said by brokers and controllers of KRaft"""
PR_SET_PDEATHSIG = 1
_LAST_WORDS_BYTES = 16_384
LAST_WORDS_MAX = 300
_STOPPED = frozenset("TtZXx")
_libc = ctypes.CDLL(None)


def java_command(
    home: KafkaHome, main: Sequence[str], *, properties: Mapping[str, str], heap_mb: int = HEAP_MB
) -> list[str]:
    """properties: system properties (-D)"""
    archive = home.class_archive
    return [
        str(home.java.executable),
        "-Xms32m",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *([] if archive is None else [f"-XX:SharedArchiveFile={archive}"]),
        "-Duser.timezone=UTC",
        *(f"-D{key}={value}" for key, value in properties.items()),
        "-cp",
        home.jars.classpath,
        *main,
    ]


def logging_property(home: KafkaHome, file: Path) -> dict[str, str]:
    if home.jars.logging == "log4j2":
        return {"log4j2.configurationFile": str(file)}
    return {"log4j.configuration": f"file:{file}"}


def _dies_with_parent(parent: int) -> None:
    """In the child, before Java."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


class Jvm:
    """One process. console: the file that it appends to     started: what it says there when it has started"""

    def __init__(self, command: Sequence[str], console: Path, started: bytes = STARTED) -> None:
        self.console = console
        self.asked_to_stop = False
        self.is_struck = False
        """A SIGKILL was sent, and its end is waited for."""
        self._started = started
        self._says_from = console.stat().st_size if console.exists() else 0
        parent = os.getpid()
        with console.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=lambda: _dies_with_parent(parent),
            )
        self.pid = self._process.pid
        self._descriptor = os.pidfd_open(self.pid)
        self.ended = trio.Event()
        self._has_started = False

    def signal(self, number: int) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def wait(self) -> None:
        """Until it has ended."""
        with contextlib.suppress(trio.ClosedResourceError):
            await trio.lowlevel.wait_readable(self._descriptor)
        self.reap()

    def reap(self) -> None:
        """raises: nothing; a process that is about to end is waited for"""
        if not self.ended.is_set():
            self._process.wait()
            trio.lowlevel.notify_closing(self._descriptor)
            os.close(self._descriptor)
            self.ended.set()

    async def stand_still(self) -> None:
        """SIGSTOP, and until it has taken effect."""
        self.signal(signal.SIGSTOP)
        while not self._is_stopped():
            await trio.sleep(0.001)

    def _is_stopped(self) -> bool:
        """source: proc(5), field 3 of /proc/pid/stat"""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return True
        return text.rpartition(")")[2].split()[0] in _STOPPED

    @property
    def has_started(self) -> bool:
        """It has said so on its console in this life."""
        if not self._has_started:
            self._has_started = self._started in self._said()
        return self._has_started

    def _said(self) -> bytes:
        with self.console.open("rb") as file:
            file.seek(self._says_from)
            return file.read()

    @property
    def exit_code(self) -> int:
        """Of an ended process."""
        code = self._process.returncode
        assert code is not None
        return code

    def last_words(self) -> str:
        """The last exception that it has logged, else its last line."""
        lines = self._said()[-_LAST_WORDS_BYTES:].decode("utf-8", "replace").strip().splitlines()
        causes = [line for line in lines if re.match(r"(Caused by: )?[\w.$]+(Exception|Error): ", line)]
        return (causes or lines or [""])[-1][:LAST_WORDS_MAX]
