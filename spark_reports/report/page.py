"""Result tables (as plain rows) -> the one HTML file: what is said in words, what is drawn, what is listed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from replica.signs import SIGNS
from spark_reports.report import standstill, words
from spark_reports.report.charts import BROKER_COLOURS, BROKER_DASHES, partition_chart
from spark_reports.report.embedding import environment, json_in_html, resource, vega_script
from spark_reports.report.internal import internal_notes, internal_topics, users
from spark_reports.report.moments import told_moments
from spark_reports.report.packing import packed
from spark_reports.transforms.availability import SHORTEST_STALL_US
from spark_reports.transforms.verdict import JEPSEN_CLASS, VERDICT_ORDER

Row = Mapping[str, Any]
Tables = Mapping[str, Sequence[Row]]

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


def verdict_of(anomalies: Sequence[Row]) -> tuple[str, ...]:
    """Names of the anomalies found, in the vocabulary's order; empty when the run was ok."""
    found = {row["anomaly"] for row in anomalies}
    return tuple(name for name in VERDICT_ORDER if name in found)


def render(tables: Tables, versions: str) -> str:
    """The whole page.

    tables:   rows of every result table, the pictures' series under `replica_timeline` and `replication_lag`, and of
              `records` only those with an anomaly
    versions: what computed it, for the last line
    """
    runs = sorted(tables["runs"], key=lambda row: row["run"])
    sections = [_run(row, _of_run(row["run"], tables)) for row in runs]
    _draw(sections)
    template = environment().get_template("template.html.j2")
    return template.render(
        runs=sections,
        style=resource("style.css"),
        script=resource("page.js"),
        vega=vega_script(),
        versions=versions,
        colours=_legend(),
        signs=SIGNS,
        rows_shown=ROWS_SHOWN,
    )


def _of_run(run: str, tables: Tables) -> Tables:
    return {name: [row for row in rows if row["run"] == run] for name, rows in tables.items()}


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
    internal, anomalies = internal_topics(tables), tables["anomalies"]
    tables = {**users(tables), "anomalies": anomalies}
    verdict = verdict_of(tables["anomalies"])
    flagged = tables["records"]
    missing = [record for record in flagged if record["missing"]]
    counts = sorted(tables["record_counts"], key=lambda count: (count["topic"], count["acks"]))
    stalls = sorted(tables["hw_stalls"], key=lambda stall: (stall["from_us"], stall["topic"], stall["partition"]))
    why, why_left_out = words.why_lost(
        *(tables[name] for name in ("lost_records", "fault_intervals", "stopped_intervals", "elections"))
    )
    stood = standstill.standstills(tables)
    blame = words.blame(tables["lost_records"], tables["elections"])
    moments = told_moments(tables["key_moments"], several_partitions=len(tables["availability"]) > 1)
    return {
        **row,
        "title": row["scenario"] + (f" · {row['variant']}" if row["variant"] else ""),
        "verdict": [(name, JEPSEN_CLASS[name]) for name in verdict],
        "headline": words.headline(tables["anomalies"], counts, missing),
        "mood": "bad" if verdict else "warn" if any(record["handed_over"] for record in missing) else "ok",
        "blame": blame or " ".join(one.brief for one in stood),
        # Where records were lost, that comes first.
        "stood": [] if verdict else stood,
        "stood_left_out": standstill.others(stood, tables),
        "notes": words.notes(counts, missing)
        + [one.what for one in stood if verdict]
        + standstill.held_back(stalls, stood)
        + internal_notes(internal),
        "why": why,
        "why_left_out": why_left_out,
        "tiles": _tiles(counts, tables),
        "offline_us": sum(partition["offline_us"] for partition in tables["availability"]),
        "slowest_acks": _slowest_acks(tables["ack_latency"]),
        "moments": moments[:MOMENTS_SHOWN],
        "moments_left_out": max(0, len(moments) - MOMENTS_SHOWN),
        "counts": [{**count, "named": _named(flagged, count)} for count in counts],
        "elections": [
            {
                **election,
                "deposed": election["elect_us"] is None and _was_running(election, tables["stopped_intervals"]),
            }
            for election in sorted(tables["elections"], key=lambda election: election["seq"])
        ],
        "unavailability": sorted(tables["unavailability"], key=lambda window: (window["from_us"], window["kind"])),
        "availability": sorted(tables["availability"], key=lambda part: (part["topic"], part["partition"])),
        "write_stalls": sorted(tables["write_stalls"], key=lambda stall: (stall["from_us"], stall["client"])),
        "read_stalls": sorted(tables["read_stalls"], key=lambda stall: (stall["from_us"], words.reader(stall))),
        "internal": internal,
        "hw_stalls": stalls,
        "catch_ups": sorted(tables["catch_ups"], key=lambda back: (back["started_us"], *_replica(back))),
        "fetching": sorted(tables["fetch_efficiency"], key=lambda pair: (pair["node"], pair["peer"])),
        "isr_changes": sorted(tables["isr_changes"], key=lambda change: change["seq"]),
        "latency": sorted(
            tables["ack_latency"], key=lambda level: (level["topic"], level["acks"], level["measured_at"])
        ),
        "partitions": _partitions(row["end_us"], tables),
        "partitions_left_out": max(0, len(tables["availability"]) - PARTITIONS_DRAWN),
    }


