"""Rows on their way between tasks: all of them once, and all that there is of one record in one share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_reports.folds import exchange
from spark_reports.folds.files import Facts, PartFiles, partition_numbers, same, with_words
from spark_reports.folds.parcels import Part, apart, parcels, unpacked

NAMES = ["r1", "r2", "p1-r1000000", "p2-r1000000", "", "ä", "12345678", "x12345678", *(f"r{n}" for n in range(50))]


def facts_of(names: list[str]) -> pa.Table:
    """Each record in two partitions."""
    schema = with_words(pa.schema([("topic", pa.string()), ("partition", pa.int64()), ("record", pa.string())]))
    rows = [{"topic": "t", "partition": partition, "record": name} for partition in (0, 1) for name in names]
    return pa.Table.from_pylist(rows, schema)


def _sent(rows: pa.Table, shares: int, file: Path | None = None) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for batch in parcels(apart(rows, exchange.record_numbers, shares), file):
        for place, share in enumerate(batch.column(0).to_pylist()):
            found[share] += unpacked(pa.Table.from_batches([batch.slice(place, 1)])).to_pylist()
    return found


@pytest.mark.parametrize("file", [None, "sent.arrows"])
@pytest.mark.parametrize("shares", [1, 2, 7])
def test_every_row_comes_once_and_a_record_to_one_share(shares: int, file: str | None, tmp_path: Path) -> None:
    rows = facts_of(NAMES)
    sent = _sent(rows, shares, None if file is None else tmp_path / file)
    assert [path.name for path in tmp_path.iterdir()] == [file] * (file is not None)
    assert sorted(map(str, (row for its in sent.values() for row in its))) == sorted(map(str, rows.to_pylist()))
    assert set(sent) == set(range(shares)), "each share has something to do"
    goes = {row["record"]: share for share, its in sent.items() for row in its}
    assert [row for share, its in sent.items() for row in its if goes[row["record"]] != share] == []
    # So does what another task has read, in the middle of a longer column, too.
    later = _sent(rows.slice(3), shares)
    assert [row for share, its in later.items() for row in its if goes[row["record"]] != share] == []


def test_without_rows_nothing_is_sent() -> None:
    assert _sent(facts_of([]), 3) == {}


def test_rows_that_lack_a_column_have_null_there() -> None:
    one, other = facts_of(["r1"]), facts_of(["r1"]).append_column("offset", pa.array([7, 8]))
    batches = [batch for rows in (one, other) for batch in parcels(apart(rows, partition_numbers, 1))]
    assert unpacked(pa.Table.from_batches(batches))["offset"].to_pylist() == [None, None, 7, 8]


def test_a_file_of_parcels_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    def parts() -> Iterator[Part]:
        yield 0, facts_of(["r1"])
        assert not (tmp_path / "sent.arrows").exists()
        raise ValueError

    with pytest.raises(ValueError):
        list(parcels(parts(), tmp_path / "sent.arrows"))
    assert not (tmp_path / "sent.arrows").exists()


def test_a_task_reads_its_files_for_all_kinds_of_facts(tmp_path: Path) -> None:
    kinds = ["record_sent", "record_acked", "record_sent", "batch_sent"]
    folder = tmp_path / "0001-run/trace/produce"
    folder.mkdir(parents=True)
    for place, names in enumerate((["r1", "r1", "r2", None], ["r3"])):
        rows = {"topic": "t", "partition": 0, "record": None, "event": ""}
        part = [rows | {"record": name, "event": kind} for name, kind in zip(names, kinds, strict=False)]
        pq.write_table(pa.Table.from_pylist(part), folder / f"part-{place:05}.parquet")
    words = ["topic", "record", "event"]
    schema = pa.schema([*((word, pa.string()) for word in words), ("partition", pa.int64())])
    facts = {
        "sent": Facts("produce", same("record"), {"event": ["record_sent"]}),
        "acked": Facts("produce", same("record"), {"event": ["record_acked"]}),
        "read": Facts("consume", same("record")),
    }
    parts = PartFiles(str(tmp_path / "0001-run"), "produce", sorted(map(str, folder.iterdir())))
    found = exchange.found_in(parts, facts, {"produce": with_words(schema)}, lambda rows: rows)
    assert found.column_names == ["run", "topic", "partition", "what", "record"]
    assert [(row["run"], row["what"], row["record"]) for row in found.to_pylist()] == [
        ("0001-run", "sent", "r1"), ("0001-run", "sent", "r2"), ("0001-run", "acked", "r1"), ("0001-run", "sent", "r3"),
    ]  # fmt: skip
