"""Runs for other tools: the checks of each tool's own reader, and names that it would take as commands."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from scenarios.observe.trace_writer import read_rows
from scenarios.view.exports import MERMAID_LINES_MAX, SHIVIZ_PATTERN, mermaid, perfetto, shiviz, table
from scenarios.view.tape import Tape, record_tape
from tests.hostile_names import run_of_names


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    """acks1-leader-kill, its names and reasons rewritten."""
    return record_tape(list(read_rows(run_of_names(tmp_path_factory.mktemp("named")) / "trace")))


def test_shiviz_reads_every_event_and_its_clock(hostile: Tape) -> None:
    pattern, empty, *lines = shiviz(hostile).splitlines()
    assert (pattern, empty) == (SHIVIZ_PATTERN, "")
    read = re.compile(f"^{pattern.replace('(?<', '(?P<')}$", re.MULTILINE)
    found = [(one["host"], json.loads(one["clock"])) for one in read.finditer("\n".join(lines))]
    assert len(found) == len(lines) // 2 == sum(node >= 0 for node in hostile.node)
    counts: Counter[str] = Counter()
    for host, clock in found:
        counts[host] += 1
        assert clock[host] == counts[host]
        assert all(clock[other] <= counts[other] for other in clock), "an event knows what has not happened"
    last_of_leader = next(clock for host, clock in reversed(found) if host == "b2")
    assert len(last_of_leader) == 5, "it has heard, directly or not, of all nodes but the consumer"


def test_perfetto_has_both_ends_of_every_message_and_every_process_by_name(hostile: Tape) -> None:
    events = json.loads(perfetto(hostile))["traceEvents"]
    ends = {kind: [event["id"] for event in events if event["ph"] == kind] for kind in "sf"}
    assert sorted(ends["s"]) == sorted(ends["f"]) and len(ends["s"]) == len(set(ends["s"])) > 50
    named = {event["pid"] for event in events if event["ph"] == "M"}
    assert {event["pid"] for event in events} == named
    leo = [event["args"]["LEO"] for event in events if event["ph"] == "C"]
    assert max(leo) == 15


def test_a_sequence_diagram_stays_within_what_mermaid_draws(hostile: Tape) -> None:
    first, *lines = mermaid(hostile).splitlines()
    assert first == "sequenceDiagram" and 20 < len(lines) < MERMAID_LINES_MAX + 20
    assert all(re.match(r"    (participant n\d+ as |n\d+->>n\d+: |Note over n\d+: )[^;#]+$", line) for line in lines)


def test_no_cell_of_the_table_is_a_formula(hostile: Tape) -> None:
    texts = list(hostile.texts)
    hostile.texts.place("=HYPERLINK(1)")
    hostile.text[0], kept = len(texts), hostile.text[0]
    head, *rows = csv.reader(io.StringIO(table(hostile), newline=""))
    hostile.text[0] = kept
    assert head == ["seconds", "node", "event", "partition", "key_moment", "sentence"] and len(rows) == len(hostile)
    assert rows[0][-1] == "'=HYPERLINK(1)"
    assert not [cell for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@")]


def test_an_export_lies_in_the_runs_folder(tmp_path: Path) -> None:
    from scenarios.cli.view import export

    run_dir = run_of_names(tmp_path / "runs")
    assert export.main([str(run_dir), "--to", "csv"], standalone_mode=False) == 0
    assert (run_dir / "events.csv").read_bytes().startswith(b"seconds,node,event,")
