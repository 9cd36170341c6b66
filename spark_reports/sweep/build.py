"""Play the missing runs of a sweep or a search on Spark, and summarize all rows of a sweep."""

from __future__ import annotations

import contextlib
import py_compile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from spark_reports.interrupts import Interrupts
from spark_reports.session import is_local, on_this_machine, spark_session
from spark_reports.settings import SMALL_TRACE_SETTINGS
from spark_reports.sweep.job import Task, play_on_spark
from spark_reports.sweep.rows import COLUMNS, FINISHED, Run
from spark_reports.sweep.store import SweepFolder
from spark_reports.sweep.tables import DOCS, by_setting, read_rows


class Pace(NamedTuple):
    """The progress of a sweep. All numbers count from its start or resumption.

    Attributes:
        played: number of runs that were played.
        of: number of runs to play.
        losing: number of runs that lost a record.
        unfinished: number of runs that did not finish.
    """

    played: int
    of: int
    losing: int
    unfinished: int
    seconds: float
    first_losing: Run | None

    @classmethod
    def begin(cls, runs: Sequence[Run]) -> Pace:
        return cls(0, len(runs), 0, 0, 0.0, None)

    @property
    def runs_per_s(self) -> float:
        return self.played / self.seconds if self.seconds else 0.0


class Swept(NamedTuple):
    """The result of a sweep.

    Attributes:
        pace: the progress at the end.
        rows: rows of by_setting(), sorted by `setting`.
        versions: name and version of the software that computed the rows.
        interrupted: True if Ctrl-C ended the sweep early; the rows then describe only the runs that were played.
    """

    pace: Pace
    rows: list[dict[str, Any]]
    versions: str
    interrupted: bool


def run_sweep(
    folder: SweepFolder,
    task: Task,
    settings: Sequence[tuple[str, ...]],
    seeds: range,
    master: str,
    conf: Mapping[str, str],
    progress: Callable[[Pace], None],
) -> Swept:
    """Play each setting with each seed unless the run has a row in `folder`, and summarize all rows.

    Runs are played seed by seed. After Ctrl-C the rows of finished runs are kept and summarized.

    Args:
        task: the function that plays a run, and its limits.
        settings: combinations of settings, each a tuple of path=value.
        master: Spark master.
        conf: Spark settings, which override the defaults.
        progress: called in this thread a few times a second.

    Raises:
        WorkersUnfit, JavaMissing, SparkFailed, OSError; KeyboardInterrupt after Ctrl-C if there are no rows.
    """
    missing = folder.missing([Run(setting, seed) for seed in seeds for setting in settings])
    progress(Pace.begin(missing))  # Show progress while Spark starts.
    with Interrupts() as interrupts, session_with_our_code(master, conf) as spark:

        def bear(pace: Pace) -> None:
            interrupts.check()
            progress(pace)

        bear(Pace.begin(missing))
        pace, interrupted = _play(spark, folder, task, missing, bear)
        # Workers of a cluster lack the files in this folder.
        rows = read_rows(spark, folder.rows_dir) if on_this_machine(master) else spark.createDataFrame(folder.rows())
        table = _settings_table(by_setting(rows, settings, seeds), folder.path)
        return Swept(pace, table, f"PySpark {spark.version}", interrupted)


