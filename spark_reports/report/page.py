"""Render the report's HTML page from the result tables: its sentences, charts and lists."""

from __future__ import annotations

import bisect
import functools
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from replica.trace.events import REAL_KAFKA
from replica.trace.signs import BROKER_MARKS, SIGNS, in_broker_order, mark_places
from spark_reports.report import standstill, words
from spark_reports.report.charts import Heights, partition_chart
from spark_reports.report.decisive import Span, decisive_span, together
from spark_reports.report.differences import differences
from spark_reports.report.embedding import chart_in_html, environment, page_style, resource, vega_script
from spark_reports.report.heading import Heading, settings
from spark_reports.report.moments import moment_lines
from spark_reports.report.notes import (
    WATCHED_NOTE,
    coordinator_notes,
    internal_notes,
    internal_topics,
    stood_still_tile,
    users,
    watched_headline,
    without_clients,
)
from spark_reports.report.rows import Row, Rows
from spark_reports.report.strip import Ribbon, ribbons, run_strip
from spark_reports.transforms.availability import SHORTEST_STALL_US
from spark_reports.transforms.verdict import JEPSEN_CLASS, VERDICT_ORDER

Tables = Mapping[str, Rows]

PARTITIONS_DRAWN = 8
"""Largest number of partitions with charts per run, the worst ones first. The tables have all partitions."""
CHART_CHARACTERS = 1_450_000
"""Largest total size of the charts. Together with Vega (0.9 MB) and the lists, the file stays under 3 MB."""
MOMENTS_SHOWN = 40
FEW_PARTITIONS = 3
"""Largest number of partitions for a page without an overview. With more, only the worst one's charts are open."""
STRIPS_SHOWN = 12
ROWS_SHOWN = 200
"""Largest number of rows of each list on the page. The tables have all rows: a long run has thousands."""


_DRAWN = (
    "replica_timeline", "replication_lag", "data_at_risk", "isr_intervals", "stopped_intervals", "fault_intervals",
    "elections", "lost_records", "partition_states",
)  # fmt: skip


class _Partition(NamedTuple):
    """A partition with its charts. `places` has the index of each replica's mark in BROKER_MARKS."""

    name: str
    replicas: list[str]
    places: list[int]
    summary: str
    chart: str


class _Line(NamedTuple):
    """A partition's line in the overview. `cells` has a ribbon for each broker, None if it has no replica."""

    name: str
    cells: list[Ribbon | None]
    lost: int
    offline_us: int
    under_min_isr_us: int


class _Listed(NamedTuple):
    """The first ROWS_SHOWN rows of a table, and the total number of its rows."""

    rows: Sequence[Row]
    total: int


def verdict_of(anomalies: Rows) -> tuple[str, ...]:
    """Return the kinds of anomalies in a run, in the order of VERDICT_ORDER; empty if there are none."""
    found = set(anomalies.values("anomaly"))
    return tuple(name for name in VERDICT_ORDER if name in found)


def render(tables: Tables, versions: str, headings: Mapping[str, Heading] | None = None) -> str:
    """Return the HTML page of a report.

    Args:
        tables: rows of every result table by name; timelines in PICTURED have only the points that charts draw.
        versions: text for the last line of the page, about the software that computed it.
        headings: heading of each run, by the run's name.
    """
    runs = sorted(tables["runs"], key=lambda row: row["run"])
    clock_us = max((row["end_us"] for row in runs), default=0) or 1
    own = {row["run"]: _of_run(row["run"], tables) for row in runs}
    sections = [
        _run(row, own[row["run"]], number, (headings or {}).get(row["run"], Heading()), clock_us, tables)
        for number, row in enumerate(runs, start=1)
    ]
    shown = _shown_first([section["decisive"] for section in sections], clock_us)
    # Arrow keeps tens of megabytes after reading. Free them, since charts and Vega's engine need memory too.
    pa.default_memory_pool().release_unused()
    _draw(sections)
    pa.default_memory_pool().release_unused()
    template = environment().get_template("template.html.j2")
    return template.render(
        runs=sections,
        clock_us=clock_us,
        shown=shown,
        strips_shown=STRIPS_SHOWN,
        differences=differences(sections),
        side=list(dict.fromkeys(partition.name for section in sections for partition in section["partitions"])),
        dashes=[",".join(map(str, mark.dash)) or "none" for mark in BROKER_MARKS],
        style=page_style(),
        script=resource("page.js"),
        vega=vega_script(),
        versions=versions,
        signs=SIGNS,
    )


