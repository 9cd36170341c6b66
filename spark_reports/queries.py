"""The user's own Spark SQL over the result tables and the trace: questions only, no writing, no programs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from spark_reports.io import Trace, read_trace
from spark_reports.schema import RUN
from spark_reports.tables import COLUMN_DOCS, ResultTables

TRACE_PREFIX = "trace_"


class QueryRefused(Exception):
    """A statement that cannot be run, or is not let run; the text begins with its place."""


class Statement(NamedTuple):
    """`bare`: the text without comments, and without what stands in quotes. `line`: where it begins, from 1."""

    text: str
    bare: str
    line: int


class Answer(NamedTuple):
    """`rows` as plain values; `more`: there were more of them than asked for."""

    statement: Statement
    columns: list[str]
    rows: list[list[Any]]
    more: bool


def statements_of(sql: str) -> list[Statement]:
    """What stands between semicolons; pieces that hold nothing but comments are left out."""
    found: list[Statement] = []
    text = bare = ""
    line, begins = 1, 1
    for piece in re.findall(_PIECES, sql):
        if piece == ";":
            found.append(Statement(text.strip(), bare, begins))
            text = bare = ""
        else:
            is_comment = piece.startswith(("--", "/*"))
            if not bare.strip() and not is_comment and piece.strip():
                begins = line + piece[: len(piece) - len(piece.lstrip())].count("\n")
                text = ""
            text += piece
            bare += " " if is_comment else "''" if piece[0] in "'\"" and len(piece) > 1 else piece.replace("`", "")
        line += piece.count("\n")
    return [one for one in [*found, Statement(text.strip(), bare, begins)] if one.bare.strip()]


_PIECES = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | --[^\n]* | /\*.*?\*/ | ; | [^'"`;/-]+ | .""",
    re.VERBOSE | re.DOTALL,
)
_QUESTIONS = ("select", "with", "from", "values", "table", "show", "describe", "desc", "explain")
_REFUSED = re.compile(
    r"""\b(?P<writes>insert|update|delete\s+from|merge\s+into)\b
      | \busing\s+(?P<program>'')                         # TRANSFORM ... USING 'a program'
      | \b(?P<java>reflect|java_method|try_reflect)\s*\( """,
    re.VERBOSE | re.IGNORECASE,
)


def refuse_all_but_questions(statement: Statement, file: str) -> None:
    """raises: QueryRefused"""
    first = re.match(r"[\s(]*(\w*)", statement.bare)
    word = first[1].lower() if first else ""
    found = _REFUSED.search(statement.bare)
    if word in _QUESTIONS and found is None:
        return
    what = f"`{word}`" if found is None else f"`{found[0].strip()}`" if found["program"] is None else "a program"
    raise QueryRefused(
        f"{file}:{statement.line}: {what} is not let run: --sql asks questions (SELECT, WITH, VALUES, SHOW, DESCRIBE)"
    )


def questions_of(sql: str, file: str) -> list[Statement]:
    """The statements, if all of them may be run; Spark is not asked. raises: QueryRefused"""
    statements = statements_of(sql)
    if not statements:
        raise QueryRefused(f"{file}: there is no statement in it")
    for statement in statements:
        refuse_all_but_questions(statement, file)
    return statements


def define_views(spark: SparkSession, run_dirs: Sequence[Path], sql: str) -> list[str]:
    """Result tables as views of their names, and the trace's tables as `trace_control`, `trace_log`, ...; all names.

    Of result tables only those that `sql` names, for each takes a moment to define; all of them if it says SHOW.
    raises: RunFolderUnusable
    """
    trace: Trace = read_trace(spark, run_dirs)
    tables = ResultTables(trace)
    text = sql.lower()
    for name in tables:
        if name in text or "show" in text:
            _explained(tables[name], COLUMN_DOCS).createOrReplaceTempView(name)
    for name, table in trace._asdict().items():
        _explained(table, {RUN: COLUMN_DOCS[RUN]}).createOrReplaceTempView(TRACE_PREFIX + name)
    return [*tables, *(TRACE_PREFIX + name for name in trace._fields)]


def _explained(table: DataFrame, docs: Mapping[str, str]) -> DataFrame:
    """With the comments that DESCRIBE shows: what a column is computed from has left it another's comment, or none."""
    fields = [
        StructField(field.name, field.dataType, True, {"comment": docs[field.name]} if field.name in docs else None)
        for field in table.schema
    ]
    return table.to(StructType(fields))


def ask(
    spark: SparkSession, run_dirs: Sequence[Path], sql: str, file: str, rows_max: int | None = None
) -> Iterator[Answer]:
    """Answers to the statements of `sql`, one after the other; all are looked at before the first is run.

    file: how errors call it        rows_max: at most so many rows of each answer
    raises: QueryRefused, RunFolderUnusable
    """
    statements = questions_of(sql, file)
    names = define_views(spark, run_dirs, sql)
    for statement in statements:
        try:
            frame = spark.sql(statement.text)
            rows = (frame if rows_max is None else frame.limit(rows_max + 1)).collect()
        except PySparkException as error:
            raise QueryRefused(_in_words(error, statement, file, names)) from error
        shown = rows if rows_max is None else rows[:rows_max]
        yield Answer(statement, frame.columns, [[_plain(value) for value in row] for row in shown], rows != shown)


def _in_words(error: PySparkException, statement: Statement, file: str, tables: Sequence[str]) -> str:
    """`q.sql:3: A column ... Did you mean ...?`: Spark's first sentence at the file's line.

    tables: what a table may be called; Spark suggests columns, but no tables
    """
    text = str(error)
    place = re.search(r"line (\d+),? pos", text)
    line = statement.line + (int(place[1]) - 1 if place else 0)
    first = next((one.strip() for one in text.splitlines() if one.strip()), type(error).__name__)
    sentence = re.sub(r"\s*SQLSTATE: \w+.*", "", re.sub(r"^\[[\w.]+\]\s*", "", first))
    unknown = re.match(r"The table or view `(.*)` cannot be found\.", sentence)
    if unknown is not None:
        close = difflib.get_close_matches(unknown[1].lower(), tables, n=1)
        sentence = f"{unknown[0]} Did you mean `{close[0]}`?" if close else unknown[0]
    return f"{file}:{line}: {sentence}"


def _plain(value: Any) -> Any:
    """What JSON can hold: rows and maps become objects, times and decimals words."""
    if isinstance(value, tuple) and hasattr(value, "asDict"):
        return {name: _plain(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
