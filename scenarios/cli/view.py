"""`highwater view`: the page of a run or of several, without Spark. `highwater export`: a run for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scenarios.cli.common import (
    FileToWrite,
    fail,
    must_be_written,
    must_hold_files,
    open_option,
    open_page,
    trace_of,
    usable_runs,
)
from scenarios.cli.completion import run_names
from scenarios.process.work_folders import write_whole
from scenarios.terminal.interruption import ExitCode

if TYPE_CHECKING:
    from replica.trace.events import TraceRow
    from scenarios.language.steps import ScenarioQuestion
    from scenarios.view.page import RunOfPage

PAGE_NAME = "view.html"
SIDE_BY_SIDE_NAME = "view-runs.html"
RUNS_MAX = 9
"""Runs on one page: each has a key, 1 to 9."""

TOOLS = click.Choice(["perfetto", "shiviz", "mermaid", "csv"])


@click.command()
@click.argument("runs", nargs=-1, shell_complete=run_names)
@click.option("--out", type=FileToWrite(), help="The file; by default in the first run's folder.")
@click.option("--predict", "predicts", is_flag=True, help="The page begins by asking, and shows no outcome before.")
@open_option
def view(runs: tuple[str, ...], out: Path | None, predicts: bool, opens: bool) -> int:
    """Write the page of RUN: step through it, predict, ask why. Several RUNs stand side by side on one clock.

    RUN is a folder, an id, `last`, `last~1` or a unique beginning; without it, `last`.
    """
    from scenarios.run.runs import find_run

    if len(runs) > RUNS_MAX:
        raise click.UsageError(f"{len(runs)} runs: a page holds at most {RUNS_MAX}")
    with usable_runs():
        folders = [find_run(name) for name in runs or ("last",)]
    name = PAGE_NAME if len(folders) == 1 else SIDE_BY_SIDE_NAME
    page = write_page(folders, out or folders[0] / name, predicts=predicts)
    click.echo(f"  {page}")
    if opens:
        open_page(page)
    return ExitCode.HELD


@click.command()
@click.argument("run", shell_complete=run_names)
@click.option("--to", "tool", required=True, type=TOOLS, help="For which tool.")
@click.option("--out", type=FileToWrite(), help="The file; else one in the run's folder.")
def export(run: str, tool: str, out: Path | None) -> int:
    """Write RUN for another tool: a timeline for ui.perfetto.dev, a log with vector clocks for ShiViz, a sequence
    diagram for Mermaid, or a table of events."""
    from scenarios.run.runs import find_run
    from scenarios.view.exports import EXPORTS
    from scenarios.view.tape import EVERY_EVENT, record_tape

    with usable_runs():
        folder = find_run(run)
    name, write = EXPORTS[tool]
    file = out or folder / name
    must_hold_files(file.parent)
    tape = record_tape(rows_of(folder)[1], EVERY_EVENT)
    with must_be_written(file):
        write_whole(file, write(tape))
    click.echo(f"  {file}")
    return ExitCode.HELD


def rows_of(folder: Path) -> tuple[dict[str, Any], list[TraceRow]]:
    """A run's summary and its events; an unreadable run ends the command."""
    from scenarios.run.runs import read_summary

    with usable_runs():
        summary = read_summary(folder)
        return summary, trace_of(folder, summary)


def write_page(folders: Sequence[Path], page: Path, *, predicts: bool = False) -> Path:
    """The page of finished runs; it appears under its name only when it is whole. predicts: it begins by asking"""
    must_hold_files(page.parent)
    text = page_text(folders, predicts=predicts)
    with must_be_written(page):
        write_whole(page, text)
    return page


def page_text(folders: Sequence[Path], *, predicts: bool = False) -> str:
    """An unreadable run ends the command."""
    from scenarios.explain.kept_outcomes import kept_outcomes
    from scenarios.view.page import page_of, run_of_page

    played: list[RunOfPage] = []
    for folder in folders:
        summary, rows = rows_of(folder)
        try:
            kept = kept_outcomes(folder, str(summary.get("trace_sha256")))
            played.append(run_of_page(rows, summary, *_asked(folder), kept))
        except (KeyError, TypeError, AttributeError) as error:
            fail(f"{folder / 'summary.json'} is not a run's summary: {error}", ExitCode.USAGE)
    return page_of(played, predicts=predicts)


def _asked(folder: Path) -> tuple[str, tuple[ScenarioQuestion, ...]]:
    """The question that the scenario answers, and those that it asks, from its lock; none without a readable lock."""
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.parse.loading import load_file

    try:
        scenario = load_file(folder / "scenario.lock.yaml").scenario
    except ScenarioInvalid:
        return "", ()
    return scenario.question or "", scenario.questions
