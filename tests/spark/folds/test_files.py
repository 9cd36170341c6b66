"""Events from the trace's files: in their order, all of them once whatever the shares, and no file read for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from spark_reports.folds import exchange
from spark_reports.folds.events import Events, FoldedShare, Folding, Made
from spark_reports.folds.files import Facts, PartFiles, Share, chunks_here, kinds_of, same, with_words
from spark_reports.folds.parts import DamagedPart, read_part
from spark_reports.folds.slices import Chunk, slices

PARTITION = pa.field("partition", pa.int64(), nullable=False)
LOG = with_words(pa.schema([("seq", pa.int64()), ("topic", pa.string()), PARTITION, ("node", pa.string())]))
TURN = with_words(pa.schema([("seq", pa.int64()), ("node", pa.string()), ("event", pa.string())]))
SCHEMAS = {"log": LOG, "control": TURN}
FACTS = {
    "stopped": Facts("control", same("seq", "node"), {"event": ["node_stopped"]}, everywhere=True),
    "appended": Facts("log", same("seq", "node")),
}
COLUMNS = ("what", "seq", "node")

Event = tuple[int, str, int | None, str]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Two parts of the log and one of control; the second part of the log, and that of control, name one partition."""
    parts: list[list[Event]] = [
        [(1, "t", 0, "b1"), (2, "t", 1, "b2"), (4, "u", 0, "b1"), (5, "t", 0, "b2")],
        [(8, "t", 1, "b1"), (9, "t", 1, "b2")],
    ]
    for place, events in enumerate(parts):
        columns = dict(zip(("seq", "topic", "partition", "node"), map(list, zip(*events, strict=True)), strict=True))
        _write(tmp_path / "0001-run/trace/log", place, columns)
    turns = {
        "seq": [0, 3, 5, 6], "node": ["c1", "b1", "b2", "b3"], "topic": ["t", None, None, None],
        "event": ["partition_created", "node_stopped", "node_stopped", "node_started"],
        "partition": [0, None, None, None],
    }  # fmt: skip
    _write(tmp_path / "0001-run/trace/control", 0, turns)
    return tmp_path / "0001-run"


def _write(folder: Path, place: int, columns: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"part-{place:05}.parquet")


def _slices(share: Share, facts: Mapping[str, Facts], chunks: Sequence[Chunk], most: int) -> list[pa.Table]:
    """The events of each slice."""
    found = []

    def make(schema: pa.Schema, events: Events) -> Made:
        found.append(events.rows)
        return (), events.rows.slice(0, 0)

    folded = FoldedShare(Folding(make, facts, COLUMNS), LOG, SCHEMAS, share)
    for piece in slices(chunks, "seq", lambda: most):
        folded.rows(piece)
    return found


def _read(share: Share, facts: Mapping[str, Facts]) -> pa.Table:
    chunks = chunks_here(share, kinds_of([facts], "seq"), SCHEMAS, "seq")
    (found,) = _slices(share, facts, chunks, 1 << 20)
    return found


def _events(run_dir: Path, place: int, shares: int) -> list[tuple[Any, ...]]:
    found = _read(Share(str(run_dir), place, shares), FACTS)
    assert found.column_names == ["run", "topic", "partition", *COLUMNS]
    return [tuple(row.values()) for row in found.to_pylist()]


def test_by_partition_and_seq_and_a_stop_is_in_every_partition(run_dir: Path) -> None:
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for run, topic, partition, *event in _events(run_dir, 0, 1):
        assert run == "0001-run"
        found.setdefault((topic, partition), []).append(tuple(event))
    assert found == {
        # Of one seq in the order of the kinds.
        ("t", 0): [("appended", 1, "b1"), ("stopped", 3, "b1"), ("stopped", 5, "b2"), ("appended", 5, "b2")],
        ("t", 1): [
            ("appended", 2, "b2"), ("stopped", 3, "b1"), ("stopped", 5, "b2"), ("appended", 8, "b1"),
            ("appended", 9, "b2"),
        ],
        ("u", 0): [("stopped", 3, "b1"), ("appended", 4, "b1"), ("stopped", 5, "b2")],
    }  # fmt: skip


