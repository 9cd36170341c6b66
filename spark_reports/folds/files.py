"""Events straight from the trace's files, as Arrow columns: no row passes through Spark.

A task reads what files have of a share of a run's partitions; of each file only the columns that are asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.folds.codes import is_one_of
from spark_reports.folds.parts import KEY, about, lowest, may_have, parts_of, read_part
from spark_reports.folds.slices import UNKNOWN, Chunk, Its, Kind

WORD = pa.dictionary(pa.int32(), pa.string())


class Facts(NamedTuple):
    """Events of one kind, as a fold wants them.

    source:     a table of the trace; or of the report, whose rows are at hand
    columns:    by the fold's name for each: the column of the source
    where:      columns, and the values that each may have
    everywhere: events of no partition, such as a broker's stop: every partition that has other events has these too
    ahead:      a fold gets them before all others, whatever their places in the order
    """

    source: str | pa.Table
    columns: Mapping[str, str]
    where: Mapping[str, Sequence[str | bool | None]] = {}
    everywhere: bool = False
    ahead: bool = False

    @property
    def is_sent(self) -> bool:
        """They are many, and each share needs its own: a task that reads a file may send each share what is in it."""
        return isinstance(self.source, str) and not self.everywhere

    @property
    def kind(self) -> Kind:
        return (self.source, self.ahead, *((column, *values) for column, values in self.where.items()))

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

    def its_parts(self, table: str, along: str) -> Iterator[tuple[Path, int]]:
        """Those that may have events of its partitions, and a bound of their values in this column.

        raises: DamagedPart
        """
        for part in parts_of(self.run_dir, table):
            if self.shares == 1:  # It gets all that there is.
                yield part, UNKNOWN
                continue
            known = about(part)
            if may_have(known, self.place, self.shares):
                least = lowest(known, along)
                yield part, UNKNOWN if least is None else least


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


def kinds_of(each: Iterable[Mapping[str, Facts]], along: str) -> dict[str, Facts]:
    """Those of all these facts for which `is_sent`, each kind once with all columns that are needed of it, and the one
    that says their order."""
    columns: dict[Kind, dict[str, None]] = {}
    found: dict[Kind, Facts] = {}
    for one in (one for facts in each for one in facts.values() if one.is_sent):
        columns.setdefault(one.kind, {} if one.ahead else {along: None}).update(dict.fromkeys(one.columns.values()))
        found[one.kind] = one
    return {
        f"{one.source}-{place}": one._replace(columns=same(*columns[kind]))
        for place, (kind, one) in enumerate(found.items())
    }


def chunks_here(share: Share, kinds: Mapping[str, Facts], schemas: Mapping[str, pa.Schema], along: str) -> list[Chunk]:
    """The events of a share: a chunk is what one file has. raises: DamagedPart"""
    found = []
    for table, is_ahead in dict.fromkeys((str(one.source), one.ahead) for one in kinds.values()):
        its = {what: one for what, one in kinds.items() if (one.source, one.ahead) == (table, is_ahead)}
        for part, least in share.its_parts(table, along):
            read = functools.partial(_kinds_in, part, its, share, schemas[table])
            found.append(Chunk(least, is_ahead, read))
    return found


def _kinds_in(part: Path, kinds: Mapping[str, Facts], share: Share, schema: pa.Schema) -> Its:
    return {kinds[what].kind: rows for what, rows in _chosen_in(part, kinds, share, schema)}


def _chosen_in(
    part: Path, facts: Mapping[str, Facts], share: Share, schema: pa.Schema
) -> Iterator[tuple[str, pa.Table]]:
    """What a file has of each of these facts, which are all of its table. raises: DamagedPart"""
    read = dict.fromkeys(name for one in facts.values() for name in one.read)
    rows = read_part(part, pa.schema([schema.field(name) for name in read]))
    for what, one in facts.items():
        yield what, _chosen(rows, share, one)


def facts_at_hand(share: Share, facts: Facts, schemas: Mapping[str, pa.Schema]) -> pa.Table:
    """*KEY, but for those of no partition, and the columns of facts that are not sent. raises: DamagedPart"""
    if isinstance(facts.source, str):
        schema = schemas[facts.source]
        parts = parts_of(share.run_dir, facts.source)
        read = [rows for part in parts for _, rows in _chosen_in(part, {"": facts}, share, schema)]
        empty = pa.schema([schema.field(name) for name in facts.kept]).empty_table()
        rows = pa.concat_tables([empty, *read])
    else:
        of_run = facts.source.filter(pc.equal(facts.source["run"], share.run)).select(facts.read)
        rows = _chosen(of_run.cast(with_words(of_run.schema)), share, facts)
    named = {name: rows[column] for name, column in facts.columns.items()}
    return pa.table(named if facts.everywhere else {**{name: rows[name] for name in KEY}, **named})


def facts_of_kind(its: Its, facts: Facts, schemas: Mapping[str, pa.Schema]) -> pa.Table:
    """*KEY and the columns of facts that are sent; a kind that is missing has none."""
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
    for file in parts.files:
        for what, chosen in _chosen_in(Path(file), its, whole, schemas[parts.table]):
            one = its[what]
            key = () if one.everywhere else KEY
            named = {name: chosen[name] for name in key} | {name: chosen[of] for name, of in one.columns.items()}
            yield each_called(each_called(pa.table(named), 0, "run", whole.run), len(key) + 1, "what", what)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """All their rows; those that lack a column of others have null there."""
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()


def each_called(rows: pa.Table, place: int, column: str, word: str) -> pa.Table:
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
