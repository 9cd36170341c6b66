"""`highwater runs` lists the kept runs or removes the oldest; `highwater judge [RUN]` computes a verdict again."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from scenarios.cli.common import (
    CommandGroup,
    fail,
    format_option,
    out_option,
    plain_option,
    print_json,
    records_option,
    style_for_stdout,
    summary_in_json,
)
from scenarios.observe.wording import count_of
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine
from scenarios.terminal.style import table_lines

CUT_SHORT = "the trace may be incomplete, or its files may have been changed; make a new run"


@click.group(cls=CommandGroup, invoke_without_command=True)
@out_option
@format_option
@click.pass_context
def runs(context: click.Context, out: Path, format_: str) -> int:
    """List the kept runs with number, date, scenario, seed, verdict, events and size. `runs prune` removes the
    oldest."""
    if context.invoked_subcommand is not None:
        return ExitCode.HELD
    from scenarios.run.runs import RunNotFound, list_runs, list_unjudged

    _must_be_folder(out)
    unjudged = list_unjudged(out)
    rows: list[dict[str, Any]] = []
    for folder in sorted([*list_runs(out), *unjudged]):
        try:
            rows.append(_unjudged_row(folder) if folder in unjudged else _row(folder))
        except RunNotFound as unreadable:
            click.echo(f"warning: {unreadable}", err=True)
    if format_ == "json":
        print_json(rows)
    elif not rows:
        click.echo(f"{out}/ has no runs. Make one: highwater run SCENARIO")
    else:
        click.echo("\n".join(_table(rows, style_for_stdout(plain=False).sign("none"))))
    return ExitCode.HELD


def _table(rows: Sequence[Mapping[str, Any]], none: str) -> list[str]:
    """Return a table of the runs, which fits 80 columns unless names are long.

    Args:
        none: text for a missing value.
    """
    now = datetime.now().astimezone()
    cells = [
        (
            row["run"][:4],
            _day_and_time(datetime.fromisoformat(row["made"]), now),
            row["scenario"],
            none if row["seed"] is None else str(row["seed"]),
            row["verdict"],
            none if row["events"] is None else f"{row['events']:,}",
            f"{row['bytes'] / 1e6:.1f} MB",
        )
        for row in rows
    ]
    heads = ("RUN", "MADE", "SCENARIO", "SEED", "VERDICT", "EVENTS", "SIZE")
    return table_lines((heads, *cells), right=[heads.index(head) for head in ("SEED", "EVENTS", "SIZE")])


def _day_and_time(made: datetime, now: datetime) -> str:
    """Return a date as day and time, or as day and year if it is not in the current year."""
    return f"{made:%d %b %H:%M}" if made.year == now.year else f"{made:%d %b %Y}"


def _row(folder: Path) -> dict[str, Any]:
    """Return the cells of a run's row in the table.

    Raises:
        RunNotFound: if the summary cannot be read.
    """
    from scenarios.run.runs import read_summary

    summary = read_summary(folder)
    return {
        "run": folder.name,
        "made": _made(folder / "summary.json"),
        "scenario": "/".join(filter(None, (summary.get("scenario"), summary.get("variant")))),
        "seed": summary.get("seed"),
        "verdict": ", ".join([*(summary.get("verdict") or ["ok"]), *(["cut short"] if "cut_short" in summary else [])]),
        "events": summary.get("events"),
        "bytes": _size(folder),
    }


def _unjudged_row(folder: Path) -> dict[str, Any]:
    from scenarios.process.work_folders import UNJUDGED

    name = folder.name[5:].removesuffix(UNJUDGED)
    known = {"run": folder.name, "made": _made(folder), "scenario": name, "seed": None, "verdict": "unjudged"}
    return {**known, "events": None, "bytes": _size(folder)}


@runs.command()
@click.option("--keep", type=click.IntRange(0), required=True, help="Number of runs to keep, the newest ones.")
@out_option
def prune(keep: int, out: Path) -> int:
    """Remove the oldest runs, with their traces and logs."""
    from scenarios.run.runs import list_runs, list_unjudged

    _must_be_folder(out)
    kept = sorted([*list_runs(out), *list_unjudged(out)])
    old = kept[: max(0, len(kept) - keep)]
    for folder in old:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            fail(f"{folder} cannot be removed: {error.strerror}", ExitCode.MISSING)
    click.echo(f"  {count_of(len(old), 'run')} removed, {len(kept) - len(old)} kept")
    return ExitCode.HELD


def _must_be_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        fail(f"{out} is not a folder, so it has no runs", ExitCode.USAGE)


def _made(file: Path) -> str:
    """Return the local time at which the file was written, because no file of a run contains its date."""
    return datetime.fromtimestamp(file.stat().st_mtime).astimezone().isoformat(timespec="seconds")


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


# ------------------------------------------------------------------------------------------------ judge


@click.command()
@click.argument("run", required=False)
@format_option
@records_option
@plain_option
def judge(run: str | None, format_: str, names_records: bool, plain: bool) -> int:
    """Judge RUN again from its trace, and keep the verdict. Use it for a run that was interrupted or could not be
    judged, or if its `serve` was killed.

    RUN is a folder, a number or a unique beginning; without it, the newest run that has no verdict.
    """
    from replica.trace.columns import TraceError
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
                run_dir, scenario, former, lambda events: line.show(0.0, f"{events:,} events")
            )
    except RunNotFound as missing:
        fail(str(missing), ExitCode.USAGE)
    except (TraceError, OSError, ScenarioInvalid, ValueError) as error:
        text = "its scenario.lock.yaml is not valid" if isinstance(error, ScenarioInvalid) else str(error)
        fail(f"the run cannot be judged: {text}", ExitCode.USAGE, CUT_SHORT)
    if format_ == "json":
        print_json(summary_in_json(summary, names_records=names_records))
    else:
        click.echo(run_screen(summary, story, style_for_stdout(plain)), nl=False)
    return ExitCode.OUR_BUG if summary["our_bug"] else ExitCode.HELD


def _named(run: str | None) -> tuple[Path, dict[str, Any] | None]:
    """Return the folder of the run to judge, and the run's summary; None if there is no summary yet.

    Raises:
        RunNotFound: if there is no such run, or its cluster is still running.
    """
    from scenarios.process.work_folders import PREFIX, keep_abandoned
    from scenarios.run.runs import RUNS_DIR, RunNotFound, find_unjudged, read_summary

    path = Path(run) if run is not None else RUNS_DIR
    folder = path.parent if path.name.startswith(PREFIX) else RUNS_DIR
    if folder.is_dir():
        before = set(folder.iterdir())
        keep_abandoned(folder)
        if path.name.startswith(PREFIX):
            if path.exists():
                raise RunNotFound(f"{path} is in use by a cluster that is still running; stop it first")
            new = sorted(set(folder.iterdir()) - before)
            if not new:
                raise RunNotFound(f"{path} does not exist, or has no trace yet")
            run = str(new[-1])
    run_dir = find_unjudged(run)
    has_summary = (run_dir / "summary.json").is_file()
    return run_dir, read_summary(run_dir) if has_summary else None