def test_shares_are_whole_partitions_and_together_everything(run_dir: Path) -> None:
    whole = _events(run_dir, 0, 1)
    shares = [_events(run_dir, place, 3) for place in range(3)]
    assert sorted(event for share in shares for event in share) == sorted(whole)
    partitions = [{event[1:3] for event in share} for share in shares]
    assert sum(map(len, partitions)) == 3 and max(map(len, partitions)) < 3


@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize("table", [[], ["u"]])
def test_a_share_that_is_sent_its_facts_has_what_it_would_read(
    run_dir: Path, table: list[str], in_files: bool, tmp_path: Path
) -> None:
    """A fact of a table of the report, too, of a partition that no file has."""
    told = pa.table({"run": ["0001-run"], "topic": ["u"], "partition": [7], "seq": [3], "node": ["b1"]})
    facts = FACTS | {"none": Facts("log", same("seq", "node"), {"node": ["b9"]})}
    facts |= {name: Facts(told, same("seq", "node")) for name in table}
    shares = [Share(str(run_dir), place, 3) for place in range(3)]
    kinds = kinds_of([facts], "seq")
    tasks = [PartFiles(str(run_dir), "log", [str(part)]) for part in sorted(run_dir.glob("trace/log/*"))]
    batches = [pa.RecordBatch.from_arrays([pa.array([0, 1])], ["id"])]
    schema = pa.schema([("share", pa.int64())])
    folder = tmp_path if in_files else None
    values = pa.Table.from_batches(exchange.send_to_shares(tasks, kinds, SCHEMAS, "seq", shares, folder, iter(batches)))
    met: list[int] = []

    def rows(share: Share, chunks: Sequence[Chunk]) -> list[pa.RecordBatch]:
        (found,) = _slices(share, facts, chunks, 1 << 20)
        assert found.equals(_read(share, facts).cast(found.schema))
        return [pa.RecordBatch.from_arrays([pa.array([share.place] * len(found), pa.int64())], schema=schema)]

    for number in range(3):
        its = values.filter(pc.equal(values["share"], number))
        met += exchange.of_share(rows, kinds, shares, schema, its)["share"].to_pylist()
    assert len(met) == len(_events(run_dir, 0, 1)) + (3 if table else 0)


def test_a_kind_of_events_is_read_once_with_all_columns_that_are_needed() -> None:
    where = {"node": ["b1"]}
    one = {"appended": Facts("log", same("seq"), where), "stopped": FACTS["stopped"]}
    other = {"written": Facts("log", {"seq": "node"}, where), "all": Facts("log", same("seq"))}
    found = kinds_of([one, other], "seq")
    assert [(kind.where, [*kind.columns]) for kind in found.values()] == [(where, ["seq", "node"]), ({}, ["seq"])]


def test_parts_of_other_partitions_alone_are_not_read(run_dir: Path) -> None:
    (its,) = [place for place in range(2) if ("t", 1) in {event[1:3] for event in _events(run_dir, place, 2)}]
    part = run_dir / "trace" / "log" / "part-00001.parquet"
    data = part.read_bytes()
    part.write_bytes(data[:4] + b"\xff" * 60 + data[64:])  # Its pages; the statistics stand at the end.
    assert _events(run_dir, 1 - its, 2)
    with pytest.raises(DamagedPart, match=str(part)):
        _events(run_dir, its, 2)


def test_a_column_that_a_file_lacks_is_null_and_one_of_another_type_is_damage(run_dir: Path) -> None:
    part = run_dir / "trace" / "control" / "part-00000.parquet"
    assert read_part(part, TURN.append(pa.field("fault", pa.string())))["fault"].null_count == 4
    with pytest.raises(DamagedPart, match=str(part)):
        read_part(part, pa.schema([("node", pa.int64())]))
