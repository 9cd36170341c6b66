"""Makes an archive of the classes that a Kafka node loads (JEP 350), which halves the start time of a JVM.

A temporary node, both broker and controller, starts and shuts down; its JVM writes the archive. An archive is valid
only for the same paths of the jars and the same build of Java.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.child_process import dies_with_parent
from cluster.kafka.home import KafkaHome
from cluster.kafka.maven import Progress

FIRST_WITH_KRAFT = (3, 3)
"""The first release with production-ready KRaft (KIP-833); nodes of earlier releases load other classes."""
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
STARTED = b"Kafka Server started"
FORMAT_S, START_S, STOP_S = 120, 180, 120
LOOK_S = 0.2
LOGGING = """<Configuration status="OFF">
<Appenders><Console name="c"><PatternLayout pattern="%p %m%n"/></Console></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="c"/></Root></Loggers>
</Configuration>
"""
"""A Log4j 2 configuration. Every installed version logs with Log4j 2, even releases that ship Log4j 1."""


class NotArchived(Exception):
    """The temporary node did not start or stop; the text says why."""


def make_class_archive(home: KafkaHome, progress: Progress) -> None:
    """Make the class archive of an installed version, unless it exists.

    Raises:
        NotArchived: if the node does not start or stop.
        OSError: if a file cannot be written.
    """
    if home.class_archive is not None or home.jars.number < FIRST_WITH_KRAFT:
        return
    folder = Path(tempfile.mkdtemp(prefix=".archive-", dir=home.jars.folder))
    try:
        node = _Node(home, folder)
        progress("formatting a disk to make the class archive")
        node.format()
        progress("starting a broker to make the class archive")
        node.run(folder / "classes.jsa", progress)
        (folder / "classes.jsa").rename(home.archive_place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Node:
    """The temporary node whose JVM writes the archive. `folder` holds all its files."""

    def __init__(self, home: KafkaHome, folder: Path) -> None:
        self._home = home
        self._folder = folder
        self._console = folder / "console"
        controller, broker = _free_ports(2)
        (folder / "log4j2.xml").write_text(LOGGING, encoding="ascii")
        (folder / "server.properties").write_text(
            f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder / "data"}
offsets.topic.replication.factor=1
""",
            encoding="utf-8",
        )

    def _command(self, *words: str) -> list[str]:
        return [
            str(self._home.java.executable),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={self._folder / 'log4j2.xml'}",
            *words,
        ]

    def format(self) -> None:
        main = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._folder / "server.properties"))
        process = self._start(self._command("-cp", self._home.jars.classpath, *main))
        with _ended(process):
            self._await_end(process, FORMAT_S)
        if process.returncode:
            raise NotArchived(f"the broker's disk could not be formatted: {self._last_words()}")

    def run(self, archive: Path, progress: Progress) -> None:
        """Start the node, then stop it by SIGTERM: the JVM writes the archive when it exits."""
        main = ("kafka.Kafka", str(self._folder / "server.properties"))
        command = self._command(f"-XX:ArchiveClassesAtExit={archive}", "-cp", self._home.jars.classpath, *main)
        process = self._start(command)
        with _ended(process):
            for _ in range(int(START_S / LOOK_S)):
                if STARTED in self._console.read_bytes() or _has_ended(process):
                    break
            if STARTED not in self._console.read_bytes():
                raise NotArchived(f"the broker did not start: {self._last_words()}")
            progress("stopping the broker, which writes the class archive")
            process.send_signal(signal.SIGTERM)
            self._await_end(process, STOP_S)
        if not archive.is_file():
            raise NotArchived(f"the JVM wrote no class archive: {self._last_words()}")

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._console.open("wb") as out:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dies_with_parent(),
            )

    def _await_end(self, process: subprocess.Popen[bytes], within_s: float) -> None:
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired as error:
            raise NotArchived(f"the broker's JVM did not end within {within_s} s: {self._last_words()}") from error

    def _last_words(self) -> str:
        lines = self._console.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "the JVM printed nothing"


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait briefly, and return True if the process has ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(LOOK_S)
        return True
    return False


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill the process at the end of the `with` block."""
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