def _replica(row: Row) -> tuple[str, int, str]:
    return (row["topic"], row["partition"], row["node"])


_FATES = ("lost", "unseen", "missing", "duplicated", "dirty", "reordered")


def _named(flagged: Sequence[Row], count: Row) -> dict[str, str]:
    own = [row for row in flagged if (row["topic"], row["acks"]) == (count["topic"], count["acks"])]
    return {fate: words.name_ranges(row["record"] for row in own if row[fate]) for fate in _FATES}


def _tiles(counts: Sequence[Row], tables: Tables) -> list[tuple[str, str, str]]:
    """(number, what it counts, class): the run in a row of figures."""

    def total(column: str) -> int:
        return sum(count[column] for count in counts)

    lost, offline = total("lost"), sum(row["offline_us"] for row in tables["availability"])
    under = sum(row["under_min_isr_us"] for row in tables["availability"])
    stalls = [row["until_us"] - row["from_us"] for row in tables["write_stalls"]]
    return [
        (f"{total('sent'):,}", "records sent", ""),
        (f"{total('acked'):,}", "acknowledged", ""),
        (f"{lost:,}", "acknowledged, then lost", "bad" if lost else "good"),
        (f"{total('duplicated'):,}", "duplicated", "warn" if total("duplicated") else "good"),
        (words.short_time(offline), "partition time offline", "warn" if offline else "good"),
        (words.short_time(under), "partition time under min ISR", "warn" if under else "good"),
        _new_leader(tables["elections"], tables["stopped_intervals"]),
        (
            words.short_time(max(stalls)) if stalls else f"< {words.seconds(SHORTEST_STALL_US)}",
            "longest time no write succeeded",
            "",
        ),
    ]


def _new_leader(elections: Sequence[Row], stopped: Sequence[Row]) -> tuple[str, str, str]:
    waits = [row["elect_us"] for row in elections if row["elect_us"] is not None]
    if waits:
        return (words.short_time(max(waits)), "longest wait for a new leader", "")
    if not elections:
        return ("none", "was elected leader", "")
    if all(_was_running(row, stopped) for row in elections):
        return ("running", "was the old leader when a new one was elected", "")
    return (words.short_time(None), "longest wait for a new leader", "")


def _was_running(election: Row, stopped: Sequence[Row]) -> bool:
    """Whether the old leader had not stopped when it was deposed: frozen or cut off it may have been."""
    return election["previous_leader"] is not None and not any(
        stop["node"] == election["previous_leader"] and stop["from_us"] <= election["at_us"] < stop["until_us"]
        for stop in stopped
    )


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


def _partitions(end_us: int, tables: Tables) -> list[Callable[[], _Partition]]:
    """What draws them, the worst first: a chart takes a second or two."""

    def badness(row: Row) -> tuple[int, ...]:
        lost = sum(_is_of(found, row) for found in tables["anomalies"])
        return (-lost, -row["offline_us"], -row["under_min_isr_us"], -row["under_replicated_us"])

    worst = sorted(tables["availability"], key=lambda row: (*badness(row), row["topic"], row["partition"]))
    return [functools.partial(_partition, row, end_us, tables) for row in worst[:PARTITIONS_DRAWN]]


def _is_of(row: Row, partition: Row) -> bool:
    return (row["topic"], row["partition"]) == (partition["topic"], partition["partition"])


def _partition(row: Row, end_us: int, tables: Tables) -> _Partition:
    own = {name: sorted(_about(row, rows), key=_in_time) for name, rows in tables.items() if name in _DRAWN}
    first = own["partition_states"][0]
    assigned = list(first["replicas"])
    replicas = assigned + sorted({standing["node"] for standing in own["isr_intervals"]} - set(assigned))
    own["stopped_intervals"] = [stop for stop in own["stopped_intervals"] if stop["node"] in replicas]
    name = f"{row['topic']}-{row['partition']}"
    chart = partition_chart(own, replicas, end_us)
    chart["description"] = f"Timelines of partition {name}; the tables on this page hold the same facts."
    chart["datasets"] = {dataset: packed(points) for dataset, points in chart["datasets"].items()}
    return _Partition(name, replicas, f"min.insync.replicas {first['min_isr']}", json_in_html(chart))


def _about(partition: Row, rows: Sequence[Row]) -> list[Row]:
    """Rows of the partition, and of no partition in particular (faults, brokers that were down)."""
    return [row for row in rows if "partition" not in row or _is_of(row, partition)]


def _in_time(row: Row) -> tuple[int, int]:
    return (row.get("seq") or 0, row.get("from_us") or row.get("acked_us") or 0)


def _legend() -> list[tuple[str, str]]:
    """(colour, SVG dash array) of the first, second, ... replica of a partition."""
    return [(colour, ",".join(map(str, dash))) for colour, dash in zip(BROKER_COLOURS, BROKER_DASHES, strict=True)]
