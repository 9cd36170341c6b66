"""Result tables -> the one HTML file: its sentences, its charts, its lists."""

from __future__ import annotations

import bisect
import functools
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from replica.trace.signs import SIGNS
from spark_reports.report import standstill, words
from spark_reports.report.charts import BROKER_COLOURS, BROKER_DASHES, partition_chart
from spark_reports.report.embedding import chart_in_html, environment, resource, vega_script
from spark_reports.report.internal import internal_notes, internal_topics, users
from spark_reports.report.moments import told_moments
from spark_reports.report.rows import Row, Rows
from spark_reports.transforms.availability import SHORTEST_STALL_US
from spark_reports.transforms.verdict import JEPSEN_CLASS, VERDICT_ORDER

Tables = Mapping[str, Rows]

PARTITIONS_DRAWN = 8
"""Per run; the worst ones. The others are in the tables."""
CHART_CHARACTERS = 1_450_000
"""Beside Vega's 0.9 MB and the lists this keeps the file under 3 MB."""
MOMENTS_SHOWN = 40
ROWS_SHOWN = 200
"""Of each list; a run of an hour has thousands of elections, and the tables have them all."""


_DRAWN = (
    "replica_timeline", "replication_lag", "data_at_risk", "isr_intervals", "stopped_intervals", "fault_intervals",
    "elections", "lost_records", "partition_states",
)  # fmt: skip


class _Partition(NamedTuple):
    name: str
    replicas: list[str]
    summary: str
    chart: str


class _Listed(NamedTuple):
    """The first ROWS_SHOWN rows of a table, and how many it has in all."""

    rows: Sequence[Row]
    total: int


def verdict_of(anomalies: Rows) -> tuple[str, ...]:
    """Names of the anomalies found, in the vocabulary's order; empty when the run was ok."""
    found = set(anomalies.values("anomaly"))
    return tuple(name for name in VERDICT_ORDER if name in found)


def render(tables: Tables, versions: str) -> str:
    """The whole page.

    tables:   rows of every result table, with the pictures' points under the names of PICTURED
    versions: of the software that computed it, for the last line
    """
    runs = sorted(tables["runs"], key=lambda row: row["run"])
    sections = [_run(row, _of_run(row["run"], tables)) for row in runs]
    # Arrow keeps tens of megabytes after its reads; charts, and then Vega's engine with a hundred, take room, too.
    pa.default_memory_pool().release_unused()
    _draw(sections)
    pa.default_memory_pool().release_unused()
    template = environment().get_template("template.html.j2")
    return template.render(
        runs=sections,
        style=resource("style.css"),
        script=resource("page.js"),
        vega=vega_script(),
        versions=versions,
        colours=_legend(),
        signs=SIGNS,
    )


def _of_run(run: str, tables: Tables) -> Tables:
    return {name: rows.where(run=run) for name, rows in tables.items()}


def _draw(sections: Sequence[dict[str, Any]]) -> None:
    """Draw partitions until one would make the file large; every run's worst one comes before any second one.

    The very first is drawn in any case: after thousands of failovers it takes more room alone, as no ISR change,
    election or loss is left out.
    """
    room = CHART_CHARACTERS
    drawn: list[list[_Partition]] = [[] for _ in sections]
    for rank in range(PARTITIONS_DRAWN):
        for section, kept in zip(sections, drawn, strict=True):
            for draw in section["partitions"][rank : rank + 1] if room > 0 else ():
                partition = draw()
                room -= len(partition.chart)
                if room >= 0 or not any(drawn):
                    kept.append(partition)
    for section, kept in zip(sections, drawn, strict=True):
        section["partitions_left_out"] += len(section["partitions"]) - len(kept)
        section["partitions"] = kept


# ---------------------------------------------------------------------------------------------------------- one run


