"""Reading traces of one or many runs as DataFrames, and writing result tables: the only Spark I/O of the package."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField

from replica.trace.events import OPTIONAL_TABLES
from spark_reports.schema import RUN, trace_schema


class RunFolderUnusable(Exception):
    """A folder that does not hold a whole run, or two runs of one name."""


class Trace(NamedTuple):
    """The trace tables of one or many runs, each with the column `run` in front; `group` and `request` may be empty."""

    control: DataFrame
    log: DataFrame
    fetch: DataFrame
    high_watermark: DataFrame
    produce: DataFrame
    consume: DataFrame
    final_log: DataFrame
    group: DataFrame
    request: DataFrame


def read_trace(spark: SparkSession, run_dirs: Sequence[Path]) -> Trace:
    """Lay a schema over the trace files of `run_dirs`; nothing is read before it is needed.

    raises: RunFolderUnusable
    """
    if not run_dirs:
        raise RunFolderUnusable("no run given")
    names = [run_dir.resolve().name for run_dir in run_dirs]
    for name in names:
        if names.count(name) > 1:
            raise RunFolderUnusable(f"two runs are called {name!r}: the report names runs by their folders")
    return Trace(**{table: _read_table(spark, run_dirs, table) for table in Trace._fields})


@contextlib.contextmanager
def damage_named() -> Iterator[None]:
    """Files that Spark reads only now may differ from the trace's schema, or may be unreadable.

    raises: RunFolderUnusable, naming the file
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = _UNREADABLE.search(str(error))
        if found is None:
            raise
        raise RunFolderUnusable(f"{unquote(found['file'])}: damaged. Make the run again") from error


_UNREADABLE = re.compile(r"\[FAILED_READ_FILE[^\n]*? file:/*(?P<file>/[^\n]*?/trace/\w+/part-\d+\.parquet)")
"""In the many lines of Spark's own error; it spells a file as an address."""


def _read_table(spark: SparkSession, run_dirs: Sequence[Path], table: str) -> DataFrame:
    folders = [run_dir.resolve() / "trace" / table for run_dir in run_dirs]
    if table in OPTIONAL_TABLES:
        folders = [folder for folder in folders if folder.is_dir()]
        if not folders:
            return _no_rows(spark, table)
    for run_dir, folder in zip(run_dirs, folders, strict=table not in OPTIONAL_TABLES):
        if not any(folder.glob("part-*.parquet")):
            raise RunFolderUnusable(
                f"{run_dir}: trace table {table!r} has no part: this is not the folder of a whole run"
            )
    read = spark.read.schema(trace_schema(table)).option("pathGlobFilter", "part-*.parquet")
    facts = read.parquet(*map(str, folders))
    if spark.conf.get("spark.sql.shuffle.partitions") == "1":
        # A table in one partition from the beginning needs no shuffle for any join, group or window.
        facts = facts.coalesce(1)
    return facts.select(_run_of_row(run_dirs).alias(RUN), "*")


def _no_rows(spark: SparkSession, table: str) -> DataFrame:
    """Made of an empty list it would start Python workers; like this the optimizer drops it and what hangs on it."""
    columns = [StructField(RUN, StringType()), *trace_schema(table)]
    nothing = [F.lit(None).cast(column.dataType).alias(column.name, metadata=column.metadata) for column in columns]
    return spark.range(1).filter(F.lit(False)).select(*nothing)


def _run_of_row(run_dirs: Sequence[Path]) -> Column:
    """The run's name: of one run a constant, which costs nothing; of several, a part of the file's address."""
    if len(run_dirs) == 1:
        return F.lit(run_dirs[0].resolve().name)
    # As Spark spells it: .../<run>/trace/<table>/part-NNNNN.parquet, percent-encoded. It runs for every row: no regex.
    encoded = F.substring_index(F.substring_index(F.col("_metadata.file_path"), "/", -4), "/", 1)
    decoded = F.url_decode(F.replace(encoded, F.lit("+"), F.lit("%2B")))
    return F.when(F.contains(encoded, F.lit("%")), decoded).otherwise(encoded)


def write_table(table: DataFrame, folder: Path) -> None:
    """Write a result table as Parquet (zstd), replacing what was there."""
    table.write.mode("overwrite").option("compression", "zstd").parquet(str(folder))
