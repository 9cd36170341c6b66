"""One quiet Spark session: nothing on the console, no web UI, no look at the network beyond this machine.

The settings were measured: few shuffle partitions matter most (200, Spark's default, cost three seconds a query here).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_reports.class_archive import WRITTEN_WITHIN_S, ClassArchive, kept_archive
from spark_reports.java import PID, find_java, java_home_for_spark
from spark_reports.jvm_end import log_tail, why_it_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[2]"
MASTER_ANSWERS_S = 10.0
_ENDS_WITHIN_S = 30.0
"""The JVM, once its session has stopped."""
JVM_LOG = "jvm.log"

_LOG4J2 = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
# Without these two lines PySpark's gateway announces the log level on the console.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""

_JVM_OPTIONS = "-XX:+UseSerialGC -XX:-UsePerfData"
_COMPILED_LESS = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 -XX:Tier4CompileThreshold=300000 "
    "-XX:Tier4BackEdgeThreshold=800000 -XX:MaxInlineLevel=9 -XX:InlineSmallCode=1200 -XX:FreqInlineSize=200"
)
"""For Java's thorough compiler. Thresholds twenty times its own: a report runs most of Spark's code some thousand
times, and code that meets every event reaches these, too. And half as much inlining, which tasks do not miss."""

_COMPILED_SOON = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m "
    "-XX:Tier3InvocationThreshold=100 -XX:Tier3MinInvocationThreshold=50 -XX:Tier3CompileThreshold=1000"
)
"""By Java's quick compiler, after half the calls that it waits for: it has as much work, and less is interpreted. It is
given 48 MB for code: one report fills that, and nothing is compiled from then on."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_SETTINGS: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    # The least memory of every sort, hash table and broadcast: 64 MiB each with a heap of 4 GiB, if Spark may choose.
    "spark.buffer.pageSize": "1m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # The rows of a broadcast may have to be found in the whole trace first. On a busy machine that took more than the
    # five minutes after which Spark gives up.
    "spark.sql.broadcastTimeout": "-1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Else every F.col, select and join sends the JVM the line of Python it stands in: a third of defining tables.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    _JAVA_OPTIONS: f"{_JVM_OPTIONS} {_COMPILED_LESS}",
}

# Without these Spark asks the network for this machine's name and address, and listens there.
_LOOPBACK: dict[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_LOOPBACK_ENVIRONMENT: dict[str, str] = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}

_NOT_FROM_HERE: dict[str, str] = {"PYTHONSAFEPATH": "1"}
"""Spark starts its workers with `-m`, and Python would look for modules in the current directory first."""

COMPILED_SOON: dict[str, str] = {_JAVA_OPTIONS: f"{_JVM_OPTIONS} {_COMPILED_SOON}"}
"""For a report: its tables are folded from the files by Python, so the JVM meets few rows and has much to plan."""

