"""From run folders to the report on disk: the only place where the definitions are set to work."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from spark_reports.class_archive import ClassArchive
from spark_reports.folds.rows import no_search_for_cycles
from spark_reports.from_files import Folders, write_table
from spark_reports.interrupts import Interrupts
from spark_reports.io import damage_named, read_trace, trace_bytes
from spark_reports.report.heading import heading_of
from spark_reports.report.page import render, verdict_of
from spark_reports.report.rows import Rows
from spark_reports.report.thin import PICTURED, picture
from spark_reports.results import as_markdown
from spark_reports.session import COMPILED_SOON, DEFAULT_MASTER, SMALL_TRACE_SETTINGS, name_call_site, spark_session
from spark_reports.tables import ResultTables, tables_of_long_traces

Progress = Callable[[str, float], None]

# One thread defines and plans one query; of small traces that is most of the work, and two cores take three at a time.
_QUERIES_AT_ONCE = 3
# About 200,000 events: from there on compiled queries win, even with the time it takes to compile them.
_SMALL_TRACE_BYTES = 2 << 20
# Compressed, as the trace is: a task then sorts or folds some hundred megabytes at most.
_PARTITION_BYTES = 8 << 20

_TABLES_HEAD = """\
# Tables of the report

Parquet (zstd), one folder per table. Times are virtual microseconds.

"""


class ReportResult(NamedTuple):
    """`path`: the HTML file. `tables`: the folder of the Parquet tables. `verdicts`: anomaly names by run.
    `seconds`: wall time, the session's start included."""

    path: Path
    tables: Path
    verdicts: dict[str, tuple[str, ...]]
    seconds: float


def write_report(
    run_dirs: Sequence[Path],
    out: Path,
    progress: Progress = lambda step, share: None,
    spark: SparkSession | None = None,
    tables_dir: Path | None = None,
    master: str = DEFAULT_MASTER,
    conf: Mapping[str, str] | None = None,
    archive: ClassArchive | None = None,
) -> ReportResult:
    """Write `out/report.html` and `out/tables/<table>/*.parquet` (with `out/tables/README.md` on their columns).

    Both appear when they are whole, in place of earlier ones; nothing else in `out` is touched.
    tables_dir: where the tables go instead; nothing else in it is touched
    progress: called with the present work and the share done, 0 to 1, from this thread
    spark:    a session to use; without one, one is started and stopped
    master:   where that runs; workers of a cluster must find `run_dirs` and `out` at the same paths
    conf:     its Spark settings, which win over ours
    archive:  which that session's JVM is to write
    raises:   RunFolderUnusable, JavaMissing, SparkFailed, OSError
    """
    began = time.perf_counter()
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".report-", dir=out))
    try:
        if spark is not None:
            verdicts = _build(spark, run_dirs, scratch, progress)
        else:
            progress("starting Spark", 0.0)
            with spark_session(master, {**report_settings_for(run_dirs), **(conf or {})}, archive) as own_session:
                verdicts = _build(own_session, run_dirs, scratch, progress)
                if archive is not None:
                    progress("keeping Spark's classes", 0.95)
        with Interrupts():  # The result is complete and is now moved into place.
            if tables_dir is None:
                shutil.rmtree(out / "tables", ignore_errors=True)
            _move_into(scratch / "tables", tables_dir or out / "tables")
            (scratch / "report.html").replace(out / "report.html")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # It goes if there is nothing in it.
                out.rmdir()
    progress("done", 1.0)
    return ReportResult(out / "report.html", tables_dir or out / "tables", verdicts, time.perf_counter() - began)


def _move_into(folder: Path, target: Path) -> None:
    """Each thing in `folder` takes the place of its namesake in `target`, which may be on another disk."""
    target.mkdir(parents=True, exist_ok=True)
    for thing in sorted(folder.iterdir()):
        if (target / thing.name).is_dir():
            shutil.rmtree(target / thing.name)
        shutil.move(thing, target / thing.name)


def settings_for(run_dirs: Sequence[Path]) -> dict[str, str]:
    """Spark settings that suit the size of these traces, for callers that start the session early."""
    size = trace_bytes(run_dirs)
    if size < _SMALL_TRACE_BYTES:
        return SMALL_TRACE_SETTINGS
    return {"spark.sql.shuffle.partitions": str(max(2, size // _PARTITION_BYTES))}


def report_settings_for(run_dirs: Sequence[Path]) -> dict[str, str]:
    """The same for a session of reports alone."""
    return {**settings_for(run_dirs), **COMPILED_SOON}


def _build(
    spark: SparkSession, run_dirs: Sequence[Path], folder: Path, progress: Progress
) -> dict[str, tuple[str, ...]]:
    is_small = trace_bytes(run_dirs) < _SMALL_TRACE_BYTES
    progress("table records", 0.1)
    with damage_named():
        if is_small:
            tables = ResultTables(read_trace(spark, run_dirs))
        else:
            tables = tables_of_long_traces(spark, run_dirs, Folders(folder / "tables", folder / "parcels"))
        _write_all(spark, tables, folder / "tables", is_small, progress)
    progress("drawing", 0.9)
    rows = {name: Rows.stored(folder / "tables" / name) for name in tables}
    end_us = {row["run"]: row["end_us"] for row in rows["runs"]}
    rows |= {name: picture(name, rows[name], end_us) for name in PICTURED}
    headings = {run_dir.resolve().name: heading_of(run_dir) for run_dir in run_dirs}
    with no_search_for_cycles():
        page = render(rows, f"PySpark {spark.version}", headings)
    (folder / "report.html").write_text(page, encoding="utf-8")
    (folder / "tables" / "README.md").write_text(f"{_TABLES_HEAD}{as_markdown()}", encoding="utf-8")
    names = [run_dir.resolve().name for run_dir in run_dirs]
    return {name: verdict_of(rows["anomalies"].where(run=name)) for name in names}


def _write_here(rows: pa.Table, folder: Path) -> None:
    """For a small table: a Spark job that writes files does several times the work for a few rows."""
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / "part-00000.parquet", compression="zstd")


def _write_all(
    spark: SparkSession, tables: ResultTables, folder: Path, all_are_small: bool, progress: Progress
) -> None:
    def define_and_write(name: str) -> str:
        table, path = tables[name], folder / name
        if path.exists():  # Tasks wrote it.
            return name
        rows = tables.rows(name) if all_are_small else tables.rows_if_few(name)
        if rows is not None:
            _write_here(rows, path)
        else:
            write_table(table, path)
        return name

    pool = ThreadPoolExecutor(_QUERIES_AT_ONCE, initializer=name_call_site, initargs=(spark,))
    is_wanted = True
    try:
        writing = [pool.submit(define_and_write, name) for name in tables]
        for done, future in enumerate(as_completed(writing), start=1):
            progress(f"table {future.result()}", 0.2 + 0.7 * done / len(writing))
    except KeyboardInterrupt:
        is_wanted = False  # The session ends with the JVM, and these queries with it.
        raise
    finally:
        pool.shutdown(wait=is_wanted, cancel_futures=True)
