"""`highwater runs`: the runs that are kept, and the end of the oldest."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from scenarios.cli.common import CommandGroup, fail, format_option, out_option, print_json
from scenarios.terminal.exit_codes import ExitCode


@click.group(cls=CommandGroup, invoke_without_command=True)
@out_option
@format_option
@click.pass_context
def runs(context: click.Context, out: Path, format_: str) -> int:
    """The runs that are kept: number, scenario, seed, verdict, events and size. `runs prune` removes the oldest."""
    if context.invoked_subcommand is not None:
        return ExitCode.HELD
    from scenarios.run.runs import RunNotFound, list_runs, read_summary

    _must_be_folder(out)
    rows: list[dict[str, Any]] = []
    for folder in list_runs(out):
        try:
            summary = read_summary(folder)
        except RunNotFound as unreadable:
            click.echo(f"warning: {unreadable}", err=True)
            continue
        verdict = ", ".join(summary.get("verdict") or ()) or "ok"
        name = "/".join(filter(None, (summary.get("scenario"), summary.get("variant"))))
        row = {"run": folder.name, "scenario": name, "seed": summary.get("seed"), "verdict": verdict}
        rows.append({**row, "events": summary.get("events"), "bytes": _size(folder)})
    if format_ == "json":
        print_json(rows)
    elif not rows:
        click.echo(f"no runs in {out}/: make one with `highwater run SCENARIO`")
    else:
        width = max(len(str(row["scenario"])) for row in rows)
        click.echo(f"  RUN   {'SCENARIO':<{width}}  SEED  {'VERDICT':<12}   EVENTS     SIZE")
        for row in rows:
            numbers = f"{row['events'] or 0:>8,}  {row['bytes'] / 1e6:>4.1f} MB"
            line = f"  {row['run'][:4]}  {row['scenario']:<{width}}  {row['seed']!s:>4}  {row['verdict']:<12} {numbers}"
            click.echo(line)
    return ExitCode.HELD


@runs.command()
@click.option("--keep", type=click.IntRange(0), required=True, help="How many runs stay: the newest.")
@out_option
def prune(keep: int, out: Path) -> int:
    """Remove the oldest runs, with their traces and logs."""
    from scenarios.run.runs import list_runs

    _must_be_folder(out)
    kept = list_runs(out)
    old = kept[: max(0, len(kept) - keep)]
    for folder in old:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            fail(f"{folder} cannot be removed: {error.strerror}", ExitCode.MISSING)
    click.echo(f"  {len(old)} removed, {len(kept) - len(old)} kept")
    return ExitCode.HELD


def _must_be_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        fail(f"{out} is no folder, so it holds no runs", ExitCode.USAGE)


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
