"""Events from the trace's files: in their order, all of them once whatever the shares and slices."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_reports import folding as files
from spark_reports.folds import events as folds
from spark_reports.folds.events import Events, Folding, Made, fold_share, slices
from spark_reports.folds.facts import DamagedPart, Facts, Share, read_part, same, with_words
from spark_reports.io import read_trace
from spark_reports.tables import ResultTables
from tests.bench.model import columns
from tests.bench.model.trace import ModelTrace
from tests.spark.folds import sliced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION = pa.field("partition", pa.int64())
LOG = with_words(pa.schema([("seq", pa.int64()), ("topic", pa.string()), PARTITION, ("node", pa.string())]))
TURN = with_words(pa.schema([*LOG, pa.field("event", pa.string())]))
SCHEMAS = {"log": LOG, "control": TURN}
FACTS = {
    "stopped": Facts("control", same("seq", "node"), {"event": ["node_stopped"]}, everywhere=True),
    "appended": Facts("log", same("seq", "node")),
}
COLUMNS = ("what", "seq", "node")

Event = tuple[int, str, int, str]
Found = list[tuple[Any, ...]]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Two parts of the log and one of control."""
    parts: list[list[Event]] = [
        [(1, "t", 0, "b1"), (2, "t", 1, "b2"), (4, "u", 0, "b1"), (5, "t", 0, "b2")],
        [(8, "t", 1, "b1"), (9, "t", 1, "b2")],
    ]
    for place, events in enumerate(parts):
        by_column = dict(zip(("seq", "topic", "partition", "node"), map(list, zip(*events, strict=True)), strict=True))
        _write(tmp_path / "0001-run/trace/log", place, by_column)
    turns = {
        "seq": [0, 3, 5, 6], "node": ["c1", "b1", "b2", "b3"], "topic": ["t", None, None, None],
        "event": ["partition_created", "node_stopped", "node_stopped", "node_started"],
        "partition": [0, None, None, None],
    }  # fmt: skip
    _write(tmp_path / "0001-run/trace/control", 0, turns)
    return tmp_path / "0001-run"


def _write(folder: Path, place: int, by_column: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(by_column), folder / f"part-{place:05}.parquet")


def _slices(share: Share, facts: dict[str, Facts], monkeypatch: pytest.MonkeyPatch, most: int) -> list[Found]:
    """The events of each slice, as a fold gets them."""
    found: list[Found] = []

    def make(schema: pa.Schema, events: Events) -> Made:
        assert events.rows.column_names == ["run", "topic", "partition", *COLUMNS]
        found.append([tuple(row.values()) for row in events.rows.to_pylist()])
        return (), events.rows.slice(0, 0)

    monkeypatch.setattr(folds, "SLICE_EVENTS", most)
    assert list(fold_share(share, {"one": (Folding(make, facts, COLUMNS), LOG)}, SCHEMAS)) == []
    return found


def _events(run_dir: Path, place: int, shares: int, monkeypatch: pytest.MonkeyPatch) -> Found:
    (found,) = _slices(Share(str(run_dir), place, shares), FACTS, monkeypatch, 1 << 20)
    return found


def _by_partition(events: Sequence[tuple[Any, ...]]) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for run, topic, partition, *event in events:
        assert run == "0001-run"
        found.setdefault((topic, partition), []).append(tuple(event))
    return found


