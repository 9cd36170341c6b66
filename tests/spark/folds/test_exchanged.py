"""Tables of records, made by tasks that send each other what they find: the same, however partitions are cut."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from spark_reports.folds import exchange, fates
from spark_reports.folds import write_stalls as stalls
from spark_reports.folds.events import Events
from spark_reports.folds.exchange import Steps, all_of_it
from spark_reports.folds.files import with_words
from tests.spark.folds.sliced import exchanged, rows_in

_WORDS, _NUMBERS = (
    ("run", "topic", "client", "what", "error", "record"),
    ("partition", "seq", "at_us", "offset", "acks"),
)
_SCHEMA = with_words(pa.schema([*((name, pa.string()) for name in _WORDS), *((name, pa.int64()) for name in _NUMBERS)]))
STOPS = {"p1": (40, 90), "p2": (70,)}


def _ends() -> stalls.Ends:
    stops = [{"run": run, "client": client, "seq": seq, "at_us": seq * 10}
             for run in ("r1", "r2") for client, its in STOPS.items() for seq in its]  # fmt: skip
    return stalls.Ends(pa.Table.from_pylist(stops), pa.table({"run": ["r1", "r2"], "end_us": [5_000, 6_000]}))


def _writes(draw: random.Random, count: int, *answers: str) -> pa.Table:
    """Of a few producers, in any order, also answers to what was never sent."""
    rows: list[dict[str, Any]] = []
    for seq in range(count):
        what = draw.choice((stalls.SENT, stalls.SENT, stalls.FAILED, stalls.REFUSED, *answers))
        is_wrong = what in (stalls.FAILED, stalls.REFUSED)
        rows.append({
            "run": draw.choice(("r1", "r2")), "topic": "t", "partition": draw.choice((-1, 0, 0, 1)),
            "client": draw.choice(("p1", "p2", "p3")), "record": f"r{draw.randrange(count)}", "what": what,
            "seq": seq, "at_us": seq * 10 + draw.randrange(10), "error": draw.choice("ABC") if is_wrong else None,
        })  # fmt: skip
    return pa.Table.from_pylist(rows, _SCHEMA).drop_columns(["offset", "acks"])


def _records(draw: random.Random, count: int) -> pa.Table:
    """Sent in one order, stored in another, some of them twice, some never."""
    rows: list[dict[str, Any]] = []
    offsets = draw.sample(range(count), count)
    for number in range(count):
        its = {"run": "r1", "topic": "t", "partition": draw.choice((0, 1)), "record": f"r{number}"}
        for _ in range(draw.choice((0, 1, 1, 2))):
            sent = {"what": fates.SENT, "client": draw.choice(("p1", "p2")), "seq": draw.randrange(10 * count)}
            rows.append({**its, **sent, "at_us": sent["seq"], "acks": -1})
        if draw.random() < 0.8:
            rows.append({**its, "what": fates.STORED, "offset": offsets[number]})
        rows.append({**its, "what": fates.READ})
    return pa.Table.from_pylist(rows, _SCHEMA)


def _answered(draw: random.Random, count: int) -> pa.Table:
    return _writes(draw, count, stalls.WRITTEN)


STALLS = Steps(all_of_it, stalls.placed, lambda events: stalls.write_stalls(_ends(), 30, events), "seq")
FATES = Steps(all_of_it, fates.fates, fates.with_anomalies, fates.PLACE)
COUNT = 100


@pytest.mark.parametrize("slice_records", [2, 30])
@pytest.mark.parametrize("shares", [1, 3])
@pytest.mark.parametrize(
    ("steps", "facts_of"), [(STALLS, _answered), (FATES, _records)], ids=["write_stalls", "records"]
)
def test_rows_are_the_same_from_slices_as_from_all_events_at_once(
    steps: Steps, facts_of: Any, shares: int, slice_records: int
) -> None:
    for seed in range(5):
        facts = facts_of(random.Random(seed), COUNT)
        whole = exchange.at_once(steps, facts)
        assert rows_in(exchanged(steps, whole.schema, facts, shares, slice_records)) == rows_in(whole)
        assert len(whole) >= COUNT / 20


@pytest.mark.parametrize(
    ("steps", "facts_of", "most"),
    # Of each run, partition and client how many wait, and each error of batches and records; or its latest record.
    [(STALLS, _writes, 2 * 3 * 3 * (1 + 2 * 3)), (FATES, _records, 2 * 2)],
    ids=["write_stalls", "records"],
)
def test_what_is_kept_for_the_next_slice_does_not_grow_with_the_partition(
    steps: Steps, facts_of: Any, most: int
) -> None:
    kept: list[int] = []

    def of_partitions(events: Events) -> tuple[pa.Table, pa.Table]:
        rows, needed = steps.of_partitions(events)
        kept.append(len(needed))
        return rows, needed

    facts = facts_of(random.Random(1), 20 * COUNT)
    schema = exchange.at_once(steps, facts).schema
    exchanged(steps._replace(of_partitions=of_partitions), schema, facts, 2, COUNT)
    assert len(kept) > 10
    assert 0 < max(kept) <= most
    assert kept[-1] == 0
