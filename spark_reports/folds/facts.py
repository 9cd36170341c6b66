"""Read the events that folds need as Arrow columns directly from the trace's files, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reports.folds.codes import is_one_of

KEY = ("topic", "partition")
WORD = pa.dictionary(pa.int32(), pa.string())


class DamagedPart(Exception):
    """A file of a trace cannot be read, or has a column of an unexpected type."""


class Facts(NamedTuple):
    """A kind of event, and the source of such events.

    Attributes:
        source: name of a table of the trace, or a table of rows with a column `run`.
        columns: name of each column in the source, by its name in the fold.
        where: allowed values of columns of the source, by column; an event must satisfy all of them.
        everywhere: True if the events belong to no partition, such as a broker's stop. Every partition that has other
            events gets all of them.
        ahead: True if the first slice gets all of these events, whatever their `seq`.
    """

    source: str | pa.Table
    columns: Mapping[str, str]
    where: Mapping[str, Sequence[str | bool | None]] = {}
    everywhere: bool = False
    ahead: bool = False

    @property
    def is_sliced(self) -> bool:
        """True if these events are read slice by slice. Otherwise they are few and are read at once."""
        return isinstance(self.source, str) and not self.everywhere and not self.ahead

    @property
    def read(self) -> list[str]:
        """Names of the source's columns that are needed."""
        return list(dict.fromkeys([*(() if self.everywhere else KEY), *self.columns.values(), *self.where]))

    def chosen(self, rows: pa.Table) -> pa.Table:
        """Return the events of this kind among rows of the source, with the fold's column names.

        Unless `everywhere` is set, the result also has the columns of KEY, without events that have no partition.
        """
        found = np.ones(len(rows), bool)
        for column, values in self.where.items():
            found &= is_one_of(rows[column], values)
        taken = dict(self.columns)
        if not self.everywhere:
            taken |= same(*KEY)
            for name in KEY:
                if rows[name].null_count:
                    found &= rows[name].is_valid().to_numpy()
        chosen = pa.table({name: rows[column] for name, column in taken.items()})
        return chosen if found.all() else chosen.filter(pa.array(found))


class Share(NamedTuple):
    """One of several shares among which the partitions of a run are divided: number `number` of `shares`."""

    run_dir: str
    number: int
    shares: int

    @property
    def run(self) -> str:
        return Path(self.run_dir).name

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the rows of this share's partitions."""
        if self.shares == 1:
            return rows
        return rows.filter(pa.array(_partition_numbers(rows) % self.shares == self.number))


def _partition_numbers(rows: pa.Table) -> Any:
    """Return a number for each row's partition: the same in every process, and consecutive within a topic."""
    topics = rows["topic"].combine_chunks()
    hashes = np.array(
        [0 if topic is None else crc32(topic.encode()) for topic in [*topics.dictionary.to_pylist(), None]]
    )
    index = topics.indices.fill_null(len(hashes) - 1).to_numpy()
    return hashes[index] + rows["partition"].fill_null(0).to_numpy()


def same(*columns: str) -> dict[str, str]:
    """Return a mapping of columns to their own names."""
    return {column: column for column in columns}


def with_words(schema: pa.Schema) -> pa.Schema:
    """Return the schema with dictionaries for strings, as in the files, except record names, as few are equal."""
    return pa.schema(
        [
            field.with_type(WORD) if pa.types.is_string(field.type) and field.name != "record" else field
            for field in schema
        ]
    )


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate the rows of all tables, with nulls in columns that a table lacks."""
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()


def each_called(rows: pa.Table, column: str, word: str) -> pa.Table:
    """Return the rows with a new first column that has the value `word` in each row."""
    same_word = pa.repeat(pa.scalar(0, pa.int32()), len(rows))
    return rows.add_column(0, column, pa.DictionaryArray.from_arrays(same_word, [word]))


# --------------------------------------------------------------------------------------------------------------- files


def parts_of(run_dir: str | Path, tables: Iterable[str]) -> list[Path]:
    """Return the Parquet files of some tables of a run's trace, table by table."""
    return [part for table in tables for part in sorted(Path(run_dir, "trace", table).glob("part-*.parquet"))]


def read_facts(share: Share, facts: Facts, schema: pa.Schema | None) -> pa.Table:
    """Return all events of one kind in a share, sorted by `seq`. Raises DamagedPart.

    `schema` is the schema of the trace's table, None if the source is not one.
    """
    if isinstance(facts.source, str):
        assert schema is not None
        columns = pa.schema([schema.field(name) for name in facts.read])
        parts = [read_part(part, columns) for part in parts_of(share.run_dir, [facts.source])]
        rows = pa.concat_tables([columns.empty_table(), *parts])
    else:
        rows = facts.source.filter(pc.equal(facts.source["run"], share.run)).select(facts.read)
        rows = rows.cast(with_words(rows.schema))
    chosen = facts.chosen(rows.unify_dictionaries())
    return (chosen if facts.everywhere else share.of(chosen.unify_dictionaries())).sort_by("seq")


def first_seq(part: Path) -> int:
    """Return the smallest `seq` in a file, 0 for a file without rows. Raises DamagedPart."""
    try:
        about = pq.read_metadata(part)
    except (pa.ArrowException, OSError) as error:
        raise DamagedPart(str(part)) from error
    seq_column = about.schema.names.index("seq")
    stated = [about.row_group(number).column(seq_column).statistics for number in range(about.num_row_groups)]
    return min((known.min for known in stated if known is not None and known.has_min_max), default=0)


def read_part(part: Path, schema: pa.Schema) -> pa.Table:
    """Return the columns of `schema` from a file, with nulls in columns that the file lacks. Raises DamagedPart."""
    words = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    try:
        with pq.ParquetFile(part, read_dictionary=words) as file:
            there = [name for name in schema.names if name in file.schema_arrow.names]
            stored = file.read(there, use_threads=False)
            count = file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise DamagedPart(str(part)) from error
    columns = []
    for field in schema:
        if field.name not in there:
            columns.append(pa.nulls(count, field.type))
        elif _plain(field.type) == _plain(stored[field.name].type):
            columns.append(stored[field.name].cast(field.type))
        else:
            raise DamagedPart(str(part))
    return pa.table(columns, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type without dictionary encoding, and list types without the name and nullability of elements."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_type)
    return kind.value_type if pa.types.is_dictionary(kind) else kind
