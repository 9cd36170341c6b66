"""A share's events come slice by slice, and what a task holds does not grow with its largest partition."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_reports import from_files
from spark_reports.folds import written
from spark_reports.folds.events import Events, Folding, Made
from spark_reports.folds.files import Share, chunks_here, kinds_of
from spark_reports.folds.slices import END, Chunk, Kind, Slice, slices
from spark_reports.io import read_trace
from spark_reports.tables import ResultTables
from tests.bench.model import columns
from tests.bench.model.trace import ModelTrace
from tests.spark.folds import sliced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE: Kind = ("one",)
OTHER: Kind = ("other",)
EARLY: Kind = ("early",)


def chunk(kind: Kind, *places: int, is_ahead: bool = False) -> Chunk:
    return Chunk(min(places), is_ahead, lambda: {kind: pa.table({"seq": places})})


def places_in(piece: Slice) -> dict[Kind, list[int]]:
    return {kind: rows["seq"].to_pylist() for kind, rows in piece.its.items() if len(rows)}


def test_a_slice_is_what_no_later_chunk_can_come_before() -> None:
    chunks = [
        chunk(ONE, 10, 14, 12), chunk(OTHER, 5, 11, 30), chunk(ONE, 0, 1, 2), chunk(OTHER, 13, 40),
        chunk(EARLY, 25, 3, is_ahead=True),
    ]  # fmt: skip
    found = list(slices(chunks, "seq", lambda: 4))
    assert [(piece.until, places_in(piece)) for piece in found] == [
        (5, {EARLY: [25, 3], ONE: [0, 1, 2]}),
        (13, {ONE: [10, 12], OTHER: [5, 11]}),
        (END, {ONE: [14], OTHER: [30, 13, 40]}),
    ]
    assert len(list(slices(chunks, "seq", lambda: 99))) == 1


def test_without_events_there_is_one_slice_and_it_is_the_last() -> None:
    assert [(piece.its, piece.is_last) for piece in slices([], "seq", lambda: 4)] == [({}, True)]


def test_what_lies_behind_is_kept_for_the_next_slice() -> None:
    chunks = [chunk(ONE, *range(0, 10)), chunk(OTHER, *range(0, 100, 10)), chunk(ONE, *range(20, 30)), chunk(ONE, 95)]
    found = list(slices(chunks, "seq", lambda: 10))
    assert [(piece.until, sum(map(len, places_in(piece).values()))) for piece in found] == [
        (20, 12),
        (95, 18),
        (END, 1),
    ]
    assert Counter(place for piece in found for its in places_in(piece).values() for place in its) == Counter(
        [*range(10), *range(0, 100, 10), *range(20, 30), 95]
    )


@pytest.mark.spark
def test_a_table_is_the_same_from_slices_as_from_all_events_at_once(spark: SparkSession, leader_kill_dir: Path) -> None:
    tables = ResultTables(read_trace(spark, [leader_kill_dir]))
    sliced.agree(tables, leader_kill_dir, random.Random(7), (1, 3, 9, 40))


@pytest.fixture
def run_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sliced.RunOf:
    """Traces of so many rounds, in parts of one round each: half of them are one share."""
    monkeypatch.setattr(columns, "ROWS_PER_PART", 1)
    monkeypatch.setattr(written, "SLICE_EVENTS", 10_000)
    monkeypatch.setattr(written, "WRITTEN_ROWS", 1_000)

    def run(rounds: int) -> Path:
        folder = tmp_path / f"{rounds:04}-model"
        ModelTrace(rounds).write(folder / "trace")
        return folder

    return run


@pytest.mark.spark
def test_what_a_fold_is_given_at_once_does_not_grow_with_the_partition(
    spark: SparkSession, run_of: sliced.RunOf, tmp_path: Path
) -> None:
    """Counted in events, and in bytes of Arrow when each fold begins."""
    short, long = (_most(spark, run_of(rounds), tmp_path / f"{rounds}") for rounds in (3, 12))
    assert short.keys() == long.keys()
    assert {name: (its, long[name]) for name, its in short.items() if long[name][0] > 1.2 * its[0]} == {}
    assert {name: (its, long[name]) for name, its in short.items() if long[name][1] > 1.2 * its[1]} == {}


def _most(spark: SparkSession, run_dir: Path, out: Path) -> dict[str, tuple[int, int]]:
    found = sliced.foldings(ResultTables(read_trace(spark, [run_dir])))
    most: dict[str, tuple[int, int]] = {}

    def counting(name: str, folding: Folding) -> Folding:
        def make(schema: pa.Schema, events: Events) -> Made:
            before = most.get(name, (0, 0))
            now = (len(events.rows), pa.total_allocated_bytes() - base)
            most[name] = (max(before[0], now[0]), max(before[1], now[1]))
            return folding.make(schema, events)

        return folding._replace(make=make)

    schemas, share = from_files._schemas(), Share(str(run_dir), 0, 2)
    for along in ("seq", "offset"):
        base = pa.total_allocated_bytes()
        tables = []
        for name, (folding, schema) in found.items():
            if folding.along == along:
                (out / name).mkdir(parents=True)
                tables.append(written.WrittenTable(counting(name, folding), schema, out / name))
        kinds = kinds_of([table.folding.facts for table in tables], along)
        list(written.write_share(tables, schemas, share, chunks_here(share, kinds, schemas, along)))
    assert pq.read_table(out / "replication_lag").num_rows > 1000
    return most