def _shown_first(decisive: Sequence[Span], clock_us: int) -> Span:
    """Return the time range that contains the decisive ranges of all runs, or all of the time if none is shorter."""
    shorter = [span for span in decisive if span.length_us < clock_us]
    return together(shorter) if shorter else Span(0, clock_us)


def _of_run(run: str, tables: Tables) -> Tables:
    return {name: rows.where(run=run) for name, rows in tables.items()}


def _draw(sections: Sequence[dict[str, Any]]) -> None:
    """Render the partitions' charts, beginning with every run's worst partition, until the file would be too large.

    At least one partition is rendered. After thousands of failovers it can exceed the limit alone, since charts show
    every ISR change, election and loss.
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


def _run(row: Row, tables: Tables, number: int, heading: Heading, clock_us: int, of_all_runs: Tables) -> dict[str, Any]:
    # The verdict includes internal topics.
    internal, anomalies = internal_topics(tables), tables["anomalies"]
    tables = users(tables)
    verdict = verdict_of(anomalies)
    missing = tables["records"].where(missing=True)
    silent, unanswered = missing.where(handed_over=True), missing.without("handed_over", [True])
    counts = sorted(tables["record_counts"], key=lambda count: (count["topic"], count["acks"]))
    why, why_left_out = words.why_lost(
        tables["lost_records"], tables["fault_intervals"], tables["stopped_intervals"], tables["elections"]
    )
    stood = standstill.with_causes(standstill.standstills(tables), heading.waits)
    waits_left_out = [sentence] if (sentence := standstill.others(stood, tables)) else []
    blame = words.blame(tables["lost_records"], tables["elections"])
    moments, moments_left_out = moment_lines(tables["key_moments"], MOMENTS_SHOWN)
    places = mark_places(_brokers(tables))
    worst = _worst_first(tables["availability"], anomalies, tables["hw_stalls"])
    lists = _lists(tables)
    section = {
        **row,
        "number": number,
        "heading": heading,
        "settings": settings(row, tables),
        "is_sampled": heading.is_watched or row["profile"].startswith(REAL_KAFKA),
        "decisive": decisive_span(tables, why, row["end_us"]),
        "strip": run_strip(worst[0], tables, row["end_us"], clock_us) if worst else None,
        "strip_of": f"{worst[0]['topic']}-{worst[0]['partition']}" if worst else "",
        "brokers": list(places),
        "overview": _overview(list(places), worst, tables, row["end_us"]) if len(worst) > FEW_PARTITIONS else [],
        "title": row["scenario"] + (f" · {row['variant']}" if row["variant"] else ""),
        "verdict": [(name, JEPSEN_CLASS[name]) for name in verdict],
        "headline": words.headline(anomalies, counts, silent),
        "mood": "bad" if verdict else "warn" if len(silent) else "ok",
        "blame": blame or " ".join(item.brief for item in stood),
        # If records were lost, that comes first.
        "stood": [] if verdict else stood,
        "stood_left_out": "" if verdict else " ".join(waits_left_out),
        "notes": words.notes(counts, silent, unanswered)
        + ([item.what for item in stood] + waits_left_out if verdict else [])
        + standstill.held_back(tables["hw_stalls"].in_order("from_us", "topic", "partition"), stood)
        + coordinator_notes(tables)
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
        **lists,
        "contents": _contents(lists, internal, has_dashboard=heading.dashboard is not None),
        "partitions": [
            functools.partial(_partition, item, row["end_us"], tables, of_all_runs, places)
            for item in worst[:PARTITIONS_DRAWN]
        ],
        "partitions_left_out": max(0, len(tables["availability"]) - PARTITIONS_DRAWN),
        "overview_left_out": max(0, len(tables["availability"]) - ROWS_SHOWN),
    }
    if not heading.is_watched:
        return section
    section |= without_clients(section["settings"], section["contents"])
    return section if verdict else section | _watched(section, tables)


def _watched(section: Mapping[str, Any], tables: Tables) -> dict[str, Any]:
    """Return the entries that replace those of `section` if the run is a real cluster observed by `highwater watch`."""
    headline, mood = watched_headline(tables)
    return {
        "headline": [headline],
        "mood": mood,
        "tiles": [
            _summed("offline_us", "offline", tables),
            _summed("under_min_isr_us", "under min ISR", tables),
            _summed("under_replicated_us", "under-replicated", tables),
            stood_still_tile(tables),
            _new_leader(tables["elections"], tables["stopped_intervals"]),
        ],
        "notes": [*section["notes"], WATCHED_NOTE],
    }


def _lists(tables: Tables) -> dict[str, _Listed]:
    def listed(name: str, *columns: str) -> _Listed:
        return _Listed(tables[name].in_order(*columns, most=ROWS_SHOWN), len(tables[name]))

    chosen, reads = listed("elections", "seq"), tables["read_stalls"]
    stopped = _Stopped(tables["stopped_intervals"])
    sections = [
        {**election, "deposed": election["elect_us"] is None and _was_running(election, stopped)}
        for election in chosen.rows
    ]
    waited = heapq.nsmallest(ROWS_SHOWN, reads, key=lambda stall: (stall["from_us"], words.reader(stall)))
    return {
        "elections": chosen._replace(rows=sections),
        "unavailability": listed("unavailability", "from_us", "kind"),
        "write_stalls": listed("write_stalls", "from_us", "client"),
        "read_stalls": _Listed(waited, len(reads)),
        "hw_stalls": listed("hw_stalls", "from_us", "topic", "partition"),
        "catch_ups": listed("catch_ups", "started_us", "topic", "partition", "node"),
        "fetching": listed("fetch_efficiency", "node", "peer"),
        "isr_changes": listed("isr_changes", "seq"),
        "transactions": listed("transactions", "from_us", "transactional_id"),
        "lso_stalls": listed("lso_stalls", "from_us", "topic", "partition"),
        "group_unread": listed("group_unread", "group", "topic", "partition"),
        "group_assignments": listed("group_assignments", "from_us", "group", "topic", "partition"),
    }


def _contents(
    lists: Mapping[str, _Listed], internal: Sequence[Any], *, has_dashboard: bool
) -> list[tuple[str, str, int | None]]:
    """Return (anchor, heading, number of rows) for each list of a run, for the table of contents.

    The number is None for lists that are always on the page, and 0 for lists that are left out.
    """
    outages = sum(lists[name].total for name in ("unavailability", "write_stalls", "read_stalls"))
    return [
        ("elections", "Elections", lists["elections"].total or None),
        ("unavailability", "Unavailability", outages or None),
        ("dashboard", "What a dashboard would have shown", None if has_dashboard else 0),
        ("stalls", "High watermarks that stood still", lists["hw_stalls"].total),
        ("transactions", "Transactions", lists["transactions"].total),
        ("lso", "Last stable offsets below the high watermark", lists["lso_stalls"].total),
        ("unread", "Groups: time without a reader", lists["group_unread"].total),
        ("assignments", "Groups: partition owners", lists["group_assignments"].total),
        ("acks", "Time to the ack", None),
        ("catch-ups", "Catching up after a restart", lists["catch_ups"].total),
        ("internal", "Internal topics", len(internal)),
        ("fetches", "Fetches", lists["fetching"].total or None),
        ("isr", "ISR changes", lists["isr_changes"].total or None),
    ]


_FATES = ("lost", "unseen", "missing", "duplicated", "dirty", "reordered")


def _named(records: Rows, count: Row) -> dict[str, str]:
    """Return the names of the records that a row of record_counts counts, as text by outcome."""
    own = records.where(topic=count["topic"], acks=count["acks"])
    return {fate: words.name_ranges(own.where(**{fate: True}).values("record")) for fate in _FATES if count[fate]}


def _tiles(counts: Sequence[Row], tables: Tables) -> list[tuple[str, str, str]]:
    """Return the run's key figures as (text, label, CSS class)."""

    def total(column: str) -> int:
        return sum(count[column] for count in counts)

    lost = total("lost")
    longest = max((row["until_us"] - row["from_us"] for row in tables["write_stalls"]), default=None)
    return [
        (f"{total('sent'):,}", "records sent", ""),
        (f"{total('acked'):,}", "acknowledged", ""),
        (f"{lost:,}", "acknowledged, then lost", "bad" if lost else "good"),
        (f"{total('duplicated'):,}", "duplicated", "warn" if total("duplicated") else "good"),
        _summed("offline_us", "offline", tables),
        _summed("under_min_isr_us", "under min ISR", tables),
        _new_leader(tables["elections"], tables["stopped_intervals"]),
        # An hour without a leader delays no write if none is attempted; then the earlier tiles say the same.
        ("0", f"writes that waited {words.seconds(SHORTEST_STALL_US)} or more", "")
        if longest is None
        else (words.short_time(longest), "longest time without a successful write", ""),
    ]


