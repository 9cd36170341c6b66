"""Convert rows of the result tables to points, intervals and words of the charts, with times in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from replica.trace.names import LOG_RECOVERED, LOG_TRUNCATED, NODE_STOPPED
from replica.trace.ranges import counted
from replica.trace.signs import IN_ORDER, SIGNS
from spark_reports.report.rows import Row, Rows
from spark_reports.report.words import acks_name, clock, joined, name_ranges, seconds, were

Points = list[dict[str, Any]]

INSTANTS = 700
"""Largest number of points in time that the hover line can select."""
LOST_MARKS = 60
"""Largest number of crosses in one replica's chart. If more records were lost, neighbouring records share a cross."""

_GLYPHS = {LOG_TRUNCATED: "✂", NODE_STOPPED: "▾", LOG_RECOVERED: "↺"}


def to_s(us: int) -> float:
    return us / 1_000_000


def _stretch(row: Row) -> dict[str, Any]:
    return {
        "s": to_s(row["from_us"]),
        "until": to_s(row["until_us"]),
        "when": f"{clock(row['from_us'])} s to {clock(row['until_us'])} s",
        "reason": row["reason"],
    }


def fault_stretches(faults: Iterable[Row], end_us: int) -> Points:
    """Return the intervals of faults. `undone` is True for a fault that ended before the run."""
    return [
        {
            **_stretch(row),
            "lane": f"{row['verb']} {', '.join(row['targets'])}".strip(),
            "undone": row["until_us"] < end_us,
        }
        for row in faults
    ]


def together(stretches: Points) -> Points:
    """Merge intervals that overlap or touch, since their shading would add up."""
    found: Points = []
    for stretch in sorted(stretches, key=lambda stretch: stretch["s"]):
        if found and stretch["s"] <= found[-1]["until"]:
            found[-1]["until"] = max(found[-1]["until"], stretch["until"])
        else:
            found.append({"s": stretch["s"], "until": stretch["until"]})
    return found


def election_moments(elections: Iterable[Row]) -> Points:
    return [{"s": to_s(row["at_us"]), "node": row["leader"]} for row in elections]


def replica_lines(timeline: Iterable[Row], end_us: int) -> Points:
    """Return points with LEO, HW and their difference for each replica, until its broker stops or the run ends."""
    lines: Points = []
    last: dict[str, dict[str, Any]] = {}
    for row in timeline:
        line = {
            "s": to_s(row["at_us"]),
            "node": row["node"],
            "leo": row["log_end_offset"],
            "hw": row["high_watermark"],
            "gap": row["uncommitted_records"],
        }
        before = last.get(row["node"])
        if line["leo"] is None and before and before["leo"] is not None:
            lines.append({**before, "s": line["s"]})
        lines.append(line)
        last[row["node"]] = line
    return lines + [{**line, "s": to_s(end_us)} for line in last.values() if line["leo"] is not None]


def lag_lines(lag: Iterable[Row]) -> Points:
    """Return points with the lag of each follower. Points of one line have the same `term`.

    Where the lag in seconds falls there are two points: one with the lag before the fall, one with the lag after it.
    """
    lines: Points = []
    before: dict[str, int] = {}
    for row in lag:
        line = {
            "s": to_s(row["at_us"]),
            "node": row["follower"],
            "leader": row["leader"],
            "term": f"{row['follower']} of {row['leader']} {row['leader_epoch']}",
            "records": row["lag_records"],
            "seconds": to_s(row["lag_us"]),
        }
        if row["peak_lag_us"] > row["lag_us"]:
            lines.append({**line, "records": before.get(line["term"], 0), "seconds": to_s(row["peak_lag_us"])})
        lines.append(line)
        before[line["term"]] = row["lag_records"]
    return lines


def risk_lines(risk: Iterable[Row]) -> Points:
    """Return points with the number of acknowledged records above the high watermark.

    There is a line, with its own `term`, for each leader's term and acks level.
    """
    return [
        {
            "s": to_s(row["at_us"]),
            "node": row["leader"],
            "term": f"{row['leader']} {row['leader_epoch']} {row['acks']}",
            "records": row["at_risk_records"],
        }
        for row in risk
    ]


def standing_stretches(standings: Iterable[Row]) -> Points:
    """Return the intervals of each replica's role. Those of a leader have a crown symbol and a word."""
    return [
        {
            **_stretch(row),
            "node": row["node"],
            "standing": row["standing"],
            "word": "♛ leader" if row["standing"] == "leader" else "",
        }
        for row in standings
    ]


