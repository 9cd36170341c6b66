"""How a broker that came back caught up, and the content of fetches, the slow way: fetch by fetch."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.spark.slow.elections import isr_changes
from tests.spark.slow.truth import Found, Row


def catch_ups(rows: list[Row]) -> Found:
    """(topic, partition, node, started_us, first_fetch_us, from_offset, caught_up_us, to_offset, joined_us, records,
    bytes)"""
    joined = [(change[2], change[3], (*change[:2], node)) for change in isr_changes(rows) for node in change[6]]
    lives: dict[str, int] = defaultdict(int)
    started: dict[str, Row] = {}
    now: dict[tuple[Any, ...], dict[str, Any]] = {}
    """Per replica of a broker that started again, in its present life."""
    over: list[dict[str, Any]] = []
    for row in rows:
        event, place = row["event"], (row.get("topic"), row.get("partition"))
        if event == "node_started":
            lives[row["node"]] += 1
            started[row["node"]] = row
        elif event == "node_stopped":
            started.pop(row["node"], None)
            for key in [key for key in now if key[2] == row["node"]]:
                over.append({**now.pop(key), "until_seq": row["seq"]})
        elif event == "follower_fetched" and lives[row["peer"]] > 1 and row["peer"] in started:
            key = (*place, row["peer"])
            if key not in now:
                now[key] = {
                    "key": key, "started": started[row["peer"]], "first_us": row["at_us"],
                    "from": row["fetch_offset"], "records": 0, "bytes": 0, "caught_us": None, "to": None,
                }  # fmt: skip
            if row["fetch_offset"] >= row["log_end_offset"] and now[key]["caught_us"] is None:
                now[key].update(caught_us=row["at_us"], to=row["log_end_offset"])
        elif event == "batch_appended" and row["role"] == "follower" and (*place, row["node"]) in now:
            one = now[*place, row["node"]]
            if one["caught_us"] is None:
                one["records"] += row["last_offset"] - row["base_offset"] + 1
                one["bytes"] += row["size_bytes"]

    def joined_us(one: dict[str, Any]) -> int | None:
        life = range(one["started"]["seq"], one.get("until_seq", rows[-1]["seq"] + 1))
        return min((at_us for seq, at_us, key in joined if key == one["key"] and seq in life), default=None)

    return {
        (*one["key"], one["started"]["at_us"], one["first_us"], one["from"], one["caught_us"], one["to"],
         joined_us(one), one["records"], one["bytes"])
        for one in (*over, *now.values())
    }  # fmt: skip


def fetch_efficiency(rows: list[Row]) -> Found:
    """(node, peer, partition_reads, record_bytes, empty_fetches, requests, response bytes per request, sendfile_bytes,
    sendfile_calls)"""
    figures: dict[tuple[str, str], dict[str, int]] = {}
    asked: set[tuple[Any, ...]] = set()
    for row in rows:
        event = row["event"]
        pair = (row.get("node"), row.get("peer"))
        if event in ("follower_fetched", "records_sent"):
            its = figures.setdefault(pair, defaultdict(int))  # type: ignore[arg-type]
            place = (*pair, row["topic"], row["partition"])
            if event == "follower_fetched":
                its["asked"] += 1
                its["empty"] += place in asked
                asked.add(place)
            else:
                its["reads"] += 1
                its["bytes"] += row["size_bytes"]
                asked.discard(place)
    for pair in {place[:2] for place in asked}:
        figures[pair]["empty"] += sum(place[:2] == pair for place in asked)
    for row in rows:
        if row["event"] == "request_completed" and row["api"] == "Fetch" and (row["node"], row["peer"]) in figures:
            its = figures[row["node"], row["peer"]]
            for name, number in (("requests", 1), *((n, row[n]) for n in _OF_REQUESTS)):
                its[name] += number
    return {
        (*pair, its["reads"], its["bytes"], its["empty"] if its["asked"] else None,
         *([its["requests"], its["response_bytes"] / its["requests"], its["sendfile_bytes"], its["sendfile_calls"]]
           if its["requests"] else [None] * 4))
        for pair, its in figures.items()
    }  # fmt: skip


_OF_REQUESTS = ("response_bytes", "sendfile_bytes", "sendfile_calls")