def _summed(column: str, what: str, tables: Tables) -> tuple[str, str, str]:
    us = sum(tables["availability"].values(column))
    return (words.short_time(us), f"{what}, summed over partitions", "warn" if us else "good")


def _new_leader(elections: Rows, stopped: Iterable[Row]) -> tuple[str, str, str]:
    longest = max((wait for wait in elections.values("elect_us") if wait is not None), default=None)
    if longest is not None:
        return (words.short_time(longest), "longest wait for a new leader", "")
    if not elections:
        return ("0", "elections", "")
    down = _Stopped(stopped)
    if all(_was_running(row, down) for row in elections):
        return ("none", "wait for a new leader: the old one was running", "")
    return (words.short_time(None), "longest wait for a new leader", "")


class _Stopped:
    """The intervals in which brokers were down, which do not overlap for the same broker."""

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
    """Return True if the previous leader was not down when it was deposed; it may have been frozen or isolated."""
    leader = election["previous_leader"]
    return leader is not None and not stopped.at(leader, election["at_us"])


def _slowest_acks(latency: Sequence[Row]) -> list[tuple[str, str]]:
    """Return (acks level, 99th percentile of the acknowledgement time) as text for each acks level.

    The percentile is that of the slowest topic.
    """
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


def _brokers(tables: Tables) -> set[str]:
    """Return the names of all brokers that had a replica or answered a fetch during the run."""
    found = {node for replicas in tables["partition_states"].values("replicas") for node in replicas}
    found.update(tables["isr_intervals"].values("node"), tables["fetch_efficiency"].values("node"))
    return found


