"""A session on this machine needs no executor; one of a cluster is late once its time is over."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_reports import session
from spark_reports.session import FirstExecutor, SparkFailed

pytestmark = pytest.mark.spark


@pytest.mark.soak
def test_tasks_of_a_local_master_run_in_the_driver(spark: SparkSession) -> None:
    assert FirstExecutor(spark, within_s=0).has_come()


def test_a_cluster_whose_workers_start_none_is_an_error_that_says_how_to_ask_for_less(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_is_local(master: str) -> bool:
        return False

    monkeypatch.setattr(session, "is_local", none_is_local)
    # The session of the tests knows its driver alone, as one of a cluster does without executors.
    patient: Any = FirstExecutor(spark, within_s=600)
    assert not patient.has_come()
    with pytest.raises(SparkFailed, match=r"no worker of local.* within 0.1 s: .* 1g .*\n.*spark.executor.memory=512m"):
        FirstExecutor(spark, within_s=0.1).wait()
