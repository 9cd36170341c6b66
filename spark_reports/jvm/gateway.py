"""Spark's JVM as a process: it begins before this process imports PySpark, and PySpark connects to it once it listens.

PySpark does both in one step, with its modules there before the JVM begins. To a JVM whose port and secret are in the
environment it connects.

source: pyspark/java_gateway.py, launch_gateway; org.apache.spark.api.python.PythonGatewayServer
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from spark_reports.environment import environment
from spark_reports.jars import spark_home

_LOOKS_EACH_S = 0.01


def is_begun_elsewhere() -> bool:
    """Whether PySpark has a JVM already: it was begun by `spark-submit`, or by another session of this process."""
    pyspark = sys.modules.get("pyspark")
    return "PYSPARK_GATEWAY_PORT" in os.environ or (pyspark is not None and pyspark.SparkContext._gateway is not None)


class NotStarted(Exception):
    """The JVM ended before it listened."""


class SparkJvm:
    """`process`: Spark's scripts, which become the JVM."""

    def __init__(self, settings: Mapping[str, str], folder: Path, log: IO[str]) -> None:
        """Begin it. folder: where it says how to connect     log: what the scripts say"""
        self._says_where = folder / "gateway"
        conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [str(spark_home() / "bin" / "spark-submit"), *conf, *arguments],
            stdin=subprocess.PIPE,  # When this process ends, however, the pipe breaks, and the JVM ends.
            stderr=log,
            env={**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._says_where)},
            process_group=0,  # Out of reach of Ctrl-C.
        )

    def connect(self) -> Any:
        """PySpark's gateway to it. raises: NotStarted"""
        while not self._says_where.exists():
            if self.process.poll() is not None:
                raise NotStarted("Spark's JVM ended before it listened")
            time.sleep(_LOOKS_EACH_S)
        port, secret = _read(self._says_where.read_bytes())
        from pyspark.java_gateway import launch_gateway

        with environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            return launch_gateway()  # type: ignore[no-untyped-call]

    @property
    def is_there(self) -> bool:
        return self.process.poll() is None

    def end(self, within_s: float) -> None:
        """Once nothing is asked of it any more. raises: subprocess.TimeoutExpired"""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(within_s)

    def kill(self) -> None:
        """At any point of its start, with what Spark's scripts have started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _read(said: bytes) -> tuple[int, str]:
    """Port and secret: two numbers of four bytes, the second the length of what follows."""
    port, length = struct.unpack_from(">ii", said)
    return port, said[8 : 8 + length].decode("utf-8")
