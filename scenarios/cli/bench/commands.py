"""`highwater bench sim`, `fetch`, `sweep`, `search`, `acks`, `report`, `spark`: medians here; the machine is described.

Nothing here is a test: no figure is asserted. Ratios compare two things measured in turn within one run.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from replica.rules import PROFILES
from scenarios.cli.bench.acks_screen import print_acks
from scenarios.cli.bench.counts_screen import show_counts, show_growth
from scenarios.cli.common import CommandGroup, format_option, print_json
from scenarios.process.own_python import environment
from scenarios.terminal.exit_codes import ExitCode
from scenarios.terminal.progress import ProgressLine


@click.group(cls=CommandGroup)
def bench() -> None:
    """Measure the simulator, the fetch path, sweeps and the report on this machine."""


def machine() -> dict[str, Any]:
    """The machine on which the figures were measured."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": round(load, 2),
        "sum_us": round(_sum_us(), 1),
    }


def _sum_us() -> float:
    """Microseconds of Python's own speed here and now: virtual machines of one name differ several times over."""
    times = []
    for _ in range(51):
        began = time.perf_counter()
        sum(range(10_000))
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def machine_line(found: dict[str, Any]) -> str:
    return (
        f"  {found['cpu']}, {found['cores']} cores, kernel {found['kernel']}, Python {found['python']}, "
        f"load {found['load_average']};\n  its Python adds 10,000 numbers in {found['sum_us']:.0f} us"
    )


def _median_s(measure: Callable[[], float], repeat: int, line: ProgressLine, done: int, of: int) -> float:
    measured = []
    for turn in range(repeat):
        line.show((done + turn / repeat) / of)
        measured.append(measure())
    return statistics.median(measured)


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
        run_s = _median_s(lambda: _process_s(["run", "acks1-leader-kill"]), repeat, line, 0, 5)
        compare_s = _median_s(lambda: _process_s(["compare", "acks1-leader-kill"]), repeat, line, 1, 5)
        list_s = _median_s(lambda: _process_s(["list"]), repeat, line, 2, 5)
        loaded = _steady(60, 100, repeat, line, 3)
        idle = _steady(1000, 1, repeat, line, 4)
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


def _process_s(arguments: Sequence[str]) -> float:
    with tempfile.TemporaryDirectory(prefix="highwater-") as scratch:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "scenarios.cli", *arguments],
            cwd=scratch,
            env=environment(),
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - began


def _steady(seconds: int, rate: int, repeat: int, line: ProgressLine, done: int) -> dict[str, Any]:
    """events: rows of the trace, each checked against every invariant; items: deliveries and timers of the queue"""
    from scenarios.bench.steady import steady
    from scenarios.run.runner import run_scenario

    scenario = steady(seconds, rate)
    summaries: list[dict[str, Any]] = []

    def once() -> float:
        began = time.perf_counter()
        summaries.append(run_scenario(scenario, runs_dir=None).summary)
        return time.perf_counter() - began

    wall_s = _median_s(once, repeat, line, done, 5)
    events, items = summaries[0]["events"], summaries[0]["steps"]
    return {
        "virtual_s": seconds,
        "events": events,
        "items": items,
        "wall_s": round(wall_s, 3),
        "events_per_s": round(events / wall_s),
        "events_and_items_per_s": round((events + items) / wall_s),
        "virtual_s_per_s": round(seconds / wall_s),
        "events_per_virtual_s": round(events / seconds, 1),
    }


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
    from scenarios.bench.sweep import measure_sweeps
    from scenarios.cli.spark import spark_or_fail

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
@click.option("--profile", type=click.Choice(list(PROFILES)), default="kafka-4.1", show_default=True, help="The era.")
@click.option("--schedules", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Per round.")
@click.option("--repeat", type=click.IntRange(1, 99), default=3, show_default=True, help="Rounds, taken in turn.")
@click.option("--cores", type=click.IntRange(1, 256), default=2, show_default=True, help="Processes at a time.")
@format_option
def search(profile: str, schedules: int, repeat: int, cores: int, format_: str) -> int:
    """Random schedules an hour, in a process pool and on Spark."""
    from scenarios.bench.search import measure_search
    from scenarios.cli.spark import spark_or_fail

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


# ---------------------------------------------------------------------------------------------------------- bench acks


@bench.command()
@click.option(
    "--latency-us", type=click.IntRange(1, 300), default=250, show_default=True,
    help="Of a passage between two machines; the published latency then says what a thread takes.",
)  # fmt: skip
@format_option
def acks(latency_us: int, format_: str) -> int:
    """What acks and replication cost in throughput: a model of published benchmarks, and how far it is from them."""
    from scenarios.bench.acks import measure_acks

    with ProgressLine("bench acks") as line:
        document = measure_acks(latency_us, line.show)
    if format_ == "json":
        print_json(document)
    else:
        print_acks(document)
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
    from scenarios.bench.spark import measure_report
    from scenarios.cli.spark import spark_or_fail

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
