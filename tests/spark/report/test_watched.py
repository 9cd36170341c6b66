"""The page of a cluster that was only watched: rows of the tables in, its headline and figures out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spark_reports.report import notes, page
from spark_reports.report.heading import heading_of
from spark_reports.report.rows import Rows
from tests.spark.columns import rows_of

S = 1_000_000
Row = dict[str, Any]


def partition(number: int, **columns: int) -> Row:
    well = {"offline_us": 0, "under_min_isr_us": 0, "under_replicated_us": 0}
    return {"topic": "orders", "partition": number, **well, **columns}


def stood(number: int, from_s: float, until_s: float) -> Row:
    return {"topic": "orders", "partition": number, "from_us": int(from_s * S), "until_us": int(until_s * S)}


def tables(availability: list[Row], stalls: list[Row]) -> dict[str, Rows]:
    found = {"availability": rows_of("availability", availability), "hw_stalls": rows_of("hw_stalls", stalls)}
    return {**found, **{name: rows_of(name) for name in ("elections", "stopped_intervals")}}


def test_each_kind_of_trouble_is_counted_by_partition() -> None:
    seen = tables(
        [partition(0, offline_us=S), partition(1, under_min_isr_us=S, offline_us=1), partition(2)],
        [stood(1, 1, 2), stood(1, 3, 7), stood(2, 5, 6)],
    )
    assert notes.watched_headline(seen) == (
        "2 partitions were without a leader, 1 partition was below min.insync.replicas and "
        "2 partitions had a high watermark that stood still.",
        "warn",
    )


def test_a_cluster_without_trouble_is_said_to_be_well() -> None:
    headline, mood = notes.watched_headline(tables([partition(0), partition(1, under_replicated_us=S)], []))
    assert headline.startswith("Every partition had a leader") and mood == "ok"


def test_no_figure_is_about_records_that_a_watch_does_not_see() -> None:
    seen = tables([partition(0, under_replicated_us=2 * S)], [stood(0, 1, 4.5)])
    assert page._watched({"notes": []}, seen)["tiles"] == [
        ("0", "offline, summed over partitions", "good"),
        ("0", "under min ISR, summed over partitions", "good"),
        ("2 s", "under-replicated, summed over partitions", "warn"),
        ("3.5 s", "longest time a high watermark stood still", "warn"),
        ("0", "elections", ""),
    ]


def test_the_summary_of_a_run_says_that_it_was_a_watch(tmp_path: Path) -> None:
    (tmp_path / "scenario.lock.yaml").write_text("question: who?\n", encoding="utf-8")
    for summary, expected in (({"title": "t"}, False), ({"title": "t", "watched": {"holds": []}}, True)):
        (tmp_path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        assert heading_of(tmp_path).is_watched is expected
