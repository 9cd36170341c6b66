"""The commands `highwater view`, `highwater play` and `highwater export`.

* `view` writes a page on which users step through one or several runs.
* `play` serves a page on which users inject faults into a simulated cluster.
* `export` writes a run for other tools.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scenarios.cli.common import (
    FileToWrite,
    fail,
    fail_invalid,
    load_scenario,
    must_be_written,
    must_hold_files,
    open_option,
    open_page,
    pick_variant,
    trace_of,
    usable_runs,
)
from scenarios.cli.completion import run_names, scenario_names
from scenarios.cli.run import set_option
from scenarios.process.work_folders import write_whole
from scenarios.terminal.interruption import ExitCode

if TYPE_CHECKING:
    from replica.trace.events import TraceRow
    from scenarios.language.spec import Scenario, ScenarioFile
    from scenarios.play.playing import Playing, Sharing
    from scenarios.serve.page_server import Door
    from scenarios.view.page import RunOfPage

PAGE_NAME = "view.html"
PREDICT_NAME = "predict.html"
"""File of the page that asks for predictions. `view` without --predict does not overwrite it."""
SIDE_BY_SIDE_NAME = "view-runs.html"
RUNS_MAX = 9
"""Maximum number of runs on one page, because each is selected by a key from 1 to 9."""

TOOLS = click.Choice(["perfetto", "shiviz", "mermaid", "csv"])


@click.command()
@click.argument("runs", nargs=-1, shell_complete=run_names)
@click.option("--out", type=FileToWrite(), help="File to write; by default in the folder of the first run.")
@click.option("--predict", "predicts", is_flag=True, help="Ask for predictions first, and hide the outcome until then.")
@open_option
def view(runs: tuple[str, ...], out: Path | None, predicts: bool, opens: bool) -> int:
    """Write a page to step through RUN, predict and ask why. Several RUNs stand side by side on one clock.

    RUN is a folder, an id, `last`, `last~1` or a unique beginning; without it, `last`.
    """
    from scenarios.run.runs import find_run

    if len(runs) > RUNS_MAX:
        raise click.UsageError(f"{len(runs)} runs were given; a page shows at most {RUNS_MAX}")
    with usable_runs():
        folders = [find_run(name) for name in runs or ("last",)]
    name = SIDE_BY_SIDE_NAME if len(folders) > 1 else PREDICT_NAME if predicts else PAGE_NAME
    page = write_page(folders, out or folders[0] / name, predicts=predicts)
    click.echo(f"  {page}")
    if opens:
        open_page(page)
    return ExitCode.HELD


@click.command()
@click.argument("run", shell_complete=run_names)
@click.option("--to", "tool", required=True, type=TOOLS, help="Tool that will read the file.")
@click.option("--out", type=FileToWrite(), help="File to write; by default in the folder of the run.")
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
    """Return a run's summary and its events. End the command with an error if they cannot be read."""
    from scenarios.run.runs import read_summary

    with usable_runs():
        summary = read_summary(folder)
        return summary, trace_of(folder, summary)


def write_page(folders: Sequence[Path], page: Path, *, predicts: bool = False) -> Path:
    """Write the page about finished runs, and return its path. If that fails, an existing page is unchanged.

    Args:
        predicts: let the page ask for predictions first and hide the outcome until then.
    """
    must_hold_files(page.parent)
    text = page_text(folders, predicts=predicts)
    with must_be_written(page):
        write_whole(page, text)
    return page


def page_text(folders: Sequence[Path], *, predicts: bool = False) -> str:
    """Return the HTML of the page about finished runs. End the command with an error if a run cannot be read."""
    from scenarios.explain.kept_outcomes import kept_outcomes
    from scenarios.view.page import page_of, run_of_page

    played: list[RunOfPage] = []
    for folder in folders:
        summary, rows = rows_of(folder)
        try:
            kept = kept_outcomes(folder, str(summary.get("trace_sha256")))
            played.append(run_of_page(rows, summary, _scenario_of(folder), kept))
        except (KeyError, TypeError, AttributeError) as error:
            fail(f"{folder / 'summary.json'} is not the summary of a run: {error}", ExitCode.USAGE)
    if predicts and not any(run.document["questions"] for run in played):
        click.echo(
            "The page has no questions, because nothing can be predicted in this run. Add `questions` to the scenario.",
            err=True,
        )
    return page_of(played, predicts=predicts)


def _scenario_of(folder: Path) -> Scenario | None:
    """Return the scenario in the lock file of a run; None if it cannot be read."""
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.parse.loading import load_file
    from scenarios.process.work_folders import LOCK_FILE

    try:
        return load_file(folder / LOCK_FILE).scenario
    except ScenarioInvalid:
        return None


