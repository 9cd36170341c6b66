"""Transactions, last stable offsets and groups a second time: state by state, in plain Python."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.spark.slow.truth import Found, Row, stretches

OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort"}
COMPLETE = {"CompleteCommit", "CompleteAbort"}


def transactions(rows: list[Row]) -> list[tuple[Any, ...]]:
    """(transactional_id, producer_id, producer_epoch, partitions, from_us, decided_us, until_us, state, coordinator,
    fenced, duration_us, markers_us)"""
    latest: dict[str, dict[str, Any]] = {}
    every: list[dict[str, Any]] = []
    for row in rows:
        if row["event"] != "transaction_state_changed" or row["state"] not in OPEN | COMPLETE:
            continue
        name = row["transactional_id"]
        if row["state"] in OPEN and row["previous_state"] not in OPEN:
            latest[name] = {"began": row, "names": set(), "decided": None, "until": None, "fenced": False}
            every.append(latest[name])
        one = latest[name]
        one["names"] |= set(row["partitions"])
        one["fenced"] |= row["fences"]
        one["last"] = row
        if row["state"].startswith("Prepare") and one["decided"] is None:
            one["decided"] = row["at_us"]
        if row["state"] in COMPLETE and one["until"] is None:
            one["until"] = row["at_us"]
    return [
        (
            one["began"]["transactional_id"],
            one["began"]["producer_id"],
            one["began"]["producer_epoch"],
            tuple(sorted(one["names"])),
            one["began"]["at_us"],
            one["decided"],
            one["until"],
            one["last"]["state"],
            one["last"]["node"],
            one["fenced"],
            None if one["until"] is None else one["until"] - one["began"]["at_us"],
            None if one["until"] is None or one["decided"] is None else one["until"] - one["decided"],
        )
        for one in every
    ]


def lso_stalls(rows: list[Row]) -> Found:
    """(topic, partition, leader, leader_epoch, from_us, until_us, last_stable_offset, waiting_records)

    By what the logs say, not by the trace's own word on the offset: a transaction is open from its first batch until
    its marker is below the leader's high watermark.
    """
    producers = {row["producer_id"] for row in rows if row["event"] == "transaction_state_changed"}
    found: Found = set()
    for topic, number, leader, epoch, from_seq, until_seq, until_us in _terms(rows):
        own = [row for row in rows if (row.get("topic"), row.get("partition")) == (topic, number)]
        ends = {(row["leader_epoch"], row["offset"]) for row in own if row["event"] == "transaction_marker_written"}
        theirs = [row for row in own if row.get("node") == leader and row["seq"] < until_seq]
        steps = [
            (row["at_us"], stable, high)
            for row, stable, high in _stable_offsets(theirs, ends, producers)
            if row["seq"] >= from_seq
        ]
        values = [(at_us, stable if stable < high else None) for at_us, stable, high in steps]
        for began_us, ended_us, stable in stretches(values, until_us):
            if stable is not None:
                highest = max(high for at_us, _, high in steps if began_us <= at_us < ended_us)
                found.add((topic, number, leader, epoch, began_us, ended_us, stable, highest - stable))
    return found


def _stable_offsets(own: list[Row], ends: set[tuple[int, int]], producers: set[int]) -> list[tuple[Row, int, int]]:
    """(row, last stable offset, high watermark) whenever a high watermark is stated. own: rows of one replica"""
    begun: dict[int, int] = {}
    ended: dict[int, int] = {}
    marked: list[tuple[int, int, int]] = []
    found = []
    for row in own:
        who = row.get("producer_id")
        if row["event"] in ("log_truncated", "log_recovered"):
            end = row["log_end_offset"]
            begun = {one: offset for one, offset in begun.items() if offset < end}
            # A transaction whose marker is cut off, and its records are not, is open again.
            begun |= {one: first for marker, one, first in marked if first < end <= marker}
            marked = [one for one in marked if one[0] < end]
            ended = {first: last for first, last in ended.items() if last < end}
        elif row["event"] == "batch_appended" and (row["leader_epoch"], row["base_offset"]) in ends:
            if who in begun:
                marked.append((row["base_offset"], who, begun[who]))
                ended[begun.pop(who)] = row["base_offset"]
        elif row["event"] == "batch_appended" and who in producers:
            begun.setdefault(who, row["base_offset"])
        elif row["event"] in ("high_watermark_advanced", "leadership_began"):
            high = row["high_watermark"]
            ended = {first: last for first, last in ended.items() if last >= high}
            found.append((row, min([*begun.values(), *ended, high]), high))
    return found


def _terms(rows: list[Row]) -> list[tuple[str, int, str, int, int, int, int]]:
    """(topic, partition, leader, epoch, from_seq, until_seq, until_us) of every time a broker led."""
    found: list[list[Any]] = []
    for row in rows:
        place = (row.get("topic"), row.get("partition"))
        for term in found:
            is_over = row["event"] == "node_stopped" and row["node"] == term[2]
            if place == (term[0], term[1]) and row["event"] in (
                "leader_elected", "partition_went_offline", "leadership_began",
            ):  # fmt: skip
                is_over |= row["leader_epoch"] > term[3]
            if is_over and term[5] is None:
                term[5:] = [row["seq"], row["at_us"]]
        if row["event"] == "leadership_began":
            known = [t for t in found if t[:4] == [*place, row["node"], row["leader_epoch"]] and t[5] is None]
            if not known:
                found.append([*place, row["node"], row["leader_epoch"], row["seq"], None, None])
    last = rows[-1]
    return [tuple(term[:5] + (term[5:] if term[5] is not None else [last["seq"], last["at_us"]])) for term in found]


def group_assignments(rows: list[Row]) -> Found:
    """(group, topic, partition, member, client_id, from_us, until_us), asked anew at every moment."""
    found: Found = set()
    mine = [row for row in rows if row["table"] == "group"]
    for group in {row["group"] for row in mine if row["group"] is not None}:
        events = _of_current_coordinators([row for row in mine if row["group"] == group], rows)
        named = sorted({p for row in events for p in (row["partitions"] or []) + (row["revoking"] or [])})
        moments = [(row["at_us"], _owners(events[: place + 1])) for place, row in enumerate(events)]
        for partition in named:
            values = [(at_us, owners.get(partition, "nothing")) for at_us, owners in moments]
            for from_us, until_us, owner in _stretches(values, rows[-1]["at_us"]):
                if owner != "nothing":
                    topic, _, number = partition.rpartition("-")
                    member, client = owner or (None, None)
                    found.add((group, topic, int(number), member, client, from_us, until_us))
    return found


def _of_current_coordinators(events: list[Row], rows: list[Row]) -> list[Row]:
    """Leave out what a broker says that began to lead earlier than another one that has spoken."""
    begun = [(row["seq"], row["node"]) for row in rows if row["event"] == "leadership_began"
             and row["topic"] == "__consumer_offsets"]  # fmt: skip
    found, newest = [], -1
    for row in events:
        since = max((seq for seq, node in begun if node == row["node"] and seq < row["seq"]), default=-1)
        if since >= newest:
            newest = since
            found.append(row)
    return found


def _owners(events: list[Row]) -> dict[str, tuple[str, str] | None]:
    """Who has what after these events, of the partitions that count then; None: nobody."""
    clients: dict[str, str] = {}
    instances: dict[str, str] = {}
    held: dict[str, list[str]] = {}
    seen: set[str] = set()
    eager = True
    for row in events:
        kind, member = row["event"], row["member"]
        if kind == "group_member_joined":
            before = [one for one in clients if row["instance"] and instances.get(one) == row["instance"]]
            taken = [held.pop(one, []) for one in before]
            for one in before:
                clients.pop(one)
            clients[member], held[member] = row["client_id"], taken[0] if taken else []
            if row["instance"]:
                instances[member] = row["instance"]
        elif kind == "group_member_left":
            clients.pop(member, None)
            held.pop(member, None)
        elif kind == "group_rebalance_began" and eager:
            held = {one: [] for one in held}
        elif kind == "group_rebalanced":
            eager = "cooperative" not in (row["protocol"] or "")
            if not row["members"]:
                clients, held = {}, {}
        elif kind in ("group_member_assigned", "group_member_reconciled"):
            clients.setdefault(member, row["client_id"])
            held[member] = list(row["partitions"]) + list(row["revoking"] or [])
        elif kind == "group_removed":
            clients, held = {}, {}
        seen = {*seen, *(p for parts in held.values() for p in parts)} if clients else set()
    owners: dict[str, tuple[str, str] | None] = dict.fromkeys(sorted(seen))
    for member, parts in held.items():
        owners |= {p: (member, clients[member]) for p in parts}
    return owners


def _stretches(values: list[tuple[int, Any]], end_us: int) -> list[tuple[int, int, Any]]:
    """Of the last value of each moment; a new one of the same member goes on."""
    found: list[list[Any]] = []
    for (from_us, value), (until_us, _) in zip(values, [*values[1:], (end_us, None)], strict=True):
        if found and found[-1][2] == value:
            found[-1][1] = until_us
        elif until_us > from_us:
            found.append([from_us, until_us, value])
    return [(from_us, until_us, value) for from_us, until_us, value in found]


def group_unread(rows: list[Row]) -> Found:
    """(group, topic, partition, observed_us, unread_us, longest_unread_us, members), piece by piece of its time"""
    assigned = group_assignments(rows)
    idle = _out_of_action(rows)
    found: Found = set()
    for place in {row[:3] for row in assigned}:
        own = sorted((row for row in assigned if row[:3] == place), key=lambda row: row[5])
        cuts = sorted({at_us for row in own for at_us in row[5:]} | {at_us for at_us, _ in idle})
        now_us, total_us, longest_us, observed_us = 0, 0, 0, 0
        for from_us, until_us in pairwise(cuts):
            owners = [row[4] for row in own if row[5] <= from_us < row[6]]
            who_is_idle: set[str] = next((names for at_us, names in reversed(idle) if at_us <= from_us), set())
            observed_us += (until_us - from_us) * len(owners)
            is_unread = bool(owners) and (owners[0] is None or owners[0] in who_is_idle)
            now_us = now_us + until_us - from_us if is_unread else 0
            total_us += until_us - from_us if is_unread else 0
            longest_us = max(longest_us, now_us)
        members = {row[3] for row in own if row[3] is not None}
        found.add((*place, observed_us, total_us, longest_us, len(members)))
    return found


def _out_of_action(rows: list[Row]) -> list[tuple[int, set[str]]]:
    """(from when on, the processes that are down or frozen)"""
    down: set[str] = set()
    frozen: set[str] = set()
    found = []
    for row in rows:
        if row["event"] == "node_started":
            down.discard(row["node"])
            frozen.discard(row["node"])
        elif row["event"] == "node_stopped":
            down.add(row["node"])
            frozen.discard(row["node"])
        elif row["event"] == "fault_began" and row["verb"] == "pause":
            frozen |= set(row["targets"])
        elif row["event"] in ("fault_began", "fault_ended") and row["verb"] in ("pause", "resume"):
            frozen -= set(row["targets"])
        else:
            continue
        found.append((row["at_us"], down | frozen))
    return found
