"""A standalone Spark cluster on loopback from the pip-installed package: one master, two workers of one core each.

`python -m tests.spark.standalone` starts one, prints its address and stops it at Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from spark_reports.jars import jars_needed
from spark_reports.java import find_java, java_home_for_spark

WORKERS = 2
DAEMON_MEMORY = "256m"
WORKER_MEMORY = "512m"
"""A worker's memory for its executor: give `--conf spark.executor.memory=512m`."""
START_S = 120.0
STOP_S = 30.0


@contextlib.contextmanager
def standalone_cluster(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a cluster (`spark://127.0.0.1:port`) for the length of the block, which ends all of its processes.

    folder: for logs and the workers' files     environment: further variables of the workers
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conf").mkdir(exist_ok=True)
    home = java_home_for_spark(find_java(), folder / "java", folder / "jvm.log", jars_needed())
    common = {
        **os.environ,
        "JAVA_HOME": str(home),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
    }
    port, page = _free_port(), _free_port()
    master = f"spark://127.0.0.1:{port}"
    words = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    daemons = [_start(folder / "master.log", words, common)]
    try:
        _wait_for(page, 0, daemons)
        for number in range(WORKERS):
            words = ["worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory"]
            words += [WORKER_MEMORY, "--work-dir", str(folder / f"worker-{number}"), master]
            daemons.append(_start(folder / f"worker-{number}.log", words, {**common, **(environment or {})}))
        _wait_for(page, WORKERS, daemons)
        yield master
    finally:
        _stop(daemons)


def _start(log: Path, words: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    command = [str(program), f"org.apache.spark.deploy.{words[0]}", *words[1:]]
    with log.open("wb") as file:
        # A new session: its children can be found later, and no other process is.
        return subprocess.Popen(command, env=environment, stdout=file, stderr=file, start_new_session=True)


def _wait_for(page: int, workers: int, daemons: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert all(daemon.poll() is None for daemon in daemons), "a daemon ended; its log says why"
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer,
        ):
            if json.load(answer)["aliveworkers"] >= workers:
                return
        time.sleep(0.3)
    raise TimeoutError(f"the master has not {workers} workers after {START_S:.0f} s")


def _stop(daemons: list[subprocess.Popen[bytes]]) -> None:
    """Workers first: they end their executors. Processes left of their sessions are ended by force."""
    for daemon in reversed(daemons):
        daemon.send_signal(signal.SIGTERM)
    for daemon in daemons:
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.wait(STOP_S)
    until = time.monotonic() + STOP_S
    while (left := sessions_left([daemon.pid for daemon in daemons])) and time.monotonic() < until:
        time.sleep(0.2)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    for daemon in daemons:
        daemon.wait()


def sessions_left(sessions: list[int]) -> list[int]:
    """Processes that run in one of `sessions`; those that only wait to be reaped do not run."""
    left = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) in sessions and state != "Z":
                    left.append(int(entry.name))
    return left


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="highwater-cluster-") as scratch, standalone_cluster(Path(scratch)) as url:
        print(f"{url}   (workers have {WORKER_MEMORY}: --conf spark.executor.memory={WORKER_MEMORY}; Ctrl-C stops it)")
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
