"""Fewer points for pictures: points that may go, and points that must stay."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from spark_reports.report import rows, thin
from spark_reports.report.series import LOST_MARKS, marks_on_log
from spark_reports.report.thin import picture
from tests.spark.columns import rows_of
from tests.spark.conftest import Row

END_US, BINS, WHOLE_UP_TO = 1_000, 20, 60
SERIES = 30
MOVES = ("batch_appended", "high_watermark_advanced", "high_watermark_learned")
RARE = ("log_truncated", "node_stopped", "log_recovered", "leadership_began")
COLUMNS = ("run", "topic", "partition", "node", "at_us", "seq", "event", "uncommitted_records")


def random_series(number: int) -> list[tuple[Any, ...]]:
    """Two replicas of one partition: few points or many, spread or in bursts, some of them rare events."""
    chance = random.Random(f"series {number}")
    size = chance.choice((0, 1, WHOLE_UP_TO, WHOLE_UP_TO + 1, 300, 800))
    times = sorted(chance.choice((chance.randrange(END_US), 500)) for _ in range(size))
    points: list[tuple[Any, ...]] = []
    for seq, at_us in enumerate(times):
        event = chance.choice(RARE if chance.random() < 0.05 else MOVES)
        gap = chance.choice((None, 0, chance.randrange(50)))
        points.append(("x", "t", number, chance.choice(("b1", "b2")), at_us, seq, event, gap))
    return points


def test_pictures_keep_rare_facts_and_extremes_and_have_a_bounded_number_of_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thin, "BINS", BINS)
    monkeypatch.setattr(thin, "WHOLE_UP_TO", WHOLE_UP_TO)
    monkeypatch.setattr(rows, "_READ_ROWS", 100)
    points = [point for number in range(SERIES) for point in random_series(number)]
    random.Random("order").shuffle(points)
    table = rows_of("replica_timeline", [dict(zip(COLUMNS, point, strict=True)) for point in points])
    kept = [{name: row[name] for name in COLUMNS} for row in picture("replica_timeline", table, {"x": END_US})]
    kept_of: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(kept, key=lambda row: (row["partition"], row["seq"])):
        kept_of[row["partition"]].append(row)
    for number in range(SERIES):
        before = [dict(zip(COLUMNS, point, strict=True)) for point in random_series(number)]
        after = kept_of[number]
        assert [row for row in before if row in after] == after  # nothing new, nothing twice, the order kept
        rare = [row for row in before if row["event"] in RARE]
        assert [row for row in after if row["event"] in RARE] == rare
        if len(before) <= WHOLE_UP_TO:
            assert after == before
        else:
            assert len(after) - len(rare) <= 3 * 2 * (BINS + 1)
        assert _extremes(after) == _extremes(before)


def _extremes(rows: list[Row]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """By replica and stretch of the run: the last point, the largest and the smallest number."""
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["node"], row["at_us"] // (END_US // BINS)].append(row)
    return {
        key: (
            some[-1]["seq"],
            max((row["uncommitted_records"] for row in some if row["uncommitted_records"] is not None), default=None),
            min((row["uncommitted_records"] for row in some if row["uncommitted_records"] is not None), default=None),
        )
        for key, some in found.items()
    }


def test_each_lost_record_is_told_by_a_mark() -> None:
    """However many there are: marks are few, and each says whom it stands for."""
    told = [
        {"acked_us": i, "ack_offset": i, "record": f"r{i}", "acks": 1, "acked_by": "b1"} for i in range(10 * LOST_MARKS)
    ]
    timeline, lost = rows_of("replica_timeline"), rows_of("lost_records", told)
    marks = marks_on_log("b1", timeline, lost)
    assert len(marks) == LOST_MARKS
    assert (marks[0]["what"], marks[0]["leo"]) == ("r0..r9 were acked here (acks=1) and lost", 1)
    assert marks_on_log("b1", timeline, lost[:1])[0]["what"] == "r0 was acked here (acks=1) and lost"
    assert marks_on_log("b2", timeline, lost) == []
