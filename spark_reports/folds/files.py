"""Events straight from the trace's files, as Arrow columns in the order that a fold wants: no row passes through Spark.

A share of a run's partitions is read at once, from all its files; of each file only the columns that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reports.folds.codes import begins, is_one_of
from spark_reports.folds.parts import KEY, may_have, parts_of, read_part

WORD = pa.dictionary(pa.int32(), pa.string())

Make = Callable[[pa.Schema, pa.Table], Iterable[pa.RecordBatch]]
"""The columns of a table; events of one share of a run, ordered by partition and seq, with run, topic and partition in
front -> the rows of the table."""

Kind = tuple[object, ...]
"""What events of some facts are: those of one kind are read once for all tables that need them."""

Its = Mapping[Kind, pa.Table]
"""The events of a share by their kind, with KEY and columns of the trace."""

EventsOf = Callable[["Share", Mapping[str, "Facts"], Sequence[str], Mapping[str, pa.Schema], Its], pa.Table]
"""As events_of()."""

RowsOf = Callable[["Share", Its], Iterable[pa.RecordBatch]]
"""The rows of a table that follow from the events of one share."""

WRITTEN_ROWS = 65_536
"""As many are a row group of a table's file."""


class Facts(NamedTuple):
    """Events of one kind, as a fold wants them.

    source:     a table of the trace; or of the report, whose rows are at hand
    columns:    by the fold's name for each: the column of the source
    where:      columns, and the values that each may have
    everywhere: events of no partition, such as a broker's stop: every partition that has other events has these too
    """

    source: str | pa.Table
    columns: Mapping[str, str]
    where: Mapping[str, Sequence[str | bool | None]] = {}
    everywhere: bool = False

    @property
    def is_sent(self) -> bool:
        """They are many, and each share needs its own: a task that reads a file may send each share what is in it."""
        return isinstance(self.source, str) and not self.everywhere

    @property
    def kind(self) -> Kind:
        return (self.source, *((column, *values) for column, values in self.where.items()))

    @property
    def kept(self) -> list[str]:
        """Columns of the source that are needed of each event."""
        key = () if self.everywhere else KEY
        return list(dict.fromkeys([*key, *self.columns.values()]))

    @property
    def read(self) -> list[str]:
        """And those by which events are chosen."""
        return list(dict.fromkeys([*self.kept, *self.where]))


class Share(NamedTuple):
    """One of `shares` shares of the partitions of a run."""

    run_dir: str
    place: int
    shares: int

    @property
    def run(self) -> str:
        return Path(self.run_dir).name

    def of(self, rows: pa.Table) -> pa.Table:
        """Those of its partitions."""
        if self.shares == 1:
            return rows
        return rows.filter(pa.array(partition_numbers(rows) % self.shares == self.place))

    def its_parts(self, table: str) -> list[Path]:
        """Those that may have events of its partitions. raises: DamagedPart"""
        parts = parts_of(self.run_dir, table)
        return parts if self.shares == 1 else [part for part in parts if may_have(part, self.place, self.shares)]


def partition_numbers(rows: pa.Table) -> Any:
    """For each row; one partition has the same number in every process, and one topic's follow one another."""
    topics = rows["topic"].combine_chunks()
    hashes = np.array([crc32(topic.encode()) for topic in topics.dictionary.to_pylist()], np.int64)
    return hashes[topics.indices.to_numpy()] + rows["partition"].to_numpy()


def with_words(schema: pa.Schema) -> pa.Schema:
    """The same columns, with words by number, as files have them; but for names of records, of which few are equal."""
    return pa.schema(
        [
            field.with_type(WORD) if pa.types.is_string(field.type) and field.name != "record" else field
            for field in schema
        ]
    )


def same(*columns: str) -> dict[str, str]:
    """Columns that keep their names."""
    return {column: column for column in columns}


def kinds_of(each: Iterable[Mapping[str, Facts]]) -> dict[str, Facts]:
    """Those of all these facts for which `is_sent`, each kind once with all columns that are needed of it."""
    columns: dict[Kind, dict[str, None]] = {}
    found: dict[Kind, Facts] = {}
    for one in (one for facts in each for one in facts.values() if one.is_sent):
        columns.setdefault(one.kind, {}).update(dict.fromkeys(one.columns.values()))
        found[one.kind] = one
    return {
        f"{one.source}-{place}": one._replace(columns=same(*columns[kind]))
        for place, (kind, one) in enumerate(found.items())
    }


