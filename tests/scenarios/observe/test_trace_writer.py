"""The trace on disk gives back exactly what was emitted, in the same bytes every time, or an error and nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replica.causes import Cause
from replica.trace.columns import TraceError
from replica.trace.events import (
    CLASS_OF_EVENT,
    OPTIONAL_TABLES,
    REASON,
    TABLES,
    BatchAppended,
    Column,
    LogTruncated,
    RecordAcked,
    TraceLog,
    TraceRow,
    columns_of_event,
    columns_of_table,
)
from scenarios.observe import trace_writer
from scenarios.observe.trace_writer import (
    WORDS,
    TraceWriter,
    arrow_schema,
    digests_of,
    part_files,
    read_rows,
    trace_sha256,
)

SAMPLES: dict[str, Any] = {
    "int64": 7,
    "string": "b1 – é",
    "bool": True,
    "list<string>": ("b1", "b2"),
    "list<int64>": (3, -5),
}


def sample_of(column: Column, causes: type[Cause]) -> Cause | tuple[Cause, ...]:
    every = tuple(causes)
    return every if column.type == "list<string>" else every[0]


def one_of_each(log: TraceLog) -> None:
    """Every kind of event: with all columns filled, and with null where a column may be null; and of each cause."""
    for cls in CLASS_OF_EVENT.values():
        log.at_us += 10
        columns = [column for column in columns_of_event(cls) if column is not REASON]
        full = {column.name: SAMPLES[column.type] for column in columns}
        full |= {column.name: sample_of(column, column.causes) for column in columns if column.causes is not None}
        first = log.emit(cls(**full))
        empty = {column.name: None for column in columns if column.nullable}
        lists = {column.name: () for column in columns if column.type.startswith("list<")}
        log.emit(cls(**{**full, **empty, **lists}), first, 0)
        for column in columns:
            for cause in (column.causes or ()) if column.type == "string" else ():
                log.emit(cls(**{**full, column.name: cause}))


def write(trace_dir: Path, rows_per_part: int = 1000) -> list[TraceRow]:
    rows: list[TraceRow] = []
    writer = TraceWriter(trace_dir, rows_per_part=rows_per_part)
    one_of_each(TraceLog([rows.append, writer]))
    writer.close()
    return rows


@pytest.mark.soak
@pytest.mark.parametrize("rows_per_part", [1, 3, 1000])
def test_reading_gives_back_what_was_emitted(tmp_path: Path, rows_per_part: int) -> None:
    rows = write(tmp_path, rows_per_part)
    assert list(read_rows(tmp_path)) == rows
    assert len(rows) >= 2 * len(CLASS_OF_EVENT)


def test_a_reader_of_a_live_run_is_served_at_once_and_nothing_is_written_twice(tmp_path: Path) -> None:
    rows: list[TraceRow] = []
    writer = TraceWriter(tmp_path)
    for _ in range(2):
        one_of_each(TraceLog([rows.append, writer]))
        writer.write_parts()
        assert len(list(read_rows(tmp_path))) == len(rows)
    writer.write_parts()
    before = part_files(tmp_path)
    writer.close()
    assert part_files(tmp_path) == before


@pytest.mark.soak
def test_parts_are_cut_by_row_count(tmp_path: Path) -> None:
    write(tmp_path, rows_per_part=2)
    parts = [path.name for path in part_files(tmp_path) if path.parent.name == "fetch"]
    # follower_fetched and records_sent, twice each
    assert parts == ["part-00000.parquet", "part-00001.parquet"]


def test_every_table_has_a_part_with_its_schema_even_when_nothing_happened(tmp_path: Path) -> None:
    TraceWriter(tmp_path).close()
    assert [path.relative_to(tmp_path).as_posix() for path in part_files(tmp_path)] == [
        f"{table}/part-00000.parquet" for table in TABLES
    ]
    for path in part_files(tmp_path):
        schema = pq.read_schema(path)
        assert schema.equals(arrow_schema(path.parent.name), check_metadata=True)
    assert list(read_rows(tmp_path)) == []


@pytest.mark.soak
def test_only_an_observed_run_says_of_each_event_how_it_was_seen(tmp_path: Path) -> None:
    rows: list[TraceRow] = []
    log = TraceLog([rows.append])
    with TraceWriter(tmp_path, rows_per_part=4, observed_by=lambda: log.observed_by) as writer:
        log = TraceLog([rows.append, writer])
        for seen_by in ("wire", None, "console log"):
            log.observed_by = seen_by
            one_of_each(log)
    assert list(read_rows(tmp_path)) == rows
    for table in TABLES:
        found = pa.concat_tables([pq.read_table(path) for path in sorted((tmp_path / table).glob("part-*"))])
        third = found.num_rows // 3
        assert found["observed_by"].to_pylist() == ["wire"] * third + [None] * third + ["console log"] * third
    assert all("observed_by" not in arrow_schema(table).names for table in TABLES)


def test_columns_carry_their_documentation() -> None:
    for table in TABLES:
        docs = {field.name: field.metadata[b"doc"].decode() for field in arrow_schema(table)}
        assert docs == {column.name: column.doc for column in columns_of_table(table)}
        assert all(docs.values())


def test_the_same_events_give_the_same_bytes_and_hash(tmp_path: Path) -> None:
    write(tmp_path / "one")
    write(tmp_path / "two")
    assert trace_sha256(tmp_path / "one") == trace_sha256(tmp_path / "two")
    part = tmp_path / "two" / "log" / "part-00000.parquet"
    part.write_bytes(part.read_bytes() + b"x")
    assert trace_sha256(tmp_path / "one") != trace_sha256(tmp_path / "two")


@pytest.mark.soak
def test_other_words_leave_the_digest_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def digests(name: str) -> tuple[str, str]:
        write(tmp_path / name, rows_per_part=3)
        return digests_of(tmp_path / name)

    before = digests("one")
    with monkeypatch.context() as patch:
        patch.setattr(LogTruncated, "sentence", lambda _: "the log is shorter now")
        other_words = digests("two")
    assert other_words[0] != before[0] and other_words[1] == before[1]
    with monkeypatch.context() as patch:
        patch.setitem(SAMPLES, "int64", 8)
        other_data = digests("three")
    assert other_data[0] != before[0] and other_data[1] != before[1]


def test_every_column_of_words_is_one() -> None:
    kept = {column.name: column for table in TABLES + OPTIONAL_TABLES for column in columns_of_table(table)}
    assert all(kept[name].type == "string" and kept[name].causes is None for name in WORDS)


def test_a_failed_write_leaves_nothing_under_a_final_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk_full(table: object, where: Path, **_: Any) -> None:
        where.write_bytes(b"PAR1 half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace_writer.pq, "write_table", disk_full)
    writer = TraceWriter(tmp_path)
    one_of_each(TraceLog([writer]))
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_device_is_an_oserror(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / ".part-00000.parquet.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError):
        TraceWriter(tmp_path).close()
    assert list((tmp_path / "control").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_oserror(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError):
        TraceWriter(tmp_path / "file" / "trace")


def test_an_exception_in_the_run_leaves_the_trace_unfinished(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), TraceWriter(tmp_path) as writer:
        one_of_each(TraceLog([writer]))
        raise RuntimeError("the run broke")
    with pytest.raises(TraceError, match="is incomplete"):
        part_files(tmp_path)


def test_damage_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    part = tmp_path / "log" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(TraceError, match=r"log/part-00000\.parquet"):
        list(read_rows(tmp_path))


def test_no_event_is_dropped_where_chunks_and_parts_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_writer, "ROWS_PER_CHUNK", 4)
    rows: list[TraceRow] = []
    writer = TraceWriter(tmp_path, rows_per_part=6)
    log = TraceLog([rows.append, writer])
    for i in range(50):
        log.emit(
            RecordAcked(client="p1", peer="b1", topic="t", partition=0, record=f"r{i}", offset=i, acks=1, latency_us=i)
        )
        if i % 3 == 0:
            log.emit(
                BatchAppended(
                    node="b1", role="leader", topic="t", partition=0, leader_epoch=0, base_offset=i, last_offset=i,
                    log_end_offset=i + 1, size_bytes=70, crc=2**32 - 1, producer_id=-1, producer_epoch=-1,
                    base_sequence=-1,
                )
            )  # fmt: skip
    writer.close()
    assert list(read_rows(tmp_path)) == rows
    assert len(part_files(tmp_path)) > len(TABLES)
    assert [path for path in tmp_path.rglob(".*")] == []


def test_a_cause_that_there_is_not_is_named(tmp_path: Path) -> None:
    """In a trace that another version has written, or a hand has changed."""
    write(tmp_path)
    part = tmp_path / "control" / "part-00000.parquet"
    rows = pq.ParquetFile(part).read()
    words = ["nothing" if word is not None else None for word in rows["cause"].to_pylist()]
    column = pa.array(words, pa.string())
    pq.write_table(rows.set_column(rows.schema.get_field_index("cause"), rows.schema.field("cause"), column), part)
    with pytest.raises(TraceError, match="has an unknown cause"):
        list(read_rows(tmp_path))