# ---------------------------------------------------------------------------------------------------------------- play

START = "three-brokers.yaml"
START_US = 5_000_000
"""Time at which the page of the scenario START opens, in microseconds. Its run has no decisive moment to open at."""
DURATION_MAX_US = 3_600 * 1_000_000
LAST_RUN = re.compile(r"last(~[0-9]{1,6})?")


@click.command()
@click.argument("scenario", required=False, shell_complete=scenario_names)
@click.option("--variant", metavar="ID", help="Variant to play; by default the scenario itself.")
@click.option("--seed", type=click.IntRange(0), help="Seed to use instead of the file's.")
@set_option
@click.option("--bind", metavar="HOST[:PORT]", help="Address on which others can watch; 0.0.0.0: all addresses.")
@click.option("--viewers-may-break", is_flag=True, help="Let viewers inject faults, too.")
@click.option(
    "--open/--no-open", "opens", default=None, help="Open the page in the browser; the default on a terminal."
)
def play(
    scenario: str | None,
    variant: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    bind: str | None,
    viewers_may_break: bool,
    opens: bool | None,
) -> int:
    """Break a cluster on a page: click a broker, a link or a client at any moment, and see the new future.

    SCENARIO is a bundled id, a file, or a kept run; the default is a cluster of three brokers. With --bind, a class
    sees on its own screens the moment that you show.
    """
    from scenarios.play.playing import Playing

    file = _file(scenario, overrides, variant)
    chosen = pick_variant(file, variant, seed)
    if chosen.duration_us > DURATION_MAX_US:
        raise click.UsageError("`play` takes scenarios of at most one hour; set a shorter `duration`")

    sharing = _sharing(bind, viewers_may_break)

    def ready(door: Door) -> None:
        plays = door.addresses_with(door.token) if viewers_may_break else [door.address]
        watches = [] if door.watch_token is None else door.addresses_with(door.watch_token)
        lines = [f"  break it:  {address}" for address in plays] + [f"  watch it:  {address}" for address in watches]
        if sharing is not None and door.names[0].startswith("127."):
            lines.append(
                "  Other machines cannot reach this address; give --bind this machine's address on the network."
            )
        click.echo("\n".join(["", f"  {chosen.title}", "", *lines, "", "  Press Ctrl-C to end."]))
        if sys.stdout.isatty() if opens is None else opens:
            open_page(door.address)

    try:
        _until_interrupted(Playing(chosen, START_US if scenario is None else None), ready, sharing)
    except OSError as error:
        if bind is None:
            raise
        why = str(error.strerror).partition(" (")[0]
        of_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        fix = "choose another port" if of_port else "choose an address of this machine"
        fail(f"--bind cannot listen on {bind}: {why}", ExitCode.USAGE, fix)
    return ExitCode.HELD


def _until_interrupted(playing: Playing, ready: Callable[[Door], None], sharing: Sharing | None) -> None:
    import trio

    with suppress(KeyboardInterrupt):
        try:
            trio.run(playing.serve, ready, sharing)
        except BaseExceptionGroup as group:
            if group.split(KeyboardInterrupt)[1] is not None:
                raise


def _sharing(bind: str | None, may_break: bool) -> Sharing | None:
    from scenarios.play.playing import Sharing

    if bind is None:
        if may_break:
            raise click.UsageError("--viewers-may-break needs --bind")
        return None
    host, _, port = bind.partition(":")
    if not host or (port and not (port.isdecimal() and int(port) < 65_536)):
        raise click.UsageError(f"--bind takes an address such as 0.0.0.0 or 192.168.1.5:8080, not `{bind}`")
    return Sharing(host, int(port or 0), may_break)


def _file(scenario: str | None, overrides: tuple[str, ...], variant: str | None) -> ScenarioFile:
    """Load the scenario to play; end the command with an error if it cannot be read.

    Args:
        scenario: id of a bundled scenario, a file, or a run, whose lock file is loaded; None for three plain brokers.
    """
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.parse.loading import load_text
    from scenarios.process.work_folders import LOCK_FILE
    from scenarios.run.runs import find_run

    only = variant or "base"
    if scenario is None:
        text = files("scenarios.play").joinpath(START).read_text(encoding="utf-8")
        try:
            return load_text(text, START, overrides, only)
        except ScenarioInvalid as invalid:
            fail_invalid(invalid)
    if LAST_RUN.fullmatch(scenario) or Path(scenario).is_dir():
        with usable_runs():
            scenario = str(find_run(scenario) / LOCK_FILE)
    return load_scenario(scenario, overrides, only)
