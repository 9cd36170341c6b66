"""The Spark verdict, from the trace alone, equals the runner's on every bundled scenario and variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenarios.run.runner import RunResult
from tests.spark.test_agreement import judged_alike

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]  # `bundled_runs` plays the whole catalogue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_and_the_runner_judge_alike(spark: SparkSession, bundled_runs: dict[str, RunResult]) -> None:
    judged_alike(spark, bundled_runs)
