"""Elections, ISR changes and key moments, the slow way: the controller's decisions, and the times without a leader."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

from tests.spark.slow.truth import Found, Place, Row


def elections(rows: list[Row]) -> Found:
    """(topic, partition, seq, at_us, leader, lost_us, leading_us, first_write_us, elect_us, write_us)"""
    leader: dict[Place, str | None] = {}
    lost_us: dict[Place, int] = {}
    """Since when a partition has had no working leader. It ends as the chosen one learns that it leads."""
    chosen: list[dict[str, Any]] = []
    epoch: dict[Place, int] = {}
    down: set[str] = set()
    for row in rows:
        event, place = row["event"], (row.get("topic"), row.get("partition"))
        if event == "topic_deleted":
            for one in [one for one in leader if one[0] == row["topic"]]:
                del leader[one]
        elif event == "partition_created":
            leader[place], epoch[place] = row["broker"], row["leader_epoch"]
            lost_us.pop(place, None)
        elif event == "node_started":
            down.discard(row["node"])
        elif event == "node_stopped":
            down.add(row["node"])
            for one in [one for one, node in leader.items() if node == row["node"]]:
                lost_us.setdefault(one, row["at_us"])
        elif event == "partition_went_offline":
            leader[place] = None
            lost_us.setdefault(place, row["at_us"])
        elif event == "leader_elected":
            leader[place], epoch[place] = row["broker"], row["leader_epoch"]
            chosen.append({**row, "lost_us": lost_us.get(place), "leading_us": None, "first_write_us": None})
            if row["broker"] in down:
                lost_us.setdefault(place, row["at_us"])
        elif event == "leadership_began":
            if row["node"] == leader.get(place) and row["leader_epoch"] >= epoch[place]:
                lost_us.pop(place, None)
            _note_first(chosen, row, "leading_us")
        elif event == "batch_appended" and row["role"] == "leader":
            _note_first(chosen, row, "first_write_us")

    def since(one: dict[str, Any], then: str) -> int | None:
        return None if one["lost_us"] is None or one[then] is None else one[then] - one["lost_us"]

    return {
        (one["topic"], one["partition"], one["seq"], one["at_us"], one["broker"], one["lost_us"], one["leading_us"],
         one["first_write_us"], since(one, "at_us"), since(one, "first_write_us"))
        for one in chosen
    }  # fmt: skip


def _note_first(chosen: list[dict[str, Any]], row: Row, name: str) -> None:
    """In the last election that chose this broker for this epoch."""
    key = ("topic", "partition", "leader_epoch")
    its = [one for one in chosen if one["broker"] == row["node"] and all(one[part] == row[part] for part in key)]
    if its and its[-1][name] is None:
        its[-1][name] = row["at_us"]


def isr_changes(rows: list[Row]) -> Found:
    """(topic, partition, seq, at_us, previous_isr, isr, joined, left, leader, reason)"""
    isr: dict[Place, tuple[str, ...]] = {}
    leader: dict[Place, str | None] = {}
    proposed: dict[tuple[Any, ...], str] = {}
    found: Found = set()
    for row in rows:
        event, place = row["event"], (row.get("topic"), row.get("partition"))
        if event == "topic_deleted":
            for one in [one for one in isr if one[0] == row["topic"]]:
                del isr[one]
        elif event == "isr_proposed":
            proposed[*place, frozenset(row["isr"])] = row["reason"]
        elif event in ("partition_created", "leader_elected", "partition_went_offline", "isr_committed"):
            if event != "isr_committed":
                leader[place] = row.get("broker")
            before, isr[place] = isr.get(place), tuple(row["isr"])
            reason = row["reason"]
            if row.get("proposed_by") is not None:
                reason = proposed.get((*place, frozenset(row["isr"])), reason)
            if event != "partition_created" and before is not None and set(before) != set(row["isr"]):
                found.add(
                    (*place, row["seq"], row["at_us"], before, isr[place],
                     tuple(one for one in isr[place] if one not in before),
                     tuple(one for one in before if one not in isr[place]), leader[place], reason)
                )  # fmt: skip
    return found


def ack_latency(rows: list[Row]) -> Found:
    """(topic, acks, measured_at, records, p50_us, p95_us, p99_us, p999_us, max_us)"""
    told = [row for row in rows if row["event"] in ("record_acked", "record_handed_over")]

    def group(row: Row) -> tuple[Any, ...]:
        return row["topic"], row["acks"], "broker" if row["client"].startswith("client/") else "producer"

    found: Found = set()
    for key in {group(row) for row in told}:
        its = [row["latency_us"] for row in told if group(row) == key]
        known = sorted(latency for latency in its if latency is not None)
        ranks = [ceil(Fraction(share) * len(known)) - 1 for share in ("0.5", "0.95", "0.99", "0.999")]
        figures = [*(known[rank] for rank in ranks), known[-1]] if known else [None] * 5
        found.add((*key, len(its), *figures))
    return found
