"""`highwater bench` measures this machine in about two minutes; `highwater bench acks` models published benchmarks.

Further benchmarks for developers are in tests/bench/. No test depends on these figures. If a figure is a ratio, its two
values are measured alternately within one run.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import click

from scenarios.cli.common import CommandGroup, fail, format_option, print_json
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine


@click.group(cls=CommandGroup, invoke_without_command=True)
@format_option
@click.pass_context
def bench(ctx: click.Context, format_: str) -> int:
    """Measure simulator, fetch path, live brokers and report on this machine; takes about two minutes."""
    if ctx.invoked_subcommand is not None:
        return ExitCode.HELD
    document = {"machine": machine(), **_measured()}
    if format_ == "json":
        print_json(document)
    else:
        _print_measured(document)
    return ExitCode.HELD


def _measured() -> dict[str, Any]:
    try:
        from confluent_kafka import KafkaException
    except ImportError:
        fail("librdkafka is missing, which measures live brokers", ExitCode.MISSING, "pip install confluent-kafka")
    from scenarios.bench.fetch import measure_fetch_path
    from scenarios.bench.report import measure_short_report
    from scenarios.bench.steady import measure_steady, process_s
    from scenarios.bench.wire import measure_acks_all
    from scenarios.bench.wire_clusters import ClusterFailed
    from scenarios.cli.spark import spark_or_fail

    with ProgressLine("bench") as line:
        line.show(0.0, "simulator")
        run_s = statistics.median(process_s(["run", "acks1-leader-kill"]) for _ in range(3))
        steady = measure_steady(20, 100, 3)
        line.show(0.3, "fetch path")
        path = measure_fetch_path(128 << 20, 3, lambda fraction: line.show(0.3 + fraction / 5, "fetch path"))
        line.show(0.5, "live brokers")
        try:
            wire = measure_acks_all()
        except (ClusterFailed, KafkaException) as failed:
            fail(f"the cluster could not be measured: {failed}", ExitCode.EXPECTATION_FAILED)
        with spark_or_fail():
            report = measure_short_report(lambda fraction, detail: line.show(0.7 + 0.3 * fraction, detail))
    return {"run_s": round(run_s, 3), "steady": steady, "fetch": path, "wire": wire, "report": report}


def _print_measured(document: dict[str, Any]) -> None:
    steady, wire, report = document["steady"], document["wire"], document["report"]["reports"]
    click.echo("bench: medians; simulated runs check all invariants and write a trace")
    click.echo(machine_line(document["machine"]))
    for what, value, unit, budget in (
        ("highwater run acks1-leader-kill, whole process", f"{document['run_s']:.2f}", "s", "budget 1 s"),
        ("simulated events per second, 100 records/s, acks=all", f"{steady['events_per_s']:,}", "", "budget 20,000"),
        (
            "fetch path / bare sendfile loop, ratio of throughputs",
            f"{document['fetch']['ratio']:.2f}",
            "",
            "budget 0.8",
        ),
        ("live, acks=all, 100 B, records per second", f"{wire['records_per_s']:,.0f}", "", "budget 300,000"),
        ("  latency, one record at a time, median", f"{wire['lone_p50_ms']:.2f}", "ms", ""),
        (
            "  from the start of the brokers to the first ack",
            f"{wire['brokers_to_first_ack_s']:.2f}",
            "s",
            "budget 0.5 s",
        ),
        ("  brokers' CPU for a Produce of 16 KiB", f"{wire['produce_16_kib_cpu_us']:.0f}", "us", "budget 40 us"),
        ("  brokers' CPU for a Fetch of 16 KiB", f"{wire['fetch_16_kib_cpu_us']:.0f}", "us", "budget 40 us"),
        ("Spark report of a short run, with the start of Spark", f"{report[0]['s']:.1f}", "s", ""),
        ("  next report in the same session", f"{report[1]['s']:.1f}", "s", ""),
    ):
        click.echo(f"  {what:<54}{value:>10} {unit:<3} {budget}".rstrip())


@bench.command()
@click.option(
    "--latency-us", type=click.IntRange(1, 300), default=250, show_default=True,
    help="One-way latency between two machines; thread times follow from the published latency.",
)  # fmt: skip
@format_option
def acks(latency_us: int, format_: str) -> int:
    """Model published benchmarks of the cost of acks and replication, and compare the results."""
    from scenarios.bench.acks import measure_acks

    with ProgressLine("bench acks") as line:
        document = measure_acks(latency_us, line.show)
    if format_ == "json":
        print_json(document)
    else:
        _print_acks(document)
    return ExitCode.HELD


def machine() -> dict[str, Any]:
    """Return the CPU, versions, load and Python speed of this machine, to be printed beside the figures."""
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
    """Return how long Python takes to add 10,000 numbers, in microseconds.

    This time helps to compare figures of two machines, since virtual machines with the same CPU name differ in speed.
    """
    times = []
    for _ in range(51):
        began = time.perf_counter()
        sum(range(10_000))
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def machine_line(found: dict[str, Any]) -> str:
    return (
        f"  {found['cpu']}, {found['cores']} cores, kernel {found['kernel']}, Python {found['python']}, "
        f"load {found['load_average']};\n  Python adds 10,000 numbers in {found['sum_us']:.0f} us"
    )


def _print_acks(document: dict[str, Any]) -> None:
    click.echo("bench acks: a model of published benchmarks in virtual time; this machine is not measured")
    for benchmark in document["benchmarks"]:
        _print_benchmark(benchmark)
    low, high = document["range"]["sync / async"]
    slow_us, fast_us = document["range"]["thread_us"]
    rates = ", ".join(f"{row['requests']}: {row['model_records_per_s']:,}" for row in document["in_flight"])
    click.echo("\n  LinkedIn's acks=all with batch.size 8196")
    click.echo(f"    sync / async, range that the published latency allows: {low:.3f} to {high:.3f}")
    click.echo(f"    model's records per second, by requests in flight: {rates}")
    click.echo("      (Kafka's wiki, 2017, on other machines: a second request gains much, further ones gain nothing)")
    passage_us, thread_us = document["latency_us"], document["thread_us"]
    for line in (
        "Inputs, the same for all cases; none was fitted to a throughput:",
        f"  {passage_us} us of latency between machines (250: half a round trip within a data centre, by Jeff Dean)",
        f"  {thread_us} us of thread time per request and per follower's fetch; producer to consumer then takes 2.5 ms",
        f"    (LinkedIn's median is 2 ms, rounded down, which allows {slow_us} to {fast_us} us)",
        "  the machines' network cards; 122 bytes a record; full batches of batch.size; no linger; 5 in flight",
        "  the first row of each benchmark, as the speed of its producer",
        "The model has no time per byte or per record, disks, TCP windows or garbage collection, and it is a later",
        "  Kafka. Large batches with acks=all are twice as fast in the model: network cards and threads alone do not",
        "  explain their cost. LinkedIn's article and commands differ on batch.size; its figure lies between.",
    ):
        click.echo(f"  {line}")


def _print_benchmark(benchmark: dict[str, Any]) -> None:
    click.echo(f"\n  {benchmark['title']}\n  {benchmark['setup']}")
    click.echo(f"    {'records of 100 bytes per second':<36}{'batch.size':>10}{'published':>12}{'model':>12}")
    for case in benchmark["cases"]:
        published, model = case["published_records_per_s"], case["model_records_per_s"]
        note = "   input" if case["is_given"] else ""
        click.echo(f"    {case['title']:<36}{case['batch_bytes']:>10}{published:>12,}{model:>12,}{note}")
    click.echo(f"    {'ratio':<46}{'published':>12}{'model':>12}{'difference':>11}")
    for row in benchmark["ratios"]:
        click.echo(f"    {row['ratio']:<46}{row['published']:>12.3f}{row['model']:>12.3f}{row['distance']:>+11.3f}")
