"""What the screen of a run says of transactions: what a coordinator does by itself, and what is late."""

from __future__ import annotations

from pathlib import Path

import pytest
from trace_builder import TraceBuilder

from replica.causes import TransactionCause
from replica.trace import events as t
from replica.trace.events import TraceRow
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.observe.story import Story
from scenarios.observe.trace_writer import read_rows
from scenarios.observe.view import ClusterView
from scenarios.run.runner import run_scenario


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "txn-reader-held-up",
            [
                "the last stable offset of t-0 is at the high watermark 15 again; it had stayed at 6 for 20.1 s",
                "transactional.id orders changed to CompleteAbort (producer id 1, epoch 2): every partition of the "
                "transaction has its marker; PrepareAbort was decided 6 ms earlier",
            ],
        ),
        (
            "txn-coordinator-dies",
            [
                "the last stable offset of t-0 is at the high watermark 6 again; it had stayed at 0 for 10.7 s",
                "transactional.id orders changed to CompleteCommit (producer id 0, epoch 1): every partition of the "
                "transaction has its marker; PrepareCommit was decided 10.7 s earlier by b2",
            ],
        ),
        (
            "txn-hanging",
            [
                "b1 appended a late batch of transactional.id orders in t-0 at 11: the ABORT marker at 10 ended its "
                "transaction, so it begins a transaction that no coordinator knows; the last stable offset cannot pass "
                "11 until a marker ends the transaction",
                "the last stable offset of t-0 has stayed at 11, before the late batch of orders, for 40 s; "
                "read_committed consumers wait there",
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


@pytest.mark.parametrize(("states_it_again", "is_said_to_stand"), [(False, False), (True, True)])
def test_a_new_leader_says_itself_where_its_last_stable_offset_stands(
    states_it_again: bool, is_said_to_stand: bool
) -> None:
    rows: list[TraceRow] = []
    script = TraceBuilder([rows.append])

    def stands(node: str) -> None:
        script.state(t.LastStableOffsetMoved, node=node, last_stable_offset=0, high_watermark=4, producer_id=7)

    script.at(1).leads("b1", 0)
    stands("b1")
    script.at(20).leads("b1", 1)
    if states_it_again:
        stands("b1")
    script.at(60).emit(t.RunFinished(lasted_us=0))
    told = [line.text for line in Story.of(ClusterView((), ()), rows).lines if "stable offset" in line.text]
    leads = "b1 became leader of t-0 in epoch 1, which starts at offset 0; its high watermark is 4"
    assert told[0] == f"{leads}; at b1 the last stable offset of t-0 had stayed at 0 for 19 s"
    assert bool(told[1:]) is is_said_to_stand


def test_an_abort_is_told_with_who_wants_it_and_with_its_marker(tmp_path: Path) -> None:
    run_dir = run_scenario(load_file(find_scenario("txn-hanging")).scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    story = Story.of(ClusterView((), ()), read_rows(run_dir / "trace"))
    told = [(line.at_us // 1_000_000, line.text) for line in story.lines]
    first = told.index(
        (12, "transactional.id orders changed to PrepareAbort (producer id 0, epoch 0): the producer asked to abort")
    )
    ended = "b1 ended a transaction of producer id 0, epoch 0, in t-0 with an ABORT marker"
    marker = f"{ended}: at offset 10 (no record of the transaction)"
    assert told[first + 1] == (12, marker)


@pytest.mark.parametrize(("is_marked", "tells"), [(False, False), (True, True)])
def test_a_batch_is_late_only_behind_the_marker_of_its_transaction(is_marked: bool, tells: bool) -> None:
    rows: list[TraceRow] = []
    script = TraceBuilder([rows.append])

    def stands(state: str, partitions: tuple[str, ...]) -> None:
        changed = t.TransactionStateChanged(
            node="b2", transactional_id="x", previous_state="Empty", state=state, producer_id=7, producer_epoch=0,
            partitions=partitions, fences=False, cause=TransactionCause.COMMIT,
        )  # fmt: skip
        script.emit(changed)

    def appends(base_sequence: int) -> None:
        batch = t.BatchAppended(
            node="b1", role="leader", topic="t", partition=0, leader_epoch=0, base_offset=base_sequence,
            last_offset=base_sequence, log_end_offset=base_sequence + 1, size_bytes=70, crc=base_sequence,
            producer_id=7, producer_epoch=0, base_sequence=base_sequence,
        )  # fmt: skip
        script.emit(batch)

    script.at(1).leads("b1", 0)
    stands("Ongoing", ("t-0",))
    appends(0)
    stands("PrepareCommit", ("t-0",))
    if is_marked:
        marker = t.TransactionMarkerWritten(
            node="b1", topic="t", partition=0, leader_epoch=0, offset=1, first_offset=0, producer_id=7,
            producer_epoch=0, coordinator_epoch=0, committed=True,
        )  # fmt: skip
        script.emit(marker)
    appends(2)
    late = [line.text for line in Story.of(ClusterView((), ()), rows).lines if "late batch" in line.text]
    assert bool(late) is tells
    stands("Ongoing", ("t-0",))
    appends(3)
    assert len([line for line in Story.of(ClusterView((), ()), rows).lines if "late batch" in line.text]) == len(late)
