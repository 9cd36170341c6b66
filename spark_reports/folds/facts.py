"""Events as folds want them, as Arrow columns straight from the trace's files: no row passes through Spark."""

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
    """A file of a trace cannot be read, or has values of another type."""


class Facts(NamedTuple):
    """Events of one kind.

    source:     a table of the trace, or rows with a column `run`
    columns:    by the fold's name for each: the column of the source
    where:      columns, and the values that each may have
    everywhere: events of no partition, such as a broker's stop: every partition that has other events has these too
    ahead:      the first slice has all of them, whatever their `seq`
    """

    source: str | pa.Table
    columns: Mapping[str, str]
    where: Mapping[str, Sequence[str | bool | None]] = {}
    everywhere: bool = False
    ahead: bool = False

    @property
    def is_sliced(self) -> bool:
        """Whether they are read slice by slice; others are few, and are read at once."""
        return isinstance(self.source, str) and not self.everywhere and not self.ahead

    @property
    def read(self) -> list[str]:
        """The columns that are needed of the source."""
        return list(dict.fromkeys([*(() if self.everywhere else KEY), *self.columns.values(), *self.where]))

    def chosen(self, rows: pa.Table) -> pa.Table:
        """These facts among rows of the source.  out: *KEY, but for those of no partition, and the fold's columns"""
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
    """One of `shares` shares of the partitions of a run."""

    run_dir: str
    place: int
    shares: int

    @property
    def run(self) -> str:
        return Path(self.run_dir).name

    def of(self, rows: pa.Table) -> pa.Table:
        """Rows of its partitions."""
        if self.shares == 1:
            return rows
        return rows.filter(pa.array(_partition_numbers(rows) % self.shares == self.place))


def _partition_numbers(rows: pa.Table) -> Any:
    """A number for each row: that of a partition is the same in every process; those of a topic are consecutive."""
    topics = rows["topic"].combine_chunks()
    hashes = np.array(
        [0 if topic is None else crc32(topic.encode()) for topic in [*topics.dictionary.to_pylist(), None]]
    )
    index = topics.indices.fill_null(len(hashes) - 1).to_numpy()
    return hashes[index] + rows["partition"].fill_null(0).to_numpy()


def same(*columns: str) -> dict[str, str]:
    """Columns that keep their names."""
    return {column: column for column in columns}


def with_words(schema: pa.Schema) -> pa.Schema:
    """The same columns with dictionaries for strings, as files have them; not for records, of which few are equal."""
    return pa.schema(
        [
            field.with_type(WORD) if pa.types.is_string(field.type) and field.name != "record" else field
            for field in schema
        ]
    )


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """All their rows; those that lack a column of others have null there."""
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()


def each_called(rows: pa.Table, column: str, word: str) -> pa.Table:
    """With a first column of one word."""
    same_word = pa.repeat(pa.scalar(0, pa.int32()), len(rows))
    return rows.add_column(0, column, pa.DictionaryArray.from_arrays(same_word, [word]))


# --------------------------------------------------------------------------------------------------------------- files


def parts_of(run_dir: str | Path, tables: Iterable[str]) -> list[Path]:
    """The files of these tables of a run's trace, in order."""
    return [part for table in tables for part in sorted(Path(run_dir, "trace", table).glob("part-*.parquet"))]


def read_facts(share: Share, facts: Facts, schema: pa.Schema | None) -> pa.Table:
    """All these facts of a share, by seq.  schema: of the source, if it is a table of the trace  raises: DamagedPart"""
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
    """The least `seq` in a file; that of a file without rows is 0.  raises: DamagedPart"""
    try:
        about = pq.read_metadata(part)
    except (pa.ArrowException, OSError) as error:
        raise DamagedPart(str(part)) from error
    place = about.schema.names.index("seq")
    stated = [about.row_group(number).column(place).statistics for number in range(about.num_row_groups)]
    return min((known.min for known in stated if known is not None and known.has_min_max), default=0)


def read_part(part: Path, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` from a file; those that it lacks are null.

    raises: DamagedPart
    """
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
    """Without the name of a list's elements, and whether they may be null."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_type)
    return kind.value_type if pa.types.is_dictionary(kind) else kind
