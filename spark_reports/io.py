"""Reading traces of one or many runs as DataFrames."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from replica.trace.events import OBSERVED_BY, OPTIONAL_TABLES
from spark_reports.folding import RunFiles
from spark_reports.folds.facts import DamagedPart, read_part
from spark_reports.held import held, is_for_short_traces, no_rows, session_for_short_traces
from spark_reports.run_folders import RunFolderUnusable, must_be_told_apart, trace_bytes
from spark_reports.schema import RUN, trace_schema

SHORT_TRACE_BYTES = 256 << 10
"""Some 20,000 events, compressed."""


FEW_EVENTS = ("control", "group")
"""Tables that grow with the failovers and not with the records."""
FEW_EVENTS_BYTES = 512 << 10
"""Some 40,000 of them, compressed: rows in the heap, of which plans hold copies."""


class Trace(NamedTuple):
    """The trace tables of one or many runs, each with the column `run` in front; those from `group` on may be empty."""

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
    """What folds read; no table."""


TRACE_TABLES = Trace._fields[:-1]


def read_trace(spark: SparkSession, run_dirs: Sequence[Path]) -> Trace:
    """The tables of these runs. Short ones are read here, so that Spark knows what has no rows; over the files of
    others a schema is laid, and nothing is read before it is needed.

    raises: RunFolderUnusable
    """
    if not run_dirs:
        raise RunFolderUnusable("no run given")
    must_be_told_apart(run_dirs)
    is_short = is_for_short_traces(spark) and trace_bytes(run_dirs) < SHORT_TRACE_BYTES
    held_tables = TRACE_TABLES if is_short else FEW_EVENTS if _has_few_events(run_dirs) else ()
    observed = any(map(_is_observed, run_dirs))
    tables = {
        table: (_held_table if table in held_tables else _read_table)(spark, run_dirs, table, observed)
        for table in TRACE_TABLES
    }
    return Trace(**tables, files=RunFiles(spark, run_dirs))


def brief_trace(spark: SparkSession, run_dirs: Sequence[Path]) -> Trace | None:
    """Of long traces the tables FEW_EVENTS, in a session for short traces; no other has rows. None if they are many.

    raises: RunFolderUnusable
    """
    if not _has_few_events(run_dirs):
        return None
    brief = session_for_short_traces(spark)
    observed = any(map(_is_observed, run_dirs))
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


def _is_observed(run_dir: Path) -> bool:
    """Whether it was a run on real Kafka, whose tables have one column more. Damage is named by those who read on."""
    first = run_dir / "trace" / "control" / "part-00000.parquet"
    with contextlib.suppress(pa.ArrowException, OSError):
        return OBSERVED_BY.name in pq.read_schema(first).names
    return False


@contextlib.contextmanager
def damage_named() -> Iterator[None]:
    """Files that Spark reads only now may differ from the trace's schema, or may be unreadable.

    raises: RunFolderUnusable, naming the file
    """
    try:
        yield
    except DamagedPart as error:
        raise RunFolderUnusable(_damaged(str(error))) from error
    except (PySparkException, Py4JJavaError) as error:
        found = _UNREADABLE.search(str(error))
        if found is None:
            raise
        raise RunFolderUnusable(_damaged(found["part"] or unquote(found["file"]))) from error


def _damaged(file: str) -> str:
    return f"{file}: damaged. Make the run again"


_PART = r"/[^\n]*?/trace/\w+/part-\d+\.parquet"
_UNREADABLE = re.compile(
    rf"\[FAILED_READ_FILE[^\n]*? file:/*(?P<file>{_PART})|{DamagedPart.__name__}: (?P<part>{_PART})"
)
"""In the many lines of Spark's own error, which spells a file as an address, or in those of a fold's."""


def _folders(run_dirs: Sequence[Path], table: str) -> list[Path]:
    """Of the runs that have this table. raises: RunFolderUnusable"""
    folders = [run_dir.resolve() / "trace" / table for run_dir in run_dirs]
    if table in OPTIONAL_TABLES:
        folders = [folder for folder in folders if folder.is_dir()]
    for folder in folders:
        if not any(folder.glob("part-*.parquet")):
            raise RunFolderUnusable(
                f"{folder.parent.parent}: trace table {table!r} has no part: this is not the folder of a whole run"
            )
    return folders


def _held_table(spark: SparkSession, run_dirs: Sequence[Path], table: str, observed: bool) -> DataFrame:
    """raises: RunFolderUnusable, naming the damaged file"""
    columns = _columns(table, observed)
    schema = to_arrow_schema(columns)
    parts = [part for folder in _folders(run_dirs, table) for part in sorted(folder.glob("part-*.parquet"))]
    rows = pa.concat_tables([schema.empty_table(), *(_rows(part, schema) for part in parts)])
    return held(spark, rows, columns)


def _columns(table: str, observed: bool) -> StructType:
    """As those of rows that Spark reads from files."""
    return StructType([StructField(RUN, StringType()), *map(_nullable, trace_schema(table, observed=observed))])


def _nullable(column: StructField) -> StructField:
    kind = column.dataType
    kind = ArrayType(kind.elementType, containsNull=True) if isinstance(kind, ArrayType) else kind
    return StructField(column.name, kind, nullable=True, metadata=column.metadata)


def _rows(part: Path, schema: pa.Schema) -> pa.Table:
    """A part as Spark reads it: columns that it lacks are null. raises: RunFolderUnusable"""
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
        # A table in one partition from the beginning needs no shuffle for any join, group or window.
        facts = facts.coalesce(1)
    return facts.select(_run_of_row(run_dirs).alias(RUN), "*")


def _run_of_row(run_dirs: Sequence[Path]) -> Column:
    """The run's name: of one run a constant, which costs nothing; of several, a part of the file's address."""
    if len(run_dirs) == 1:
        return F.lit(run_dirs[0].resolve().name)
    # As Spark spells it: .../<run>/trace/<table>/part-NNNNN.parquet, percent-encoded. It runs for every row: no regex.
    encoded = F.substring_index(F.substring_index(F.col("_metadata.file_path"), "/", -4), "/", 1)
    decoded = F.url_decode(F.replace(encoded, F.lit("+"), F.lit("%2B")))
    return F.when(F.contains(encoded, F.lit("%")), decoded).otherwise(encoded)
