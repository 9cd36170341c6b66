"""The executors of a cluster: where no worker has room for one, Spark waits for ever and says so in its log alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spark_reports.session import SparkFailed, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMES_WITHIN_S = 60.0
LOOK_S = 0.2
_MEMORY = "spark.executor.memory"
_MEMORY_UNLESS_SET = "1g"


class FirstExecutor:
    """Of a session that has just begun."""

    def __init__(self, spark: SparkSession, within_s: float = COMES_WITHIN_S) -> None:
        self._spark = spark
        self._until_s = time.monotonic() + within_s
        self._within_s = within_s
        self._has_come = is_local(str(spark.sparkContext.master))

    def has_come(self) -> bool:
        """raises: SparkFailed, if it is late"""
        if not self._has_come:
            known = self._spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
            self._has_come = len(known) > 1  # The driver is among them.
            if not self._has_come and time.monotonic() > self._until_s:
                raise SparkFailed(self._why())
        return self._has_come

    def wait(self) -> None:
        """raises: SparkFailed, if it does not come in time"""
        while not self.has_come():
            time.sleep(LOOK_S)

    def _why(self) -> str:
        context = self._spark.sparkContext
        memory = context.getConf().get(_MEMORY, _MEMORY_UNLESS_SET)
        return (
            f"no worker of {context.master} has an executor for this job after {self._within_s:g} s: they are busy, or "
            f"have less memory than the {memory} that it takes, or cannot start it\n"
            f"(--conf {_MEMORY}=512m asks for less; the master's web page shows its workers and their logs)"
        )
