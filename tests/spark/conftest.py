"""One Spark session for all tests of the reports: starting it costs five seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica.trace import TraceEvent, TraceLog
from scenarios.trace_writer import TraceWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_reports.io import Trace

Fact = tuple[float, TraceEvent]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from spark_reports.session import spark_session

    small = {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
    with spark_session("local[1]", small) as session:
        yield session


@pytest.fixture
def trace_of(spark: SparkSession, tmp_path: Path) -> Callable[..., Trace]:
    """Facts with their times in seconds -> the trace tables, by way of the files."""
    from spark_reports.io import read_trace

    def written(*facts: Fact) -> Trace:
        with TraceWriter(tmp_path / "run" / "trace") as writer:
            log = TraceLog([writer])
            for seconds, event in facts:
                log.at_us = round(seconds * 1_000_000)
                log.emit(event)
        return read_trace(spark, [tmp_path / "run"])

    return written


@pytest.fixture(scope="session")
def leader_kill_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.spark.story import leader_kill

    folder = tmp_path_factory.mktemp("runs") / "0001-acks1-leader-kill"
    leader_kill(folder)
    return folder


@pytest.fixture(scope="session")
def leader_kill_trace(spark: SparkSession, leader_kill_dir: Path) -> Trace:
    from spark_reports.io import read_trace

    return read_trace(spark, [leader_kill_dir])
