"""JVM processes: their command lines, starts, signals and ends.

Each JVM has a process group of its own, so that Ctrl-C does not reach it. It dies when the process that runs the
cluster dies, even if the JVM is stopped or the parent was killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from cluster.child_process import dies_with_parent
from cluster.kafka.home import KafkaHome

HEAP_MB = 256
STARTED = b"Kafka Server started"
"""The message that brokers and controllers of KRaft log after their start (KafkaBroker.STARTED_MESSAGE)."""
_LAST_WORDS_BYTES = 16_384
LAST_WORDS_MAX = 300
_STOPPED = frozenset("TtZXx")


def java_command(
    home: KafkaHome, main: Sequence[str], *, properties: Mapping[str, str], heap_mb: int = HEAP_MB
) -> list[str]:
    """Return the command line of a JVM. `properties` are system properties (-D)."""
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


class Jvm:
    """One JVM process.

    Args:
        console: file to which the process appends its output.
        started: bytes in the output that show that the process has started.
    """

    def __init__(self, command: Sequence[str], console: Path, started: bytes = STARTED) -> None:
        self.console = console
        self.asked_to_stop = False
        self.is_struck = False
        """True if a SIGKILL was sent and the process has not ended yet."""
        self._started = started
        self._says_from = console.stat().st_size if console.exists() else 0
        with console.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=dies_with_parent(),
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
        """Wait until the process has ended."""
        with contextlib.suppress(trio.ClosedResourceError):
            await trio.lowlevel.wait_readable(self._descriptor)
        self.reap()

    def reap(self) -> None:
        """Wait for a process that has ended or is ending, and release its resources."""
        if not self.ended.is_set():
            self._process.wait()
            trio.lowlevel.notify_closing(self._descriptor)
            os.close(self._descriptor)
            self.ended.set()

    async def stand_still(self) -> None:
        """Send SIGSTOP, and wait until the kernel has stopped the process."""
        self.signal(signal.SIGSTOP)
        while not self._is_stopped():
            await trio.sleep(0.001)

    def _is_stopped(self) -> bool:
        """Return True if the process is stopped or has ended (proc(5), field 3 of /proc/pid/stat)."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return True
        return text.rpartition(")")[2].split()[0] in _STOPPED

    @property
    def has_started(self) -> bool:
        """True once this process has reported its start on the console."""
        if not self._has_started:
            self._has_started = self._started in self._said()
        return self._has_started

    def _said(self) -> bytes:
        with self.console.open("rb") as file:
            file.seek(self._says_from)
            return file.read()

    @property
    def exit_code(self) -> int:
        """The exit code of an ended process."""
        code = self._process.returncode
        assert code is not None
        return code

    def last_words(self) -> str:
        """Return the last exception that the process has logged, else its last line."""
        lines = self._said()[-_LAST_WORDS_BYTES:].decode("utf-8", "replace").strip().splitlines()
        causes = [line for line in lines if re.match(r"(Caused by: )?[\w.$]+(Exception|Error): ", line)]
        return (causes or lines or [""])[-1][:LAST_WORDS_MAX]