def _worst_first(availability: Rows, anomalies: Rows, hw_stalls: Rows) -> list[Row]:
    """Return the rows of availability, one per partition, sorted by trouble, most first."""
    found = Counter(zip(anomalies.values("topic"), anomalies.values("partition"), strict=True))
    stood_us: Counter[tuple[str, int]] = Counter()
    for stall in hw_stalls:
        stood_us[stall["topic"], stall["partition"]] += stall["until_us"] - stall["from_us"]

    def badness(row: Row) -> tuple[Any, ...]:
        name = row["topic"], row["partition"]
        troubles = (found[name], row["offline_us"], row["under_min_isr_us"], stood_us[name], row["under_replicated_us"])
        return (*(-trouble for trouble in troubles), *name)

    return heapq.nsmallest(max(PARTITIONS_DRAWN, ROWS_SHOWN), availability, key=badness)


def _overview(brokers: Sequence[str], worst: Sequence[Row], tables: Tables, end_us: int) -> list[_Line]:
    """Return the overview: a line for each of at most ROWS_SHOWN partitions, in the order of `worst`."""
    lines = []
    for row in worst:
        standings = _about(row, tables["isr_intervals"])
        own = {ribbon.node: ribbon for ribbon in ribbons(standings, tables["stopped_intervals"], end_us)}
        lost = len(_about(row, tables["lost_records"]))
        name = f"{row['topic']}-{row['partition']}"
        cells = [own.get(node) for node in brokers]
        lines.append(_Line(name, cells, lost, row["offline_us"], row["under_min_isr_us"]))
    return lines


def _partition(row: Row, end_us: int, tables: Tables, of_all_runs: Tables, places: Mapping[str, int]) -> _Partition:
    """Render one partition's charts; each takes one to two seconds."""
    own: dict[str, Rows] = {name: _in_time(_about(row, tables[name])) for name in _DRAWN}
    first = own["partition_states"][0]
    replicas = in_broker_order({*first["replicas"], *own["isr_intervals"].values("node")})
    name = f"{row['topic']}-{row['partition']}"
    heights = Heights.of({name: _about(row, of_all_runs[name]) for name in _DRAWN})
    chart = partition_chart(own, replicas, places, end_us, heights)
    description = f"Timelines of partition {name}; the tables on this page have the same events."
    summary = f"min.insync.replicas {first['min_isr']}"
    marks = [places[node] for node in replicas]
    return _Partition(name, replicas, marks, summary, chart_in_html(chart, description))


def _about(partition: Row, rows: Rows) -> Rows:
    """Return the rows of a partition, or all rows of a table without partitions (faults, stopped brokers)."""
    if "partition" not in rows.columns:
        return rows
    return rows.where(topic=partition["topic"], partition=partition["partition"])


def _in_time(rows: Rows) -> Rows:
    return rows.in_order(*(column for column in ("seq", "from_us", "acked_us") if column in rows.columns))
