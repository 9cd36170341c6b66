"""Write the tables and the page of a report.

Spark computes the tables. The page is rendered from the written tables without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from spark_reports.folding import write_rows
from spark_reports.folds.rows import no_search_for_cycles
from spark_reports.io import damage_named, read_trace
from spark_reports.report.build import Progress
from spark_reports.report.heading import heading_of
from spark_reports.report.page import render, verdict_of
from spark_reports.report.rows import Rows
from spark_reports.report.thin import PICTURED, picture
from spark_reports.results import RESULT_TABLES, as_markdown
from spark_reports.session import name_call_site
from spark_reports.settings import are_small
from spark_reports.tables import ResultTables, tables_of_long_traces

# Each thread defines and plans one query at a time, which is most of the work for small traces. Three threads can
# share two cores.
_QUERIES_AT_ONCE = 3

_TABLES_HEAD = """\
# Tables of the report

Parquet (zstd), one folder per table. Times are virtual microseconds.

"""


def write_tables(spark: SparkSession, run_dirs: Sequence[Path], folder: Path, progress: Progress) -> None:
    """Write the result tables to `folder/tables`. Raises RunFolderUnusable."""
    is_small = are_small(run_dirs)
    progress("table records", 0.1)
    with damage_named():
        if is_small:
            tables = ResultTables(read_trace(spark, run_dirs))
        else:
            tables = tables_of_long_traces(spark, run_dirs, folder / "tables")
        _write_all(spark, tables, folder / "tables", is_small, progress)
    (folder / "tables" / "README.md").write_text(f"{_TABLES_HEAD}{as_markdown()}", encoding="utf-8")


def write_page(spark_version: str, run_dirs: Sequence[Path], folder: Path) -> dict[str, tuple[str, ...]]:
    """Write `folder/report.html` from the tables in `folder/tables`, and return the kinds of anomalies by run."""
    rows = {name: Rows.stored(folder / "tables" / name) for name in RESULT_TABLES}
    end_us = {row["run"]: row["end_us"] for row in rows["runs"]}
    rows |= {name: picture(name, rows[name], end_us) for name in PICTURED}
    headings = {run_dir.resolve().name: heading_of(run_dir) for run_dir in run_dirs}
    with no_search_for_cycles():
        page = render(rows, f"PySpark {spark_version}", headings)
    (folder / "report.html").write_text(page, encoding="utf-8")
    names = [run_dir.resolve().name for run_dir in run_dirs]
    return {name: verdict_of(rows["anomalies"].where(run=name)) for name in names}


def _write_here(rows: pa.Table, folder: Path) -> None:
    """Write a small table in this process, which is several times faster than a Spark job for a few rows."""
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / "part-00000.parquet", compression="zstd")


def _write_all(
    spark: SparkSession, tables: ResultTables, folder: Path, all_are_small: bool, progress: Progress
) -> None:
    def define_and_write(name: str) -> str:
        table, path = tables[name], folder / name
        if path.exists():  # Spark tasks have already written this table.
            return name
        rows = tables.rows(name) if all_are_small else tables.rows_if_few(name)
        if rows is not None:
            _write_here(rows, path)
        else:
            write_rows(table, str(path))
        return name

    pool = ThreadPoolExecutor(_QUERIES_AT_ONCE, initializer=name_call_site, initargs=(spark,))
    is_wanted = True
    try:
        writing = [pool.submit(define_and_write, name) for name in tables]
        for done, future in enumerate(as_completed(writing), start=1):
            progress(f"table {future.result()}", 0.2 + 0.7 * done / len(writing))
    except KeyboardInterrupt:
        is_wanted = False  # The session ends with the JVM, and these queries end with the session.
        raise
    finally:
        pool.shutdown(wait=is_wanted, cancel_futures=True)
