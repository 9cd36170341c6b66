"""Keys, partitions, timestamps and headers that a scenario gives its records, as they lie in the logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.log.batches.records import BATCH_HEADER_BYTES, Record, read_header, read_records
from replica.trace.events import BatchRefused, RecordsExpired
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario

FILE = """
schema: 1
id: record-fields
title: Fields of records
duration: 40s
cluster: {{brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}, config: {{log.retention.check.interval.ms: 1000}}}}
topics: {{t: {{partitions: {{0: [b1, b2, b3], 1: [b2, b3, b1]}}, config: {{{topic}}}}}}}
workloads: {{p1: {{kind: producer, topic: t, {producer}}}}}
timeline:
{steps}
"""


def file_of(*steps: str, producer: str = "", topic: str = "") -> str:
    return FILE.format(producer=producer, topic=topic, steps="\n".join(f"  - {step}" for step in steps) or "  []")


def play(*steps: str, producer: str = "", topic: str = "", runs_dir: Path | None = None) -> RunResult:
    scenario = load_text(file_of(*steps, producer=producer, topic=topic), "file").scenario
    return run_scenario(scenario, runs_dir=runs_dir, keep_rows=True)


def records_of(run: RunResult, partition: int) -> list[Record]:
    assert run.run_dir is not None
    (path,) = (run.run_dir / "logs" / "b1" / f"t-{partition}").glob("*.log")
    data, found, position = path.read_bytes(), [], 0
    while position + BATCH_HEADER_BYTES <= len(data):
        header = read_header(data, position)
        found += read_records(data[position : position + header.size_bytes])
        position += header.size_bytes
    return found


def test_the_records_of_a_workload_have_what_it_says(tmp_path: Path) -> None:
    producer = "rate: 1/s, start: 20s, stop: 24s, key: [a, b], partition: 1, timestamp: -3s, headers: {h: x, none: }"
    run = play(producer=producer, runs_dir=tmp_path)
    assert records_of(run, 0) == []
    found = records_of(run, 1)
    assert [record.key for record in found] == [b"a", b"b", b"a", b"b"]
    assert [record.timestamp_ms for record in found] == [17_000, 18_000, 19_000, 20_000]
    assert {record.headers for record in found} == {(("h", b"x"), ("none", None))}


def test_a_step_has_its_own_fields_and_those_of_its_producer(tmp_path: Path) -> None:
    run = play(
        "{at: 10s, produce: {from: p1, count: 1}}",
        "{at: 11s, produce: {from: p1, count: 1, key: b, timestamp: 1234, headers: {own: y}}}",
        "{at: 12s, produce: {from: p1, count: 1, tombstone: true, partition: 0}}",
        producer="key: a, partition: 1, headers: {h: x}",
        runs_dir=tmp_path,
    )
    first, second = records_of(run, 1)
    assert (first.key, first.timestamp_ms, first.headers) == (b"a", 10_000, (("h", b"x"),))
    assert (second.key, second.timestamp_ms, second.headers) == (b"b", 1234, (("own", b"y"),))
    (tombstone,) = records_of(run, 0)
    assert (tombstone.key, tombstone.value) == (b"a", None)
    assert tombstone.headers[0] == ("h", b"x")


def test_a_timestamp_too_far_ahead_is_refused_with_kafkas_error() -> None:
    run = play("{at: 10s, produce: {from: p1, count: 1, timestamp: 61m}}")
    refused = [row.event.error for row in run.rows if isinstance(row.event, BatchRefused)]
    assert refused == ["INVALID_TIMESTAMP"]


def test_a_record_that_is_old_by_its_timestamp_expires_at_once() -> None:
    steps = [f"{{at: {at}s, produce: {{from: p1, count: 1, partition: 0, timestamp: -15s}}}}" for at in (20, 21)]
    run = play(*steps, topic="retention.ms: 10000, segment.ms: 100")
    moved = [row for row in run.rows if isinstance(row.event, RecordsExpired)]
    assert moved and moved[0].at_us < 25_000_000


@pytest.mark.parametrize(
    ("step", "producer", "code", "line"),
    [
        ("{at: 5s, produce: {from: p1, count: 1, timestamp: -6s}}", "", "E112", 10),
        ("{at: 5s, produce: {from: p1, count: 1, timestamp: soon}}", "", "E122", 10),
        ("{at: 5s, produce: {from: p1, count: 1, headers: {highwater.name: x}}}", "", "E134", 10),
        ("{at: 5s, produce: {from: p1, count: 1, headers: [x]}}", "", "E111", 10),
        ("{at: 5s, kill: b1}", "timestamp: -1s, start: 500ms", "E112", 8),
        ("{at: 5s, kill: b1}", "partition: 2", "E132", 8),
        ("{at: 5s, kill: b1}", "key: []", "E105", 8),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(step: str, producer: str, code: str, line: int) -> None:
    with pytest.raises(ScenarioInvalid) as refused:
        load_text(file_of(step, producer=producer), "file")
    errors = [one for one in refused.value.diagnostics if one.severity == "error"]
    assert [(one.code, one.place.line + 1) for one in errors] == [(code, line)]