def read_here(share: Share, kinds: Mapping[str, Facts], schemas: Mapping[str, pa.Schema]) -> dict[Kind, pa.Table]:
    """The events of a share, from all files that may have any. raises: DamagedPart"""
    return {one.kind: _read(share, one, schemas) for one in kinds.values()}


def events_of(
    share: Share,
    facts: Mapping[str, Facts],
    columns: Sequence[str],
    schemas: Mapping[str, pa.Schema],
    its: Its,
) -> pa.Table:
    """run, *KEY and `columns` of all the facts of a share's partitions, ordered by partition and seq; of one seq in the
    order of the mapping.

    columns: `what` among them is the name in `facts`     schemas: of the trace's tables
    its:     events for which `is_sent`; a kind that it lacks has none. The others are read here
    raises:  DamagedPart
    """
    together = _together(share, facts, schemas, its)
    seq, number = together["seq"].to_numpy(), _numbered(together)
    # Sorting goes along what is sorted already: not by partition, if there is one.
    order = np.lexsort((seq, number)) if begins(number).sum() > 1 else np.argsort(seq, kind="stable")
    return _of_run(share, together.select([*KEY, *columns]).take(pa.array(order)))


def loose_events_of(
    share: Share,
    facts: Mapping[str, Facts],
    columns: Sequence[str],
    schemas: Mapping[str, pa.Schema],
    its: Its,
) -> pa.Table:
    """The same in no order, for facts that may lack a seq."""
    return _of_run(share, _together(share, facts, schemas, its).select([*KEY, *columns]))


def _numbered(events: pa.Table) -> Any:
    """By partition."""
    topic = events["topic"].combine_chunks().indices.to_numpy().astype(np.int64)
    return (topic << 32) + events["partition"].to_numpy()


def _of_run(share: Share, events: pa.Table) -> pa.Table:
    return _each_called(events, 0, "run", share.run)


def _together(share: Share, facts: Mapping[str, Facts], schemas: Mapping[str, pa.Schema], its: Its) -> pa.Table:
    read = {
        what: _of_kind(its, one, schemas) if one.is_sent else _read(share, one, schemas) for what, one in facts.items()
    }
    local = pa.concat_tables([rows.select(KEY) for what, rows in read.items() if not facts[what].everywhere])
    partitions = _distinct(local)
    found = []
    for what, rows in read.items():
        if facts[what].everywhere:
            rows = _in_each(rows, partitions)
        found.append(_each_called(rows, 0, "what", what))
    return pa.concat_tables(found, promote_options="default").unify_dictionaries().combine_chunks()


def _read(share: Share, facts: Facts, schemas: Mapping[str, pa.Schema]) -> pa.Table:
    if isinstance(facts.source, str):
        schema = pa.schema([schemas[facts.source].field(name) for name in facts.read])
        parts = parts_of(share.run_dir, facts.source) if facts.everywhere else share.its_parts(facts.source)
        read = [_chosen(read_part(part, schema), share, facts) for part in parts]
        rows = pa.concat_tables([schema.empty_table().select(facts.kept), *read])
    else:
        of_run = facts.source.filter(pc.equal(facts.source["run"], share.run)).select(facts.read)
        rows = _chosen(of_run.cast(with_words(of_run.schema)), share, facts)
    named = {name: rows[column] for name, column in facts.columns.items()}
    return pa.table(named if facts.everywhere else {**{name: rows[name] for name in KEY}, **named})


def _of_kind(its: Its, facts: Facts, schemas: Mapping[str, pa.Schema]) -> pa.Table:
    taken = {**{name: name for name in KEY}, **facts.columns}
    rows = its.get(facts.kind)
    if rows is None:
        kinds = schemas[str(facts.source)]
        return pa.table({name: pa.array([], kinds.field(column).type) for name, column in taken.items()})
    return pa.table({name: rows[column] for name, column in taken.items()})


class PartFiles(NamedTuple):
    """Some files of one table of a run's trace."""

    run_dir: str
    table: str
    files: Sequence[str]


def facts_in(parts: PartFiles, facts: Mapping[str, Facts], schemas: Mapping[str, pa.Schema]) -> Iterator[pa.Table]:
    """run, *KEY, `what` and the columns of those facts that come from this table: all of one kind in a file at a time.
    Events of no partition are without KEY.

    raises: DamagedPart
    """
    its = {what: one for what, one in facts.items() if one.source == parts.table}
    whole = Share(parts.run_dir, 0, 1)
    read = dict.fromkeys(name for one in its.values() for name in one.read)
    schema = pa.schema([schemas[parts.table].field(name) for name in read])
    for file in parts.files:
        rows = read_part(Path(file), schema)
        for what, one in its.items():
            chosen = _chosen(rows, whole, one)
            key = () if one.everywhere else KEY
            named = {name: chosen[name] for name in key} | {name: chosen[of] for name, of in one.columns.items()}
            yield _each_called(_each_called(pa.table(named), 0, "run", whole.run), len(key) + 1, "what", what)


