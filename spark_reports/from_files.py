"""Tables that tasks make of the trace's files and write as files: Spark spreads the tasks and sees no row of either."""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from replica.trace.events import OPTIONAL_TABLES, TABLES
from spark_reports import folds
from spark_reports.folds import exchange
from spark_reports.folds.events import Cut, Folding, at_the_end
from spark_reports.folds.exchange import Step, Steps
from spark_reports.folds.files import (
    WORD,
    Facts,
    Find,
    PartFiles,
    Share,
    chunks_here,
    found_in_batches,
    found_in_files,
    kinds_of,
    together,
    with_words,
)
from spark_reports.folds.parcels import PARCELS, NumbersOf, unpacked
from spark_reports.folds.parts import parts_of
from spark_reports.folds.rows import Fold, fold_table
from spark_reports.folds.written import RowsOf, WrittenTable, each_share, rows_of, write_rows, write_share
from spark_reports.held import collected, columns_of, has_no_rows, held, is_for_short_traces
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import trace_schema
from spark_reports.transforms.settling import settled

# Workers, also of a cluster, get the folds themselves instead of a name that they would have to find.
cloudpickle.register_pickle_by_value(folds)  # type: ignore[no-untyped-call]

_SHARE_BYTES = 12 << 20
"""Compressed: some million events, of which a task holds a slice at a time, or a few hundred thousand records.
Up to _READ_AGAIN of a run, each share reads all files that may have events of its partitions."""

_READ_AGAIN = 4
"""Where a run has more shares, each file is read once and each share is sent what is its own: else the work would grow
with the square of the trace."""

_EXCHANGED_BYTES = 8 << 20
"""The same of what tasks exchange: each file is read once, whatever the shares."""

_TASKS = 8
"""Files of a table are looked through by so many tasks at most: the start of one takes longer than a small file."""


_Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Batches of numbers -> what is made of each."""


def by_partition(
    fold: Fold, facts: Mapping[str, Facts], columns: Sequence[str], cut: Cut = exchange.all_of_it
) -> Folding:
    """With a function that takes the facts of one partition at a time, and each fact by itself."""
    return Folding(functools.partial(at_the_end, functools.partial(fold_table, fold), cut), facts, columns)


class Folders(NamedTuple):
    """tables:  where tables are written at once, and read from
    parcels: for what tasks send each other; it has to outlive the queries
    """

    tables: Path
    parcels: Path


class RunFiles(NamedTuple):
    """`folders`: of a report on long traces. Without them Spark computes tables when they are asked for, and passes on
    itself what tasks send each other."""

    spark: SparkSession
    run_dirs: Sequence[Path]
    folders: Folders | None = None

    def made(self, name: str, folding: Folding) -> DataFrame:
        """The table `name`."""
        return self.made_together({name: folding})[name]

    def made_together(self, foldings: Mapping[str, Folding]) -> dict[str, DataFrame]:
        """Tables by name. Those of a long trace are written at once, and each event is read and sent once for all."""
        if self.folders is None or is_for_short_traces(self.spark):
            return {name: self.few(RESULT_TABLES[name].ddl, folding) for name, folding in foldings.items()}
        tables, stored = [], {}
        for name, folding in foldings.items():
            row_type, folder = columns_of(RESULT_TABLES[name].ddl), self._new_table(name)
            assert folder is not None
            tables.append(WrittenTable(folding, to_arrow_schema(row_type), folder))
            stored[name] = functools.partial(self._stored, folder, row_type)
        with self._parcels_folder() as parcels:
            write = functools.partial(write_share, tables, _schemas())
            self._spread(write, [*foldings.values()], "share bigint", parcels).collect()
        return {name: read() for name, read in stored.items()}

    def few(self, out: str, folding: Folding) -> DataFrame:
        """Rows that Spark gets, with these columns in its DDL.

        Of a short trace the driver makes them: starting Python workers, with all that they import, would take longer.
        """
        row_type = columns_of(out)
        schema, schemas = to_arrow_schema(row_type), _schemas()
        rows = functools.partial(rows_of, folding, schema, schemas)
        if not is_for_short_traces(self.spark):
            return self._spread(rows, [folding], out, self._new_folder())
        shares = [Share(str(run_dir.resolve()), 0, 1) for run_dir in self.run_dirs]
        needed = kinds_of([folding.facts], folding.along)
        each = chain.from_iterable(rows(share, chunks_here(share, needed, schemas, folding.along)) for share in shares)
        return held(self.spark, pa.Table.from_batches(each, schema), row_type)

    def exchanged(
        self,
        name: str,
        steps: Steps,
        facts: Mapping[str, Facts],
        others: Mapping[str, DataFrame] = MappingProxyType({}),
    ) -> DataFrame:
        """The table `name`, whose rows are of records: of each, all facts whatever their partitions. It is written at
        once, or settled.

        others: facts that Spark has, by their `what`
        """
        told = {what: rows for what, rows in others.items() if not has_no_rows(rows)}
        row_type = columns_of(RESULT_TABLES[name].ddl)
        schema = to_arrow_schema(row_type)
        if is_for_short_traces(self.spark):
            return settled(held(self.spark, self._exchanged_here(steps, facts, told, schema), row_type))
        folder = self._new_table(name)
        with self._parcels_folder() as parcels:
            by_record, shares = self._by_record(steps, facts, told, parcels)
            make = functools.partial(exchange.end, steps.of_partitions, steps.along, schema, folder)
            end = exchange.plain_step(make)
            if folder is None:
                return settled(_by_share(by_record, shares).applyInArrow(end, RESULT_TABLES[name].ddl))
            _by_share(by_record, shares).applyInArrow(end, "share bigint").collect()
        return self._stored(_with_a_file(folder, schema), row_type)

    def _by_record(
        self, steps: Steps, facts: Mapping[str, Facts], told: Mapping[str, DataFrame], parcels: Path | None
    ) -> tuple[DataFrame, int]:
        """What follows from all that there is of each record, as PARCELS by partition; and the number of shares."""
        tasks = list(self._parts(facts, _EXCHANGED_BYTES))
        shares = max(2, len(tasks))
        sent = self._sent(tasks, facts, steps.found, exchange.record_numbers, shares, parcels)
        for what, rows in told.items():
            send_rows = functools.partial(exchange.send_rows, functools.partial(_called, what), shares)
            sent = sent.unionByName(rows.mapInArrow(send_rows, PARCELS))
        make = functools.partial(exchange.send_on, steps.of_records, steps.along, shares, parcels)
        return _by_share(sent, shares).applyInArrow(exchange.plain_step(make), PARCELS), shares

    def gathered(self, found: Step, facts: Mapping[str, Facts], columns: pa.Schema) -> pa.Table:
        """All that follows from the facts of one kind in each file, for what is little: sums, or rare events.

        columns: of what `found` makes
        """
        tasks = list(self._parts(facts, _EXCHANGED_BYTES))
        if is_for_short_traces(self.spark):
            each = [exchange.found_in(parts, facts, _schemas(), found) for parts in tasks]
        else:
            sent = collected(self._sent(tasks, facts, found, exchange.one_number, 1, None)) if tasks else ()
            each = [unpacked(sent)] if len(sent) else []
        return pa.concat_tables([columns.empty_table(), *(rows.select(columns.names).cast(columns) for rows in each)])

    def of_each(self, name: str, rows: DataFrame, find: Find, columns: Sequence[str], out: str) -> DataFrame:
        """What follows from each row of the table `name` by itself, with the columns of this DDL.

        find: gets these columns of some rows, strings as words by number
        """
        row_type, asked = columns_of(out), rows.select(*columns)
        read, schema = with_words(to_arrow_schema(asked.schema)), to_arrow_schema(row_type)
        if is_for_short_traces(self.spark):
            found = find(collected(asked).cast(read)).select(schema.names).cast(schema)
            return held(self.spark, found, row_type)
        if self.folders is None:
            return asked.mapInArrow(functools.partial(found_in_batches, find, read, schema), out)
        files = sorted(map(str, (self.folders.tables / name).glob("*.parquet")))
        look = functools.partial(found_in_files, find, read, schema, files)
        return self.spark.range(0, len(files), 1, min(len(files), _TASKS)).mapInArrow(look, out)

    def of_rows(self, name: str, rows: Sequence[dict[str, Any]]) -> DataFrame:
        """The table `name` of these rows; columns that a row lacks are null."""
        row_type = columns_of(RESULT_TABLES[name].ddl)
        return held(self.spark, pa.Table.from_pylist(rows, to_arrow_schema(row_type)), row_type)

    def _sent(
        self,
        tasks: Sequence[PartFiles],
        facts: Mapping[str, Facts],
        found: Step,
        numbers_of: NumbersOf,
        shares: int,
        parcels: Path | None,
    ) -> DataFrame:
        """What tasks find in files, as PARCELS."""
        send = functools.partial(exchange.send_found, tasks, facts, _schemas(), found, numbers_of, shares, parcels)
        return self._in_tasks(len(tasks), send, PARCELS)

    def _exchanged_here(
        self, steps: Steps, facts: Mapping[str, Facts], told: Mapping[str, DataFrame], schema: pa.Schema
    ) -> pa.Table:
        """Without tasks, and so without an exchange."""
        schemas = _schemas()
        files = self._parts(facts, _EXCHANGED_BYTES)
        found = [exchange.found_in(parts, facts, schemas, steps.found) for parts in files]
        found += [_called(what, collected(rows)) for what, rows in told.items()]
        facts_found = together(found)
        if not len(facts_found):
            return schema.empty_table()
        return exchange.at_once(steps, facts_found).select(schema.names).cast(schema)

    def _parts(self, facts: Mapping[str, Facts], most_bytes: int) -> Iterator[PartFiles]:
        """Files of one table of one run, together so large at most; or one larger file."""
        for run_dir in self.run_dirs:
            for table in _sources(facts):
                files: list[str] = []
                size = 0
                for file in parts_of(run_dir.resolve(), table):
                    size += file.stat().st_size
                    if files and size > most_bytes:
                        yield PartFiles(str(run_dir.resolve()), table, files)
                        files, size = [], file.stat().st_size
                    files.append(str(file))
                if files:
                    yield PartFiles(str(run_dir.resolve()), table, files)

    def _spread(self, rows: RowsOf, each: Sequence[Folding], out: str, parcels: Path | None) -> DataFrame:
        """A task for each share of each run. each: all that `rows` folds, along one column"""
        (along,) = {folding.along for folding in each}
        kinds = kinds_of([folding.facts for folding in each], along)
        shares = [share for run_dir in self.run_dirs for share in _shares(run_dir, kinds)]
        if max(share.shares for share in shares) <= _READ_AGAIN:
            work = functools.partial(each_share, rows, kinds, _schemas(), along, shares)
            return self._in_tasks(len(shares), work, out)
        tasks = list(self._parts(kinds, _EXCHANGED_BYTES))
        send = functools.partial(exchange.send_to_shares, tasks, kinds, _schemas(), along, shares, parcels)
        sent = self._in_tasks(len(tasks), send, PARCELS)
        schema = to_arrow_schema(columns_of(out))
        of_share = exchange.plain_step(functools.partial(exchange.of_share, rows, kinds, shares, schema))
        return _by_share(sent, len(shares)).applyInArrow(of_share, out)

    def _in_tasks(self, count: int, work: _Work, out: str) -> DataFrame:
        """What tasks make of the numbers below `count`, one each."""
        return self.spark.range(0, count, 1, count).mapInArrow(work, out)

    def _new_table(self, name: str) -> Path | None:
        """The folder of a table that tasks are to write."""
        if self.folders is None:
            return None
        folder = self.folders.tables / name
        folder.mkdir(parents=True)
        return folder

    def _new_folder(self) -> Path | None:
        """For parcels."""
        if self.folders is None:
            return None
        self.folders.parcels.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=self.folders.parcels))

    @contextlib.contextmanager
    def _parcels_folder(self) -> Iterator[Path | None]:
        """The same for the block alone."""
        folder = self._new_folder()
        try:
            yield folder
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def _stored(self, folder: Path, columns: StructType) -> DataFrame:
        return self.spark.read.schema(columns).parquet(str(folder))


def _by_share(parcels: DataFrame, shares: int) -> GroupedData:
    # With their number: by their size Spark would put all parcels, which are places in files, into one task.
    return parcels.repartition(shares, "share").groupBy("share")


def _with_a_file(folder: Path, schema: pa.Schema) -> Path:
    """The folder of a table; of one without rows, too, a file says which columns it has."""
    if not any(folder.iterdir()):
        write_rows(schema.empty_table(), folder / "share-00000.parquet")
    return folder


def write_table(table: DataFrame, folder: Path) -> None:
    """Write a result table as Parquet (zstd), replacing what was there."""
    table.write.mode("overwrite").option("compression", "zstd").parquet(str(folder))


def _called(what: str, rows: pa.Table) -> pa.Table:
    words = rows.cast(with_words(rows.schema))
    return words.append_column("what", pa.repeat(pa.scalar(what), len(rows)).cast(WORD))


def _schemas() -> dict[str, pa.Schema]:
    """Of the trace's tables."""
    return {table: with_words(to_arrow_schema(trace_schema(table))) for table in (*TABLES, *OPTIONAL_TABLES)}


def _sources(facts: Mapping[str, Facts]) -> list[str]:
    """Tables of the trace that they come from."""
    return sorted({one.source for one in facts.values() if isinstance(one.source, str)})


def _shares(run_dir: Path, facts: Mapping[str, Facts]) -> list[Share]:
    parts = [part for table in _sources(facts) for part in parts_of(run_dir, table)]
    count = max(2, -(-sum(part.stat().st_size for part in parts) // _SHARE_BYTES))
    return [Share(str(run_dir.resolve()), place, count) for place in range(count)]
