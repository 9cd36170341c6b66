"""Answer a user's SQL queries about the result tables and the trace with DuckDB.

1. DuckDB gets the tables as views of Arrow data and opens no file itself. Then its access to files and the network and
   its loading of extensions are disabled, and its settings are locked.
2. All statements are run in a read-only transaction.
3. If a statement is not a query, it is refused with a clear message before any statement is run.

Neither Spark nor a JVM is used: the result tables were written by a report.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replica.trace.events import OPTIONAL_TABLES, TABLES, columns_of_table
from spark_reports.interrupts import Interrupts
from spark_reports.results import COLUMNS, RESULT_TABLES
from spark_reports.run_folders import RunFolderUnusable, is_observed, must_be_told_apart
from spark_reports.settings import driver_memory_mb

TRACE_TABLES = {f"trace_{name}": name for name in TABLES + OPTIONAL_TABLES}
"""The trace's tables: name in queries, and name in a run's folder."""
ALL_TABLES = (*RESULT_TABLES, *TRACE_TABLES)

_RUN = "run"
_THREADS = 4

_KINDS = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.field("element", pa.string())),
    "array<bigint>": pa.list_(pa.field("element", pa.int64())),
}
_KINDS_OF_TRACE = {
    "int64": "bigint",
    "string": "string",
    "bool": "boolean",
    "list<string>": "array<string>",
    "list<int64>": "array<bigint>",
}

_QUESTIONS = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI, duckdb.StatementType.EXPLAIN)
"""Allowed types of statements. A PIVOT has type MULTI, because it first queries its columns."""

_BEFORE_STATEMENT = re.compile(r"(?:[\s;]|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_DESCRIBE = re.compile(r'DESC(?:RIBE)?\s+(?:TABLE\s+)?"?(\w+)"?', re.IGNORECASE)
_SHOW_TABLES = re.compile(r"SHOW\s+TABLES", re.IGNORECASE)


class QueryRefused(Exception):
    """A statement is not allowed or failed. The message begins with the statement's position."""


class DescribedColumn(NamedTuple):
    """A column of a table. `kind` is its type in Spark's notation, such as `array<string>`; `doc` is its meaning."""

    name: str
    kind: str
    doc: str


class Statement(NamedTuple):
    """An SQL statement, and the number of its first line, counted from 1."""

    text: str
    line: int


class Answer(NamedTuple):
    """The answer to a statement, as rows of JSON values. `more` is True if rows were left out."""

    statement: Statement
    columns: list[str]
    rows: list[list[Any]]
    more: bool


