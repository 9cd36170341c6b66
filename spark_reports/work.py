"""Measure the cost of Spark queries independently of the machine: jobs, stages, tasks and sizes of plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from pyspark.sql import SparkSession

from spark_reports.io import read_trace
from spark_reports.tables import ResultTables


class Work(NamedTuple):
    """The number of jobs, stages and tasks. Skipped stages do not count."""

    jobs: int
    stages: int
    tasks: int


class WorkCount:
    """A context manager that counts a session's work in its block; afterwards `done` has the result."""

    done: Work

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext._jsc.sc()

    def __enter__(self) -> Self:
        self._before = self._jobs()
        return self

    def __exit__(self, *exc: object) -> None:
        found = [work for job, work in self._jobs().items() if job not in self._before]
        self.done = Work(len(found), sum(work.stages for work in found), sum(work.tasks for work in found))

    def _jobs(self) -> dict[int, Work]:
        self._context.listenerBus().waitUntilEmpty()
        jobs = self._context.statusStore().jobsList(None).iterator()
        found = {}
        while jobs.hasNext():
            job = jobs.next()
            found[job.jobId()] = Work(1, job.numCompletedStages(), job.numCompletedTasks())
        return found


def plan_sizes(spark: SparkSession, run_dirs: Sequence[Path]) -> dict[str, int]:
    """Return the length in characters of each result table's physical plan, without parts that several tables share."""
    tables = ResultTables(read_trace(spark, run_dirs))
    return {name: len(table._jdf.queryExecution().executedPlan().toString()) for name, table in tables.items()}
