"""Stalls of writes: the same rows from slices as from all events at once, and little is kept between slices."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_reports.folds import write_stalls as stalls
from spark_reports.folds.events import Events
from spark_reports.folds.facts import together, with_words
from spark_reports.held import columns_of
from spark_reports.results import RESULT_TABLES

_WORDS, _NUMBERS = ("run", "topic", "client", "what", "error"), ("partition", "seq", "at_us")
_SCHEMA = with_words(pa.schema([*((name, pa.string()) for name in _WORDS), *((name, pa.int64()) for name in _NUMBERS)]))
_COLUMNS = ["run", "topic", "partition", *stalls.COLUMNS]
STOPS = {"p1": (40, 90), "p2": (70,)}
COUNT = 100


def _ends() -> stalls.Ends:
    stops = [{"run": run, "client": client, "seq": seq, "at_us": seq * 10}
             for run in ("r1", "r2") for client, its in STOPS.items() for seq in its]  # fmt: skip
    return stalls.Ends(pa.Table.from_pylist(stops), pa.table({"run": ["r1", "r2"], "end_us": [5_000, 6_000]}))


def _writes(draw: random.Random, count: int, *answers: str) -> pa.Table:
    """Of a few producers, also answers to what was never sent, and events without a partition."""
    rows: list[dict[str, Any]] = []
    kinds = (stalls.SENT, stalls.SENT, stalls.PLACED_SENT, stalls.FAILED, stalls.PLACED_FAILED, stalls.REFUSED)
    for seq in range(count):
        what = draw.choice((*kinds, *answers))
        is_wrong = what in (stalls.FAILED, stalls.PLACED_FAILED, stalls.REFUSED)
        rows.append({
            "run": draw.choice(("r1", "r2")), "topic": "t", "partition": draw.choice((-1, 0, 0, 1)),
            "client": draw.choice(("p1", "p2", "p3")), "what": what,
            "seq": seq, "at_us": seq * 10 + draw.randrange(10), "error": draw.choice("ABC") if is_wrong else None,
        })  # fmt: skip
    return pa.Table.from_pylist(rows, _SCHEMA).select(_COLUMNS)


def _folded(facts: pa.Table, slice_events: int) -> tuple[Counter[str], list[int]]:
    """The rows from slices of so many events, and how many events were kept after each."""
    schema = to_arrow_schema(columns_of(RESULT_TABLES["write_stalls"].ddl))
    rows: list[dict[str, Any]] = []
    kept: list[int] = []
    needed = facts.slice(0, 0)
    for begin in range(0, len(facts), slice_events):
        events = together([needed, facts.slice(begin, slice_events)])
        is_new = np.arange(len(events)) >= len(needed)
        is_last = begin + slice_events >= len(facts)
        made, needed = stalls.write_stalls(_ends(), 30, schema, Events(events, is_new, is_last))
        rows += pa.Table.from_batches(made, schema).to_pylist()
        kept.append(len(needed))
    return Counter(map(str, rows)), kept


@pytest.mark.soak
@pytest.mark.parametrize("slice_events", [2, 30])
def test_rows_are_the_same_from_slices_as_from_all_events_at_once(slice_events: int) -> None:
    for seed in range(5):
        facts = _writes(random.Random(seed), COUNT, stalls.WRITTEN)
        whole, _ = _folded(facts, len(facts))
        assert _folded(facts, slice_events)[0] == whole
        assert whole.total() >= COUNT / 20


@pytest.mark.soak
@pytest.mark.usefixtures("spark")
def test_what_is_kept_for_the_next_slice_does_not_grow_with_the_partition() -> None:
    _, kept = _folded(_writes(random.Random(1), 20 * COUNT), COUNT)
    # Of each run, partition and client how many wait, and each error of three kinds of events.
    assert len(kept) > 10
    assert 0 < max(kept) <= 2 * 3 * 3 * (1 + 3 * 3)


@pytest.mark.usefixtures("spark")
def test_an_event_without_a_partition_counts_where_its_record_got_one() -> None:
    """Once: as it is placed, and not as it was sent."""
    its = {"run": "r1", "topic": "t", "client": "p3", "error": None}
    rows = [
        {**its, "what": stalls.SENT, "partition": -1, "seq": 1, "at_us": 10},
        {**its, "what": stalls.PLACED_SENT, "partition": 0, "seq": 1, "at_us": 10},
        {**its, "what": stalls.WRITTEN, "partition": 0, "seq": 9, "at_us": 90},
    ]
    found, _ = _folded(pa.Table.from_pylist(rows, _SCHEMA).select(_COLUMNS), 10)
    assert found.total() == 1
    assert "'partition': 0, 'client': 'p3', 'from_us': 10, 'until_us': 90" in next(iter(found))