def _run(row: Row, tables: Tables) -> dict[str, Any]:
    # A verdict is about internal topics, too.
    internal, anomalies = internal_topics(tables), tables["anomalies"]
    tables = users(tables)
    verdict = verdict_of(anomalies)
    missing = tables["records"].where(missing=True)
    silent, unanswered = missing.where(handed_over=True), missing.without("handed_over", [True])
    counts = sorted(tables["record_counts"], key=lambda count: (count["topic"], count["acks"]))
    why, why_left_out = words.why_lost(
        *(tables[name] for name in ("lost_records", "fault_intervals", "stopped_intervals", "elections"))
    )
    stood = standstill.standstills(tables)
    blame = words.blame(tables["lost_records"], tables["elections"])
    moments, moments_left_out = told_moments(
        tables["key_moments"], several_partitions=len(tables["availability"]) > 1, most=MOMENTS_SHOWN
    )
    return {
        **row,
        "title": row["scenario"] + (f" · {row['variant']}" if row["variant"] else ""),
        "verdict": [(name, JEPSEN_CLASS[name]) for name in verdict],
        "headline": words.headline(anomalies, counts, silent),
        "mood": "bad" if verdict else "warn" if len(silent) else "ok",
        "blame": blame or " ".join(one.brief for one in stood),
        # Where records were lost, that comes first.
        "stood": [] if verdict else stood,
        "stood_left_out": standstill.others(stood, tables),
        "notes": words.notes(counts, silent, unanswered)
        + [one.what for one in stood if verdict]
        + standstill.held_back(tables["hw_stalls"].in_order("from_us", "topic", "partition"), stood)
        + internal_notes(internal),
        "why": why,
        "why_left_out": why_left_out,
        "tiles": _tiles(counts, tables),
        "offline_us": sum(tables["availability"].values("offline_us")),
        "slowest_acks": _slowest_acks(list(tables["ack_latency"])),
        "moments": moments,
        "moments_left_out": moments_left_out,
        "counts": [{**count, "named": _named(tables["records"], count)} for count in counts],
        "internal": internal,
        "latency": sorted(
            tables["ack_latency"], key=lambda level: (level["topic"], level["acks"], level["measured_at"])
        ),
        **_lists(tables),
        "partitions": _partitions(row["end_us"], tables, anomalies),
        "partitions_left_out": max(0, len(tables["availability"]) - PARTITIONS_DRAWN),
    }


def _lists(tables: Tables) -> dict[str, _Listed]:
    def listed(name: str, *columns: str) -> _Listed:
        return _Listed(tables[name].in_order(*columns, most=ROWS_SHOWN), len(tables[name]))

    chosen, reads = listed("elections", "seq"), tables["read_stalls"]
    stopped = _Stopped(tables["stopped_intervals"])
    told = [
        {**election, "deposed": election["elect_us"] is None and _was_running(election, stopped)}
        for election in chosen.rows
    ]
    waited = heapq.nsmallest(ROWS_SHOWN, reads, key=lambda stall: (stall["from_us"], words.reader(stall)))
    return {
        "elections": chosen._replace(rows=told),
        "unavailability": listed("unavailability", "from_us", "kind"),
        "write_stalls": listed("write_stalls", "from_us", "client"),
        "read_stalls": _Listed(waited, len(reads)),
        "hw_stalls": listed("hw_stalls", "from_us", "topic", "partition"),
        "catch_ups": listed("catch_ups", "started_us", "topic", "partition", "node"),
        "fetching": listed("fetch_efficiency", "node", "peer"),
        "isr_changes": listed("isr_changes", "seq"),
    }


_FATES = ("lost", "unseen", "missing", "duplicated", "dirty", "reordered")


def _named(records: Rows, count: Row) -> dict[str, str]:
    """Names by fate, of the fates that records of this topic and acks level met."""
    own = records.where(topic=count["topic"], acks=count["acks"])
    return {fate: words.name_ranges(own.where(**{fate: True}).values("record")) for fate in _FATES if count[fate]}


def _tiles(counts: Sequence[Row], tables: Tables) -> list[tuple[str, str, str]]:
    """(number, its unit, class): the run in a row of figures."""

    def total(column: str) -> int:
        return sum(count[column] for count in counts)

    lost, offline = total("lost"), sum(tables["availability"].values("offline_us"))
    under = sum(tables["availability"].values("under_min_isr_us"))
    longest = max((row["until_us"] - row["from_us"] for row in tables["write_stalls"]), default=None)
    return [
        (f"{total('sent'):,}", "records sent", ""),
        (f"{total('acked'):,}", "acknowledged", ""),
        (f"{lost:,}", "acknowledged, then lost", "bad" if lost else "good"),
        (f"{total('duplicated'):,}", "duplicated", "warn" if total("duplicated") else "good"),
        (words.short_time(offline), "partition time offline", "warn" if offline else "good"),
        (words.short_time(under), "partition time under min ISR", "warn" if under else "good"),
        _new_leader(tables["elections"], tables["stopped_intervals"]),
        (
            f"< {words.seconds(SHORTEST_STALL_US)}" if longest is None else words.short_time(longest),
            "longest time no write succeeded",
            "",
        ),
    ]


