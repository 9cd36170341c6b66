"""One Spark session for all tests of the reports: starting it costs five seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from replica.trace.events import TraceEvent, TraceLog
from scenarios.observe.trace_writer import TraceWriter
from tests.soak import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_reports.report import ReportResult
    from spark_reports.work import Work

Fact = tuple[float, TraceEvent]
Row = dict[str, Any]
Ask = Callable[..., list[Any]]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from spark_reports.session import spark_session
    from spark_reports.settings import SMALL_TRACE_SETTINGS

    with spark_session("local[2]", SMALL_TRACE_SETTINGS) as session:
        yield session


@pytest.fixture(scope="session")
def leader_kill_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.spark.story import leader_kill

    folder = tmp_path_factory.mktemp("runs") / "0001-acks1-leader-kill"
    leader_kill(folder)
    return folder


@pytest.fixture(scope="session")
def report_and_work(
    spark: SparkSession, leader_kill_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ReportResult, Work]:
    from spark_reports.report import write_report
    from spark_reports.work import WorkCount

    with WorkCount(spark) as count:
        result = write_report([leader_kill_dir], tmp_path_factory.mktemp("report"), spark=spark)
    return result, count.done


@pytest.fixture(scope="session")
def report(report_and_work: tuple[ReportResult, Work]) -> ReportResult:
    """The report on that run. Its tables answer most questions of these tests, so that Spark is asked once."""
    return report_and_work[0]


@pytest.fixture(scope="session")
def report_work(report_and_work: tuple[ReportResult, Work]) -> Work:
    """The work of that report for Spark."""
    return report_and_work[1]


@pytest.fixture(scope="session")
def ask(report: ReportResult) -> Ask:
    """Columns of a result table as a list of tuples, in order of the columns in `by`."""

    def answer(table: str, *columns: str, by: str = "", where: Callable[[Row], bool] = lambda row: True) -> list[Any]:
        rows = [row for row in pq.read_table(report.path.parent / "tables" / table).to_pylist() if where(row)]
        rows.sort(key=lambda row: tuple(row[name] for name in by.split()))
        return [tuple(row[name] for name in columns) for row in rows]

    return answer


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, list[Fact]], Path]:
    """Events with their times in seconds -> a run folder with these events as its trace."""

    def write(name: str, facts: list[Fact]) -> Path:
        run_dir = tmp_path_factory.mktemp("written") / name
        with TraceWriter(run_dir / "trace") as writer:
            log = TraceLog([writer])
            for seconds, event in facts:
                log.at_us = round(seconds * 1_000_000)
                log.emit(event)
        return run_dir

    return write


@pytest.fixture(params=one_in(2, ["as a short trace", "as a long trace"]))
def any_length(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces of the test are read in both ways: as a long one in a soak, for which `make test` has one whole report,
    test_a_long_trace_gives_the_same_tables."""
    from spark_reports import io

    if request.param == "as a long trace":
        monkeypatch.setattr(io, "SHORT_TRACE_BYTES", 0)
