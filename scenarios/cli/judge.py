"""`highwater judge [RUN]`: the verdict of a run anew, from its trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scenarios.cli.common import fail, format_option, plain_option, print_json, style_for_stdout
from scenarios.terminal.exit_codes import ExitCode
from scenarios.terminal.progress import ProgressLine

CUT_SHORT = "its end may be missing: whatever wrote it was killed, or its files were changed"


@click.command()
@click.argument("run", required=False)
@format_option
@plain_option
def judge(run: str | None, format_: str, plain: bool) -> int:
    """Judge RUN again by its trace, and keep the verdict: a run that was given up, whose judging failed, or that
    `serve` left when it was killed.

    RUN is a folder, a number or a unique beginning; without it, the newest run that has no verdict.
    """
    from replica.trace.error import TraceError
    from scenarios.cli.screens import run_screen
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.parse.loading import load_file
    from scenarios.process.work_folders import LOCK_FILE
    from scenarios.run.judging import judge_run
    from scenarios.run.runs import RunNotFound

    try:
        run_dir, former = _named(run)
        with ProgressLine("judging") as line:
            scenario = load_file(run_dir / LOCK_FILE).scenario
            summary, story, _ = judge_run(
                run_dir, scenario, former, lambda events: line.show(0.5, f"{events:,} events")
            )
    except RunNotFound as missing:
        fail(str(missing), ExitCode.USAGE)
    except (TraceError, OSError, ScenarioInvalid, ValueError) as error:
        text = "its scenario.lock.yaml is not valid" if isinstance(error, ScenarioInvalid) else str(error)
        fail(f"the run cannot be judged: {text}", ExitCode.USAGE, CUT_SHORT)
    if format_ == "json":
        print_json(summary)
    else:
        click.echo(run_screen(summary, story, style_for_stdout(plain)), nl=False)
    return ExitCode.OUR_BUG if summary["our_bug"] else ExitCode.HELD


def _named(run: str | None) -> tuple[Path, dict[str, Any] | None]:
    """The folder, and its summary if it has one. raises: RunNotFound"""
    from scenarios.process.work_folders import PREFIX, keep_abandoned
    from scenarios.run.runs import RUNS_DIR, RunNotFound, find_unjudged, read_summary

    place = Path(run) if run is not None else RUNS_DIR
    folder = place.parent if place.name.startswith(PREFIX) else RUNS_DIR
    if folder.is_dir():
        before = set(folder.iterdir())
        keep_abandoned(folder)
        if place.name.startswith(PREFIX):
            if place.exists():
                raise RunNotFound(f"{place} belongs to a cluster that still runs")
            new = sorted(set(folder.iterdir()) - before)
            if not new:
                raise RunNotFound(f"{place} is not there, or has no trace yet")
            run = str(new[-1])
    run_dir = find_unjudged(run)
    has_summary = (run_dir / "summary.json").is_file()
    return run_dir, read_summary(run_dir) if has_summary else None