def _new_leader(elections: Rows, stopped: Iterable[Row]) -> tuple[str, str, str]:
    longest = max((wait for wait in elections.values("elect_us") if wait is not None), default=None)
    if longest is not None:
        return (words.short_time(longest), "longest wait for a new leader", "")
    if not elections:
        return ("none", "was elected leader", "")
    down = _Stopped(stopped)
    if all(_was_running(row, down) for row in elections):
        return ("running", "was the deposed leader", "")
    return (words.short_time(None), "longest wait for a new leader", "")


class _Stopped:
    """When brokers were down; the times of one do not overlap."""

    def __init__(self, stopped: Iterable[Row]) -> None:
        self._times: dict[str, list[tuple[int, int]]] = {}
        for row in stopped:
            self._times.setdefault(row["node"], []).append((row["from_us"], row["until_us"]))
        for times in self._times.values():
            times.sort()

    def at(self, node: str, at_us: int) -> bool:
        times = self._times.get(node, [])
        began = bisect.bisect_right(times, at_us, key=lambda time: time[0])
        return began > 0 and at_us < times[began - 1][1]


def _was_running(election: Row, stopped: _Stopped) -> bool:
    """Whether the old leader had not stopped when it was deposed: frozen or cut off it may have been."""
    leader = election["previous_leader"]
    return leader is not None and not stopped.at(leader, election["at_us"])


def _slowest_acks(latency: Sequence[Row]) -> list[tuple[str, str]]:
    """(acks level, 99th percentile of the time to the ack, of the slowest topic), for the table of many runs."""
    worst: dict[int, Row] = {}
    for row in sorted(latency, key=lambda row: (-row["p99_us"], row["topic"])):
        worst.setdefault(row["acks"], row)
    several = len({row["topic"] for row in latency}) > 1
    return [
        (
            words.acks_name(acks),
            "no ack" if acks == 0 else words.short_time(row["p99_us"]) + (f" ({row['topic']})" if several else ""),
        )
        for acks, row in sorted(worst.items())
    ]


# ---------------------------------------------------------------------------------------------------- its partitions


def _partitions(end_us: int, tables: Tables, anomalies: Rows) -> list[Callable[[], _Partition]]:
    """The functions that draw them, the worst partition first: a chart takes a second or two."""
    found = Counter(zip(anomalies.values("topic"), anomalies.values("partition"), strict=True))

    def badness(row: Row) -> tuple[int, ...]:
        lost = found[row["topic"], row["partition"]]
        return (-lost, -row["offline_us"], -row["under_min_isr_us"], -row["under_replicated_us"])

    worst = heapq.nsmallest(
        PARTITIONS_DRAWN,
        tables["availability"],
        key=lambda row: (*badness(row), row["topic"], row["partition"]),
    )
    return [functools.partial(_partition, row, end_us, tables) for row in worst]


def _partition(row: Row, end_us: int, tables: Tables) -> _Partition:
    own: dict[str, Rows] = {name: _in_time(_about(row, tables[name])) for name in _DRAWN}
    first = own["partition_states"][0]
    assigned = list(first["replicas"])
    replicas = assigned + sorted(set(own["isr_intervals"].values("node")) - set(assigned))
    name = f"{row['topic']}-{row['partition']}"
    chart = partition_chart(own, replicas, end_us)
    description = f"Timelines of partition {name}; the tables on this page hold the same events."
    return _Partition(name, replicas, f"min.insync.replicas {first['min_isr']}", chart_in_html(chart, description))


def _about(partition: Row, rows: Rows) -> Rows:
    """Rows of the partition, and of no partition in particular (faults, brokers that were down)."""
    if "partition" not in rows.columns:
        return rows
    return rows.where(topic=partition["topic"], partition=partition["partition"])


def _in_time(rows: Rows) -> Rows:
    return rows.in_order(*(column for column in ("seq", "from_us", "acked_us") if column in rows.columns))


def _legend() -> list[tuple[str, str]]:
    """(colour, SVG dash array) of the first, second, ... replica of a partition."""
    return [(colour, ",".join(map(str, dash))) for colour, dash in zip(BROKER_COLOURS, BROKER_DASHES, strict=True)]
