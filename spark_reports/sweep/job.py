"""Play the runs of a sweep as Spark jobs: each job plays a portion of the runs and returns their rows.

A portion is one Spark job with one task (`mapInArrow`). One more portion is submitted than there are slots. Rows arrive
during the sweep, little work is lost when it stops, and workers and driver need no common file system.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_reports.session import FirstExecutor
from spark_reports.sweep.isolated import Broken, play_isolated
from spark_reports.sweep.rows import COLUMNS, CRASHED, Columns, arrow_rows_schema, row_of, rows_schema

Play = Callable[..., Mapping[str, Any]]
"""A function from the fields of a run, such as settings and seed, to the other columns of its row.

Its result must be the same on all machines.
"""

PORTION_S = 3.0
"""Intended duration of a portion in seconds: much longer than the 50 ms that a Spark job costs."""
FIRST_PORTION_RUNS = 4
PORTION_RUNS_MAX = 256
QUEUED = 1
"""Number of portions that are submitted in addition to one per slot, to keep all slots busy."""
TICK_S = 0.2
THREADS_MAX = 512
HOPELESS_AFTER = 4
"""Number of failed portions after which the sweep gives up if none has succeeded."""
_UNFIT = "highwater-unfit:"


class WorkersUnfit(Exception):
    """The workers would not play the runs exactly as this machine does. The message says what differs or is missing."""


class Task(NamedTuple):
    """The common part of all portions of a sweep, which is sent to the workers.

    Attributes:
        play: plays a run.
        identify: returns everything that decides a run's bytes. Each worker compares its own result
            with `identity`.
        identity: result of `identify` on this machine.
        limit_s: limit of each run's wall time, in seconds.
        columns: columns of the rows.
    """

    play: Play
    identify: Callable[[], Mapping[str, str]]
    identity: Mapping[str, str]
    limit_s: float
    columns: Columns = COLUMNS


def play_on_spark(spark: SparkSession, task: Task, runs: Sequence[Any]) -> Generator[pa.Table | None, None, None]:
    """Play runs, and yield tables of rows as they arrive, in any order; yield None whenever TICK_S passed without rows.

    There is one row for each run. Closing the generator cancels running jobs. Raises WorkersUnfit, SparkFailed.
    """
    waiting = _Portions(runs)
    under_way: dict[Future[_Played], list[Any]] = {}
    failures = 0
    came = False
    executor = FirstExecutor(spark)
    pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="sweep")
    try:
        while waiting or under_way:
            slots = min(spark.sparkContext.defaultParallelism, THREADS_MAX - QUEUED)
            while waiting and len(under_way) < slots + QUEUED:
                portion = waiting.take(slots)
                under_way[pool.submit(_play_portion, spark, task, portion)] = portion
            done, _ = wait(under_way, timeout=TICK_S, return_when=FIRST_COMPLETED)
            if not done:
                executor.has_come()
                yield None
            for future in done:
                portion = under_way.pop(future)
                error = future.exception()
                if error is None:
                    played, came = future.result(), True
                    waiting.took(played.seconds, len(portion))
                    yield played.rows
                    continue
                failures += 1
                _raise_if_unfit(error, hopeless=failures >= HOPELESS_AFTER and not came)
                yield _crashed(task, portion[0], error) if waiting.alone(portion) else None
    finally:
        if under_way:
            spark.sparkContext.cancelAllJobs()
        pool.shutdown(wait=True, cancel_futures=True)


class _Portions:
    """The runs that are not submitted yet. Portions of them grow until a portion takes PORTION_S."""

    def __init__(self, runs: Sequence[Any]) -> None:
        self._runs = deque(runs)
        self._alone: deque[Any] = deque()
        self._tried_alone: set[Any] = set()
        self._size = FIRST_PORTION_RUNS

    def __bool__(self) -> bool:
        return bool(self._runs or self._alone)

    def take(self, slots: int) -> list[Any]:
        if self._alone:
            return [self._alone.popleft()]
        # Portions become smaller towards the end, to keep all slots busy until then.
        fair = -(-len(self._runs) // (2 * slots))
        return [self._runs.popleft() for _ in range(min(len(self._runs), fair, self._size))]

    def took(self, seconds: float, runs: int) -> None:
        if seconds < PORTION_S and runs >= self._size:
            self._size = min(2 * self._size, PORTION_RUNS_MAX)
        elif seconds > 3 * PORTION_S:
            self._size = max(1, self._size // 2)

    def alone(self, portion: Sequence[Any]) -> bool:
        """Handle a failed portion: queue each of its runs again as a separate portion, and return False.

        Return True instead if the portion is a run that was already tried alone; then this run is the cause.
        """
        if portion[0] in self._tried_alone:
            return True
        self._alone.extend(portion)
        self._tried_alone.update(portion)
        return False


class _Played(NamedTuple):
    rows: pa.Table
    seconds: float


def _play_portion(spark: SparkSession, task: Task, portion: Sequence[Any]) -> _Played:
    """Play a portion as one Spark job, and return its rows; called in the driver."""

    def on_worker(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield play_here(task, portion)

    began = time.perf_counter()
    rows = spark.range(0, 1, 1, 1).mapInArrow(on_worker, rows_schema(task.columns)).toArrow()
    return _Played(rows, time.perf_counter() - began)


def play_here(task: Task, portion: Sequence[Any]) -> pa.RecordBatch:
    """Play a portion in a worker and return its rows.

    Raises RuntimeError if this worker's `identify` differs from the driver's.
    """
    differing = _differences(task.identity, task.identify())
    if differing:
        raise RuntimeError(f"{_UNFIT} {'; '.join(differing)}")
    outcomes = play_isolated(lambda run: task.play(*run), portion, task.limit_s)
    rows = []
    for run, outcome in zip(portion, outcomes, strict=True):
        broken = isinstance(outcome, Broken)
        figures = {"status": outcome.how, "error": outcome.why} if broken else outcome
        rows.append(row_of(run, figures, task.columns))
    return pa.RecordBatch.from_pylist(rows, schema=arrow_rows_schema(task.columns))


def _differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    return [
        f"{name} is {found.get(name, 'missing')} on a worker, {value} here"
        for name, value in wanted.items()
        if found.get(name) != value
    ]


def _crashed(task: Task, run: Any, error: BaseException) -> pa.Table:
    figures = {"status": CRASHED, "error": f"the worker died: {_why(error)}"[:500]}
    return pa.Table.from_pylist([row_of(run, figures, task.columns)], schema=arrow_rows_schema(task.columns))


def _why(error: BaseException) -> str:
    """Return the line of a Java error that names the cause, otherwise the first line."""
    text = str(error)
    causes = re.findall(r"most recent failure: (?:Lost task \S+ in stage \S+ )?(.*)|Caused by: (.*)", text)
    lines = [item or other for item, other in causes] or text.splitlines()
    return next((line.strip() for line in lines if line.strip()), type(error).__name__)


def _raise_if_unfit(error: BaseException, *, hopeless: bool) -> None:
    text = str(error)
    if match := re.search(rf"{_UNFIT} (.*)", text):
        raise WorkersUnfit(match.group(1).strip())
    if match := re.search(r"ModuleNotFoundError: No module named '([^']+)'", text):
        raise WorkersUnfit(f"a worker has no Python module `{match.group(1)}`")
    if match := re.search(r"PackageNotFoundError: .*?([\w.-]+)\s*$", text, re.MULTILINE):
        raise WorkersUnfit(f"a worker has no Python package `{match.group(1)}`")
    if match := re.search(r"\[PYTHON_VERSION_MISMATCH\] ([^\n]*)", text):
        raise WorkersUnfit(match.group(1))
    if match := re.search(r'Cannot run program "([^"]+)"', text):
        raise WorkersUnfit(f"a worker has no program `{match.group(1)}`: set PYSPARK_PYTHON to the worker's Python")
    if "SparkContext was shut down" in text or "All masters are unresponsive" in text:
        raise WorkersUnfit("the Spark cluster ended this job: check that its master is running")
    if hopeless:
        raise WorkersUnfit(_why(error)[:500]) from error