def _each_called(rows: pa.Table, place: int, column: str, word: str) -> pa.Table:
    same_word = pa.repeat(pa.scalar(0, pa.int32()), len(rows))
    return rows.add_column(place, column, pa.DictionaryArray.from_arrays(same_word, [word]))


def _chosen(rows: pa.Table, share: Share, facts: Facts) -> pa.Table:
    """Those of the facts' kind and of the share, with the columns that are needed."""
    chosen = np.ones(len(rows), bool)
    for column, values in facts.where.items():
        chosen &= is_one_of(rows[column], values)
    if not facts.everywhere:
        for name in KEY:
            if rows[name].null_count:
                chosen &= rows[name].is_valid().to_numpy()
    rows = rows.select(facts.kept)
    if not chosen.all():
        rows = rows.filter(pa.array(chosen))
    return rows if facts.everywhere else share.of(rows)


def _distinct(partitions: pa.Table) -> pa.Table:
    rows = partitions.cast(pa.schema([("topic", pa.string()), ("partition", pa.int64())]))
    found = rows.group_by(list(KEY), use_threads=False).aggregate([])
    return found.set_column(0, "topic", found["topic"].cast(WORD))


def _in_each(rows: pa.Table, partitions: pa.Table) -> pa.Table:
    """Every row in each partition."""
    place = np.repeat(np.arange(len(partitions)), len(rows))
    repeated = rows.take(pa.array(np.tile(np.arange(len(rows)), len(partitions))))
    whose = partitions.take(pa.array(place))
    for name in KEY:
        repeated = repeated.append_column(name, whose[name])
    return repeated


Find = Callable[[pa.Table], pa.Table]
"""Some rows of a table, each by itself -> what follows from them."""


def found_in_batches(
    find: Find, read: pa.Schema, out: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """read: columns that `find` gets     out: columns of what follows"""
    for batch in batches:
        yield from find(pa.Table.from_batches([batch]).cast(read)).select(out.names).cast(out).to_batches()


def found_in_files(
    find: Find, read: pa.Schema, out: pa.Schema, files: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The same of a table's files, one after the other. batches: numbers of files, as Spark spreads them"""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from find(read_part(Path(files[number]), read)).select(out.names).cast(out).to_batches()


def rows_of(
    make: Make, out: pa.Schema, events: EventsOf, facts: Mapping[str, Facts], columns: Sequence[str],
    schemas: Mapping[str, pa.Schema], share: Share, its: Its,
) -> Iterable[pa.RecordBatch]:  # fmt: skip
    """The rows of a table that follow from one share. its: as of events_of     raises: DamagedPart"""
    return make(out, events(share, facts, columns, schemas, its))


def encoded(schema: pa.Schema) -> dict[str, Any]:
    """How a table's files are written. Times and offsets rise from row to row: their differences take a tenth of the
    room that a dictionary of them takes, and half the time."""
    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
    return {
        "compression": "zstd",
        "use_dictionary": [field.name for field in schema if pa.types.is_string(field.type)],
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    }


def write_all(writes: Sequence[RowsOf], share: Share, its: Its) -> Iterator[pa.RecordBatch]:
    """One table after the other. writes: write_share() of each"""
    for write in writes:
        yield from write(share, its)


def write_share(rows: RowsOf, schema: pa.Schema, folder: Path, share: Share, its: Its) -> Iterator[pa.RecordBatch]:
    """Write them as a file of the table: it is there, even without rows. Nothing is left to be told to Spark."""
    waiting: list[pa.RecordBatch] = []
    file = folder / f"{share.run}-{share.place:05}.parquet"
    with pq.ParquetWriter(file, schema, **encoded(schema)) as writer:
        for batch in rows(share, its):
            waiting.append(batch)
            if sum(map(len, waiting)) >= WRITTEN_ROWS:
                writer.write_table(pa.Table.from_batches(waiting, schema), WRITTEN_ROWS)
                waiting = []
        writer.write_table(pa.Table.from_batches(waiting, schema), WRITTEN_ROWS)
    yield from ()


def each_share(
    rows: RowsOf, kinds: Mapping[str, Facts], schemas: Mapping[str, pa.Schema], shares: Sequence[Share],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """batches: numbers of shares, as Spark spreads them     raises: DamagedPart"""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from rows(shares[number], read_here(shares[number], kinds, schemas))
