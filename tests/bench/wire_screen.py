"""`python -m tests.bench wire`: the live brokers under load by librdkafka, beside librdkafka's own mock cluster."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from scenarios.bench.wire import first_ack, load_of, single_requests
from scenarios.bench.wire_clusters import BROKERS, PATIENCE_S, SIZES, ClusterFailed, MeasuredCluster, highwater
from scenarios.cli.bench import machine, machine_line
from scenarios.cli.common import fail, format_option, print_json
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine
from tests.bench.commands import bench

BUDGETS = {
    "records_per_s_acks_all_100_b": 300_000,
    "cpu_us_per_request": 40,
    "start_to_first_ack_s": 0.5,
}

SERVED_AT_LEAST = 0.95
"""Of the offered load; the last answers of a trickle come after its end."""


@bench.command()
@click.option("--repeat", type=click.IntRange(1, 99), default=3, show_default=True, help="Rounds, taken in turn.")
@click.option("--processes", "in_processes", is_flag=True, help="A process of its own for every broker.")
@format_option
def wire(repeat: int, in_processes: bool, format_: str) -> int:
    """Live brokers under librdkafka: records per second, latency, CPU; its own mock cluster in the same run."""
    try:
        from confluent_kafka import KafkaException
    except ImportError:
        fail("librdkafka is not there to measure with", ExitCode.MISSING, "pip install confluent-kafka")
    from tests.bench.wire_transactions import measure_transactions

    found = machine()
    try:
        with ProgressLine("bench wire") as line:
            measured = _measure(repeat, in_processes=in_processes, progress=line.show)
            measured["transactions"] = measure_transactions(in_processes=in_processes)
    except (ClusterFailed, KafkaException) as failed:
        fail(f"the cluster could not be measured: {failed}", ExitCode.EXPECTATION_FAILED)
    document = {"machine": found, "budgets": BUDGETS, **measured}
    if format_ == "json":
        print_json(document)
    else:
        for text in _screen(document):
            click.echo(text)
    return ExitCode.HELD


def _measure(repeat: int, *, in_processes: bool, progress: Callable[[float], None]) -> dict[str, Any]:
    """Return the medians of `repeat` rounds, each of which measures both clusters. Raises ClusterFailed."""
    rounds: list[list[dict[str, Any]]] = []
    starts: list[dict[str, float]] = []
    requests: list[dict[str, float]] = []
    for turn in range(repeat):
        rows: list[dict[str, Any]] = []
        with highwater(in_processes=in_processes) as ours:
            starts.append(first_ack(ours))
            rows += _load(ours)
            requests.append(single_requests(ours))
        progress((turn + 0.7) / repeat)
        with mock() as theirs:
            rows += _load(theirs)
        rounds.append(rows)
        progress((turn + 1) / repeat)
    return {
        "brokers": BROKERS,
        "world": "processes" if in_processes else "tasks of one process",
        "repeat": repeat,
        "client_tap": False,
        "rows": [_median_row(same) for same in zip(*rounds, strict=True)],
        "start": _median_row(starts),
        "requests": _median_row(requests),
    }


@contextmanager
def mock() -> Iterator[MeasuredCluster]:
    """Run librdkafka's mock cluster in this process for the duration of the block.

    It is written in C, keeps records in memory and does not replicate them.
    """
    from confluent_kafka import Producer

    host = Producer({"test.mock.num.brokers": BROKERS, "bootstrap.servers": "unused", "log_level": 0})
    brokers = host.list_topics(timeout=PATIENCE_S).brokers.values()
    yield MeasuredCluster("librdkafka mock", ",".join(f"{one.host}:{one.port}" for one in brokers), None)


def _median_row(same: Any) -> dict[str, Any]:
    """Return the median of each float in dictionaries with the same keys. Other values are equal in all of them."""
    first = same[0]
    return {
        key: round(statistics.median(one[key] for one in same), 6) if isinstance(value, float) else value
        for key, value in first.items()
    }


def _load(cluster: MeasuredCluster) -> list[dict[str, Any]]:
    return [row for size_bytes in SIZES for row in load_of(cluster, size_bytes)]


def _screen(document: dict[str, Any]) -> list[str]:
    lines = [
        f"bench wire: {document['brokers']} brokers ({document['world']}), RF 3, min ISR 1, 3 partitions, "
        "trace and invariants on, client tap off;",
        f"  medians of {document['repeat']} rounds taken in turn; brokers and client share the machine",
        machine_line(document["machine"]),
        f"  {'':<20}{'':<18}{'':>9}{'records/s':>12}{'MB/s':>7}{'p50 ms':>9}{'p99 ms':>9}{'broker CPU':>12}{'':>9}"
        f"{'client':>9}",
        f"  {'':<20}{'':<18}{'':>9}{'':>12}{'':>7}{'':>9}{'':>9}{'us/record':>12}{'s/GiB':>9}{'us/rec.':>9}",
    ]
    for row in document["rows"]:
        budget = (
            row["what"] == "produce acks=all" and row["size_bytes"] == 100 and row["cluster"].startswith("highwater")
        )
        lines.append(
            f"  {row['cluster']:<20}{row['what']:<18}{row['size_bytes']:>7} B{row['records_per_s']:>12,.0f}"
            f"{row['mb_per_s']:>7,.0f}{_number(row['p50_ms']):>9}{_number(row['p99_ms']):>9}"
            f"{_number(row['broker_cpu_us_per_record']):>12}{_number(row['broker_cpu_s_per_gib']):>9}"
            f"{_number(row['client_cpu_us_per_record']):>9}{'   budget 300,000/s' if budget else ''}{_queue(row)}"
        )
    requests, start, ends = document["requests"], document["start"], document["transactions"]
    lines += [
        "  latency: single records, one every 2 ms; where fewer are served than offered, it is that of a queue",
        *_lone(document["rows"]),
        "  CPU of the mock is the client's, and it neither replicates nor writes to a disk",
        f"  {'CPU of the brokers for one Produce of 16 KiB, RF 1':<58}{requests['produce_16_kib_cpu_us']:>9.0f} us   "
        "budget 40 us",
        f"  {'CPU of the brokers for one Fetch of 16 KiB':<58}{requests['fetch_16_kib_cpu_us']:>9.0f} us   "
        "budget 40 us",
        f"  {'transactions of 100 records of 100 B, acks=all':<58}{ends['commits_per_s']:>9.0f} commits/s",
        f"  {'  of their time: between a decision and its last marker':<58}{ends['share_in_markers']:>9.0%}, "
        f"{ends['markers_ms_per_commit']:.1f} ms each; in calls of commit {ends['share_in_commit_calls']:.0%}",
        f"  {'  CPU of the brokers for one':<58}{ends['broker_cpu_ms_per_commit']:>9.1f} ms",
        f"  {'start of the brokers to the first acks=all ack':<58}{start['brokers_to_first_ack_s']:>9.2f} s    "
        "budget 0.5 s",
        f"  {'start of the process, imports and all, to that ack':<58}{start['process_to_first_ack_s']:>9.2f} s",
    ]
    return lines


def _queue(row: dict[str, Any]) -> str:
    """A remark on a trickle that was more than the cluster could serve."""
    offered, served = row["offered_per_s"], row["served_per_s"]
    if offered is None or served >= offered * SERVED_AT_LEAST:
        return ""
    return f"   serves {served:,.0f}/s of {offered:,.0f}/s"


def _lone(rows: list[dict[str, Any]]) -> list[str]:
    """Latency without any queue, by cluster and size."""
    found: dict[tuple[str, int], list[str]] = {}
    for row in rows:
        if row["lone_p50_ms"] is not None:
            told = f"{row['what'].removeprefix('produce ')} {row['lone_p50_ms']:,.2f}"
            found.setdefault((row["cluster"], row["size_bytes"]), []).append(told)
    return [
        f"  one record after the other, p50 ms: {cluster:<20}{size_bytes:>5} B  {', '.join(told)}"
        for (cluster, size_bytes), told in found.items()
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"
