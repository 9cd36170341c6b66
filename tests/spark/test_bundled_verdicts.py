"""The Spark verdict, from the trace alone, equals the runner's on every bundled scenario and variant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scenarios.catalogue import bundled
from scenarios.loading import load_file
from scenarios.runner import RunResult, run_scenario
from spark_reports.verdicts import FATES, judge_runs

pytestmark = pytest.mark.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def bundled_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunResult]:
    """Every bundled scenario and variant, run once and kept."""
    runs_dir = tmp_path_factory.mktemp("bundled")
    results = [
        run_scenario(scenario, runs_dir=runs_dir, keep_logs=False)
        for path in bundled().values()
        for scenario in load_file(path).all
    ]
    return {Path(str(result.run_dir)).name: result for result in results}


def test_spark_and_the_runner_judge_alike(spark: SparkSession, bundled_runs: dict[str, RunResult]) -> None:
    judged = judge_runs(spark, [Path(str(result.run_dir)) for result in bundled_runs.values()])
    assert sorted(judged) == sorted(bundled_runs)
    for name, result in bundled_runs.items():
        assert list(judged[name].verdict) == result.summary["verdict"], name
        for kind in FATES:
            assert sorted(judged[name].records[kind]) == sorted(result.summary["records"][kind]), f"{name}: {kind}"