class Questions:
    """The SQL statements of a text. `where` is the text's name in error messages."""

    def __init__(self, sql: str, where: str) -> None:
        """Parse the statements. Raises QueryRefused if one is not valid or not a query, or if there is none."""
        self._place = where
        with _locked_settings(duckdb.connect(":memory:")) as database:
            self._statements = list(self._parsed(database, sql))
        if not self._statements:
            raise QueryRefused(f"{where} has no SQL statement")

    def _parsed(self, database: duckdb.DuckDBPyConnection, sql: str) -> Iterator[Statement]:
        line = 1
        try:
            found = database.extract_statements(sql)
        except duckdb.Error as error:
            raise self._refused(Statement(sql, 1), error) from error
        for item in found:
            text = item.query
            before = _BEFORE_STATEMENT.match(text)
            begin = before.end() if before else 0
            statement = Statement(text[begin:].rstrip().removesuffix(";").rstrip(), line + text.count("\n", 0, begin))
            line += text.count("\n")
            try:
                if item.type not in _QUESTIONS:
                    raise QueryRefused(f"{self._place}:{statement.line}: {item.type.name} statements are not allowed")
            except ValueError as error:  # DuckDB's Python API has no name for this type.
                raise QueryRefused(f"{self._place}:{statement.line}: this kind of statement is not allowed") from error
            yield statement

    @property
    def results_named(self) -> bool:
        """True if the name of a result table occurs in a statement.

        If the name has another meaning there, the caller makes a report without need, which only costs time.
        """
        asked = " ".join(statement.text for statement in self._statements if not _own_answer(statement.text))
        return re.search(rf"\b({'|'.join(RESULT_TABLES)})\b", asked, re.IGNORECASE) is not None

    def answers(self, run_dirs: Sequence[Path], kept: Mapping[Path, Sequence[str]], rows_max: int) -> Iterator[Answer]:
        """Run the statements in order and yield their answers.

        Args:
            run_dirs: folders of the runs, for the tables of the trace.
            kept: folders with result tables, each with the names of the runs to read from it.
            rows_max: maximum number of rows of each answer.

        Raises:
            QueryRefused: if a statement fails.
            RunFolderUnusable: if a file cannot be read, or two runs have the same name.
        """
        must_be_told_apart(run_dirs)
        database = duckdb.connect(":memory:")
        stored = {name: _trace(name, run_dirs) for name in TRACE_TABLES}
        if kept:
            stored |= {name: _results(name, kept) for name in RESULT_TABLES}
        for name, table in stored.items():
            database.register(name, table)
        with _locked_settings(database):
            database.execute("BEGIN TRANSACTION READ ONLY")
            for statement in self._statements:
                columns, rows = _own_answer(statement.text) or self._asked(
                    database, stored.values(), statement, rows_max + 1
                )
                shown = [[_plain(value) for value in row] for row in rows[:rows_max]]
                yield Answer(statement, columns, shown, more=len(rows) > rows_max)

    def _asked(
        self, database: duckdb.DuckDBPyConnection, stored: Iterable[_Stored], statement: Statement, rows_max: int
    ) -> tuple[list[str], list[Any]]:
        def ask() -> tuple[list[str], list[Any]]:
            answer = database.execute(statement.text)
            return [column[0] for column in answer.description or ()], answer.fetchmany(rows_max)

        try:
            # DuckDB ignores signals while it fetches, and a busy connection cannot be closed.
            with Interrupts() as interrupts, ThreadPoolExecutor(1) as beside:
                asking = beside.submit(ask)
                while wait([asking], 0.1).not_done:
                    if interrupts.noted:
                        database.interrupt()
            interrupts.check()
            return asking.result()
        except duckdb.OutOfMemoryException as error:
            limit = f"{driver_memory_mb():,} MB"
            raise self._refused(statement, f"the query needs more memory than its limit of {limit}") from error
        except duckdb.Error as error:
            if (file := next((table.damaged for table in stored if table.damaged), None)) is not None:
                repeat = "Repeat the run" if file.parent.parent.name == "trace" else "Make the report again"
                raise RunFolderUnusable(f"{file} is damaged. {repeat}") from error
            raise self._refused(statement, error) from error

    def _refused(self, statement: Statement, error: Exception | str) -> QueryRefused:
        """Return the error as a sentence with its line number; if the position is known, add that line and a caret."""
        sentence, _, where = str(error).partition("\n\nLINE ")
        name = re.search(r"Table with name (.+) does not exist!", sentence)
        if name is not None:
            close = difflib.get_close_matches(name[1].lower(), ALL_TABLES, n=1)
            hint = f" Did you mean `{close[0]}`?" if close else ""
            sentence = f"`{name[1]}` is not a table of a run.{hint}"
        number, _, excerpt = where.partition(": ")
        line = statement.line + int(number) - 1 if number.isdigit() else statement.line
        said = f"{self._place}:{line}: {' '.join(sentence.split())}"
        if excerpt.count("\n") != 1:
            return QueryRefused(said)
        text, caret = excerpt.split("\n")
        return QueryRefused(f"{said}\n  {text}\n  {caret[len(f'LINE {number}: ') :]}")


