"""Apply folds to the events of traces, in this process or in Spark's workers.

A fold is a function that computes the rows of a result table from ordered events.

1. Some tables depend on all events of each partition. A task reads the trace's files and folds a share of a run's
   partitions. The files are in the order of the run, so no shuffle or sort is needed (`RunFiles`, with mapInArrow).
2. Tables that depend on few events are folded from DataFrames (`folded`, with sortWithinPartitions and mapInArrow).

Short traces are folded in this process, because Spark's Python workers take longer to start and import their modules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructType

from replica.trace.events import OPTIONAL_TABLES, TABLES
from spark_reports import folds
from spark_reports.folds.events import Folding, rows_of, write_tables
from spark_reports.folds.facts import Share, parts_of, with_words
from spark_reports.folds.rows import Fold, fold_batches
from spark_reports.held import collected, columns_of, held, is_for_short_traces
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, trace_schema

# Pickle the folds by value, since workers of a cluster cannot import this package.
cloudpickle.register_pickle_by_value(folds)  # type: ignore[no-untyped-call]

_SHARE_BYTES = 12 << 20
"""Compressed size of one share's events, about a million of them."""

_SHARES = 4
"""Maximum number of shares of a run, because each share reads all files."""


class RunFiles(NamedTuple):
    """The runs whose trace files are folded into result tables.

    Attributes:
        folder: directory to which tasks write the tables of long traces in advance. If None, Spark computes each table
            when it is needed.
    """

    spark: SparkSession
    run_dirs: Sequence[Path]
    folder: Path | None = None

    def tables(self, foldings: Mapping[str, Folding]) -> dict[str, DataFrame]:
        """Return the result tables of `foldings` by name, computed together to read each event only once."""
        if self.folder is None or is_for_short_traces(self.spark):
            return {name: self.rows(folding, RESULT_TABLES[name].ddl) for name, folding in foldings.items()}
        row_types = {name: columns_of(RESULT_TABLES[name].ddl) for name in foldings}
        each = {name: (folding, to_arrow_schema(row_types[name])) for name, folding in foldings.items()}
        for name in foldings:
            (self.folder / name).mkdir(parents=True)
        write = functools.partial(write_tables, self.folder, each, trace_schemas())
        self._in_tasks(foldings.values(), write, "share bigint").collect()
        return {name: self.spark.read.schema(kind).parquet(str(self.folder / name)) for name, kind in row_types.items()}

    def kept(self, name: str, table: DataFrame) -> DataFrame:
        """Store a result table that other tables are computed from, and return the stored table."""
        if self.folder is None or is_for_short_traces(self.spark):
            return settled(table)
        path = str(self.folder / name)
        write_rows(table, path)
        return self.spark.read.schema(table.schema).parquet(path)

    def rows(self, folding: Folding, out: str) -> DataFrame:
        """Return the rows of one folding; `out` is their schema as DDL."""
        row_type = columns_of(out)
        schema = to_arrow_schema(row_type)
        fold = functools.partial(rows_of, (folding, schema), trace_schemas())
        if not is_for_short_traces(self.spark):
            return self._in_tasks([folding], fold, out)
        found = [batch for run_dir in self.run_dirs for batch in fold(Share(str(run_dir.resolve()), 0, 1))]
        return held(self.spark, pa.Table.from_batches(found, schema), row_type)

    def _in_tasks(self, foldings: Any, work: Any, out: str) -> DataFrame:
        """Return a DataFrame, of schema `out`, that runs `work` in one Spark task for each share of each run."""
        tables = {str(facts.source) for folding in foldings for facts in folding.facts.values() if facts.is_sliced}
        shares = [share for run_dir in self.run_dirs for share in _shares(run_dir.resolve(), tables)]

        def each_share(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from work(shares[number])

        return self.spark.range(0, len(shares), 1, len(shares)).mapInArrow(each_share, out)


def settled(table: DataFrame) -> DataFrame:
    """Return the same rows without their query plan; they are computed on first use.

    With the plan, Spark would repeat its planning for every table computed from these rows, even if they are cached.
    """
    return table.localCheckpoint(eager=False)


def write_rows(table: DataFrame, folder: str) -> None:
    """Write a large result table to Parquet files, with dictionary encoding for strings and deltas for numbers.

    Times and offsets rise from row to row. Spark's default, a dictionary for such columns, takes twice as long and ten
    times the space.
    """
    words = {
        f"parquet.enable.dictionary#{field.name}": "true"
        for field in table.schema
        if isinstance(field.dataType, StringType) and field.name != "record"
    }
    encoded = {"parquet.writer.version": "v2", "parquet.enable.dictionary": "false", **words}
    table.write.options(compression="zstd", **encoded).parquet(folder)


def _shares(run_dir: Path, tables: set[str]) -> list[Share]:
    size = sum(part.stat().st_size for part in parts_of(run_dir, sorted(tables)))
    count = min(_SHARES, max(2, -(-size // _SHARE_BYTES)))
    return [Share(str(run_dir), index, count) for index in range(count)]


def trace_schemas() -> dict[str, pa.Schema]:
    """Return the Arrow schema of each table of the trace."""
    return {table: with_words(to_arrow_schema(trace_schema(table))) for table in (*TABLES, *OPTIONAL_TABLES)}


def folded(
    facts: Mapping[str, DataFrame], columns: Sequence[str], fold: Fold, schema: str, key: Sequence[str] = PARTITION_KEY
) -> DataFrame:
    """Return the rows that `fold` yields for the events of each partition.

    Args:
        facts: DataFrame of events for each kind, with the key's columns, `seq` and other columns. Events of equal `seq`
            are ordered by this mapping.
        columns: columns of the tuples that the fold gets; `what` is the kind's name in `facts`.
        schema: DDL of the resulting rows, which begin with the key's columns.
        key: columns that group the events, usually run, topic and partition.
    """
    named = [
        rows.withColumns({"what": F.lit(what), "_place": F.lit(index)})
        for index, (what, rows) in enumerate(facts.items())
    ]
    together = functools.reduce(lambda item, other: item.unionByName(other, allowMissingColumns=True), named)
    is_short = is_for_short_traces(together.sparkSession)
    apart = together.coalesce(1) if is_short else together.repartition(*key)
    ordered = apart.sortWithinPartitions(*key, "seq", "_place").select(*key, *columns)
    out = columns_of(schema)
    fold_all = functools.partial(fold_batches, fold, to_arrow_schema(out), len(key))
    return _folded_here(ordered, fold_all, out) if is_short else ordered.mapInArrow(fold_all, out)


def _folded_here(
    ordered: DataFrame, fold_all: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], out: StructType
) -> DataFrame:
    """Apply a fold in this process: all folds of a short trace take less time than the start of Python workers."""
    rows = pa.Table.from_batches(fold_all(iter(collected(ordered).to_batches())), to_arrow_schema(out))
    return held(ordered.sparkSession, rows, out)