def test_by_partition_and_seq_and_a_stop_is_in_every_partition(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _by_partition(_events(run_dir, 0, 1, monkeypatch)) == {
        # Of one seq in the order of the kinds.
        ("t", 0): [("appended", 1, "b1"), ("stopped", 3, "b1"), ("stopped", 5, "b2"), ("appended", 5, "b2")],
        ("t", 1): [
            ("appended", 2, "b2"), ("stopped", 3, "b1"), ("stopped", 5, "b2"), ("appended", 8, "b1"),
            ("appended", 9, "b2"),
        ],
        ("u", 0): [("stopped", 3, "b1"), ("appended", 4, "b1"), ("stopped", 5, "b2")],
    }  # fmt: skip


def test_a_slice_is_what_no_later_file_can_come_before(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that is met later has earlier stops, too; facts ahead are all in the first slice."""
    facts = FACTS | {"made": Facts("control", same("seq", "node"), {"event": ["partition_created"]}, ahead=True)}
    first, last = _slices(Share(str(run_dir), 0, 1), facts, monkeypatch, 3)
    assert _by_partition(first) == {
        ("t", 0): [
            ("made", 0, "c1"), ("appended", 1, "b1"), ("stopped", 3, "b1"), ("stopped", 5, "b2"), ("appended", 5, "b2"),
        ],
        ("t", 1): [("appended", 2, "b2"), ("stopped", 3, "b1"), ("stopped", 5, "b2")],
        ("u", 0): [("stopped", 3, "b1"), ("appended", 4, "b1"), ("stopped", 5, "b2")],
    }  # fmt: skip
    assert _by_partition(last) == {("t", 1): [("appended", 8, "b1"), ("appended", 9, "b2")]}


def test_shares_are_whole_partitions_and_together_everything(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _events(run_dir, 0, 1, monkeypatch)
    shares = [_events(run_dir, place, 3, monkeypatch) for place in range(3)]
    assert sorted(event for share in shares for event in share) == sorted(whole)
    partitions = [{event[1:3] for event in share} for share in shares]
    assert sum(map(len, partitions)) == 3 and max(map(len, partitions)) < 3


def test_what_lies_behind_is_kept_for_the_next_slice(tmp_path: Path) -> None:
    """Tables of which one has the events of a long time in one file."""
    files: dict[str, list[list[int]]] = {
        "log": [[*range(10)], [*range(20, 30)], [95]], "control": [[*range(0, 100, 10)]],
    }  # fmt: skip
    for table, parts in files.items():
        for place, seqs in enumerate(parts):
            its = {"seq": seqs, "topic": ["t"] * len(seqs), "partition": [0] * len(seqs)}
            _write(tmp_path / "trace" / table, place, its)
    read = {table: pa.schema([*LOG][:3]) for table in SCHEMAS}
    found = list(slices(Share(str(tmp_path), 0, 1), read, lambda: 10))
    assert [(piece.since, piece.until, sum(map(len, piece.rows.values()))) for piece in found] == [
        (folds.BEGIN, 20, 12), (20, 95, 18), (95, folds.END, 1),
    ]  # fmt: skip
    met = sorted(seq for piece in found for rows in piece.rows.values() for seq in rows["seq"].to_pylist())
    assert met == sorted([*range(10), *range(20, 30), 95, *range(0, 100, 10)])


def test_a_column_that_a_file_lacks_is_null_and_one_of_another_type_is_damage(run_dir: Path) -> None:
    part = run_dir / "trace" / "control" / "part-00000.parquet"
    assert read_part(part, TURN.append(pa.field("fault", pa.string())))["fault"].null_count == 4
    with pytest.raises(DamagedPart, match=str(part)):
        read_part(part, pa.schema([("node", pa.int64())]))


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("cuts", [3, 1, 9, 40])
def test_a_table_is_the_same_from_slices_as_from_all_events_at_once(
    spark: SparkSession, leader_kill_dir: Path, cuts: int
) -> None:
    tables = ResultTables(read_trace(spark, [leader_kill_dir]))
    sliced.agree(tables, leader_kill_dir, random.Random(7), (cuts,))


@pytest.fixture
def run_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sliced.RunOf:
    """Traces of so many rounds, in parts of one round each: half of them are one share."""
    monkeypatch.setattr(columns, "ROWS_PER_PART", 1)
    monkeypatch.setattr(folds, "SLICE_EVENTS", 10_000)
    monkeypatch.setattr(folds, "WRITTEN_ROWS", 1_000)

    def run(rounds: int) -> Path:
        folder = tmp_path / f"{rounds:04}-model"
        ModelTrace(rounds).write(folder / "trace")
        return folder

    return run


@pytest.mark.soak
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

    base = pa.total_allocated_bytes()
    for name in found:
        (out / name).mkdir(parents=True)
    tables = {name: (counting(name, folding), schema) for name, (folding, schema) in found.items()}
    list(folds.write_tables(out, tables, files.trace_schemas(), Share(str(run_dir), 0, 2)))
    assert pq.read_table(out / "replication_lag").num_rows > 1000
    return most
