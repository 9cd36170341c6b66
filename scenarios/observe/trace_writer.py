"""The trace on disk: typed Parquet (zstd) tables, one folder per table, `trace/<table>/part-NNNNN.parquet`.

`TraceWriter` is a listener of `replica.trace.TraceLog`. A part is written under a hidden temporary name and renamed, so
that a reader never meets half a file; parts are cut by row count, so that the same simulated run gives the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replica.trace.columns import TraceError
from replica.trace.events import (
    CLASS_OF_EVENT,
    EVENT_NAMES,
    OBSERVED_BY,
    OPTIONAL_TABLES,
    REASON,
    SCHEMA_VERSION,
    TABLES,
    Column,
    LogEntriesFound,
    LogEntryFound,
    TraceEvent,
    TraceRow,
    columns_of_event,
    columns_of_table,
    makes_sentence,
)
from replica.trace.listening import Listener, on
from replica.wording import spelt_out

# -------------------------------------------------------------------------------------------------------- arrow columns
#
# Arrow columns from plain Python values, without `pyarrow.array`.
#
# That function imports pandas just to ask whether it was given one of its objects: a third of a second for every run.

ArrowColumn = Callable[[Sequence[Any], pa.DataType], pa.Array]


def column(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """values: ints, strings, booleans, or tuples of ints or strings, as `arrow_type` says; None is null"""
    return _BUILDERS[arrow_type.id](values, arrow_type)


def _is_constant(values: Sequence[Any]) -> bool:
    """One value over and over, as most columns of a stretch of a run are."""
    return bool(values) and values[0] == values[-1] is not None and values.count(values[0]) == len(values)


def _validity(values: Sequence[Any]) -> tuple[pa.Buffer | None, int]:
    """(bitmap or None if there are no nulls, number of nulls)"""
    if None not in values:
        return None, 0
    present = [value is not None for value in values]
    return _bitmap(present), len(present) - sum(present)


def _bitmap(bits: Sequence[bool]) -> pa.Buffer:
    packed = bytearray((len(bits) + 7) // 8)
    for place, bit in enumerate(bits):
        if bit:
            packed[place >> 3] |= 1 << (place & 7)
    return pa.py_buffer(bytes(packed))


def _int64(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    if _is_constant(values):
        numbers = array("q", values[:1]) * len(values)
        return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(numbers)], 0)
    validity, nulls = _validity(values)
    filled = [0 if value is None else value for value in values] if nulls else values
    return pa.Array.from_buffers(arrow_type, len(values), [validity, pa.py_buffer(array("q", filled))], nulls)


def _bool(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    validity, nulls = _validity(values)
    return pa.Array.from_buffers(arrow_type, len(values), [validity, _bitmap([bool(v) for v in values])], nulls)


def _string(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    if _is_constant(values):
        text = values[0].encode()
        ends = range(0, len(text) * len(values) + 1, len(text)) if text else [0] * (len(values) + 1)
        offsets = array("i", ends)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text * len(values))]
        return pa.Array.from_buffers(arrow_type, len(values), buffers, 0)
    validity, nulls = _validity(values)
    filled = ["" if value is None else value for value in values] if nulls else values
    joined = "".join(filled)
    encoded = joined.encode()
    # In plain ASCII every character is a byte, and nothing need be encoded by itself.
    offsets = _offsets(filled if len(encoded) == len(joined) else list(map(str.encode, filled)))
    return pa.Array.from_buffers(arrow_type, len(values), [validity, offsets, pa.py_buffer(encoded)], nulls)


def _list(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    validity, nulls = _validity(values)
    lists = [() if value is None else value for value in values] if nulls else values
    items = column(list(chain.from_iterable(lists)), arrow_type.value_type)
    buffers = [validity, _offsets(lists)]
    return pa.Array.from_buffers(arrow_type, len(values), buffers, nulls, children=[items])


def _offsets(sized: Sequence[Any]) -> pa.Buffer:
    return pa.py_buffer(array("i", accumulate(map(len, sized), initial=0)))


_BUILDERS: dict[int, ArrowColumn] = {
    pa.int64().id: _int64,
    pa.bool_().id: _bool,
    pa.string().id: _string,
    pa.list_(pa.int64()).id: _list,
}


ROWS_PER_PART = 65_536
ROWS_PER_CHUNK = 8_192
"""Events of all tables are kept as plain values for so many rows, then become Arrow columns."""

_ALL_TABLES = TABLES + OPTIONAL_TABLES
_REPEATING = sorted(
    {one.name for table in _ALL_TABLES for one in columns_of_table(table) if one.type == "string"} - {"record"}
)
"""Columns whose values a part lists once. For numbers and names that never come again this takes twice the time, and
three times the space."""
_VERSION_KEY = b"highwater.trace.schema_version"

_ARROW_TYPES: dict[str, Any] = {
    "int64": pa.int64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "list<string>": pa.list_(pa.field("element", pa.string(), nullable=False)),
    "list<int64>": pa.list_(pa.field("element", pa.int64(), nullable=False)),
}


def arrow_schema(table: str, *, observed: bool = False) -> pa.Schema:
    """The Arrow schema of one table, each column with its documentation. observed: of a run on real Kafka"""
    columns = [_arrow_field(column) for column in columns_of_table(table, observed=observed)]
    return pa.schema(columns, metadata={_VERSION_KEY: str(SCHEMA_VERSION)})


def _arrow_field(column: Column) -> pa.Field:
    return pa.field(column.name, _ARROW_TYPES[column.type], nullable=column.nullable, metadata={"doc": column.doc})


class _KindBuffer:
    """Events of one kind as one flat list of plain values, row after row.

    No event object outlives its step: thousands of living objects would make Python's garbage collections the largest
    cost of tracing.
    """

    __slots__ = ("event", "extend", "fields", "types", "values", "values_of", "width")

    def __init__(self, event: str, kind: type[TraceEvent]) -> None:
        columns = columns_of_event(kind)
        self.event = event
        self.fields = [column.name for column in columns]
        self.types = [_ARROW_TYPES[column.type] for column in columns]
        # One value more than there are columns: how the event was seen goes there in a run of nodes that are observed;
        # else it is not read. attrgetter gives a tuple only for two names or more.
        self.width = 3 + len(columns) + 1
        self.values_of = self._with_sentence() if makes_sentence(kind) else attrgetter(*self.fields, self.fields[-1])
        self.values: list[Any] = []
        self.extend = self.values.extend

    def _with_sentence(self) -> Callable[[TraceEvent], tuple[Any, ...]]:
        # `sentence` itself, too, as the second name at least.
        data = attrgetter(*self.fields[:-1], "sentence")

        def values_of(event: TraceEvent) -> tuple[Any, ...]:
            *values, sentence = data(event)
            return (*values, sentence(), None)

        return values_of

    def as_table(self, schema: pa.Schema) -> pa.Table:
        """The events as columns of the whole table; columns of other kinds are null."""
        width, values = self.width, self.values
        rows = len(values) // width
        filled: dict[str, Any] = {
            "seq": column(values[0::width], pa.int64()),
            "at_us": column(values[1::width], pa.int64()),
            "event": column([self.event] * rows, pa.string()),
            "causes": column(values[2::width], _ARROW_TYPES["list<int64>"]),
        }
        for i, (field, arrow_type) in enumerate(zip(self.fields, self.types, strict=True)):
            filled[field] = column(values[3 + i :: width], arrow_type)
        if OBSERVED_BY.name in schema.names:
            filled[OBSERVED_BY.name] = column(values[width - 1 :: width], pa.string())
        columns = [filled[field.name] if field.name in filled else pa.nulls(rows, field.type) for field in schema]
        return pa.table(columns, schema=_all_nullable(schema))


class _Stretch(NamedTuple):
    """Rows of a LogEntriesFound, or of a part of it.

    first, rows: the number of its first row, and how many     seen: how it was observed
    """

    row: TraceRow
    event: LogEntriesFound
    first: int
    rows: int
    seen: str | None


class _EntryBuffer:
    """Records that were found in logs: a million of them become columns in a second, and not row by row."""

    __slots__ = ("event", "values")

    def __init__(self) -> None:
        self.event = EVENT_NAMES[LogEntryFound]
        self.values: list[_Stretch] = []

    def as_table(self, schema: pa.Schema) -> pa.Table:
        """As _KindBuffer's."""
        from pyarrow.compute import binary_join_element_wise

        stretches = self.values
        counts = np.array([stretch.rows for stretch in stretches])
        heads = np.cumsum(counts) - counts
        rows = int(counts.sum())
        stretch_of = np.repeat(np.arange(len(stretches)), counts)
        within = np.arange(rows) - np.repeat(heads, counts)

        def of_stretches(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
            return column(values, arrow_type).take(_int_array(stretch_of))

        def counting(firsts: Sequence[int]) -> Any:
            return np.array(firsts)[stretch_of] + within

        starts = [stretch.event.place + stretch.first for stretch in stretches]
        places = [(one.event.names, start, start + one.rows) for one, start in zip(stretches, starts, strict=True)]
        numbered = [names.numbered(start, stop) for names, start, stop in places]
        if None in numbered:
            records = column([name for names, *span in places for name in names.between(*span)], pa.string())
        else:
            prefixes, firsts = zip(*numbered, strict=True)
            numbers, nothing = _int_array(counting(firsts)).cast(pa.string()), column([""] * rows, pa.string())
            records = binary_join_element_wise(of_stretches(prefixes, pa.string()), numbers, nothing)
        seq = counting([stretch.row.seq + stretch.first for stretch in stretches])
        # A record follows from the one before, and the first of an event from what that follows from, if anything.
        follows = seq - 1
        sizes = np.ones(rows, np.int32)
        for head, stretch in zip(heads.tolist(), stretches, strict=True):
            if not stretch.first:
                sizes[head] = len(stretch.row.causes)
                follows[head] = stretch.row.causes[0] if stretch.row.causes else 0
        bounds = np.concatenate([np.zeros(1, np.int32), np.cumsum(sizes, dtype=np.int32)])
        causes = [None, pa.py_buffer(bounds)]
        filled = {
            "seq": _int_array(seq),
            "at_us": of_stretches([stretch.row.at_us for stretch in stretches], pa.int64()),
            "event": column([self.event] * rows, pa.string()),
            "causes": pa.Array.from_buffers(
                _ARROW_TYPES["list<int64>"], rows, causes, 0, children=[_int_array(follows[sizes > 0])]
            ),
            "offset": _int_array(counting([stretch.event.offset + stretch.first for stretch in stretches])),
            "record": records,
            OBSERVED_BY.name: of_stretches([stretch.seen for stretch in stretches], pa.string()),
        }
        for field in schema:
            if field.name not in filled and field.name in LogEntriesFound.__dataclass_fields__:
                filled[field.name] = of_stretches([getattr(one.event, field.name) for one in stretches], field.type)
        columns = [filled[field.name] if field.name in filled else pa.nulls(rows, field.type) for field in schema]
        return pa.table(columns, schema=_all_nullable(schema))


def _int_array(numbers: Any) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)], 0)


