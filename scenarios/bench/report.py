"""Measures Spark reports of a short run: the first report of a new Spark session, and later reports of the session."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scenarios.bench.process_watch import ProcessWatch
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario

SCENARIO = "acks1-leader-kill"
REPORTS = 3


def measure_short_report(progress: Callable[[float, str], None]) -> dict[str, Any]:
    """Write REPORTS reports of one run in one Spark session, which the first report starts. Return their costs.

    Raises:
        JavaMissing, SparkFailed, OSError: a report cannot be written.
    """
    from spark_reports.report.build import write_report
    from spark_reports.session import spark_session
    from spark_reports.settings import report_settings_for
    from spark_reports.work import WorkCount, plan_sizes

    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as scratch:
        played = run_scenario(load_file(find_scenario(SCENARIO)).scenario, runs_dir=Path(scratch), keep_logs=False)
        assert played.run_dir is not None
        rows = []
        with contextlib.ExitStack() as session:
            for turn in range(REPORTS):
                progress(turn / (REPORTS + 1), f"report {turn + 1}")
                began = time.perf_counter()
                with ProcessWatch() as watch:
                    if turn == 0:
                        spark = session.enter_context(spark_session(settings=report_settings_for([played.run_dir])))
                    with WorkCount(spark) as count:
                        write_report([played.run_dir], Path(scratch) / "report", spark=spark)
                wall_s, cpu_s = time.perf_counter() - began, watch.usage().cpu_s
                rounded = {"s": round(wall_s, 1), "cpu_s": None if cpu_s is None else round(cpu_s, 1)}
                rows.append({**rounded, **count.done._asdict()})
            progress(REPORTS / (REPORTS + 1), "plans")
            plans = plan_sizes(spark, [played.run_dir])
    largest = max(plans, key=lambda name: plans[name])
    return {
        "scenario": SCENARIO,
        "events": played.summary["events"],
        "reports": rows,
        "largest_plan": {"table": largest, "characters": plans[largest]},
        "plans": plans,
    }
