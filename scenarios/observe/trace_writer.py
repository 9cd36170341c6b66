"""The trace on disk: typed Parquet (zstd) tables, one folder per table, `trace/<table>/part-NNNNN.parquet`.

`TraceWriter` is a listener of `replica.trace.TraceLog`. A part is written under a hidden temporary name and then
renamed, so a reader never sees half a file. A part is full at a fixed row count, so the same simulated run always gives
the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, product
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from replica.trace.columns import TraceError
from replica.trace.events import (
    CLASS_OF_EVENT,
    OBSERVED_BY,
    OPTIONAL_TABLES,
    REASON,
    SCHEMA_VERSION,
    TABLES,
    Column,
    LogEntriesFound,
    TraceEvent,
    TraceRow,
    columns_of_event,
    columns_of_table,
    value_of,
)
from replica.trace.listening import Listener, on

# -------------------------------------------------------------------------------------------------------- arrow columns
#
# Conversion of plain Python values to Arrow columns, without `pyarrow.array`.
#
# That function imports pandas only to ask whether its argument is one of pandas' objects, which takes a third of a
# second in every run.

ArrowColumn = Callable[[Sequence[Any], pa.DataType], pa.Array]


def column(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Convert ints, strings, booleans, or tuples of these to an Arrow column of the given type."""
    return _BUILDERS[arrow_type.id](values, arrow_type)


def _is_constant(values: Sequence[Any]) -> bool:
    """Return True if all values are equal, as in most columns of a chunk."""
    return bool(values) and values[0] == values[-1] is not None and values.count(values[0]) == len(values)


def _validity(values: Sequence[Any]) -> tuple[pa.Buffer | None, int]:
    """Return the validity bitmap (None if no value is null) and the number of nulls."""
    if None not in values:
        return None, 0
    present = [value is not None for value in values]
    return _bitmap(present), len(present) - sum(present)


