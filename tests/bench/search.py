"""Random schedules an hour: in a process pool, then as a Spark job, with all invariants on."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from scenarios.process.identity import identity
from scenarios.process.pool import in_order
from scenarios.process.work_folders import folder_in_memory
from scenarios.search.rows import COLUMNS, play_run, run_of
from scenarios.search.search import SeedJob, play_seed

TIME_LIMIT_S = 60.0


def measure_search(
    profile: str, schedules: int, repeat: int, cores: int, progress: Callable[[float], None]
) -> dict[str, Any]:
    """Medians of `repeat` rounds of the same schedules, those of seeds 1, 2 and so on; cpu_s: of each in the pool.

    raises: JavaMissing, SparkFailed
    """
    from spark_reports.sweep.build import session_with_our_code
    from spark_reports.sweep.job import Task, play_on_spark

    jobs = [SeedJob(seed, profile, safe=False) for seed in range(1, schedules + 1)]
    task = Task(play_run, identity, identity(), TIME_LIMIT_S, COLUMNS)

    def in_pool() -> int:
        with closing(in_order(play_seed, jobs, cores, folder_in_memory())) as outcomes:
            return sum(1 for _ in outcomes)

    # The pool comes first: its processes are forked before Spark's threads are there.
    progress(0.0)
    before_s = _cpu_s()
    pool_s = [_seconds(in_pool, schedules) for _ in range(repeat)]
    cpu_s = (_cpu_s() - before_s) / (schedules * repeat)
    progress(0.5)
    began = time.perf_counter()
    with session_with_our_code(f"local[{cores}]", {}) as spark:
        session_s = time.perf_counter() - began

        def on_spark() -> int:
            with closing(play_on_spark(spark, task, [run_of(job) for job in jobs])) as coming:
                return sum(rows.num_rows for rows in coming if rows is not None)

        spark_s = [_seconds(on_spark, schedules) for _ in range(repeat)]
    an_hour = [round(schedules / statistics.median(times) * 3600) for times in (pool_s, spark_s)]
    return {"profile": profile, "schedules": schedules, "repeat": repeat, "cores": cores, "cpu_s": round(cpu_s, 3),
            "pool_an_hour": an_hour[0], "spark_an_hour": an_hour[1], "session_s": round(session_s, 2)}  # fmt: skip


def _cpu_s() -> float:
    """Of this process and of its children that have ended; other work on the machine changes it less than wall time."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _seconds(play: Callable[[], int], schedules: int) -> float:
    began = time.perf_counter()
    assert play() == schedules
    return time.perf_counter() - began
