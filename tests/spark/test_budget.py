"""How much work a report is for Spark: counts that are the same on every machine, unlike the time they take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_reports.results import RESULT_TABLES
from spark_reports.work import Work, plan_sizes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

JOBS_MAX = 40
PLAN_CHARACTERS_MAX = 30_000


def test_a_report_is_few_jobs(report_work: Work) -> None:
    assert len(RESULT_TABLES) <= report_work.jobs <= JOBS_MAX
    assert report_work.jobs <= report_work.stages <= report_work.tasks


@pytest.mark.soak
def test_no_plan_is_large(spark: SparkSession, leader_kill_dir: Path) -> None:
    sizes = plan_sizes(spark, [leader_kill_dir])
    assert {name: size for name, size in sizes.items() if size > PLAN_CHARACTERS_MAX} == {}
