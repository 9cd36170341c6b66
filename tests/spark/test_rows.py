"""Rows that stay columns: the choice is the same as Python's, and the page holds few of them as dicts."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reports.report import page
from spark_reports.report import rows as rows_module
from spark_reports.report.rows import HELD_ROWS, Rows
from spark_reports.results import RESULT_TABLES
from tests.spark.columns import schema_of

Dicts = list[dict[str, Any]]

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("clean", pa.bool_()),
        ("held_by", pa.list_(pa.field("element", pa.string(), nullable=False))),
        ("seq", pa.int64()),
        ("place", pa.int64()),
    ]
)
DICTS = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from([None, "", "t", "u", "ü"]),
            "partition": st.sampled_from([None, 0, 1, 10]),
            "clean": st.sampled_from([None, False, True]),
            "held_by": st.sampled_from([None, [], ["b1"], ["b1", "b2"], ["b2", "b1"]]),
            "seq": st.integers(0, 4),
        }
    ),
    max_size=30,
).map(lambda dicts: [{**row, "place": place} for place, row in enumerate(dicts)])


@contextmanager
def both(dicts: Dicts) -> Iterator[list[Rows]]:
    """In memory, and from a table on disk in three parts that is read in small batches."""
    table = pa.Table.from_pylist(dicts, SCHEMA)
    third = len(dicts) // 3
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for part, ends in enumerate([(0, third), (third, third), (2 * third, len(dicts))]):
            pq.write_table(table.slice(*ends), f"{folder}/part-{part}.parquet")
        patch.setattr(rows_module, "HELD_ROWS", -1)
        patch.setattr(rows_module, "_READ_ROWS", 4)
        patch.setattr(rows_module, "_DICT_ROWS", 3)
        yield [Rows(table), Rows.stored(Path(folder))]


@pytest.mark.soak
@given(DICTS)
def test_they_are_the_tables_rows(dicts: Dicts) -> None:
    with both(dicts) as several:
        for rows in several:
            assert list(rows) == dicts and len(rows) == len(dicts) and rows.columns == SCHEMA.names
            assert list(rows.values("topic")) == [row["topic"] for row in dicts]
            assert [rows[place] for place in range(-len(dicts), len(dicts))] == dicts * 2
            with pytest.raises(IndexError):
                rows[len(dicts)]


@given(DICTS, st.slices(20))
def test_slices(dicts: Dicts, part: slice) -> None:
    with both(dicts) as several:
        assert [list(rows[part]) for rows in several] == [dicts[part]] * 2


@given(DICTS, st.sampled_from([None, "", "t", "ü"]), st.sampled_from([None, 0, 10]), st.booleans())
def test_where_and_without(dicts: Dicts, topic: str | None, partition: int | None, clean: bool) -> None:
    with both(dicts) as several:
        for rows in several:
            there = rows.where(topic=topic, partition=partition)
            want = [row for row in dicts if (row["topic"], row["partition"]) == (topic, partition)]
            assert list(there) == want and len(there) == len(want)
            assert list(there.where(clean=clean)) == [row for row in want if row["clean"] is clean]
            assert list(there.where(clean=clean).values("seq")) == [r["seq"] for r in want if r["clean"] is clean]
            assert list(rows.without("topic", ("t", "u"))) == [row for row in dicts if row["topic"] not in ("t", "u")]
            assert list(there[:2]) == want[:2]


@given(DICTS, st.none() | st.integers(0, 40))
def test_order_is_that_of_pythons_sort_and_nulls_are_last(dicts: Dicts, most: int | None) -> None:
    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["topic"] is None, row["topic"] or "", row["seq"])

    with both(dicts) as several:
        for rows in several:
            assert list(rows.in_order("seq", most=most)) == sorted(dicts, key=lambda row: row["seq"])[:most]
            assert list(rows.in_order("topic", "seq", most=most)) == sorted(dicts, key=key)[:most]
            late = [row for row in dicts if row["partition"] == 10]
            assert list(rows.where(partition=10).in_order("topic", "seq")) == sorted(late, key=key)


@pytest.mark.soak
@given(DICTS, st.integers(0, 8))
def test_groups_stand_in_order_of_their_least_and_then_of_their_first_row(dicts: Dicts, most: int) -> None:
    found: dict[Any, Dicts] = {}
    for row in dicts:
        found.setdefault((row["topic"], row["partition"], tuple(row["held_by"] or ())), []).append(row)
    in_order = sorted(found.values(), key=lambda group: min(row["seq"] for row in group))
    with both(dicts) as several:
        for rows in several:
            groups, in_all = rows.groups(("topic", "partition", "held_by"), "seq", most)
            assert [list(group) for group in groups] == in_order[:most] and in_all == len(found)


def test_many_groups_in_many_batches_stand_in_order_too(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3 * HELD_ROWS
    reasons = [f"reason {place * 7919 % count}" for place in range(count)]
    table = pa.table({"reason": [*reasons, *reasons], "seq": [0] * 2 * count, "place": range(2 * count)})
    groups, in_all = Rows(table).groups(("reason",), "seq", 50)
    assert [list(group.values("place")) for group in groups] == [[place, count + place] for place in range(50)]
    assert in_all == count


# ------------------------------------------------------------------------------------------------------- and the page

PARTITIONS = 300
ROWS = 2 * HELD_ROWS
"""Of most tables; they are read from disk, batch by batch."""
COUNTS = {"runs": 1, "record_counts": 1, "availability": PARTITIONS, "ack_latency": 9} | dict.fromkeys(
    ("fault_intervals", "stopped_intervals"), 9
)
"""Of the others. Faults and stops are of no partition: a chart shows them all."""
MOST_BYTES = 14_000_000
"""Memory held before the text is put together. As dicts the rows would be 360 MB, those of lost_records alone 33."""

_WORDS = {
    "run": "0001", "topic": "t", "node": "b1", "leader": "b1", "previous_leader": "b2", "anomaly": "lost",
    "kind": "no leader", "event": "leader_elected", "verb": None, "standing": "leader", "acked_by": "b1",
    "data": json.dumps({"event": "topic_deleted", "node": "c1", "topic": "t"}),
}  # fmt: skip


@pytest.mark.soak
def test_the_page_holds_no_table_as_dicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PARTITIONS_DRAWN", 1)
    for name in RESULT_TABLES:
        count = COUNTS.get(name, ROWS)
        (tmp_path / name).mkdir()
        pq.write_table(pa.table([_column(field, count) for field in schema_of(name)], schema_of(name)),
                       tmp_path / name / "part-00000.parquet")  # fmt: skip
    tables = {name: Rows.stored(tmp_path / name) for name in RESULT_TABLES}
    held: list[int] = []

    def vega_script() -> str:
        held.append(tracemalloc.get_traced_memory()[1])
        return ""

    monkeypatch.setattr(page, "vega_script", vega_script)
    tracemalloc.start()
    try:
        html = page.render(tables, "a test")
    finally:
        tracemalloc.stop()
    assert f"{ROWS:,} acknowledged records were lost: w0..w{ROWS - 1}." in html
    assert f"{ROWS - page.ROWS_SHOWN} more in the tables." in html
    assert held[0] < MOST_BYTES


def _column(field: pa.Field, count: int) -> pa.Array:
    """Row i = 0, 1, ... is of partition i modulo PARTITIONS, and has its own time and reason."""
    if field.name == "partition":
        return pa.array([place % PARTITIONS for place in range(count)], field.type)
    if pa.types.is_list(field.type):
        return pa.array([["b1", "b2"]] * count, field.type)
    if pa.types.is_boolean(field.type):
        return pa.array([True] * count, field.type)
    if not pa.types.is_string(field.type):
        return pa.array(range(1, count + 1), field.type)
    if field.name in ("record", "witness"):
        return pa.array([f"w{place}" for place in range(count)])
    word = _WORDS.get(field.name, field.name)
    return pa.array([f"why {place}" if field.name.endswith("reason") else word for place in range(count)], field.type)
