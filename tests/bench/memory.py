"""`python -m tests.bench memory`: whole runs with ever more records."""

from __future__ import annotations

import click

from scenarios.cli.bench import machine, machine_line
from scenarios.cli.common import format_option, print_json
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine
from tests.bench.commands import bench, sizes


def _long_runs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[int]:
    from tests.bench.long_runs import BATCH, COUNT_MAX

    found = sizes(ctx, param, values)
    for size in found:
        if size % BATCH or size > COUNT_MAX:
            raise click.BadParameter(f"{size} is no number of whole batches of {BATCH} up to {COUNT_MAX:,}")
    return found


@bench.command()
@click.option(
    "--records", multiple=True, default=("1k", "10k", "100k", "1M"), show_default=True, callback=_long_runs,
    help="Of a run; may be repeated. 10M takes about an hour.",
)  # fmt: skip
@format_option
def memory(records: list[int], format_: str) -> int:
    """Memory and time of whole runs with ever more records."""
    from tests.bench.long_runs import BATCH, measure_long_runs

    with ProgressLine("bench memory") as line:
        rows = list(measure_long_runs(records, line.show))
    document = {"machine": machine(), "batch": BATCH, "rows": [row._asdict() for row in rows]}
    if format_ == "json":
        print_json(document)
    else:
        click.echo(
            f"bench memory: `highwater run`, batches of {BATCH}, RF 3, acks=all, all invariants on, trace written"
        )
        click.echo(machine_line(document["machine"]))  # type: ignore[arg-type]
        click.echo(f"  {'records':>12}{'largest MB':>14}{'wall s':>12}{'CPU s':>12}{'CPU us a record':>18}")
        for row in rows:
            cpu_us = row.cpu_s / row.records * 1e6
            click.echo(
                f"  {row.records:>12,}{row.peak_mb:>14,.0f}{row.wall_s:>12,.1f}{row.cpu_s:>12,.1f}{cpu_us:>18,.0f}"
            )
            if row.why:
                click.echo(f"  {'':>12}{row.why}")
    return ExitCode.HELD if all(row.held for row in rows) else ExitCode.OUR_BUG
