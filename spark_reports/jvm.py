"""Start Spark's JVM before PySpark is imported, and find out why a JVM ended.

PySpark itself starts a JVM only after its modules are imported. It connects to an existing JVM if environment variables
have the JVM's port and secret.

Source: pyspark/java_gateway.py, launch_gateway; org.apache.spark.api.python.PythonGatewayServer
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shlex
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from spark_reports.jars import spark_home

_LOOKS_EACH_S = 0.01


def is_begun_elsewhere() -> bool:
    """Return True if PySpark already has a JVM, from `spark-submit` or another session of this process."""
    pyspark = sys.modules.get("pyspark")
    return "PYSPARK_GATEWAY_PORT" in os.environ or (pyspark is not None and pyspark.SparkContext._gateway is not None)


class NotStarted(Exception):
    """The JVM ended before it accepted connections."""


class SparkJvm:
    """The process of Spark's JVM. It first runs Spark's scripts, which replace themselves by the JVM."""

    def __init__(self, settings: Mapping[str, str], folder: Path, log: IO[str]) -> None:
        """Start the JVM.

        Args:
            settings: Spark settings.
            folder: directory for the file in which the JVM writes its port and secret.
            log: file for the error output of Spark's scripts.
        """
        self._says_where = folder / "gateway"
        conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [str(spark_home() / "bin" / "spark-submit"), *conf, *arguments],
            stdin=subprocess.PIPE,  # The JVM ends when this pipe breaks, however this process ends.
            stderr=log,
            env={**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._says_where)},
            process_group=0,  # So Ctrl-C does not reach the JVM.
        )

    def connect(self) -> Any:
        """Wait for the JVM and return PySpark's gateway to it. Raises NotStarted."""
        while not self._says_where.exists():
            if self.process.poll() is not None:
                raise NotStarted("Spark's JVM ended before it accepted connections")
            time.sleep(_LOOKS_EACH_S)
        port, secret = _read(self._says_where.read_bytes())
        from pyspark.java_gateway import launch_gateway

        with environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            return launch_gateway()  # type: ignore[no-untyped-call]

    @property
    def is_there(self) -> bool:
        return self.process.poll() is None

    def end(self, within_s: float) -> None:
        """Close the JVM's stdin and wait for its end. Raises subprocess.TimeoutExpired after `within_s` seconds."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(within_s)

    def kill(self) -> None:
        """Kill the JVM and its child processes, even while it starts."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _read(said: bytes) -> tuple[int, str]:
    """Decode (port, secret) from the JVM's file: port and secret length as four-byte integers, then the secret."""
    port, length = struct.unpack_from(">ii", said)
    return port, said[8 : 8 + length].decode("utf-8")


ENDS_WITHIN_S = 5.0
"""Seconds to wait for the JVM's end after its connection broke; a JVM without memory needs time to clean up."""

_ALWAYS_SAID = "WARNING: Using incubator modules"

MORE_MEMORY = "raise its limit, as with --conf spark.driver.memory=4g"


def why_it_ended(error: BaseException, process: subprocess.Popen[bytes] | None, log: Path) -> str | None:
    """Return a sentence that says why the JVM ended, None if it is running and `error` has another cause.

    `log` is the log file of the JVM and of its child processes.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    text = str(error)
    missing = re.search(r'Cannot run program "([^"]+)"', text) if isinstance(error, Py4JError) else None
    if missing:
        return f"Spark needs the program `{missing[1]}`, which is not on the PATH"
    code = _exit_code(process, ENDS_WITHIN_S if isinstance(error, Py4JError | OSError) else 0.0)
    if code is None:
        return None
    if code == -signal.SIGKILL:
        return "Spark's JVM was killed (signal 9); unless that was on purpose, the machine ran out of memory"
    last = log_tail(log)
    if "OutOfMemoryError" in text + last:
        return f"Spark's JVM ran out of memory: {MORE_MEMORY}"
    if re.search(r"Could not (allocate|reserve)|insufficient memory|CMD: bad array subscript", last):
        return f"Spark's JVM could not allocate its memory{_limit(resource.RLIMIT_AS, 'bytes', 'ulimit -v')}"
    if re.search(r"Too many open files|Error loading java.security", last):
        return f"Spark's JVM may open too few files{_limit(resource.RLIMIT_NOFILE, 'files', 'ulimit -n')}"
    how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    return f"Spark's JVM {how}\n{last}".rstrip()


def _limit(which: int, what: str, command: str) -> str:
    """Return a text about a resource limit of this process, which the JVM inherits; empty if there is no limit."""
    limit, _ = resource.getrlimit(which)
    return "" if limit == resource.RLIM_INFINITY else f": the limit is {limit:,} {what}; raise it with `{command}`"


def _exit_code(process: subprocess.Popen[bytes] | None, within_s: float) -> int | None:
    if process is None:
        return None
    try:
        return process.wait(within_s)
    except subprocess.TimeoutExpired:
        return None


def log_tail(path: Path, lines: int = 12) -> str:
    """Return the last lines of the log, without Java's stack traces and the usual warning about modules."""
    try:
        log = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "(the JVM wrote no log)"
    return "\n".join([line for line in log if not line.startswith(("\tat ", _ALWAYS_SAID))][-lines:])


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