SMALL_TRACE_SETTINGS: dict[str, str] = {
    **COMPILED_SOON,
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Each broadcast is a separate job; where all is in one partition a join needs none.
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""For traces read in no time: compiling queries, in Spark and in the JVM, would take longer than running them."""


class SparkFailed(Exception):
    """Spark did not start, or ended early; the text ends with the last lines of the JVM's log."""


@contextlib.contextmanager
def spark_session(
    master: str = DEFAULT_MASTER, settings: Mapping[str, str] | None = None, archive: ClassArchive | None = None
) -> Iterator[SparkSession]:
    """A session for the length of the block; its scratch folder goes with it.

    master:   local[2], local[*], spark://host:port; unless that is another machine, nothing listens on the network
    settings: further Spark settings, which win over ours.
    archive:  of the JVM's classes, to be written when the session ends; without one, the one that is kept is used
    raises:   JavaMissing, SparkFailed
    """
    scratch = Path(tempfile.mkdtemp(prefix="highwater-spark-"))
    try:
        session = _start(master, scratch, settings or {}, archive)
        try:
            yield session
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            ended = None if isinstance(error, SparkFailed) else why_it_ended(error, _jvm(), scratch / JVM_LOG)
            _stop(session)
            if ended is not None:
                raise SparkFailed(ended) from error
            raise
        else:
            _stop(session, _ENDS_WITHIN_S if archive is None else WRITTEN_WITHIN_S)
    except KeyboardInterrupt:
        # Queries may be under way, and the JVM itself may be: neither is worth waiting for.
        _kill_jvm(scratch / "java" / PID)
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def job_on(master: str) -> Iterator[None]:
    """On a cluster the workers read and write the files themselves: where these are not there, the job fails.

    raises: SparkFailed, with the fix, for any failure there
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    troubles = () if is_local(master) else (PySparkException, Py4JJavaError, OSError)
    try:
        yield
    except troubles as failed:
        lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
        cause = next((line for line in lines if "does not exist" in line or "No such file" in line), lines[0])
        raise SparkFailed(
            f"the job failed on {master}: {cause[:300]}\n"
            "(run folders and the report's folder must be at the same paths on every worker, as on a shared disk)"
        ) from failed


def _start(master: str, scratch: Path, settings: Mapping[str, str], new_archive: ClassArchive | None) -> SparkSession:
    _must_answer(master)
    jvm_log = scratch / JVM_LOG
    (scratch / "conf").mkdir()
    log_settings = scratch / "conf" / "log4j2.properties"
    log_settings.write_text(_LOG4J2, encoding="utf-8")
    java = find_java()
    archive = new_archive or (kept_archive(java) if is_local(master) else None)
    java_home = java_home_for_spark(java, scratch / "java", jvm_log)
    environment = {
        "JAVA_HOME": str(java_home),
        "SPARK_CONF_DIR": str(scratch / "conf" if archive is None else archive.settings_folder),
        "SPARK_LOCAL_DIRS": str(scratch / "local"),
        "PYSPARK_PYTHON": _worker_python(master),
        **_NOT_FROM_HERE,
        **(_LOOPBACK_ENVIRONMENT if on_this_machine(master) else {}),
    }
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    from spark_reports.py4j_names import remember_names

    builder = SparkSession.builder.master(master).appName("highwater")
    ours = {
        **_SETTINGS,
        **(_LOOPBACK if on_this_machine(master) else {}),
        "spark.driver.memory": f"{driver_memory_mb()}m",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **{f"spark.executorEnv.{name}": value for name, value in _NOT_FROM_HERE.items()},
    }
    chosen = {**ours, **settings}
    if archive is not None:
        chosen[_JAVA_OPTIONS] += f" {archive.options()} -Dlog4j2.configurationFile={log_settings.as_uri()}"
    # A JVM that is killed leaves its files there.
    (scratch / "tmp").mkdir()
    chosen[_JAVA_OPTIONS] += f' "-Djava.io.tmpdir={scratch / "tmp"}"'
    for key, value in chosen.items():
        builder = builder.config(key, value)
    _silence_broken_calls()
    on_interrupt = signal.getsignal(signal.SIGINT)
    with _environment(environment), jvm_log.open("a") as log:
        try:
            conf = SparkConf().setAll([("spark.master", master), *chosen.items()])
            if SparkContext._gateway is None:
                # By itself PySpark lets what its scripts say, such as when they are stopped, reach the terminal.
                gateway = launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]
                SparkContext._ensure_initialized(gateway=gateway, conf=conf)
            session = builder.getOrCreate()
        except Exception as error:
            ended = why_it_ended(error, _jvm(), jvm_log)
            what = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise SparkFailed(ended or f"Spark did not start: {what}\n{log_tail(jvm_log)}") from error
    if threading.current_thread() is threading.main_thread():
        # PySpark's own handler asks the JVM to cancel all jobs, in the middle of another request.
        signal.signal(signal.SIGINT, on_interrupt)
    _silence_query_errors()
    _silence_accumulators(session)
    remember_names(session._jvm)
    name_call_site(session)
    return session


def name_call_site(session: SparkSession) -> None:
    """For the queries of this thread. Else Spark searches the JVM's stack at every step of every plan for its origin,
    which only the web UI shows: this takes a quarter of the time to begin a query.
    """
    for form in ("short", "long"):
        session.sparkContext.setLocalProperty(f"callSite.{form}", "highwater")


def is_local(master: str) -> bool:
    """Whether the tasks run in the driver's own JVM."""
    return master == "local" or master.startswith("local[")


def on_this_machine(master: str) -> bool:
    return master.startswith("local") or re.match(r"spark://(127\.|localhost[:,]|\[::1\])", master) is not None


def _must_answer(master: str) -> None:
    """Spark tries for a minute to reach a master that is not there, and ends with a page of Java."""
    why: OSError | None = None
    for host, port in re.findall(r"(?:spark://|,)\[?([^,/\]]+)\]?:(\d+)", master):
        try:
            socket.create_connection((host, int(port)), MASTER_ANSWERS_S).close()
            return
        except (OSError, OverflowError) as error:
            why = error if isinstance(error, OSError) else OSError(f"{port} is no port")
    if why is not None:
        raise SparkFailed(f"no Spark master answers at {master}: {why.strerror or why}")


def _worker_python(master: str) -> str:
    """Elsewhere our own path means nothing: there it is what the user names, or Spark's `python3`."""
    if is_local(master):
        return sys.executable
    return os.environ.get("PYSPARK_PYTHON") or (sys.executable if on_this_machine(master) else "python3")


def _silence_query_errors() -> None:
    # PySpark writes a kilobyte-long JSON line to stderr for every SQL error, besides raising it.
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel("CRITICAL")


def _silence_accumulators(session: SparkSession) -> None:
    """PySpark's server for accumulators writes a traceback to stderr when the JVM ends in the middle of a task."""
    server: Any = session.sparkContext._accumulatorServer
    server.handle_error = lambda request, client: None


def _silence_broken_calls() -> None:
    """Py4J logs a call that Ctrl-C or the end of the JVM breaks off, with its traceback, and raises the same error. It
    logs with its own logger when the connection is closed, with the root logger before.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_call_that_broke)


def _is_no_call_that_broke(record: logging.LogRecord) -> bool:
    return not str(record.msg).endswith("while sending command.")


def _stop(session: SparkSession, within_s: float = _ENDS_WITHIN_S) -> None:
    from py4j.protocol import Py4JError

    with contextlib.suppress(Py4JError, OSError):  # A JVM that ran out of memory has ended by itself.
        session.stop()
    _stop_jvm(within_s)


def _kill_jvm(pid_file: Path) -> None:
    """At any point of its start: a JVM that Spark's launcher would start later no longer finds a program."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with contextlib.suppress(OSError, ValueError):
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
    process = _jvm()
    if process is not None:
        process.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _jvm() -> subprocess.Popen[bytes] | None:
    """None where this process has not started it."""
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process


def _stop_jvm(within_s: float) -> None:
    """`SparkSession.stop` leaves the JVM running until this process ends; its log and scratch folder must go before."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = _jvm()
    gateway.shutdown()
    if process is not None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(within_s)
    SparkContext._gateway = None
    SparkContext._jvm = None


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
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


def driver_memory_mb() -> int:
    """A quarter of the machine, between 1 and 4 GiB: a 10 M event trace does with 1, and is done sooner with more."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1024, min(4096, physical // 4 >> 20))