@contextlib.contextmanager
def session_with_our_code(master: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Provide a Spark session whose workers can play runs. Workers of a cluster get Highwater's code as a zip file."""
    with (
        tempfile.TemporaryDirectory(prefix="highwater-") as scratch,
        spark_session(master, {**SMALL_TRACE_SETTINGS, **conf}) as spark,
    ):
        if not is_local(master):
            archive = Path(scratch) / "highwater-code.zip"
            write_code_zip(archive)
            spark.sparkContext.addPyFile(str(archive))
        yield spark


def _play(
    spark: SparkSession, folder: SweepFolder, task: Task, runs: Sequence[Run], progress: Callable[[Pace], None]
) -> tuple[Pace, bool]:
    """Play runs and add their rows to the folder. Return (progress, True if Ctrl-C interrupted it).

    Raises KeyboardInterrupt after Ctrl-C if the folder has no row.
    """
    began = time.perf_counter()
    pace = Pace.begin(runs)
    interrupted = False
    try:
        with contextlib.closing(play_on_spark(spark, task, runs)) as coming:
            for rows in coming:
                pace = pace._replace(seconds=time.perf_counter() - began)
                if rows is not None:
                    folder.add(rows)
                    pace = _after(pace, rows)
                progress(pace)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        folder.flush()
    if interrupted and not folder.has_rows:
        raise KeyboardInterrupt
    return pace, interrupted


def _after(pace: Pace, rows: pa.Table) -> Pace:
    losing = rows.filter(pc.greater(rows["lost"], 0))
    first = pace.first_losing
    if first is None and losing.num_rows:
        first = Run(tuple(losing["settings"][0].as_py()), losing["seed"][0].as_py())
    return pace._replace(
        played=pace.played + rows.num_rows,
        losing=pace.losing + losing.num_rows,
        unfinished=pace.unfinished + rows.filter(pc.not_equal(rows["status"], FINISHED)).num_rows,
        first_losing=first,
    )


def _settings_table(table: DataFrame, folder: Path) -> list[dict[str, Any]]:
    """Write the rows of by_setting() to settings.parquet and the columns' meaning to README.md; return the rows."""
    found = table.orderBy("setting").toArrow()
    pq.write_table(found, folder / "settings.parquet", compression="zstd")
    head = ["| column | type | meaning |", "|---|---|---|"]
    lines = ["# Tables of the sweep", "", "Parquet (zstd). Times are virtual microseconds.", ""]
    lines += ["## rows", "", "One row per run.", "", *head]
    lines += [f"| {column.name} | {column.type} | {column.doc} |" for column in COLUMNS]
    lines += ["", "## settings.parquet", "", "One row per setting.", "", *head]
    lines += [f"| {field.name} | {field.dataType.simpleString()} | {DOCS[field.name]} |" for field in table.schema]
    (folder / "README.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


# ------------------------------------------------------------------------------------------------------------- shipping
#
# Highwater's code as a zip file for the workers of a cluster, where only the libraries must be installed.

PACKAGES = ("replica", "controller", "cluster", "scenarios", "spark_reports")


def write_code_zip(path: Path) -> None:
    """Write the packages to a zip file, with compiled modules, since Python does not cache modules of zip files."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as scratch, zipfile.ZipFile(path, "w", _DEFLATED) as archive:
        for package in PACKAGES:
            for name, content in _files(files(package), package):
                archive.writestr(name, content)
                if name.endswith(".py"):
                    archive.write(_compiled(name, content, Path(scratch)), f"{name}c")


_DEFLATED = zipfile.ZIP_DEFLATED


def _compiled(name: str, source: bytes, scratch: Path) -> Path:
    module, compiled = scratch / "module.py", scratch / "module.pyc"
    module.write_bytes(source)
    # Unchecked, since the source is in the same zip file, where modification times mean nothing.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(module), str(compiled), dfile=name, doraise=True, invalidation_mode=mode)
    return compiled


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.name == "__pycache__" or entry.name.endswith(".pyc"):
            continue
        if entry.is_dir():
            yield from _files(entry, f"{name}/{entry.name}")
        else:
            yield f"{name}/{entry.name}", entry.read_bytes()


PlayRuns = Callable[[Task, Sequence[Any]], Iterator[Mapping[str, Any]]]
"""A function that yields the row of each run in any order: first existing rows of the folder, then new ones."""


@contextlib.contextmanager
def spark_player(
    folder: SweepFolder, master: str, conf: Mapping[str, str], tick: Callable[[], None]
) -> Iterator[PlayRuns]:
    """Provide a function that plays runs on Spark; rows of finished runs are kept in `folder`, even after Ctrl-C.

    Args:
        master: Spark master.
        conf: Spark settings, which override the defaults.
        tick: called a few times a second while runs are played.

    Raises:
        WorkersUnfit, JavaMissing, SparkFailed, OSError, KeyboardInterrupt
    """
    with Interrupts() as interrupts, session_with_our_code(master, conf) as spark:

        def played(task: Task, runs: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
            missing = folder.missing(runs)
            yield from folder.rows_of(set(runs) - set(missing))
            try:
                with contextlib.closing(play_on_spark(spark, task, missing)) as coming:
                    for rows in coming:
                        interrupts.check()
                        tick()
                        if rows is not None:
                            folder.add(rows)
                            yield from rows.to_pylist()
            finally:
                folder.flush()

        yield played
