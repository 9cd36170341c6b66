"""Start and stop a quiet Spark session, without console output, web UI or network access beyond this machine."""

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
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from spark_reports.jars import first_on_class_path, jars_needed, spark_home
from spark_reports.java import find_java, java_home_for_spark
from spark_reports.jvm import SparkJvm, environment, is_begun_elsewhere, log_tail, why_it_ended
from spark_reports.settings import DEFAULTS, JAVA_OPTIONS, driver_memory_mb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_NAME = "highwater"
DEFAULT_MASTER = "local[2]"
MASTER_ANSWERS_S = 10.0
_ENDS_WITHIN_S = 30.0
"""Seconds to wait for the JVM's end after its session was stopped."""
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

# Without these settings Spark looks up this machine's name and address, and listens on the network.
_LOOPBACK: dict[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_LOOPBACK_ENVIRONMENT: dict[str, str] = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}

_NOT_FROM_HERE: dict[str, str] = {"PYTHONSAFEPATH": "1"}
"""Environment that keeps workers, which Spark starts with `-m`, from importing the current directory's modules."""


class SparkFailed(Exception):
    """Spark did not start, ended early, or failed on a cluster. The message says why."""


class _Launch(NamedTuple):
    """The environment in which a session is started.

    Attributes:
        scratch: folder for temporary files.
        settings: all Spark settings, including the master.
        variables: environment variables of the JVM.
    """

    scratch: Path
    settings: dict[str, str]
    variables: dict[str, str]

    @property
    def jvm_log(self) -> Path:
        return self.scratch / JVM_LOG


@contextlib.contextmanager
def spark_session(
    master: str = DEFAULT_MASTER,
    settings: Mapping[str, str] | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[SparkSession]:
    """Provide a Spark session in a block, and stop it and its JVM at the end.

    Args:
        master: local[2], local[*] or spark://host:port. Spark listens on the network only if the master is
            on another machine.
        settings: further Spark settings, which override the defaults.
        meanwhile: function called while the JVM starts, to import slow modules.

    Raises:
        JavaMissing, SparkFailed
    """
    scratch = Path(tempfile.mkdtemp(prefix="highwater-spark-"))
    jvm: SparkJvm | None = None
    try:
        launch = _prepared(master, scratch, settings or {})
        with environment(launch.variables), launch.jvm_log.open("a") as log:
            jvm = None if is_begun_elsewhere() else _jvm_of(launch, log)
            meanwhile()
            session = _begun(jvm, launch)
        try:
            yield session
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            ended = None if isinstance(error, SparkFailed) else why_it_ended(error, _process(jvm), launch.jvm_log)
            _stop(session, jvm)
            if ended is not None:
                raise SparkFailed(ended) from error
            raise
        else:
            _stop(session, jvm)
    finally:
        # After Ctrl-C queries or the JVM itself may still be starting; do not wait for either.
        if jvm is not None and jvm.is_there:
            jvm.kill()
            _forget()
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def job_on(master: str) -> Iterator[None]:
    """Convert every failure of a job on a cluster to SparkFailed with advice.

    The workers read and write files themselves, so a job fails if a worker does not have them.
    """
    if is_local(master):
        yield
        return
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError, OSError) as failed:
        lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
        cause = next((line for line in lines if "does not exist" in line or "No such file" in line), lines[0])
        raise SparkFailed(
            f"the job failed on {master}: {cause[:300]}\n"
            "(run folders and the report's folder must be at the same paths on every worker, as on a shared disk)"
        ) from failed


def _prepared(master: str, scratch: Path, settings: Mapping[str, str]) -> _Launch:
    """Prepare a session's scratch folder, settings and environment variables. Raises JavaMissing, SparkFailed."""
    _must_answer(master)
    for folder in ("conf", "tmp"):
        (scratch / folder).mkdir()
    log_settings = scratch / "conf" / "log4j2.properties"
    log_settings.write_text(_LOG4J2, encoding="utf-8")
    java = find_java()
    variables = {
        "JAVA_HOME": str(java_home_for_spark(java, scratch / "java", scratch / JVM_LOG, jars_needed())),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(scratch / "conf"),
        "SPARK_LOCAL_DIRS": str(scratch / "local"),
        "PYSPARK_PYTHON": _worker_python(master),
        **_NOT_FROM_HERE,
        **(_LOOPBACK_ENVIRONMENT if on_this_machine(master) else {}),
    }
    ours = {
        **DEFAULTS,
        "spark.driver.extraClassPath": first_on_class_path(),
        **(_LOOPBACK if on_this_machine(master) else {}),
        "spark.driver.memory": f"{driver_memory_mb()}m",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **{f"spark.executorEnv.{name}": value for name, value in _NOT_FROM_HERE.items()},
    }
    chosen = {**ours, **settings, "spark.master": master}
    # The scratch folder is deleted even if the JVM is killed.
    chosen[JAVA_OPTIONS] += f' "-Djava.io.tmpdir={scratch / "tmp"}"'
    return _Launch(scratch, chosen, variables)


def _jvm_of(launch: _Launch, log: IO[str]) -> SparkJvm:
    """Start Spark's JVM. Raises SparkFailed if Spark's scripts are missing."""
    try:
        return SparkJvm(launch.settings, launch.scratch, log)
    except OSError as error:
        raise SparkFailed(f"Spark did not start: {error}") from error