def down_stretches(stopped: Iterable[Row], replicas: Sequence[str]) -> Points:
    return [
        {
            **_stretch(row),
            "node": row["node"],
            "standing": f"down ({row['how']})",
            "word": f"{SIGNS['ended']} stopped" if row["how"] == IN_ORDER else f"{SIGNS['down']} down",
        }
        for row in stopped
        if row["node"] in replicas
    ]


def frozen_stretches(faults: Iterable[Row], replicas: Sequence[str]) -> Points:
    """Return the intervals in which brokers were paused; `faults` are rows of fault_intervals."""
    return [
        {**_stretch(row), "node": node, "standing": "frozen", "word": "‖ frozen"}
        for row in faults
        if row["verb"] == "pause"
        for node in row["targets"]
        if node in replicas
    ]


def marks_on_log(node: str, timeline: Rows, lost: Rows) -> Points:
    """Return marks for a replica's truncations, stops and recoveries, and for lost records that it acknowledged."""
    marks: Points = []
    last_end = 0
    for row in timeline.where(node=node):
        if row["event"] in _GLYPHS:
            end = last_end if row["log_end_offset"] is None else row["log_end_offset"]
            marks.append({"s": to_s(row["at_us"]), "leo": end, "glyph": _GLYPHS[row["event"]], "what": row["reason"]})
        last_end = row["log_end_offset"] if row["log_end_offset"] is not None else last_end
    return marks + [_lost_mark(some) for some in _bundles(lost.where(acked_by=node), LOST_MARKS)]


def _lost_mark(lost: Rows) -> dict[str, Any]:
    first = lost[0]
    listed = joined(sorted({acks_name(acks) for acks in lost.values("acks")}))
    names = name_ranges(lost.values("record"))
    return {
        "s": to_s(first["acked_us"]),
        "leo": first["ack_offset"] + 1,
        "glyph": "✕",
        "what": f"{names} {were(len(lost))} acked here ({listed}) and lost",
    }


def _bundles(rows: Rows, most: int) -> list[Rows]:
    """Split the rows into at most `most` groups of consecutive rows."""
    size = max(1, -(-len(rows) // most))
    return [rows[first : first + size] for first in range(0, len(rows), size)]


def _spaced(items: Sequence[Any], most: int) -> Sequence[Any]:
    """Return at most `most` evenly spaced items, including the first."""
    return items[:: max(1, -(-len(items) // most))]


def instants(lines: Points, lags: Points, standings: Points, replicas: Sequence[str]) -> Points:
    """Return a row for each change (at most INSTANTS of them): the ISR, and each replica's state as text."""
    moments: list[float] = sorted({row["s"] for row in (*lines, *lags, *standings)})
    follow = {
        (kind, node): _Follow([row for row in rows if row["node"] == node])
        for kind, rows in (("end", lines), ("lag", lags), ("place", standings))
        for node in replicas
    }
    found: Points = []
    for s in _spaced(moments, INSTANTS):
        now = {key: series.at(s) for key, series in follow.items()}
        standing = {node: (now["place", node] or {"standing": "not a replica"})["standing"] for node in replicas}
        leader = next((node for node in replicas if standing[node] == "leader"), None)
        in_sync = [node for node in replicas if standing[node] in ("leader", "in sync")]
        found.append(
            {"s": s, "isr": "{" + ", ".join(in_sync) + "}"}
            | {
                field_of(node): _state_words(now["end", node], now["lag", node], standing[node], leader)
                for node in replicas
            }
        )
    return found


def field_of(node: str) -> str:
    """Return the name of a broker's field in a row of instants(). The prefix avoids clashes with `s` and `isr`."""
    return f"on {node}"


def _state_words(end: Row | None, lag: Row | None, standing: str, leader: str | None) -> str:
    if end is None or end["leo"] is None:
        return f"down, {standing}"
    words = f"LEO {end['leo']}, HW {'?' if end['hw'] is None else end['hw']}, {standing}"
    # Only the current leader's knowledge of the follower is valid.
    if lag and lag["leader"] == leader != end["node"] and lag["records"]:
        words += f", {counted(lag['records'], 'record')} behind ({seconds(round(lag['seconds'] * 1_000_000))})"
    return words


class _Follow:
    """A cursor over rows in order of time. `at` returns the last row up to a time, which may only rise."""

    def __init__(self, rows: Points) -> None:
        self._rows = rows
        self._next = 0

    def at(self, s: float) -> Row | None:
        while self._next < len(self._rows) and self._rows[self._next]["s"] <= s:
            self._next += 1
        return self._rows[self._next - 1] if self._next else None
