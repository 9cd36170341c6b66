"""A run whose trace was rewritten by somebody: names and reasons that are markup, orders to a terminal, paths, long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.observe.trace_writer import arrow_schema, trace_sha256
from scenarios.run.runner import run_scenario
from scenarios.run.worlds import measured

EVIL = "<script>alert(1)</script></script>\x1b[31m\x1b]0;title\x07\n../../x\r\x1b[K\x9b1m'\"{{7*7}}\u202e"
TEXTS = ("reason", "effect", "finding", "checked", "title", "last_words", "message")
"""Columns of sentences, and of what sentences quote."""
NAMES = {name: name + EVIL for name in ("t", "p1", "b1", "b3", "r10")} | {"r11": "x" * 10_000}


def run_of_names(runs_dir: Path) -> Path:
    """acks1-leader-kill, every request measured, with NAMES for what it calls so, and EVIL after every reason."""
    scenario = load_file(find_scenario("acks1-leader-kill")).scenario
    run_dir = run_scenario(scenario, runs_dir=runs_dir, keep_logs=False, world=measured).run_dir
    assert run_dir is not None
    for part in (run_dir / "trace").rglob("*.parquet"):
        rows = [
            {column: _renamed(column, value) for column, value in row.items()}
            for row in pq.read_table(part).to_pylist()
        ]
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(part.parent.name)), part)
    consistent(run_dir, live=True, lost=[NAMES.get(f"r{number}", f"r{number}") for number in range(10, 15)])
    return run_dir


def consistent(run_dir: Path, live: bool, lost: list[str]) -> None:
    """Its summary is of this trace. live: `path` believes the trace, and plays nothing again"""
    summary = json.loads((run_dir / "summary.json").read_text())
    summary |= {"trace_sha256": trace_sha256(run_dir / "trace"), "live": live}
    summary["records"]["lost"] = lost
    (run_dir / "summary.json").write_text(json.dumps(summary))


def _renamed(column: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_renamed(column, one) for one in value]
    if column == "event" or not isinstance(value, str):
        return value
    return value + EVIL if column in TEXTS else NAMES.get(value, value)