def _begun(jvm: SparkJvm | None, launch: _Launch) -> SparkSession:
    """Connect to the JVM and return a new session. Raises SparkFailed."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from spark_reports.py4j_names import remember_names

    _silence_broken_calls()
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        if jvm is not None:
            conf = SparkConf().setAppName(_NAME).setAll([*launch.settings.items()])
            SparkContext._ensure_initialized(gateway=jvm.connect(), conf=conf)
            SparkContext.getOrCreate(conf)
        session = SparkSession.builder.appName(_NAME).config(map={**launch.settings}).getOrCreate()
    except Exception as error:
        ended = why_it_ended(error, _process(jvm), launch.jvm_log)
        what = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise SparkFailed(ended or f"Spark did not start: {what}\n{log_tail(launch.jvm_log)}") from error
    if threading.current_thread() is threading.main_thread():
        # PySpark's own handler asks the JVM to cancel all jobs, perhaps in the middle of another request.
        signal.signal(signal.SIGINT, on_interrupt)
    _silence_query_errors()
    _silence_accumulators(session)
    remember_names(session._jvm)
    name_call_site(session)
    return session


def name_call_site(session: SparkSession) -> None:
    """Set a fixed call site for the queries of this thread.

    Without it, Spark searches the JVM's stack for the origin of every step of every plan. That takes a quarter of the
    time to start a query, and only the web UI shows call sites.
    """
    for form in ("short", "long"):
        session.sparkContext.setLocalProperty(f"callSite.{form}", "highwater")


def is_local(master: str) -> bool:
    """Return True if tasks run in the driver's own JVM, not on a cluster."""
    return master == "local" or master.startswith("local[")


def on_this_machine(master: str) -> bool:
    return master.startswith("local") or re.match(r"spark://(127\.|localhost[:,]|\[::1\])", master) is not None


def _must_answer(master: str) -> None:
    """Raise SparkFailed if no master answers. Spark itself would try for a minute and print pages of Java errors."""
    why: OSError | None = None
    for host, port in re.findall(r"(?:spark://|,)\[?([^,/\]]+)\]?:(\d+)", master):
        try:
            socket.create_connection((host, int(port)), MASTER_ANSWERS_S).close()
            return
        except (OSError, OverflowError) as error:
            why = error if isinstance(error, OSError) else OSError(f"{port} is not a port number")
    if why is not None:
        raise SparkFailed(f"no Spark master answers at {master}: {why.strerror or why}")


def _worker_python(master: str) -> str:
    """Return the workers' Python: this one, or on other machines the user's PYSPARK_PYTHON or `python3`."""
    if is_local(master):
        return sys.executable
    return os.environ.get("PYSPARK_PYTHON") or (sys.executable if on_this_machine(master) else "python3")


def _silence_query_errors() -> None:
    # PySpark writes a JSON line of a kilobyte to stderr for every SQL error, besides raising it.
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel("CRITICAL")


def _silence_accumulators(session: SparkSession) -> None:
    """Silence PySpark's accumulator server, which prints a traceback when the JVM ends in the middle of a task."""
    server: Any = session.sparkContext._accumulatorServer
    server.handle_error = lambda request, client: None


def _silence_broken_calls() -> None:
    """Silence Py4J's logs of calls that break with Ctrl-C or the JVM's end. Their errors are raised in any case."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_call_that_broke)


def _is_no_call_that_broke(record: logging.LogRecord) -> bool:
    return not str(record.msg).endswith("while sending command.")


def _process(jvm: SparkJvm | None) -> subprocess.Popen[bytes] | None:
    return None if jvm is None else jvm.process


def _stop(session: SparkSession, jvm: SparkJvm | None) -> None:
    """Stop the session and wait for the end of its JVM.

    `SparkSession.stop` alone would leave the JVM running until this process ends.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    with contextlib.suppress(Py4JError, OSError):  # A JVM that ran out of memory has already ended.
        session.stop()
    if SparkContext._gateway is not None:
        SparkContext._gateway.shutdown()
    if jvm is not None:
        jvm.end(_ENDS_WITHIN_S)
    SparkContext._gateway = SparkContext._jvm = None


def _forget() -> None:
    """Reset PySpark's references to a JVM that was killed."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


COMES_WITHIN_S = 60.0
LOOK_S = 0.2
_MEMORY = "spark.executor.memory"
_MEMORY_UNLESS_SET = "1g"


class FirstExecutor:
    """Checks that the first executor of a new session starts in time; with a local master there is no wait."""

    def __init__(self, spark: SparkSession, within_s: float = COMES_WITHIN_S) -> None:
        self._spark = spark
        self._until_s = time.monotonic() + within_s
        self._within_s = within_s
        self._has_come = is_local(str(spark.sparkContext.master))

    def has_come(self) -> bool:
        """Return True if an executor has started. Raises SparkFailed if the time is over."""
        if not self._has_come:
            known = self._spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
            self._has_come = len(known) > 1  # The driver is one of them.
            if not self._has_come and time.monotonic() > self._until_s:
                raise SparkFailed(self._why())
        return self._has_come

    def wait(self) -> None:
        """Wait for the first executor. Raises SparkFailed if it does not start in time."""
        while not self.has_come():
            time.sleep(LOOK_S)

    def _why(self) -> str:
        context = self._spark.sparkContext
        memory = context.getConf().get(_MEMORY, _MEMORY_UNLESS_SET)
        return (
            f"no worker of {context.master} started an executor for this job within {self._within_s:g} s: the workers "
            f"are busy, have less free memory than the {memory} that an executor needs, or cannot start one\n"
            f"(ask for less with --conf {_MEMORY}=512m; the master's web page shows the workers and their logs)"
        )
