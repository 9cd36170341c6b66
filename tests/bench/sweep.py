"""The same runs as a Spark sweep and in a plain process pool, in turn: the cost of Spark, isolation and rows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from scenarios.language.parse.catalogue import find_scenario
from scenarios.process.identity import identity
from scenarios.search.sweep import Axis, SweepScenario, grid

SCENARIOS: dict[str, tuple[str, ...]] = {
    "luck-or-law": ("workloads.p1.config.acks=0,1,all", "topics.t.config.min.insync.replicas=1,2"),
    "acks1-leader-kill": ("workloads.p1.config.acks=0,1,all",),
}
"""Three-broker class scenarios, with the varied settings."""
_CHUNK = 8
_WARM_UP = 16
TIME_LIMIT_S = 60.0

Job = tuple[SweepScenario, tuple[str, ...], int]


def measure_sweeps(runs: int, repeat: int, cores: int, progress: Callable[[float], None]) -> dict[str, Any]:
    """Runs an hour for each of SCENARIOS, medians of `repeat` rounds of `runs` runs each, every invariant checked.

    raises: JavaMissing, SparkFailed
    """
    from spark_reports.session import spark_session
    from spark_reports.settings import SMALL_TRACE_SETTINGS
    from spark_reports.sweep.job import Task, play_on_spark
    from spark_reports.sweep.rows import Run

    rows = []
    began = time.perf_counter()
    # The pool comes first: its processes are forked before Spark's threads are there.
    with ProcessPoolExecutor(cores) as pool:
        list(pool.map(_play, _jobs("luck-or-law", _WARM_UP), chunksize=1))
        started = time.perf_counter()
        with spark_session(f"local[{cores}]", SMALL_TRACE_SETTINGS) as spark:
            session_s = time.perf_counter() - started

            def on_spark(jobs: Sequence[Job]) -> float:
                task = Task(jobs[0][0].play, identity, identity(), TIME_LIMIT_S)
                began = time.perf_counter()
                work = [Run(settings, seed) for _, settings, seed in jobs]
                played = sum(rows.num_rows for rows in play_on_spark(spark, task, work) if rows is not None)
                assert played == len(jobs)
                return time.perf_counter() - began

            def in_pool(jobs: Sequence[Job]) -> float:
                began = time.perf_counter()
                assert sum(1 for _ in pool.map(_play, jobs, chunksize=_CHUNK)) == len(jobs)
                return time.perf_counter() - began

            on_spark(_jobs("luck-or-law", _WARM_UP))
            for place, name in enumerate(SCENARIOS):
                jobs = _jobs(name, runs)
                times: dict[str, list[float]] = {"pool": [], "spark": []}
                for turn in range(repeat):
                    progress((place + turn / repeat) / len(SCENARIOS))
                    times["pool"].append(in_pool(jobs))
                    times["spark"].append(on_spark(jobs))
                rows.append(_row(name, runs, times))
    return {"cores": cores, "repeat": repeat, "session_s": round(session_s, 2), "rows": rows,
            "wall_s": round(time.perf_counter() - began, 1)}  # fmt: skip


def _row(name: str, runs: int, times: dict[str, list[float]]) -> dict[str, Any]:
    pool_s, spark_s = statistics.median(times["pool"]), statistics.median(times["spark"])
    return {
        "scenario": name,
        "runs": runs,
        "pool_s": round(pool_s, 2),
        "spark_s": round(spark_s, 2),
        "pool_runs_per_hour": round(runs / pool_s * 3600),
        "spark_runs_per_hour": round(runs / spark_s * 3600),
        "overhead": round(spark_s / pool_s - 1, 3),
    }


def _jobs(name: str, runs: int) -> list[Job]:
    path = find_scenario(name)
    scenario = SweepScenario(name, str(path), path.read_text(encoding="utf-8"), None, ())
    settings = grid([Axis.parse(text) for text in SCENARIOS[name]])
    return [(scenario, settings[number % len(settings)], number // len(settings) + 1) for number in range(runs)]


def _play(job: Job) -> dict[str, Any]:
    scenario, settings, seed = job
    return scenario.play(settings, seed)
