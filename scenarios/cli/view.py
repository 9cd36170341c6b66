"""`highwater view`: the page of a run or of several, without Spark. `highwater export`: a run for other tools."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scenarios.cli.common import fail, must_hold_files
from scenarios.terminal.exit_codes import ExitCode

if TYPE_CHECKING:
    from replica.trace.events import TraceRow
    from scenarios.language.questions import ScenarioQuestion
    from scenarios.view.page import RunOfPage

PAGE_NAME = "view.html"
RUNS_MAX = 9
"""Runs on one page: each has a key, 1 to 9."""

TOOLS = click.Choice(["perfetto", "shiviz", "mermaid", "csv"])

open_option = click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")


@click.command()
@click.argument("runs", nargs=-1)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="The file; by default in the run's folder."
)
@open_option
def view(runs: tuple[str, ...], out: Path | None, opens: bool) -> int:
    """Write the page of RUN: step through it, predict, ask why. Several RUNs stand side by side on one clock.

    RUN is a folder, an id, `last`, `last~1` or a unique beginning; without it, `last`.
    """
    from scenarios.run.runs import RunNotFound, find_run

    if len(runs) > RUNS_MAX:
        raise click.UsageError(f"{len(runs)} runs: a page holds at most {RUNS_MAX}")
    try:
        folders = [find_run(name) for name in runs or ("last",)]
    except RunNotFound as missing:
        fail(str(missing), ExitCode.USAGE)
    page = write_page(folders, out or folders[0] / PAGE_NAME)
    click.echo(f"  {page}")
    if opens:
        open_page(page)
    return ExitCode.HELD


@click.command()
@click.argument("run")
@click.option(
    "--to",
    "format_",
    required=True,
    type=click.Choice(["perfetto", "shiviz", "mermaid", "csv"]),
    help="For which tool.",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The file; else one in the run's folder.")
def export(run: str, format_: str, out: Path | None) -> int:
    """Write RUN for another tool: a timeline for ui.perfetto.dev, a log with vector clocks for ShiViz, a sequence
    diagram for Mermaid, or a table of events."""
    from scenarios.run.runs import RunNotFound, find_run
    from scenarios.view.exports import EXPORTS
    from scenarios.view.tape import record_tape

    try:
        folder = find_run(run)
    except RunNotFound as missing:
        fail(str(missing), ExitCode.USAGE)
    name, write = EXPORTS[format_]
    file = out or folder / name
    must_hold_files(file.parent)
    _write(file, write(record_tape(rows_of(folder)[1], EVERY_EVENT)))
    click.echo(f"  {file}")
    return ExitCode.HELD


EVERY_EVENT = 1 << 60


def rows_of(folder: Path) -> tuple[dict[str, Any], list[TraceRow]]:
    """A run's summary and its events; an unreadable run ends the command."""
    from scenarios.observe.trace_writer import TraceError, check_trace, read_rows
    from scenarios.run.runs import RunNotFound, read_summary

    try:
        summary = read_summary(folder)
        check_trace(folder / "trace", summary.get("trace_sha256"))
        return summary, list(read_rows(folder / "trace"))
    except RunNotFound as missing:
        fail(str(missing), ExitCode.USAGE)
    except (TraceError, OSError) as error:
        fail(f"the trace cannot be read: {error}", ExitCode.USAGE, "make the run again: highwater run SCENARIO")


def write_page(folders: Sequence[Path], page: Path) -> Path:
    """The page of finished runs; it appears under its name only when it is whole."""
    from scenarios.view.page import page_of, run_of_page

    must_hold_files(page.parent)
    played: list[RunOfPage] = []
    for folder in folders:
        summary, rows = rows_of(folder)
        try:
            played.append(run_of_page(rows, summary, *_asked(folder)))
        except (KeyError, TypeError, AttributeError) as error:
            fail(f"{folder / 'summary.json'} is not a run's summary: {error}", ExitCode.USAGE)
    _write(page, page_of(played))
    return page


def _write(page: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=page.parent, prefix=".view-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.chmod(0o644)
        temporary.replace(page)
    except BaseException:
        temporary.unlink()
        raise


def _asked(folder: Path) -> tuple[str, tuple[ScenarioQuestion, ...]]:
    """The question that the scenario answers, and those that it asks, from its lock; none without a readable lock."""
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.parse.loading import load_file

    try:
        scenario = load_file(folder / "scenario.lock.yaml").scenario
    except ScenarioInvalid:
        return "", ()
    return scenario.question or "", scenario.questions


def open_page(page: Path) -> None:
    """In the user's browser; where there is none, the address is all there is."""
    import webbrowser

    if not webbrowser.open(page.absolute().as_uri()):
        click.echo(f"no browser was found: open {page.absolute().as_uri()}", err=True)
