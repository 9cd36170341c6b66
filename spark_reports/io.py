"""Read the traces of one or many runs as DataFrames."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from replica.trace.events import OPTIONAL_TABLES
from spark_reports.folding import RunFiles
from spark_reports.folds.facts import DamagedPart, read_part
from spark_reports.held import held, is_for_short_traces, no_rows, session_for_short_traces
from spark_reports.run_folders import RunFolderUnusable, is_observed, must_be_told_apart, trace_bytes
from spark_reports.schema import RUN, trace_schema

SHORT_TRACE_BYTES = 256 << 10
"""Upper bound of the compressed size of a short trace: about 20,000 events."""


FEW_EVENTS = ("control", "group")
"""Tables of the trace whose size depends on failovers and not on records."""
FEW_EVENTS_BYTES = 512 << 10
"""Upper bound of the compressed size of FEW_EVENTS if they are read into query plans: about 40,000 events."""


class Trace(NamedTuple):
    """The trace tables of one or many runs, with `run` as first column. Tables from `group` on may be empty."""

    control: DataFrame
    log: DataFrame
    fetch: DataFrame
    high_watermark: DataFrame
    produce: DataFrame
    consume: DataFrame
    final_log: DataFrame
    group: DataFrame
    request: DataFrame
    transaction: DataFrame
    compaction: DataFrame
    files: RunFiles
    """The trace files, for folds; not a table."""


TRACE_TABLES = Trace._fields[:-1]


def read_trace(spark: SparkSession, run_dirs: Sequence[Path]) -> Trace:
    """Return the trace tables of runs. Raises RunFolderUnusable.

    Short traces are read immediately; Spark then knows which tables are empty. Longer traces are read when needed.
    """
    if not run_dirs:
        raise RunFolderUnusable("no run given")
    must_be_told_apart(run_dirs)
    is_short = is_for_short_traces(spark) and trace_bytes(run_dirs) < SHORT_TRACE_BYTES
    held_tables = TRACE_TABLES if is_short else FEW_EVENTS if _has_few_events(run_dirs) else ()
    observed = any(map(is_observed, run_dirs))
    tables = {
        table: (_held_table if table in held_tables else _read_table)(spark, run_dirs, table, observed)
        for table in TRACE_TABLES
    }
    return Trace(**tables, files=RunFiles(spark, run_dirs))


def brief_trace(spark: SparkSession, run_dirs: Sequence[Path]) -> Trace | None:
    """Return a trace that has rows only in the tables FEW_EVENTS, in a session for short traces.

    Return None if these tables are too large. Raises RunFolderUnusable.
    """
    if not _has_few_events(run_dirs):
        return None
    brief = session_for_short_traces(spark)
    observed = any(map(is_observed, run_dirs))
    return Trace(
        **{
            table: _held_table(brief, run_dirs, table, observed)
            if table in FEW_EVENTS
            else no_rows(brief, _columns(table, observed))
            for table in TRACE_TABLES
        },
        files=RunFiles(brief, run_dirs),
    )


def _has_few_events(run_dirs: Sequence[Path]) -> bool:
    return trace_bytes(run_dirs, FEW_EVENTS) < FEW_EVENTS_BYTES


@contextlib.contextmanager
def damage_named() -> Iterator[None]:
    """Convert errors of damaged trace files in a block to RunFolderUnusable, which names the file.

    Spark reads files only when it needs them, so such errors occur long after read_trace().
    """
    try:
        yield
    except DamagedPart as error:
        raise RunFolderUnusable(_damaged(str(error))) from error
    except (PySparkException, Py4JJavaError) as error:
        match = _UNREADABLE.search(str(error))
        if match is None:
            raise
        raise RunFolderUnusable(_damaged(match["part"] or unquote(match["file"]))) from error


def _damaged(file: str) -> str:
    return f"{file} is damaged. Repeat the run"


_PART = r"/[^\n]*?/trace/\w+/part-\d+\.parquet"
_UNREADABLE = re.compile(
    rf"\[FAILED_READ_FILE[^\n]*? file:/*(?P<file>{_PART})|{DamagedPart.__name__}: (?P<part>{_PART})"
)
"""Pattern for a damaged file in an error message: a URL in an error of Spark, a path in an error of a fold."""


def _folders(run_dirs: Sequence[Path], table: str) -> list[Path]:
    """Return the table's folder in each run; runs without an optional table have none. Raises RunFolderUnusable."""
    folders = [run_dir.resolve() / "trace" / table for run_dir in run_dirs]
    if table in OPTIONAL_TABLES:
        folders = [folder for folder in folders if folder.is_dir()]
    for folder in folders:
        if not any(folder.glob("part-*.parquet")):
            raise RunFolderUnusable(
                f"{folder.parent.parent}: the trace table {table!r} has no file, so the run's folder is incomplete"
            )
    return folders


def _held_table(spark: SparkSession, run_dirs: Sequence[Path], table: str, observed: bool) -> DataFrame:
    """Read the files of a table now and return its rows. Raises RunFolderUnusable, which names a damaged file."""
    columns = _columns(table, observed)
    schema = to_arrow_schema(columns)
    parts = [part for folder in _folders(run_dirs, table) for part in sorted(folder.glob("part-*.parquet"))]
    rows = pa.concat_tables([schema.empty_table(), *(_rows(part, schema) for part in parts)])
    return held(spark, rows, columns)


def _columns(table: str, observed: bool) -> StructType:
    """Return the schema that Spark has for a table read from files; `observed` is True for a run on real Kafka."""
    return StructType([StructField(RUN, StringType()), *map(_nullable, trace_schema(table, observed=observed))])


def _nullable(column: StructField) -> StructField:
    kind = column.dataType
    kind = ArrayType(kind.elementType, containsNull=True) if isinstance(kind, ArrayType) else kind
    return StructField(column.name, kind, nullable=True, metadata=column.metadata)


def _rows(part: Path, schema: pa.Schema) -> pa.Table:
    """Return the rows of one file, with nulls in columns that the file lacks. Raises RunFolderUnusable."""
    try:
        stored = read_part(part, schema.remove(0))
    except DamagedPart as error:
        raise RunFolderUnusable(_damaged(str(part))) from error
    return stored.add_column(0, schema.field(0), pa.repeat(pa.scalar(part.parents[2].name), len(stored)))


def _read_table(spark: SparkSession, run_dirs: Sequence[Path], table: str, observed: bool) -> DataFrame:
    folders = _folders(run_dirs, table)
    if not folders:
        return no_rows(spark, _columns(table, observed))
    read = spark.read.schema(trace_schema(table, observed=observed)).option("pathGlobFilter", "part-*.parquet")
    facts = read.parquet(*map(str, folders))
    if is_for_short_traces(spark):
        # A table in a single partition needs no shuffle for any join, group or window.
        facts = facts.coalesce(1)
    return facts.select(_run_of_row(run_dirs).alias(RUN), "*")


def _run_of_row(run_dirs: Sequence[Path]) -> Column:
    """Return a column with the run's name: a constant for a single run, otherwise from the file's URL."""
    if len(run_dirs) == 1:
        return F.lit(run_dirs[0].resolve().name)
    # The URL is .../<run>/trace/<table>/part-NNNNN.parquet, percent-encoded. A regex would be slow, as this runs for
    # every row.
    encoded = F.substring_index(F.substring_index(F.col("_metadata.file_path"), "/", -4), "/", 1)
    decoded = F.url_decode(F.replace(encoded, F.lit("+"), F.lit("%2B")))
    return F.when(F.contains(encoded, F.lit("%")), decoded).otherwise(encoded)
