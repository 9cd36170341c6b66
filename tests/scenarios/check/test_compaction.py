"""Records that compaction takes are compacted, not lost; the last record of a key may not go."""

from __future__ import annotations

import pytest
from trace_script import TraceScript

from replica.trace import events as trace


def keys(script: TraceScript, *keys: str, tombstones: tuple[int, ...] = ()) -> None:
    """Of the records that were replicated so far, each in its own batch."""
    for offset, key in enumerate(keys):
        script.state(
            trace.KeysAppended,
            node=script.leader,
            base_offset=offset,
            crc=script.crc(f"r{offset}"),
            keys=(key,),
            tombstones=tuple(one for one in tombstones if one == offset),
        )


def compact(script: TraceScript, node: str, to: int, *gone: int, aborted: bool = False) -> None:
    script.state(
        trace.LogCompacted, node=node, role="leader", offset=to, size_bytes=100, first_dirty_offset=0,
        dirty_percent=100, records_removed=len(gone),
    )  # fmt: skip
    for offset in gone:
        script.state(
            trace.BatchCompacted,
            node=node,
            base_offset=offset,
            last_offset=offset,
            crc=script.crc(f"r{offset}"),
            new_crc=None,
            cleaned_to=to,
            removed=(offset,),
            aborted=aborted,
        )


def test_what_a_later_record_replaced_is_compacted() -> None:
    script = TraceScript()
    script.replicate("r0", "r1", "r2", acks=-1)
    keys(script, "a", "b", "a")
    compact(script, "b1", 3, 0)
    script.read("r0", 0)
    script.find("b1", "r1", "r2", start=1, leader=True)
    verdict = script.verdict()
    assert (verdict.ok, verdict.records["compacted"], verdict.records["lost"]) == (True, ("r0",), ())


@pytest.mark.parametrize(
    ("tombstones", "aborted", "to", "lost"),
    [
        pytest.param((), False, 3, ("r0", "r2"), id="the last of its key"),
        pytest.param((), False, 2, ("r0", "r2"), id="the later record was not in the round"),
        pytest.param((2,), False, 3, (), id="a tombstone"),
        pytest.param((), True, 3, (), id="an aborted transaction"),
    ],
)
def test_what_has_no_reason_to_go_is_lost(
    tombstones: tuple[int, ...], aborted: bool, to: int, lost: tuple[str, ...]
) -> None:
    script = TraceScript()
    script.replicate("r0", "r1", "r2", acks=-1)
    keys(script, "a", "b", "a", tombstones=tombstones)
    compact(script, "b1", to, 0, 2, aborted=aborted)
    script.find("b1", "r1", start=1, leader=True)
    assert script.verdict().records["lost"] == lost


def test_what_the_replica_that_was_read_had_compacted_was_not_skipped() -> None:
    """b2, which leads at the end, has not compacted its log so far."""
    script = TraceScript()
    script.replicate("r0", "r1", "r2", "r3", acks=-1)
    keys(script, "a", "b", "b", "a")
    script.read("r0", 0)
    compact(script, "b1", 3, 1)
    script.read("r2", 2)
    script.read("r3", 3)
    script.fail_over("b2", "b2", "b3")
    script.find("b2", "r0", "r1", "r2", "r3", leader=True)
    assert script.verdict().ok


def test_a_follower_that_is_sent_a_compacted_log_holds_the_committed_one() -> None:
    script = TraceScript()
    script.replicate("r0", "r1", "r2", acks=-1, via=("b2",))
    script.commit_isr("b1", "b2")
    keys(script, "a", "a", "b")
    compact(script, "b1", 2, 0)
    script.append("b3", 1, "r1")
    script.append("b3", 2, "r2")
    script.fetch("b3", 3)
    script.propose(("b1", "b2", "b3"))
    script.commit_isr("b1", "b2", "b3")
    assert not {"S6", "S9", "S16"} & set(script.broken())


def test_a_hole_that_compaction_has_not_made_is_a_hole() -> None:
    script = TraceScript()
    script.replicate("r0", "r1", "r2", acks=-1, via=("b2",))
    script.commit_isr("b1", "b2")
    script.append("b3", 0, "r0")
    script.append("b3", 2, "r2")
    assert "S16" in script.broken()


def cut_the_last(script: TraceScript, *, to: int) -> None:
    """b1 alone has the records from `to` on; b2 is elected uncleanly without them, and b1 cuts its log."""
    script.fail_over("b2", "b2", clean=False)
    script.start("b1")
    script.truncate("b1", to, hw=to)


@pytest.mark.parametrize(
    ("tombstones", "gone", "lost"),
    [
        pytest.param((), (0,), ("r0", "r2"), id="what was replaced by a record that was cut off"),
        pytest.param((2,), (0,), ("r0", "r2"), id="by a tombstone that was cut off"),
        pytest.param((0,), (0,), ("r2",), id="a tombstone, with nothing of its key left"),
    ],
)
def test_what_compaction_took_is_lost_with_the_record_that_replaced_it(
    tombstones: tuple[int, ...], gone: tuple[int, ...], lost: tuple[str, ...]
) -> None:
    script = TraceScript(min_isr=1)
    script.replicate("r0", "r1", via=("b2", "b3"))
    script.replicate("r2", via=())
    keys(script, "a", "b", "a", tombstones=tombstones)
    compact(script, "b1", 3, *gone)
    compact(script, "b2", 3, *gone)
    cut_the_last(script, to=2)
    script.find("b2", "r1", start=1, leader=True)
    assert script.verdict().records["lost"] == lost


def test_a_tombstone_that_was_cut_off_is_lost_where_its_key_came_back() -> None:
    """It was compacted on b1 alone, and b2 still has what it deleted."""
    script = TraceScript(min_isr=1)
    script.replicate("r0", "r1", via=("b2", "b3"))
    script.replicate("r2", via=())
    keys(script, "a", "b", "a", tombstones=(2,))
    compact(script, "b1", 3, 0, 2)
    cut_the_last(script, to=2)
    script.find("b2", "r0", "r1", leader=True)
    assert script.verdict().records["lost"] == ("r2",)


def test_a_later_record_that_an_operator_deleted_accounts_for_the_earlier_one() -> None:
    script = TraceScript()
    script.replicate("r0", "r1", "r2", acks=-1)
    keys(script, "a", "b", "a")
    compact(script, "b1", 3, 0)
    script.state(trace.LogStartOffsetAdvanced, node="b1", log_start_offset=3)
    script.find("b1", start=3, leader=True)
    assert script.verdict().records["lost"] == ()


def test_a_topic_that_is_deleted_settles_what_compaction_had_taken() -> None:
    """r0 was lost with r2 before; a record of the same key in the topic of today does not replace it."""
    script = TraceScript(min_isr=1)
    script.replicate("r0", "r1", via=("b2", "b3"))
    script.replicate("r2", via=())
    keys(script, "a", "b", "a")
    for node in script.brokers:
        compact(script, node, 3, 0)
    cut_the_last(script, to=2)
    script.emit(trace.TopicDeleted(node="c1", topic="t"))
    assert script.verdict().records["lost"] == ("r0", "r2")
    assert script.verdict().records["deleted"] == ("r1",)
