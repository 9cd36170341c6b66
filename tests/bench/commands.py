"""`python -m tests.bench sim`, `fetch`, `sweep`, `search`, `report`, `spark`: medians; the machine is described.

Nothing here is a test: no figure is asserted. Ratios compare two things measured in turn within one run.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any

import click

from replica.rules import DEFAULT_PROFILE, PROFILES
from scenarios.bench.steady import measure_steady, process_s
from scenarios.cli.bench import machine, machine_line
from scenarios.cli.common import CommandGroup, format_option, print_json
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine
from tests.bench.counts_screen import show_counts, show_growth


@click.group(cls=CommandGroup)
def bench() -> None:
    """Measure the simulator, the fetch path, sweeps and the report on this machine."""


# ----------------------------------------------------------------------------------------------------------- bench sim


@bench.command()
@click.option("--repeat", type=click.IntRange(1, 99), default=5, show_default=True, help="Runs per figure.")
@click.option("--counts", is_flag=True, help="Count, and measure no time: what a record costs, and a fetch.")
@click.option("--growth", is_flag=True, help="What a record costs with more partitions, brokers, records; minutes.")
@format_option
def sim(repeat: int, counts: bool, growth: bool, format_: str) -> int:
    """Whole-process time of `run` and `compare`, events per second, virtual seconds per second."""
    if counts:
        return show_counts(format_)
    if growth:
        return show_growth(format_, machine_line(machine()))
    with ProgressLine("bench sim") as line:
        seconds = []
        for done, words in enumerate((["run", "acks1-leader-kill"], ["compare", "acks1-leader-kill"], ["list"])):
            line.show(done / 5)
            seconds.append(statistics.median(process_s(words) for _ in range(repeat)))
        run_s, compare_s, list_s = seconds
        line.show(3 / 5)
        loaded = measure_steady(60, 100, repeat)
        line.show(4 / 5)
        idle = measure_steady(1000, 1, repeat)
    document = {
        "machine": machine(),
        "repeat": repeat,
        "run_s": round(run_s, 3),
        "compare_s": round(compare_s, 3),
        "list_s": round(list_s, 3),
        "loaded": loaded,
        "class_pace": idle,
    }
    if format_ == "json":
        print_json(document)
        return ExitCode.HELD
    click.echo("bench sim: medians of whole runs, all invariants on, trace written")
    click.echo(machine_line(document["machine"]))  # type: ignore[arg-type]
    click.echo(f"  {'highwater run acks1-leader-kill, whole process':<58}{run_s:>9.2f} s    budget 1 s")
    click.echo(f"  {'highwater compare acks1-leader-kill, whole process':<58}{compare_s:>9.2f} s    budget 1.5 s")
    click.echo(f"  {'highwater list, whole process':<58}{list_s:>9.2f} s    budget 0.3 s")
    for name, found in (("100 records/s", loaded), ("1 record/s", idle)):
        click.echo(f"  {name}, acks=all, RF 3, one consumer, {found['virtual_s']} virtual s, every invariant checked:")
        click.echo(
            f"    {'events of the trace per second of wall time':<56}{found['events_per_s']:>9,}      budget 20,000"
        )
        click.echo(f"    {'  and with deliveries and timers':<56}{found['events_and_items_per_s']:>9,}")
        pace = "budget 1,000 at 50 events or fewer per virtual second" if found is idle else ""
        click.echo(
            f"    {'virtual seconds per second of wall time':<56}{found['virtual_s_per_s']:>9,}      {pace}".rstrip()
        )
        click.echo(f"    {'events per virtual second':<56}{found['events_per_virtual_s']:>9,}")
    return ExitCode.HELD


# --------------------------------------------------------------------------------------------------------- bench fetch


@bench.command()
@click.option("--megabytes", type=click.IntRange(1, 4096), default=128, show_default=True, help="Size of the log.")
@click.option("--repeat", type=click.IntRange(1, 99), default=5, show_default=True, help="Rounds, taken in turn.")
@format_option
def fetch(megabytes: int, repeat: int, format_: str) -> int:
    """Leader to follower: our fetch path against a bare sendfile loop over the same kind of socket."""
    from scenarios.bench.fetch import measure_fetch_path

    with ProgressLine("bench fetch") as line:
        document = {
            "machine": machine(),
            **measure_fetch_path(megabytes << 20, repeat, lambda fraction: line.show(fraction)),
        }
    if format_ == "json":
        print_json(document)
        return ExitCode.HELD
    click.echo(f"bench fetch: {megabytes} MiB at 1 MiB fetches over AF_UNIX, medians of {repeat} rounds taken in turn")
    click.echo(machine_line(document["machine"]))
    click.echo(f"  {'':<36}{'MB/s':>8}{'sendfile':>10}{'CPU s':>10}{'switches':>10}{'through Python':>16}")
    click.echo(
        f"  {'(whole transfer, both ends)':<36}{'':>8}{'calls':>10}{'per GiB':>10}{'per GiB':>10}{'bytes sent':>16}"
    )
    for row in document["rows"]:
        click.echo(
            f"  {row['name']:<36}{row['mb_per_s']:>8,}{row['sendfile_calls']:>10,}{row['cpu_s_per_gib']:>10.2f}"
            f"{row['context_switches_per_gib']:>10,}{row['sent_through_python']:>16,}"
        )
    click.echo(f"  fetch path / bare sendfile loop:               {document['ratio']:.2f}    budget 0.8")
    click.echo(f"  the same, with a receiver that keeps the data: {document['ratio_kept']:.2f}")
    return ExitCode.HELD


# --------------------------------------------------------------------------------------------------------- bench sweep


@bench.command()
@click.option("--runs", type=click.IntRange(1, 100_000), default=300, show_default=True, help="Runs per round.")
@click.option("--repeat", type=click.IntRange(1, 99), default=3, show_default=True, help="Rounds, taken in turn.")
@click.option("--cores", type=click.IntRange(1, 256), default=2, show_default=True, help="Processes at a time.")
@format_option
def sweep(runs: int, repeat: int, cores: int, format_: str) -> int:
    """Runs an hour of a sweep on Spark, against the same runs in a plain process pool."""
    from scenarios.cli.spark import spark_or_fail
    from tests.bench.sweep import measure_sweeps

    with spark_or_fail(), ProgressLine("bench sweep") as line:
        document = {"machine": machine(), **measure_sweeps(runs, repeat, cores, line.show)}
    if format_ == "json":
        print_json(document)
        return ExitCode.HELD
    click.echo(
        f"bench sweep: {runs} runs on {cores} cores, medians of {repeat} rounds taken in turn, all invariants on"
    )
    click.echo(machine_line(document["machine"]))
    click.echo(f"  {'':<24}{'process pool':>16}{'Spark':>14}{'overhead':>12}")
    click.echo(f"  {'':<24}{'runs an hour':>16}{'runs an hour':>14}{'':>12}")
    for row in document["rows"]:
        click.echo(
            f"  {row['scenario']:<24}{row['pool_runs_per_hour']:>16,}{row['spark_runs_per_hour']:>14,}"
            f"{row['overhead']:>12.1%}"
        )
    click.echo(
        "  budget 5,000 an hour on 2 cores, aim 20,000; Spark's include a forked child, a time limit and Arrow rows"
    )
    click.echo(f"  starting the Spark session: {document['session_s']} s more, once")
    return ExitCode.HELD


# -------------------------------------------------------------------------------------------------------- bench search


@bench.command()
@click.option(
    "--profile", type=click.Choice(list(PROFILES)), default=DEFAULT_PROFILE, show_default=True, help="The era."
)
@click.option("--schedules", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Per round.")
@click.option("--repeat", type=click.IntRange(1, 99), default=3, show_default=True, help="Rounds, taken in turn.")
@click.option("--cores", type=click.IntRange(1, 256), default=2, show_default=True, help="Processes at a time.")
@format_option
def search(profile: str, schedules: int, repeat: int, cores: int, format_: str) -> int:
    """Random schedules an hour, in a process pool and on Spark."""
    from scenarios.cli.spark import spark_or_fail
    from tests.bench.search import measure_search

    with spark_or_fail(), ProgressLine("bench search") as line:
        document = {"machine": machine(), **measure_search(profile, schedules, repeat, cores, line.show)}
    if format_ == "json":
        print_json(document)
        return ExitCode.HELD
    click.echo(f"bench search: {schedules} schedules of {profile} on {cores} cores, medians of {repeat} rounds")
    click.echo(machine_line(document["machine"]))
    per_core = 3600 / document["cpu_s"]
    click.echo(f"  in a process pool: {document['pool_an_hour']:>8,} schedules an hour")
    click.echo(
        f"  processor time there: {document['cpu_s']:.3f} s each: {per_core:,.0f} an hour and core without other work"
    )
    click.echo(f"  on Spark:          {document['spark_an_hour']:>8,} schedules an hour    aim 20,000 on 2 cores")
    click.echo(f"  starting the Spark session: {document['session_s']} s more, once")
    return ExitCode.HELD


# --------------------------------------------------------------------------------------------------------- bench report


@bench.command()
@format_option
def report(format_: str) -> int:
    """The report of a short run: time, processor time, and how much work it is for Spark."""
    from scenarios.bench.report import measure_short_report
    from scenarios.cli.spark import spark_or_fail

    with spark_or_fail(), ProgressLine("bench report") as line:
        document = {"machine": machine(), "master": "local[2]", **measure_short_report(line.show)}
    if format_ == "json":
        print_json(document)
        return ExitCode.HELD
    click.echo(f"bench report: {document['scenario']}, {document['events']} events, reports in one session, local[2]")
    click.echo(machine_line(document["machine"]))
    click.echo(f"  {'':<36}{'wall s':>8}{'CPU s':>8}{'jobs':>8}{'stages':>8}{'tasks':>8}")
    for turn, row in enumerate(document["reports"]):
        label = "first, with the start of Spark" if turn == 0 else f"report {turn + 1}"
        cpu_s = "–" if row["cpu_s"] is None else f"{row['cpu_s']:.1f}"
        click.echo(f"  {label:<36}{row['s']:>8.1f}{cpu_s:>8}{row['jobs']:>8}{row['stages']:>8}{row['tasks']:>8}")
    largest = document["largest_plan"]
    click.echo(f"  largest plan: {largest['table']}, {largest['characters']:,} characters    budget 30,000; jobs 40")
    return ExitCode.HELD


# --------------------------------------------------------------------------------------------------------- bench spark


def sizes(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[int]:
    found = []
    for text in values:
        number = re.fullmatch(r"(\d{1,9})(k|M|)", text)
        size = int(number[1]) * {"k": 1_000, "M": 1_000_000, "": 1}[number[2]] if number else 0
        if not 1 <= size <= 1_000_000_000:
            raise click.BadParameter(f"`{text}` is no size, such as 1M or 10M")
        found.append(size)
    return found


@bench.command()
@click.option(
    "--events", multiple=True, default=("1M", "10M"), show_default=True, callback=sizes,
    help="Size of a trace; may be repeated. 100M takes 1 GB of disk and several minutes.",
)  # fmt: skip
@click.option(
    "--heap-mb", type=click.IntRange(512, 1 << 20), help="Limit of the JVM's heap, instead of a report's own."
)
@click.option("--whole", is_flag=True, help="Only the whole report, not its tables one by one.")
@format_option
def spark(events: list[int], heap_mb: int | None, whole: bool, format_: str) -> int:
    """The report on long traces whose outcome is known: time, memory, and whether it finds what is true."""
    from scenarios.cli.spark import spark_or_fail
    from tests.bench.spark import measure_report

    with spark_or_fail(), ProgressLine("bench spark") as line:
        rows = measure_report(events, per_table=not whole, progress=line.show, heap_mb=heap_mb)
    document = {"machine": machine(), "master": "local[2]", "rows": rows}
    if format_ == "json":
        print_json(document)
    else:
        _print_spark(document)
    return ExitCode.OUR_BUG if any(row["differs"] for row in rows) else ExitCode.HELD


def _print_spark(document: dict[str, Any]) -> None:
    rows = document["rows"]
    click.echo("bench spark: the report on traces from a model whose outcome is known, local[2], each size once")
    click.echo(machine_line(document["machine"]))

    def line(label: str, values: Sequence[Any], unit: str = "", note: str = "") -> None:
        shown = "".join(f"{'–' if value is None else f'{value:,}':>14}" for value in values)
        click.echo(f"  {label:<44}{shown} {unit:<3} {note}".rstrip())

    for label, key, unit, note in (
        ("events in the trace", "events", "", ""),
        ("trace on disk", "trace_mb", "MB", ""),
        ("whole report, session included", "report_s", "s", "budget 60 s at 10 M on an idle machine"),
        ("  processor time of it", "report_cpu_s", "s", ""),
        ("  memory, JVM, at most", "jvm_peak_mb", "MB", ""),
        ("    limit of its heap", "heap_limit_mb", "MB", ""),
        ("  memory, Python, at most", "python_peak_mb", "MB", ""),
        ("  its page", "html_mb", "MB", ""),
    ):
        line(label, [row[key] for row in rows], unit, note)
    if rows[0]["tables"]:
        click.echo("  table by table, in one session; what several share is charged to the first:")
        for place, table in enumerate(rows[0]["tables"]):
            line(f"    {table['table']}", [row["tables"][place]["s"] for row in rows], "s")
    for row in rows:
        if row["differs"]:
            for entry in row["differs"]:
                click.echo(f"  ✕ {row['events']:,} events: {entry['what']}: {entry['truth']}, not {entry['report']}")
        else:
            click.echo(f"  ✓ {row['events']:,} events: all {row['compared']} results are what the model says")
