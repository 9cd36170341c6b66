"""The user's own Spark SQL over the result tables and the trace: questions only, no writing, no programs.

A statement is Spark's own plan, and is admitted twice (`admission`): as it is parsed, and as it is analysed. Spark
then runs that plan; the text is not parsed a second time.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from spark_reports.admission import NotAdmitted, admit_analysed, shows_tables, tables_read_by
from spark_reports.io import TRACE_TABLES, damage_named, read_trace
from spark_reports.results import COLUMNS, RESULT_TABLES
from spark_reports.schema import RUN
from spark_reports.session import SparkFailed
from spark_reports.statements import Statement, statements_of
from spark_reports.tables import ResultTables

TRACE_PREFIX = "trace_"
TABLES = (*RESULT_TABLES, *(TRACE_PREFIX + name for name in TRACE_TABLES))
"""The tables that a question may read."""

# Nor do these read what a path names (text.`/etc/passwd`), or a variable of the environment (${env:HOME}).
_SETTINGS = {"spark.sql.runSQLOnFiles": "false", "spark.sql.variable.substitute": "false"}


_COLUMN_DOCS = {name: column.doc for name, column in COLUMNS.items()}
_TRACE_DOCS = {RUN: _COLUMN_DOCS[RUN]}
"""The other columns bring their own."""


class QueryRefused(Exception):
    """A statement that cannot be run, or is not let run; the text begins with its place."""


class Answer(NamedTuple):
    """`rows` as plain values; `more`: there were more of them than requested."""

    statement: Statement
    columns: list[str]
    rows: list[list[Any]]
    more: bool


def ask(spark: SparkSession, run_dirs: Sequence[Path], sql: str, file: str, rows_max: int) -> Iterator[Answer]:
    """Answers to the statements of `sql`, one after the other; all are admitted before the first is run.

    They run in a session of their own: views and settings of `spark` stay as they are.
    file: how errors call it        rows_max: at most so many rows of each answer
    raises: QueryRefused, RunFolderUnusable, SparkFailed
    """
    session = spark.newSession()
    jvm = session._jvm
    assert jvm is not None
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    for statement, plan in _admitted(session, jvm, run_dirs, sql, file):
        with _one_clear_error(statement, file), damage_named():
            dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
            frame = DataFrame(dataset, session)
            rows = frame.limit(rows_max + 1).collect()
        shown = [[_plain(value) for value in row] for row in rows[:rows_max]]
        yield Answer(statement, frame.columns, shown, more=len(rows) > rows_max)


def _admitted(
    session: SparkSession, jvm: Any, run_dirs: Sequence[Path], sql: str, file: str
) -> list[tuple[Statement, JavaObject]]:
    """Every statement with its analysed plan. raises: QueryRefused, RunFolderUnusable"""
    statements = statements_of(jvm, sql)
    if not statements:
        raise QueryRefused(f"{file}: there is no statement in it")
    state = session._jsparkSession.sessionState()
    parsed = []
    named: dict[str, None] = {}
    is_shown = False
    for statement in statements:
        with _one_clear_error(statement, file), _active(session, jvm):
            plan = state.sqlParser().parsePlan(statement.text)
            named.update(dict.fromkeys(tables_read_by(plan, TABLES)))
            is_shown = is_shown or shows_tables(plan)
            parsed.append((statement, plan))
    with damage_named():
        define_views(session, run_dirs, named)
    if is_shown:
        for name in TABLES:
            if name not in named:  # Only its name will be seen.
                session.range(0).createOrReplaceTempView(name)
    skip_commands = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    analysed = []
    for statement, plan in parsed:
        with _one_clear_error(statement, file):
            plan = state.executePlan(plan, skip_commands).analyzed()
            admit_analysed(plan, TABLES)
            analysed.append((statement, plan))
    return analysed


@contextlib.contextmanager
def _active(session: SparkSession, jvm: Any) -> Iterator[None]:
    """Spark's parser goes by the settings of the session that is active in its thread."""
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())


def define_views(spark: SparkSession, run_dirs: Sequence[Path], names: Collection[str]) -> None:
    """Views of these of TABLES, and of no others, for each takes a moment to define. raises: RunFolderUnusable"""
    trace = read_trace(spark, run_dirs)
    tables = ResultTables(trace)
    for name in names:
        table, docs = (
            (tables[name], _COLUMN_DOCS)
            if name in tables
            else (getattr(trace, name.removeprefix(TRACE_PREFIX)), _TRACE_DOCS)
        )
        _explained(table, docs).createOrReplaceTempView(name)


def _explained(table: DataFrame, docs: Mapping[str, str]) -> DataFrame:
    """With the comments for DESCRIBE. By itself a computed column has the comment of its source, or none."""
    fields = [
        StructField(field.name, field.dataType, True, {"comment": docs[field.name]} if field.name in docs else None)
        for field in table.schema
    ]
    return table.to(StructType(fields))


@contextlib.contextmanager
def _one_clear_error(statement: Statement, file: str) -> Iterator[None]:
    """raises: QueryRefused for an error in the statement, SparkFailed where it needs too much"""
    try:
        yield
    except NotAdmitted as refused:
        line = statement.line + refused.line - 1
        raise QueryRefused(f"{file}:{line}: `{statement.excerpt}`: {refused}") from refused
    except PySparkException as error:
        raise QueryRefused(_in_words(error, statement, file)) from error
    except (Py4JError, OSError) as error:
        raise SparkFailed(f"{file}:{statement.line}: `{statement.excerpt}` {_what_was_too_much(error)}") from error


def _what_was_too_much(error: Py4JError | OSError) -> str:
    text = str(error)
    if "StackOverflowError" in text:
        return "is nested too deeply for Spark"
    # Where memory runs out in a task, Spark ends its whole JVM.
    if isinstance(error, Py4JNetworkError | OSError) or "OutOfMemoryError" in text or "was shut down" in text:
        return "took more memory than Spark has: ask for less, or give it more, such as --conf spark.driver.memory=4g"
    return f"did not get through Spark: {' '.join(text.split())[:300]}"


def _in_words(error: PySparkException, statement: Statement, file: str) -> str:
    """`q.sql:3: A column ... Did you mean ...?`: Spark's first sentence at the file's line."""
    text = str(error)
    place = re.search(r"line (\d+),? pos", text)
    line = statement.line + (int(place[1]) - 1 if place else 0)
    first = next((one.strip() for one in text.splitlines() if one.strip()), type(error).__name__)
    sentence = re.sub(r"\s*SQLSTATE: \w+.*", "", re.sub(r"^\[[\w.]+\]\s*", "", first))
    return f"{file}:{line}: {sentence}"


def _plain(value: Any) -> Any:
    """As JSON values: rows and maps become objects, times and decimals strings."""
    if isinstance(value, tuple) and hasattr(value, "asDict"):
        return {name: _plain(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