class _WaitingRows:
    """Chunks of one table until there are enough for a part: the latest in memory, those before it in a file.

    A run of an hour may fill no part at all: its events must not pile up in memory until it ends.
    """

    def __init__(self, path: Path) -> None:
        self.rows = 0
        self._path = path
        self._latest: pa.Table | None = None
        self._file: pa.RecordBatchStreamWriter | None = None

    def append(self, chunk: pa.Table) -> None:
        """raises: OSError"""
        if self._latest is not None:
            if self._file is None:
                self._path.parent.mkdir(exist_ok=True)
                self._file = pa.ipc.new_stream(str(self._path), chunk.schema)
            self._file.write_table(self._latest)
        self._latest = chunk
        self.rows += chunk.num_rows

    def take(self) -> list[pa.Table]:
        """All of them, oldest first, chunk by chunk as they came: the bytes of a part depend on it."""
        found = []
        if self._file is not None:
            self._file.close()
            # Mapped, so that a part is written without a second copy; the pages stay readable once the name is gone.
            with pa.memory_map(str(self._path)) as source:
                found.append(pa.ipc.open_stream(source).read_all())
        if self._latest is not None:
            found.append(self._latest)
        self.discard()
        return found

    def discard(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk was reported when the chunk was written
                self._file.close()
            self._path.unlink(missing_ok=True)
        self.rows, self._latest, self._file = 0, None, None


def _no_rows(schema: pa.Schema) -> pa.Table:
    return pa.table([column([], field.type) for field in schema], schema=schema)


def _all_nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


class TraceWriter(Listener):
    """Keeps events until a part is full, then writes them as columns. `close()` writes the rest.

    `trace_dir` is created. Raises OSError (disk full, not writable) from the call that met it; no part then exists
    under its final name that is not whole. As a context manager, an exception leaves the last parts unwritten.

    observed_by: how the event that is written now was seen, in a run on real Kafka; its tables have a column for that
    """

    def __init__(
        self,
        trace_dir: Path,
        *,
        rows_per_part: int = ROWS_PER_PART,
        observed_by: Callable[[], str | None] | None = None,
    ) -> None:
        # Not above, since readers do without; not with the first chunk, since live brokers would stand still meanwhile.
        import pyarrow.compute as pc

        self._sort_indices = pc.sort_indices
        self.trace_dir = trace_dir
        self.rows_per_part = rows_per_part
        self._rows_per_chunk = min(rows_per_part, ROWS_PER_CHUNK)
        self._rows_waiting = 0
        self._observed_by = observed_by
        self._schemas = {table: arrow_schema(table, observed=observed_by is not None) for table in _ALL_TABLES}
        self._buffers = {kind: _KindBuffer(name, kind) for name, kind in CLASS_OF_EVENT.items()}
        self._buffers_of: dict[str, list[_KindBuffer | _EntryBuffer]] = {table: [] for table in _ALL_TABLES}
        for kind, buffer in self._buffers.items():
            self._buffers_of[kind.TABLE].append(buffer)
        self._entries = _EntryBuffer()
        self._buffers_of[LogEntryFound.TABLE].append(self._entries)
        self._parts_written = dict.fromkeys(_ALL_TABLES, 0)
        for table in TABLES:
            (trace_dir / table).mkdir(parents=True, exist_ok=True)
        self._waiting = {table: _WaitingRows(trace_dir / table / ".waiting.tmp") for table in _ALL_TABLES}

    @on(TraceEvent)
    def _take(self, row: TraceRow, event: TraceEvent) -> None:
        buffer = self._buffers[type(event)]
        buffer.extend((row.seq, row.at_us, row.causes, *buffer.values_of(event)))
        if self._observed_by is not None:
            buffer.values[-1] = self._observed_by()
        self._rows_waiting += 1
        if self._rows_waiting >= self._rows_per_chunk:
            self._take_chunks()

    @on(LogEntriesFound)
    def _take_entries(self, row: TraceRow, event: LogEntriesFound) -> None:
        """A chunk ends within them where it would if they came one by one."""
        first, seen = 0, None if self._observed_by is None else self._observed_by()
        while first < event.count:
            count = min(event.count - first, self._rows_per_chunk - self._rows_waiting)
            self._entries.values.append(_Stretch(row, event, first, count, seen))
            first += count
            self._rows_waiting += count
            if self._rows_waiting >= self._rows_per_chunk:
                self._take_chunks()

    def close(self) -> None:
        """Write what is left; every table that is not optional then has a part, empty if nothing happened."""
        self.write_parts()
        for table in TABLES:
            if not self._parts_written[table]:
                self._write_part(table)

    def write_parts(self) -> None:
        """Write what waits, however little it is, for readers of a live run."""
        for _ in self.parts_one_by_one():
            pass

    def parts_one_by_one(self) -> Iterator[None]:
        """`write_parts`, with a pause after each, in which other work can be done."""
        self._take_chunks()
        for table in _ALL_TABLES:
            if self._waiting[table].rows:
                self._write_part(table)
                yield

    def leave(self) -> None:
        """Keep the parts that are written, and nothing else: an interrupted step may have left half an event."""
        for buffer in chain.from_iterable(self._buffers_of.values()):
            buffer.values.clear()
        for waiting in self._waiting.values():
            waiting.discard()
        for table in TABLES:
            if not self._parts_written[table]:
                self._write_part(table)

    def sha256(self) -> str:
        """Of the whole trace, once it is closed."""
        return trace_sha256(self.trace_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        for waiting in self._waiting.values():
            waiting.discard()

    def _take_chunks(self) -> None:
        """Turn what waits into Arrow columns; a chunk of any table covers the same stretch of the run."""
        for table in _ALL_TABLES:
            filled = [buffer for buffer in self._buffers_of[table] if buffer.values]
            if filled:
                schema = self._schemas[table]
                together = pa.concat_tables([buffer.as_table(schema) for buffer in filled])
                in_order = together.take(self._sort_indices(together["seq"])) if len(filled) > 1 else together
                self._waiting[table].append(pa.table(in_order.columns, schema=schema))
            for buffer in filled:
                buffer.values.clear()
            if self._waiting[table].rows >= self.rows_per_part:
                self._write_part(table)
        self._rows_waiting = 0

    def _write_part(self, table: str) -> None:
        final = self.trace_dir / table / f"part-{self._parts_written[table]:05d}.parquet"
        # Spark and our own readers ignore names that begin with a dot.
        temporary = final.with_name(f".{final.name}.tmp")
        final.parent.mkdir(exist_ok=True)
        rows = pa.concat_tables([_no_rows(self._schemas[table]), *self._waiting[table].take()])
        try:
            pq.write_table(rows, temporary, compression="zstd", use_dictionary=_REPEATING)
            temporary.replace(final)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        self._parts_written[table] += 1
        del rows
        # Writing a part takes as much memory again as its columns: back to the system with it.
        pa.default_memory_pool().release_unused()


# ------------------------------------------------------------------------------------------------------------- reading


def part_files(trace_dir: Path) -> list[Path]:
    """All parts of a trace in a fixed order. Raises TraceError when a table has none."""
    found: list[Path] = []
    for table in _ALL_TABLES:
        parts = sorted((trace_dir / table).glob("part-*.parquet"))
        if not parts and table in TABLES:
            raise TraceError(f"{trace_dir}: table {table!r} has no part: this is not a whole trace")
        found.extend(parts)
    return found


def complete(trace_dir: Path) -> None:
    """Give each table of which a killed process has written nothing a part without rows. raises: OSError"""
    writer = TraceWriter(trace_dir)
    for table in TABLES:
        if not any((trace_dir / table).glob("part-*.parquet")):
            writer._write_part(table)


def trace_sha256(trace_dir: Path) -> str:
    """One hash over every part's name and bytes, in a fixed order, as 64 hex digits."""
    digest = hashlib.sha256()
    for path in part_files(trace_dir):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(trace_dir).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def read_rows(trace_dir: Path) -> Iterator[TraceRow]:
    """The events of a run as they were emitted, in seq order. Raises TraceError."""
    parts = part_files(trace_dir)
    by_table = [[path for path in parts if path.parent.name == table] for table in _ALL_TABLES]
    return heapq.merge(*map(_rows_of_table, by_table), key=attrgetter("seq"))


def _rows_of_table(parts: list[Path]) -> Iterator[TraceRow]:
    for path in parts:
        yield from _rows_of_part(path)


def _rows_of_part(path: Path) -> Iterator[TraceRow]:
    columns = _read_part(path).to_pydict()
    # A class that makes the sentence makes it anew.
    fields = {name: [one for one in columns_of_event(cls) if one is not REASON] for name, cls in CLASS_OF_EVENT.items()}
    for i, name in enumerate(columns["event"]):
        if name not in CLASS_OF_EVENT:
            raise TraceError(f"{path}: unknown event {name!r}")
        try:
            event = CLASS_OF_EVENT[name](**{one.name: _value(one, columns[one.name][i]) for one in fields[name]})
        except ValueError as unknown:
            raise TraceError(f"{path}: event {name!r} has a cause that there is not: {unknown}") from None
        yield TraceRow(columns["seq"][i], columns["at_us"][i], tuple(columns["causes"][i]), event)


def _value(column: Column, written: Any) -> Any:
    """raises: ValueError for a word that is no cause"""
    value = _frozen(written)
    if column.causes is None or value is None:
        return value
    return tuple(map(column.causes, value)) if isinstance(value, tuple) else column.causes(value)


def _frozen(value: Any) -> Any:
    """Words become printable, as those of a run are: a terminal would obey control characters from a foreign file."""
    if isinstance(value, str):
        return spelt_out(value)
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def check_trace(trace_dir: Path, sha256: object) -> None:
    """Whether every part begins and ends as one, and they are what a run wrote. Raises TraceError.

    sha256: the digest of the trace, as in the run's summary
    """
    for path in part_files(trace_dir):
        _open_part(path)
    try:
        is_own = trace_sha256(trace_dir) == sha256
    except OSError as error:
        raise TraceError(str(error)) from error
    # Values that were changed within a page may well decode, and mean something else.
    if not is_own:
        raise TraceError(f"{trace_dir}: its files are not those of this run: summary.json has another `trace_sha256`")


def _read_part(path: Path) -> pa.Table:
    try:
        return _open_part(path).read()
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: damaged ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _open_part(path: Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path)
        schema = file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: not a Parquet file, or cut short ({_first_line(error)})") from error
    version = (schema.metadata or {}).get(_VERSION_KEY, b"none").decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        raise TraceError(f"{path}: trace schema {version}, this version of Highwater reads {SCHEMA_VERSION}")
    if not schema.equals(arrow_schema(path.parent.name, observed=OBSERVED_BY.name in schema.names)):
        raise TraceError(f"{path}: its columns are not those of the table {path.parent.name!r}")
    return file