def _bitmap(bits: Sequence[bool]) -> pa.Buffer:
    packed = bytearray((len(bits) + 7) // 8)
    for index, bit in enumerate(bits):
        if bit:
            packed[index >> 3] |= 1 << (index & 7)
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
    # In plain ASCII every character is a byte, so the strings need not be encoded one by one.
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
"""Number of events, in all tables together, after which plain values are converted to Arrow columns."""

_ALL_TABLES = TABLES + OPTIONAL_TABLES
_REPEATING = sorted(
    {item.name for table in _ALL_TABLES for item in columns_of_table(table) if item.type == "string"} - {"record"}
)
"""Columns with repeated values, which Parquet dictionary-encodes. For other columns this is slower and larger."""
_VERSION_KEY = b"highwater.trace.schema_version"

_ARROW_TYPES: dict[str, Any] = {
    "int64": pa.int64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "list<string>": pa.list_(pa.field("element", pa.string(), nullable=False)),
    "list<int64>": pa.list_(pa.field("element", pa.int64(), nullable=False)),
}


def arrow_schema(table: str, *, observed: bool = False) -> pa.Schema:
    """Return the Arrow schema of one table, with documentation of its columns.

    Args:
        observed: True for a run on real Kafka, which has an additional column.
    """
    columns = [_arrow_field(column) for column in columns_of_table(table, observed=observed)]
    return pa.schema(columns, metadata={_VERSION_KEY: str(SCHEMA_VERSION)})


def _arrow_field(column: Column) -> pa.Field:
    return pa.field(column.name, _ARROW_TYPES[column.type], nullable=column.nullable, metadata={"doc": column.doc})


class _KindBuffer:
    """Events of one kind as a flat list of plain values, row after row.

    Event objects are not kept, because with thousands of them Python's garbage collection would be the largest cost of
    tracing.
    """

    __slots__ = ("event", "extend", "fields", "types", "values", "values_of", "width")

    def __init__(self, event: str, kind: type[TraceEvent]) -> None:
        columns = columns_of_event(kind)
        self.event = event
        self.fields = [column.name for column in columns]
        self.types = [_ARROW_TYPES[column.type] for column in columns]
        # There is one value more than columns: `observed_by`, which is not read in runs that state their events
        # themselves. attrgetter returns a tuple only for two names or more.
        self.width = 3 + len(columns) + 1
        self.values_of = self._with_sentence() if columns[-1] is REASON else attrgetter(*self.fields, self.fields[-1])
        self.values: list[Any] = []
        self.extend = self.values.extend

    def _with_sentence(self) -> Callable[[TraceEvent], tuple[Any, ...]]:
        # The attribute `sentence` is read too, so that there are at least two names.
        data = attrgetter(*self.fields[:-1], "sentence")

        def values_of(event: TraceEvent) -> tuple[Any, ...]:
            *values, sentence = data(event)
            return (*values, sentence(), None)

        return values_of

    def as_table(self, schema: pa.Schema) -> pa.Table:
        """Return the events with all columns of their table. Columns that only other kinds of events have are null."""
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


class _WaitingRows:
    """The rows of one table until they fill a part: the latest chunk in memory, earlier chunks in a file.

    A run of an hour may not fill a part, and its events must not accumulate in memory.
    """

    def __init__(self, path: Path) -> None:
        self.rows = 0
        self._path = path
        self._latest: pa.Table | None = None
        self._file: pa.RecordBatchStreamWriter | None = None

    def append(self, chunk: pa.Table) -> None:
        """Add a chunk. Raises OSError."""
        if self._latest is not None:
            if self._file is None:
                self._path.parent.mkdir(exist_ok=True)
                self._file = pa.ipc.new_stream(str(self._path), chunk.schema)
            self._file.write_table(self._latest)
        self._latest = chunk
        self.rows += chunk.num_rows

    def take(self) -> list[pa.Table]:
        """Remove and return all rows, oldest first. Chunks stay apart, because the bytes of a part depend on them."""
        found = []
        if self._file is not None:
            self._file.close()
            # The file is mapped, so that a part is written without a second copy; the pages stay readable after its
            # deletion.
            with pa.memory_map(str(self._path)) as source:
                found.append(pa.ipc.open_stream(source).read_all())
        if self._latest is not None:
            found.append(self._latest)
        self.discard()
        return found

    def discard(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # A full disk was reported when the chunk was written.
                self._file.close()
            self._path.unlink(missing_ok=True)
        self.rows, self._latest, self._file = 0, None, None


def _no_rows(schema: pa.Schema) -> pa.Table:
    return pa.table([column([], field.type) for field in schema], schema=schema)


def _all_nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


class TraceWriter(Listener):
    """Listener that keeps events until a part is full and then writes them as columns. `close()` writes the rest.

    It creates `trace_dir`. Any method may raise OSError (disk full, not writable). Every part under its final name is
    complete. An exception in a `with` block leaves the last parts unwritten.

    Args:
        observed_by: for a run on real Kafka, a function that returns how the current event was observed.
    """

    def __init__(
        self,
        trace_dir: Path,
        *,
        rows_per_part: int = ROWS_PER_PART,
        observed_by: Callable[[], str | None] | None = None,
    ) -> None:
        # This is imported here because readers do not need it, and because live brokers would have to wait if it were
        # imported with the first chunk.
        import pyarrow.compute as pc

        self._sort_indices = pc.sort_indices
        self.trace_dir = trace_dir
        self.rows_per_part = rows_per_part
        self._rows_per_chunk = min(rows_per_part, ROWS_PER_CHUNK)
        self._rows_waiting = 0
        self._observed_by = observed_by
        self._schemas = {table: arrow_schema(table, observed=observed_by is not None) for table in _ALL_TABLES}
        self._buffers = {kind: _KindBuffer(name, kind) for name, kind in CLASS_OF_EVENT.items()}
        self._buffers_of: dict[str, list[_KindBuffer]] = {table: [] for table in _ALL_TABLES}
        for kind, buffer in self._buffers.items():
            self._buffers_of[kind.TABLE].append(buffer)
        self._parts_written = dict.fromkeys(_ALL_TABLES, 0)
        for table in TABLES:
            (trace_dir / table).mkdir(parents=True, exist_ok=True)
        self._waiting = {table: _WaitingRows(trace_dir / table / ".waiting.tmp") for table in _ALL_TABLES}

    @on(LogEntriesFound)
    def _count_names(self, row: TraceRow, event: LogEntriesFound) -> None:
        """Count each record name as a row, because the names of a final log take as much memory as rows."""
        self._rows_waiting += len(event.records)

    @on(TraceEvent)
    def _take(self, row: TraceRow, event: TraceEvent) -> None:
        buffer = self._buffers[type(event)]
        buffer.extend((row.seq, row.at_us, row.causes, *buffer.values_of(event)))
        if self._observed_by is not None:
            buffer.values[-1] = self._observed_by()
        self._rows_waiting += 1
        if self._rows_waiting >= self._rows_per_chunk:
            self._take_chunks()

    def close(self) -> None:
        """Write the remaining events, and an empty part for each table in TABLES that has none."""
        self.write_parts()
        for table in TABLES:
            if not self._parts_written[table]:
                self._write_part(table)

    def write_parts(self) -> None:
        """Write all waiting events as parts, so that readers of a live run get them."""
        for _ in self.parts_one_by_one():
            pass

    def parts_one_by_one(self) -> Iterator[None]:
        """Do the work of `write_parts`, and yield after each part, so that other work can run."""
        self._take_chunks()
        for table in _ALL_TABLES:
            if self._waiting[table].rows:
                self._write_part(table)
                yield

    def leave(self) -> None:
        """Drop the events that are not in a part yet, because an interrupted step may have left half an event."""
        for buffer in chain.from_iterable(self._buffers_of.values()):
            buffer.values.clear()
        for waiting in self._waiting.values():
            waiting.discard()
        for table in TABLES:
            if not self._parts_written[table]:
                self._write_part(table)

    def digests(self) -> tuple[str, str]:
        """Return both digests of the closed trace, as `digests_of` does."""
        return digests_of(self.trace_dir)

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
        """Convert waiting events of all tables to Arrow columns, and write a part of each table with enough rows."""
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
        # Spark and Highwater's own readers ignore names that begin with a dot.
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
        # Writing a part takes as much memory as its columns. Return this memory to the system.
        pa.default_memory_pool().release_unused()


# ------------------------------------------------------------------------------------------------------------- reading


def part_files(trace_dir: Path) -> list[Path]:
    """Return all parts of a trace in a fixed order. Raises TraceError if a table has none."""
    found: list[Path] = []
    for table in _ALL_TABLES:
        parts = sorted((trace_dir / table).glob("part-*.parquet"))
        if not parts and table in TABLES:
            raise TraceError(f"{trace_dir} is incomplete: the table {table!r} has no file")
        found.extend(parts)
    return found


def complete(trace_dir: Path) -> None:
    """Write an empty part for each table without a part, after the process was killed. Raises OSError."""
    writer = TraceWriter(trace_dir)
    for table in TABLES:
        if not any((trace_dir / table).glob("part-*.parquet")):
            writer._write_part(table)


def trace_sha256(trace_dir: Path) -> str:
    """Return the hash of the names and bytes of all parts in a fixed order, as 64 hex digits."""
    digest = hashlib.sha256()
    for path in part_files(trace_dir):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(trace_dir).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


WORDS = frozenset({"reason", "message", "effect", "finding", "last_words"})
"""Columns with texts for people. `data_sha256` leaves them out, so new wording does not change it."""


def digests_of(trace_dir: Path) -> tuple[str, str]:
    """Return `trace_sha256` and `data_sha256` of a complete trace. Raises TraceError or OSError."""
    return trace_sha256(trace_dir), data_sha256(trace_dir)


def data_sha256(trace_dir: Path) -> str:
    """Return the hash of the stored bytes of all columns except WORDS, as 64 hex digits."""
    digest = hashlib.sha256()
    for path in part_files(trace_dir):
        stored = pq.read_metadata(path)
        digest.update(f"{path.relative_to(trace_dir).as_posix()}\0{stored.num_rows}\0".encode())
        with path.open("rb") as file:
            for group, i in product(range(stored.num_row_groups), range(stored.num_columns)):
                found = stored.row_group(group).column(i)
                name = found.path_in_schema
                if name.partition(".")[0] not in WORDS:
                    file.seek(found.dictionary_page_offset if found.has_dictionary_page else found.data_page_offset)
                    digest.update(f"{name}\0{found.total_compressed_size}\0".encode())
                    digest.update(file.read(found.total_compressed_size))
    return digest.hexdigest()


def read_rows(trace_dir: Path) -> Iterator[TraceRow]:
    """Yield the events of a run in the order of their sequence numbers.

    Raises:
        TraceError: a table has no part, or a part is damaged.
    """
    parts = part_files(trace_dir)
    by_table = [[path for path in parts if path.parent.name == table] for table in _ALL_TABLES]
    return heapq.merge(*map(_rows_of_table, by_table), key=attrgetter("seq"))


def _rows_of_table(parts: list[Path]) -> Iterator[TraceRow]:
    for path in parts:
        yield from _rows_of_part(path)


def _rows_of_part(path: Path) -> Iterator[TraceRow]:
    columns = _read_part(path).to_pydict()
    # The classes of events create their sentences again.
    fields = {
        name: [item for item in columns_of_event(cls) if item is not REASON] for name, cls in CLASS_OF_EVENT.items()
    }
    for i, name in enumerate(columns["event"]):
        if name not in CLASS_OF_EVENT:
            raise TraceError(f"{path}: unknown event {name!r}")
        try:
            event = CLASS_OF_EVENT[name](
                **{field.name: value_of(field, columns[field.name][i]) for field in fields[name]}
            )
        except ValueError as unknown:
            raise TraceError(f"{path}: event {name!r} has an unknown cause: {unknown}") from None
        yield TraceRow(columns["seq"][i], columns["at_us"][i], tuple(columns["causes"][i]), event)


def check_trace(trace_dir: Path, sha256: object) -> None:
    """Check that every part is complete and belongs to the run.

    Args:
        sha256: digest of the trace in the run's summary.

    Raises:
        TraceError: a part is damaged, or the trace is that of another run.
    """
    for path in part_files(trace_dir):
        _open_part(path)
    try:
        is_own = trace_sha256(trace_dir) == sha256
    except OSError as error:
        raise TraceError(str(error)) from error
    # A page with changed bytes may still decode, to other values.
    if not is_own:
        raise TraceError(
            f"the files in {trace_dir} were changed after the run: their hash is not the `trace_sha256` in summary.json"
        )


def _read_part(path: Path) -> pa.Table:
    try:
        return _open_part(path).read()
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path} is damaged ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _open_part(path: Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path)
        schema = file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path} is not a complete Parquet file ({_first_line(error)})") from error
    version = (schema.metadata or {}).get(_VERSION_KEY, b"none").decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        raise TraceError(
            f"{path} has trace schema {version}, but this version of Highwater reads only {SCHEMA_VERSION}"
        )
    if not schema.equals(arrow_schema(path.parent.name, observed=OBSERVED_BY.name in schema.names)):
        raise TraceError(f"{path} does not have the columns of the table {path.parent.name!r}")
    return file
