"""The screens of `python -m tests.bench sim --counts` and `--growth`."""

from __future__ import annotations

import click

from scenarios.cli.common import print_json
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine


def show_counts(format_: str) -> int:
    from tests.bench.counts import LONG_S, SHORT_S, count_prices

    with ProgressLine("bench sim"):
        prices = count_prices()
    if format_ == "json":
        print_json({price.what: dict(price.counts) for price in prices})
        return ExitCode.HELD
    click.echo("bench sim --counts: RF 3, acks=all, one consumer, all invariants on, trace written")
    click.echo(f"  what {LONG_S} virtual seconds have more than {SHORT_S}, for each")
    click.echo(f"  {'':<40}" + "".join(f"{price.what:>24}" for price in prices))
    for name in prices[0].counts:
        click.echo(f"  {name:<40}" + "".join(f"{price.counts[name]:>24,.2f}" for price in prices))
    return ExitCode.HELD


def show_growth(format_: str, machine: str) -> int:
    """machine: described in a line or two"""
    from tests.bench.growth import PARTITIONS_ON_BROKERS, RATE, measure_growth

    with ProgressLine("bench sim") as line:
        rows = list(measure_growth(line.show))
    if format_ == "json":
        print_json([row._asdict() for row in rows])
        return ExitCode.HELD
    click.echo(f"bench sim --growth: {RATE} records/s, RF 3, acks=all, one consumer, all invariants on, trace written")
    click.echo(machine)
    click.echo(f"  {'for one record':<34}{'calls of own functions':>24}{'CPU us':>12}")
    for row in rows:
        with_ = f", {PARTITIONS_ON_BROKERS} partitions" if row.axis == "brokers" else ""
        calls = "" if row.calls is None else f"{row.calls:,.0f}"
        click.echo(f"  {f'{row.size:,} {row.axis}{with_}':<34}{calls:>24}{row.cpu_us:>12,.0f}")
    return ExitCode.HELD
