"""`highwater report RUN...`: evaluates traces with Spark and writes one HTML page, and the tables as Parquet."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from replica.wording import spelt_out
from scenarios.cli.common import (
    fail,
    format_option,
    must_hold_files,
    open_option,
    open_page,
    print_json,
    usable_runs,
    usable_traces,
)
from scenarios.cli.completion import run_names
from scenarios.cli.spark import conf_option, master_option, spark_or_fail
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine
from scenarios.terminal.style import table_lines

if TYPE_CHECKING:
    from spark_reports.report import ReportResult


@click.command()
@click.argument("runs", nargs=-1, shell_complete=run_names)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the report; by default `report` in the folder of the first run.",
)
@click.option(
    "--tables",
    "tables_dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the Parquet tables; by default `tables` beside the page.",
)
@click.option(
    "--sql",
    metavar="FILE|SQL",
    help="Run this SQL (DuckDB), or the SQL in a file, over the tables. A missing report is made first.",
)
@click.option("--follow", "followed", is_flag=True, help="Follow a running `serve`, or a growing trace in a folder.")
@master_option("local[2]")
@conf_option
@open_option
@format_option
@usable_traces()
def report(
    runs: tuple[str, ...],
    out: Path | None,
    tables_dir: Path | None,
    sql: str | None,
    followed: bool,
    master: str,
    conf: tuple[tuple[str, str], ...],
    opens: bool,
    format_: str,
) -> int:
    """Write a Spark report on RUNS (folders, ids, `last`, ...): HW, LEO and ISR over time, lag, elections, losses.

    With --master spark://... the workers read the traces and write the tables, so the same paths must work for them.
    """
    if sql is not None and (out or tables_dir or opens):
        fail("--sql does not work with --out, --tables or --open", ExitCode.USAGE)
    asked = None if sql is None else _questions(sql, runs)
    if followed:
        others_given = bool(tables_dir or sql or opens or conf or format_ == "json")
        return _follow(runs, out, others_given=others_given)
    from scenarios.run.runs import find_run, read_summary

    with usable_runs():
        run_dirs = [find_run(name) for name in runs or ("last",)]
        digests = [read_summary(run_dir).get("trace_sha256") for run_dir in run_dirs]

    def check() -> None:
        from scenarios.observe.trace_writer import check_trace  # imports Arrow, which is slow, while Spark starts

        for run_dir, digest in zip(run_dirs, digests, strict=True):
            check_trace(run_dir / "trace", digest)

    if asked is not None:
        check()
        return _answer(run_dirs, asked, format_, lambda missing, folder: _made(missing, folder, master, dict(conf)))
    folder = out or run_dirs[0] / "report"
    _must_have_room(folder, tables_dir)
    result = _made(run_dirs, folder, master, dict(conf), tables_dir, check)
    if format_ == "json":
        print_json(
            {
                "report": str(result.path),
                "tables": str(result.tables),
                "verdicts": result.verdicts,
                "seconds": round(result.seconds, 3),
            }
        )
    else:
        for run_id, kinds in result.verdicts.items():
            click.echo(f"  {run_id}: {', '.join(kinds) or 'ok'} (the Spark verdict, from the trace alone)")
        click.echo(f"  {result.path}   ({result.path.stat().st_size / 1e6:.1f} MB, in {result.seconds:.1f} s)")
        click.echo(f"  {result.tables}/   Parquet tables; README.md there explains the columns")
    if opens:
        open_page(result.path)
    return ExitCode.HELD


def _made(
    run_dirs: list[Path],
    folder: Path,
    master: str,
    conf: Mapping[str, str],
    tables_dir: Path | None = None,
    check: Callable[[], None] = lambda: None,
) -> ReportResult:
    """Write the report; end the command with an error if that fails.

    Args:
        tables_dir: folder for the tables; None for a folder beside the page.
        check: called while Spark starts; raises TraceError if a trace was changed.
    """
    from spark_reports.report.build import write_report
    from spark_reports.run_folders import RunFolderUnusable
    from spark_reports.session import job_on

    try:
        with spark_or_fail(), ProgressLine("report") as line, job_on(master):
            return write_report(
                run_dirs, folder, lambda step, share: line.show(share, step), tables_dir=tables_dir, master=master,
                conf=conf, check=check,
            )  # fmt: skip
    except RunFolderUnusable as unusable:
        fail(str(unusable), ExitCode.USAGE)
    except OSError as error:
        fail(f"the report cannot be written to {folder}: {error.strerror or error}", ExitCode.MISSING)


def _must_have_room(folder: Path, tables_dir: Path | None) -> None:
    """End the command with an error if the report cannot be written, or would replace unrelated files."""
    must_hold_files(folder)
    if (folder / "report.html").is_dir():
        fail(
            f"{folder / 'report.html'} is a folder, but the page needs that name",
            ExitCode.USAGE,
            "choose another --out DIR",
        )
    if tables_dir is not None:
        must_hold_files(tables_dir, "--tables")
        return
    tables = folder / "tables"
    if tables.exists() and not (folder / "report.html").is_file() and (not tables.is_dir() or any(tables.iterdir())):
        fail(
            f"{tables} already exists, and is not part of a report (there is no report.html beside it)",
            ExitCode.USAGE,
            "choose another --out DIR",
        )


ROWS_SHOWN = 1_000
ROWS_PRINTED = 1_000_000
CHARACTERS_SHOWN = 500
"""The three constants above limit an answer to --sql: rows as text, rows as JSON, and characters of a value."""


def _follow(runs: tuple[str, ...], out: Path | None, *, others_given: bool) -> int:
    if others_given or len(runs) > 1:
        fail(
            "--follow takes at most one run, and no option except --out (for a page that reloads itself)",
            ExitCode.USAGE,
        )
    from scenarios.cli.follow import follow_run

    return follow_run(runs[0] if runs else None, out)


class SqlText(NamedTuple):
    """SQL statements and their origin.

    Attributes:
        sql: the statements as one text.
        place: name of the file, or `--sql`, for error messages.
    """

    sql: str
    place: str


def _questions(value: str, runs: tuple[str, ...]) -> SqlText:
    """Return the statements in the value of --sql, or in the file that it names.

    If the value is neither a file nor several words, end the command with an error.
    """
    file = Path(value)
    is_file = is_folder = False
    with contextlib.suppress(OSError):  # A long statement exceeds the limit of a file name's length.
        is_file, is_folder = file.is_file(), bool(value) and file.is_dir()
    if is_file:
        try:
            return SqlText(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            fail(f"{file} cannot be read: {error}", ExitCode.USAGE)
    if len(value.split()) > 1 and file.suffix != ".sql":
        return SqlText(value, "--sql")
    fail(
        f"--sql takes SQL statements or the name of a file, but "
        f"{'this is a folder' if is_folder else 'there is no such file'}: `{spelt_out(value)}`",
        ExitCode.USAGE,
        f"to list the tables: highwater report {shlex.join(runs) or 'last'} --sql 'SHOW TABLES'",
    )


def _answer(
    run_dirs: list[Path], asked: SqlText, format_: str, make: Callable[[list[Path], Path], ReportResult]
) -> int:
    """Run the SQL statements over the tables of the runs, and print the answers one after the other.

    Args:
        make: writes the report of runs without tables into a folder, before the statements run.
    """
    from spark_reports.queries import QueryRefused, Questions
    from spark_reports.run_folders import RunFolderUnusable, tables_kept

    is_json = format_ == "json"
    lines = []
    try:
        questions = Questions(asked.sql, asked.place)
        kept = tables_kept(run_dirs)
        there = {name for names in kept.values() for name in names}
        missing = [run_dir for run_dir in run_dirs if run_dir.resolve().name not in there]
        if questions.results_named and missing:
            folder = missing[0] / "report"
            _must_have_room(folder, None)
            names = ", ".join(run_dir.name for run_dir in missing)
            click.echo(f"Spark first makes the report of {names}; later queries use its tables", err=True)
            kept[make(missing, folder).tables] = [run_dir.resolve().name for run_dir in missing]
        for answer in questions.answers(run_dirs, kept, ROWS_PRINTED if is_json else ROWS_SHOWN):
            if is_json:
                lines.append(
                    {"sql": answer.statement.text, "columns": answer.columns, "rows": answer.rows, "more": answer.more}
                )
            else:
                click.echo(_as_text(answer.columns, answer.rows, answer.more))
    except QueryRefused as refused:
        fail(
            str(refused),
            ExitCode.USAGE,
            "use SELECT, WITH or VALUES; SHOW TABLES lists the tables, and DESCRIBE NAME the columns of a table",
        )
    except RunFolderUnusable as unusable:
        fail(str(unusable), ExitCode.USAGE)
    if is_json:
        print_json(lines)
    return ExitCode.HELD


def _as_text(columns: list[str], rows: list[list[Any]], more: bool) -> str:
    """Return an answer as a text table, with numbers aligned to the right."""
    right = [i for i in range(len(columns)) if all(isinstance(row[i], int | float | None) for row in rows)]
    lines = table_lines([columns, *([_cell(value) for value in row] for row in rows)], right)
    last = (
        [f"  … only the first {ROWS_SHOWN:,} rows are shown; --format json prints up to {ROWS_PRINTED:,}"]
        if more
        else []
    )
    counted = f"  ({len(rows):,} row{'' if len(rows) == 1 else 's'})"
    return "\n".join([*lines, *(last or [counted]), ""])


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False)
    text = spelt_out(" ".join(value.split()) if isinstance(value, str) else str(value))
    return text if len(text) <= CHARACTERS_SHOWN else text[: CHARACTERS_SHOWN - 1] + "…"
