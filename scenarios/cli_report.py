"""`highwater report RUN...`: PySpark over the traces, one offline HTML page and the tables as Parquet."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from scenarios.cli_common import fail, format_option, print_json
from scenarios.cli_spark import spark_or_fail
from scenarios.exit_codes import ExitCode
from scenarios.progress import ProgressLine


@click.command()
@click.argument("runs", nargs=-1)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the report; by default `report` in the (first) run's folder.",
)
@click.option("--open", "open_", is_flag=True, help="Open the page in a browser.")
@format_option
def report(runs: tuple[str, ...], out: Path | None, open_: bool, format_: str) -> int:
    """Write a Spark report on RUNS (folders, ids, `last`, ...): HW, LEO and ISR over time, lag, elections, losses."""
    from scenarios.runs import RunNotFound, find_run

    try:
        run_dirs = [find_run(name) for name in runs or ("last",)]
    except RunNotFound as missing:
        fail(str(missing), ExitCode.USAGE)
    from spark_reports.io import RunFolderUnusable
    from spark_reports.report.build import write_report

    folder = out or run_dirs[0] / "report"
    try:
        with spark_or_fail(), ProgressLine("report") as line:
            result = write_report(run_dirs, folder, lambda step, share: line.show(share, step))
    except RunFolderUnusable as unusable:
        fail(str(unusable), ExitCode.USAGE)
    except OSError as error:
        fail(f"the report cannot be written to {folder}: {error.strerror or error}", ExitCode.MISSING)
    if format_ == "json":
        print_json(
            {
                "report": str(result.path),
                "tables": str(folder / "tables"),
                "verdicts": result.verdicts,
                "seconds": round(result.seconds, 3),
            }
        )
    else:
        for run_id, kinds in result.verdicts.items():
            click.echo(f"  {run_id}: {', '.join(kinds) or 'ok'} (the Spark verdict, from the trace alone)")
        click.echo(f"  {result.path}   ({result.path.stat().st_size / 1e6:.1f} MB, in {result.seconds:.1f} s)")
        click.echo(f"  {folder / 'tables'}/   the tables as Parquet, columns explained in README.md there")
    if open_:
        webbrowser.open(result.path.resolve().as_uri())
    return ExitCode.HELD
