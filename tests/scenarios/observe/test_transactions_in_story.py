"""What the screen of a run says of transactions: what a coordinator does by itself, and what is late."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.observe.story import Story
from scenarios.observe.trace_writer import read_rows
from scenarios.observe.view import ClusterView
from scenarios.run.runner import run_scenario


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "txn-reader-held-up",
            [
                "the last stable offset of t-0 is at the high watermark 15 again; it had stood at 6 for 20 s",
                "transactional.id orders is CompleteAbort (producer id 1, epoch 2): every partition of the "
                "transaction has its marker; PrepareAbort was decided 6 ms before",
            ],
        ),
        (
            "txn-coordinator-dies",
            [
                "the last stable offset of t-0 is at the high watermark 6 again; it had stood at 0 for 10 s",
                "transactional.id orders is CompleteCommit (producer id 0, epoch 1): every partition of the "
                "transaction has its marker; PrepareCommit was decided 10 s before by b2",
            ],
        ),
        (
            "txn-hanging",
            [
                "the last stable offset of t-0 still stands at 11, for 40 s now: readers of committed records wait "
                "there",
            ],
        ),
        ("txn-aborted-seen", []),
    ],
)
def test_what_is_late_or_done_by_the_coordinator_itself_is_told(name: str, expected: list[str], tmp_path: Path) -> None:
    run_dir = run_scenario(load_file(find_scenario(name)).scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    story = Story.of(ClusterView((), ()), read_rows(run_dir / "trace"))
    told = [line.text for line in story.lines if "last stable offset" in line.text or "Complete" in line.text]
    assert told == expected
