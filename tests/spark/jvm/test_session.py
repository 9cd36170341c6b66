"""What a Spark session keeps away from the terminal, and what it says when its JVM ends early."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario
from spark_reports.jars import FIRST, LEFT_OUT, first_on_class_path, jars, name_of
from spark_reports.jvm import MORE_MEMORY, why_it_ended
from tests.interrupting import COMMAND, interrupted
from tests.spark.standalone import sessions_left
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_py4j_does_not_log_a_connection_that_broke(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """As Ctrl-C makes it: the JVM is gone when Py4J gives up the connection of the call that was under way."""
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    connection = client._create_new_connection()
    connection.socket.shutdown(socket.SHUT_RDWR)
    connection.shutdown_socket(1, 2)
    connection.close()
    assert caplog.records == []


NO_CHMOD = "Spark needs the program `chmod`, which is not on the PATH"
KILLED = "Spark's JVM was killed (signal 9); unless that was on purpose, the machine ran out of memory"
ENDS = {
    "os.kill(os.getpid(), 9)": KILLED,
    "sys.exit(52)": f"Spark's JVM ran out of memory: {MORE_MEMORY}",
    "os.kill(os.getpid(), 6)": "Spark's JVM was ended by signal 6\nlast words",
    "sys.exit(1)": "Spark's JVM ended with exit code 1\nlast words",
}


@pytest.mark.parametrize("end", ENDS)
def test_how_a_jvm_ended(end: str, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", f"import os, sys; {end}"])
    log = tmp_path / "jvm.log"
    log.write_text("java.lang.OutOfMemoryError: Java heap space\n" if "52" in end else "last words\n\tat a.b.C.d\n")
    assert why_it_ended(ConnectionRefusedError(), process, log) == ENDS[end]


def test_a_jvm_that_goes_on_is_not_blamed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert why_it_ended(ValueError("another cause"), process, tmp_path / "jvm.log") is None
    process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run_scenario(load_file(find_scenario("acks1-leader-kill")).scenario, runs_dir=tmp_path / "runs", keep_logs=False)
    return tmp_path


@pytest.mark.soak
def test_a_jvm_that_is_killed_is_one_line(folder: Path) -> None:
    def kill(process: subprocess.Popen[bytes]) -> None:
        def begun() -> list[int]:
            """Spark's scripts, its launcher, the JVM itself."""
            pids = sessions_left([process.pid])
            return [pid for pid in pids if "SparkSubmit" in Path(f"/proc/{pid}/cmdline").read_text()]

        wait_for(begun, 200)
        for pid in begun():
            os.kill(pid, signal.SIGKILL)

    ended = interrupted(folder, "report", "last", by=kill, sign="report: ")
    assert (ended.code, ended.errors[-1]) == (6, f"error: {KILLED}")


def test_a_program_that_spark_needs_and_does_not_find_is_named(tmp_path: Path) -> None:
    failed = Py4JError('java.io.IOException: Cannot run program "chmod": error=2, No such file or directory')
    assert why_it_ended(failed, None, tmp_path / "jvm.log") == NO_CHMOD


@pytest.mark.soak
def test_a_short_report_does_without_the_program_that_spark_writes_files_with(folder: Path) -> None:
    path = folder / "bin"
    path.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*"):
            (path / program.name).unlink(missing_ok=True)
            (path / program.name).symlink_to(program)
    (path / "chmod").unlink()
    ended = subprocess.run(
        [*COMMAND, "report", "last"], cwd=folder, env={**os.environ, "PATH": str(path)}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr


def test_jars_with_most_classes_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are in this release of Spark; one that another lacks is left out."""
    assert [name_of(Path(jar)) for jar in first_on_class_path().split(os.pathsep)] == list(FIRST)
    (tmp_path / "jars").mkdir()
    names = ("spark-sql_2.14-5.0.0-preview1.jar", "spark-catalyst_2.14-5.0.0-preview1.jar", "netty-all-4.2.jar")
    for name in names:
        (tmp_path / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert first_on_class_path() == f"{tmp_path}/jars/{names[1]}:{tmp_path}/jars/{names[0]}"


def test_the_jvm_has_all_jars_but_those_that_slow_every_session(spark: SparkSession) -> None:
    assert spark._jvm is not None
    there = {Path(jar) for jar in spark._jvm.java.lang.System.getProperty("java.class.path").split(os.pathsep)}
    assert {name_of(jar) for jar in set(jars()) - there} == {*LEFT_OUT}


def test_what_is_slow_to_import_is_not_there_before_sparks_jvm_begins() -> None:
    slow = ("altair", "pandas", "pyspark")
    code = f"import sys, spark_reports.report.build; print([name for name in {slow} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_a_spark_that_is_not_where_spark_home_says_did_not_start(folder: Path) -> None:
    away = {**os.environ, "SPARK_HOME": str(folder / "nowhere")}
    ended = subprocess.run([*COMMAND, "report", "last"], cwd=folder, env=away, capture_output=True, text=True)
    missing = f"{folder}/nowhere/bin/spark-submit"
    said = f"error: Spark did not start: [Errno 2] No such file or directory: '{missing}'"
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (6, said)
