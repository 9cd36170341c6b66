"""Write a report about runs: an HTML page and Parquet tables.

The modules that make them are imported while Spark's JVM starts, and the page is rendered while the JVM ends.
"""

from __future__ import annotations

import contextlib
import importlib
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spark_reports.interrupts import Interrupts
from spark_reports.run_folders import note_what_tables_are_made_of
from spark_reports.session import DEFAULT_MASTER, FirstExecutor, spark_session
from spark_reports.settings import report_settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str, float], None]


class ReportResult(NamedTuple):
    """The result of writing a report.

    Attributes:
        path: path of the HTML file.
        tables: folder with the Parquet tables.
        verdicts: kinds of anomalies of each run, by the run's name.
        seconds: wall time, including the start of the Spark session.
    """

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
    check: Callable[[], None] = lambda: None,
) -> ReportResult:
    """Write `out/report.html`, `out/tables/<table>/*.parquet`, and `out/tables/README.md` about their columns.

    The page and the tables replace earlier ones once they are complete; nothing else in `out` is changed.

    Args:
        progress: called in this thread with the name of the current step and the fraction done (0 to 1).
        spark: the session to use. If None, a session is started and stopped.
        tables_dir: folder for the tables instead of `out/tables`; other files in it stay unchanged.
        master: Spark master for a new session; a cluster's workers must have `run_dirs` and `out` at the same paths.
        conf: Spark settings for a new session, which override the report's own.
        check: called while Spark starts, to check the traces. If it raises, the report is abandoned.

    Raises:
        RunFolderUnusable, JavaMissing, SparkFailed, OSError
    """
    began = time.perf_counter()
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".report-", dir=out))
    try:
        session: contextlib.AbstractContextManager[SparkSession]
        if spark is None:
            progress("starting Spark", 0.0)
            settings = {**report_settings_for(run_dirs), **(conf or {})}

            def meanwhile() -> None:
                check()
                _import_content()

            session = spark_session(master, settings, meanwhile)
        else:
            check()
            session = contextlib.nullcontext(spark)
        with ThreadPoolExecutor(1) as beside:
            with session as its_session:
                from spark_reports.report.content import write_page, write_tables

                FirstExecutor(its_session).wait()
                write_tables(its_session, run_dirs, scratch, progress)
                progress("drawing", 0.9)
                drawing = beside.submit(write_page, its_session.version, run_dirs, scratch)
            verdicts = drawing.result()
        with Interrupts():  # The result is complete and is now moved into place.
            if tables_dir is None:
                shutil.rmtree(out / "tables", ignore_errors=True)
            _move_into(scratch / "tables", tables_dir or out / "tables")
            note_what_tables_are_made_of(run_dirs, tables_dir or out / "tables")
            (scratch / "report.html").replace(out / "report.html")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # Remove the directory if it is empty.
                out.rmdir()
    progress("done", 1.0)
    return ReportResult(out / "report.html", tables_dir or out / "tables", verdicts, time.perf_counter() - began)


def _import_content() -> None:
    """Import the modules that make tables and page, with PySpark, pandas and Altair. This takes half a second."""
    importlib.import_module("spark_reports.report.content")


def _move_into(folder: Path, target: Path) -> None:
    """Move the entries of `folder` to `target`, even to another disk, and replace entries of the same name."""
    target.mkdir(parents=True, exist_ok=True)
    for thing in sorted(folder.iterdir()):
        if (target / thing.name).is_dir():
            shutil.rmtree(target / thing.name)
        shutil.move(thing, target / thing.name)