@contextlib.contextmanager
def _locked_settings(database: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Restrict a database to its registered tables, lock its settings, and close it at the end of the block."""
    settings = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,
        "memory_limit": f"{driver_memory_mb()}MB",
        "temp_directory": "",
        "threads": min(_THREADS, os.cpu_count() or 1),
        "TimeZone": "UTC",
        # Sort nulls as Spark does.
        "default_null_order": "nulls_first_on_asc_last_on_desc",
        "enable_progress_bar": False,
        "enable_external_access": False,
        "lock_configuration": True,  # This must be the last setting.
    }
    with contextlib.closing(database):
        for name, value in settings.items():
            database.execute(f"SET {name} = {value!r}")
        yield database


def columns_of(name: str, *, observed: bool = False) -> list[DescribedColumn]:
    """Return the columns of one of ALL_TABLES; `observed` is True for a run on real Kafka."""
    if name in RESULT_TABLES:
        return [DescribedColumn(column, kind, doc) for column, (kind, doc) in RESULT_TABLES[name].columns.items()]
    of_trace = columns_of_table(TRACE_TABLES[name], observed=observed)
    return [
        DescribedColumn(_RUN, "string", COLUMNS[_RUN].doc),
        *(DescribedColumn(column.name, _KINDS_OF_TRACE[column.type], column.doc) for column in of_trace),
    ]


def _own_answer(text: str) -> tuple[list[str], list[list[str]]] | None:
    """Answer SHOW TABLES and DESCRIBE without DuckDB: return (column names, rows), None for other statements.

    DuckDB's own DESCRIBE does not show the meaning of columns.
    """
    if _SHOW_TABLES.fullmatch(text):
        return ["name"], [[name] for name in sorted(ALL_TABLES)]
    described = _DESCRIBE.fullmatch(text)
    if described is None or described[1].lower() not in ALL_TABLES:
        return None
    return ["col_name", "data_type", "comment"], [list(column) for column in columns_of(described[1].lower())]


class _File(NamedTuple):
    """A Parquet file of a table.

    Attributes:
        run: name of the run for a table of the trace, which has no column `run`; None for a result table.
        runs: names of the runs to read, for a result table.
    """

    path: Path
    run: str | None = None
    runs: Sequence[str] = ()


class _Stored:
    """The files of one table as a stream of Arrow data, which DuckDB reads each time a query uses the table.

    A PyArrow dataset would read only the columns in use, but it imports pandas.
    """

    def __init__(self, columns: Sequence[DescribedColumn], files: Sequence[_File]) -> None:
        self.schema = pa.schema([(column.name, _KINDS[column.kind]) for column in columns])
        self.damaged: Path | None = None  # the file that could not be read, if any
        self._files = files

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            try:
                with pq.ParquetFile(file.path, read_dictionary=None if file.run else [_RUN]) as stored:
                    for batch in stored.iter_batches():
                        yield self._shaped(batch, file)
            except (pa.ArrowException, OSError, KeyError):
                self.damaged = file.path
                raise

    def _shaped(self, batch: pa.RecordBatch, file: _File) -> pa.RecordBatch:
        """Return the wanted runs of a batch with the schema's columns. Raises ArrowException if a type is wrong."""
        if file.run is None and not set(batch.column(_RUN).dictionary.to_pylist()).issubset(file.runs):
            import pyarrow.compute as pc

            batch = batch.filter(pc.is_in(batch.column(_RUN).dictionary_decode(), pa.array(file.runs)))
        columns = []
        for field in self.schema:
            if field.name == _RUN:
                run = file.run
                columns.append(batch.column(_RUN).dictionary_decode() if run is None else _repeated(run, len(batch)))
            elif field.name not in batch.schema.names:
                columns.append(pa.nulls(len(batch), field.type))
            elif batch.column(field.name).type == field.type:
                columns.append(batch.column(field.name))
            elif pa.types.is_list(field.type):  # The list elements may have another name.
                columns.append(batch.column(field.name).cast(field.type))
            else:
                raise pa.ArrowInvalid(f"column {field.name} has type {batch.column(field.name).type}, not {field.type}")
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _repeated(text: str, count: int) -> pa.StringArray:
    """Return an array with `count` copies of a string. `pa.repeat` is not used because it imports pandas."""
    encoded = text.encode()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(encoded * count))


def _results(name: str, kept: Mapping[Path, Sequence[str]]) -> _Stored:
    files = [_File(part, runs=runs) for folder, runs in kept.items() for part in _parts(folder / name)]
    return _Stored(columns_of(name), files)


def _trace(name: str, run_dirs: Sequence[Path]) -> _Stored:
    observed = any(map(is_observed, run_dirs))
    folders = {run_dir.resolve().name: run_dir / "trace" / TRACE_TABLES[name] for run_dir in run_dirs}
    files = [_File(part, run) for run, folder in folders.items() for part in _parts(folder)]
    return _Stored(columns_of(name, observed=observed), files)


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.resolve().glob("part-*.parquet"))


def _plain(value: Any) -> Any:
    """Convert a value of DuckDB for JSON: structs and maps become dicts, times and decimals become strings."""
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
