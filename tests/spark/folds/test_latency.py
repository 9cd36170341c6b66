"""Percentiles from counts of files: those of all times together, and unknown times are no times."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from math import ceil
from typing import Any

import pyarrow as pa

from spark_reports.folds.latency import COUNTED, counted, percentiles

SHARES = {"p50_us": 500, "p999_us": 999}
Fact = tuple[str, int, str, int | None]
"""Topic, acks, client, latency_us"""


def _counted(facts: list[Fact]) -> pa.Table:
    columns = zip(("topic", "acks", "client", "latency_us"), map(list, zip(*facts, strict=True)), strict=True)
    rows = pa.table(dict(columns)).append_column("run", [["0001-run"] * len(facts)])
    return counted("client/", "broker", "producer", rows).cast(COUNTED)


def _slowly(facts: list[Fact]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, int, str], list[int | None]] = defaultdict(list)
    for topic, acks, client, latency_us in facts:
        groups[topic, acks, "broker" if client.startswith("client/") else "producer"].append(latency_us)
    found: list[dict[str, Any]] = []
    for (topic, acks, place), times in groups.items():
        known = sorted(time for time in times if time is not None)
        row: dict[str, Any] = {
            "run": "0001-run",
            "topic": topic,
            "acks": acks,
            "measured_at": place,
            "records": len(times),
        }
        for name, share in {**SHARES, "max_us": 1000}.items():
            row[name] = known[ceil(Fraction(share, 1000) * len(known)) - 1] if known else None
        found.append(row)
    return sorted(found, key=str)


def test_of_several_files_as_of_one() -> None:
    draw = random.Random(1)
    for count in (1, 2, 10, 999, 1000, 1001):
        facts: list[Fact] = [
            (draw.choice("tu"), draw.choice((0, 1, -1)), draw.choice(("p1", "client/kcat")), draw.randrange(50))
            for _ in range(count)
        ]
        facts += [("v", 0, "client/kcat", None), ("t", 1, "p1", None)]
        cut = draw.randrange(1, len(facts))
        counts = pa.concat_tables([_counted(facts[:cut]), _counted(facts[cut:])])
        assert sorted(percentiles(SHARES, counts), key=str) == _slowly(facts)


def test_without_facts_there_is_no_row() -> None:
    assert percentiles(SHARES, COUNTED.empty_table()) == []
