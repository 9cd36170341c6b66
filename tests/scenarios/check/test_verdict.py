"""Every anomaly: a run that shows it, and the nearest run that does not."""

from __future__ import annotations

from typing import Any

import pytest
from trace_script import T0, TraceScript

from replica.causes import TransactionCause
from replica.trace.events import (
    AbortedBatchFound,
    LogEntriesFound,
    OpenBatchFound,
    OutputPromised,
    RecordSent,
    ReplicaFound,
    TopicDeleted,
    TransactionBegan,
    TransactionEnded,
    TransactionStateChanged,
)
from scenarios.language.expect import ANOMALIES, JEPSEN_CLASS

PROMISED = OutputPromised(
    client="t1", topic="t", partition=0, record="r0", input="i0", input_partition="i-0", offset=0, committed_offset=1
)


def ledger_only() -> TraceScript:
    """Events of clients and disks only; whether they fit the protocol is not the question here."""
    script = TraceScript()
    script.checker.report = lambda *_: None  # type: ignore[method-assign]
    return script


def test_a_good_run_is_ok_and_every_record_is_acked() -> None:
    script = TraceScript()
    script.replicate("r0", "r1")
    for node in ("b1", "b2", "b3"):
        script.find(node, "r0", "r1")
    verdict = script.verdict()
    assert verdict.ok and verdict.records["acked"] == ("r0", "r1")
    assert script.broken() == []


def test_lost_is_acked_and_absent_with_the_acks_as_witness() -> None:
    script = ledger_only()
    script.send("r0", "r1", "r2")
    seqs = [script.ack(name, offset) for offset, name in enumerate(("r0", "r1", "r2"))]
    script.find("b1", "r0")
    verdict = script.verdict()
    (lost,) = verdict.anomalies
    assert verdict.kinds == ("lost",) and lost.records == ("r1", "r2") and lost.jepsen == "lost-write"
    assert lost.seqs == tuple(seqs[1:]) and "r1..r2" in lost.sentence and lost.partition == T0


def test_a_record_that_got_its_partition_after_it_was_sent_was_lost_in_that_partition() -> None:
    script = ledger_only()
    script.emit(RecordSent(client="p1", topic="t", partition=-1, record="r0", acks=1))
    script.ack("r0", 0)
    script.send("r1")
    script.ack("r1", 1)
    script.find("b1")
    (lost,) = script.verdict().anomalies
    assert lost.partition == T0 and lost.records == ("r0", "r1")
    assert "not in the log of b1" in lost.sentence


@pytest.mark.parametrize("acks", [0, -1])
def test_what_was_not_acked_is_missing_not_lost(acks: int) -> None:
    script = ledger_only()
    script.send("r0", "r1", acks=acks)
    if acks == 0:
        script.hand_over("r0")
    script.fail("r1", "REQUEST_TIMED_OUT", definite=False)
    script.find("b1")
    verdict = script.verdict()
    assert verdict.ok
    assert verdict.records["missing"] == ("r0", "r1") == verdict.records["unknown"]


def test_a_definite_failure_is_failed_and_not_missing_even_if_it_is_found() -> None:
    script = ledger_only()
    script.send("r0", "r1", acks=-1)
    script.fail("r0", "MESSAGE_TOO_LARGE", definite=True)
    script.fail("r1", "MESSAGE_TOO_LARGE", definite=True)
    script.find("b1", "r1")
    records = script.verdict().records
    assert (records["failed"], records["missing"], records["unknown"]) == (("r0", "r1"), (), ())


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        ({"hw": 2}, ()),
        ({"hw": 1}, ("unseen",)),
        ({"hw": 2, "leader": False, "running": False}, ("unseen",)),
    ],
)
def test_unseen_is_above_the_high_watermark_or_without_leader(found: dict[str, object], kinds: tuple[str, ...]) -> None:
    script = ledger_only()
    script.send("r0", "r1")
    script.ack("r0", 0)
    script.ack("r1", 1)
    script.find("b1", "r0", "r1", **found)  # type: ignore[arg-type]
    assert script.verdict().kinds == kinds


def test_a_record_whose_partition_was_not_known_when_it_was_sent_is_unseen_where_it_is() -> None:
    script = ledger_only()
    script.emit(RecordSent(client="p1", topic="t", partition=-1, record="r0", acks=1))
    script.ack("r0", 0)
    script.find("b1", "r0", hw=0)
    (anomaly,) = script.verdict().anomalies
    assert (anomaly.kind, str(anomaly.partition)) == ("unseen", "t-0")


def test_without_a_leader_the_isr_member_that_reaches_furthest_counts() -> None:
    script = ledger_only()
    script.send("r0", "r1")
    script.ack("r1", 1)
    script.find("b1", "r0", leader=False, running=False)
    script.find("b2", "r0", "r1", leader=False, running=False)
    script.find("b3", "r0", "r1", "r2", leader=False, in_isr=False)
    verdict = script.verdict()
    assert verdict.kinds == ("unseen",)
    holder = script.ledger.final_replica(T0)
    assert holder is not None and holder.node == "b2"


def test_with_nobody_in_the_isr_the_member_of_the_elr_that_reaches_furthest_counts() -> None:
    """As where all brokers have stopped in order."""
    script = ledger_only()
    script.send("r0", "r1")
    script.ack("r1", 1)
    script.find("b1", "r0", "r2", "r3", leader=False, in_isr=False, running=False)
    script.find("b2", "r0", "r1", leader=False, in_isr=False, in_elr=True, running=False)
    assert script.verdict().kinds == ("unseen",)


def test_with_nobody_in_isr_and_elr_the_log_with_the_latest_records_counts() -> None:
    """It may come back until a leader is elected without it. b1 was deposed, and has never cut off what it had."""
    script = ledger_only()
    script.send("r0", "r1", "r2")
    script.ack("r0", 0)
    script.ack("r1", 1)
    script.ack("r2", 1)
    script.find("b1", "r0", "r1", "r9", leader=False, in_isr=False, running=False)
    script.find("b2", "r0", "r2", epochs=(0, 1), leader=False, in_isr=False, running=False)
    script.find("b3", leader=False, in_isr=False)
    verdict = script.verdict()
    assert (verdict.records["unseen"], verdict.records["lost"]) == (("r0", "r2"), ("r1",))


@pytest.mark.parametrize("leads", [False, True])
def test_a_loss_without_a_leader_says_who_still_has_the_records(leads: bool) -> None:
    script = ledger_only()
    script.send("r0", "r1")
    script.ack("r0", 0)
    script.ack("r1", 1)
    script.find("b1", leader=leads)
    script.find("b2", "r0", leader=False, in_isr=False)
    script.find("b3", "r0", "r1", leader=False, in_isr=False)
    (lost,) = script.verdict().anomalies
    assert lost.records == ("r0", "r1")
    assert lost.sentence.partition("; ")[2] == (
        "" if leads else "the partition has no leader, but b2 and b3 still have some"
    )


def test_where_no_log_is_left_it_is_lost() -> None:
    script = ledger_only()
    script.send("r0")
    script.ack("r0", 0)
    (anomaly,) = script.verdict().anomalies
    assert (anomaly.kind, "no replica is left" in anomaly.sentence) == ("lost", True)


def test_dirty_read_names_who_read_it() -> None:
    script = ledger_only()
    script.send("r0", "r1")
    script.read("r0", 0)
    script.read("r1", 1)
    script.find("b1", "r0")
    (dirty,) = script.verdict().anomalies
    assert (dirty.kind, dirty.jepsen, dirty.records) == ("dirty-read", "G1a", ("r1",))
    assert dirty.sentence.startswith("r1 read")


@pytest.mark.parametrize(("hw", "diverged"), [(2, True), (1, False)])
def test_diverged_counts_only_below_both_high_watermarks(hw: int, diverged: bool) -> None:
    script = ledger_only()
    script.find("b1", "r0", "r1")
    script.find("b2", "r0", "r2", hw=hw)
    found = script.verdict().of("diverged")
    assert bool(found) is diverged
    if diverged:
        assert (found[0].offsets, found[0].replicas, found[0].records) == ((1,), ("b1", "b2"), ("r1", "r2"))


def test_diverged_ignores_who_is_down_and_sees_equal_names_in_other_batches() -> None:
    script = ledger_only()
    script.find("b1", "r0")
    script.find("b2", "r1", running=False)
    script.find("b3", "r0", crcs=[77])
    assert [anomaly.replicas for anomaly in script.verdict().of("diverged")] == [("b1", "b3")]


def test_duplicated_lists_all_offsets() -> None:
    script = ledger_only()
    script.send("r0", "r1")
    script.find("b1", "r0", "r1", "r0")
    (found,) = script.verdict().anomalies
    assert (found.kind, found.records, found.offsets) == ("duplicated", ("r0",), (0, 2))


@pytest.mark.parametrize(
    ("log", "overtaken"),
    [
        (("r0", "r1", "r2"), ()),
        (("r0", "r2", "r1"), ("r1",)),
        (("r0", "r3", "r1", "r2"), ("r1", "r2")),
        (("r0", "r1", "r0", "r2"), ()),
    ],
)
def test_reordered_looks_at_first_occurrences(log: tuple[str, ...], overtaken: tuple[str, ...]) -> None:
    script = ledger_only()
    script.send("r0", "r1", "r2", "r3")
    script.find("b1", *log)
    assert script.verdict().records["reordered"] == overtaken


@pytest.mark.parametrize(
    ("kind", "node", "duplicated"),
    [
        (None, "", ("r0",)),
        (AbortedBatchFound, "b1", ()),
        (OpenBatchFound, "b1", ()),
        (OpenBatchFound, "b2", ("r0",)),  # The marker has not reached this follower.
    ],
)
def test_a_copy_in_another_partition_counts_if_its_transaction_was_committed(
    kind: type[AbortedBatchFound] | type[OpenBatchFound] | None, node: str, duplicated: tuple[str, ...]
) -> None:
    """A transform that does its work again may write to another partition."""
    script = ledger_only()
    script.send("r0")
    script.find("b1", "r0")
    if kind is not None:
        script.emit(kind(node=node, topic="t", partition=0, producer_id=1, base_offset=0, last_offset=0))
    here: dict[str, Any] = {"node": "b1", "partition": 1}
    script.state(LogEntriesFound, **here, offset=0, records=("r0",), leader_epoch=0, crc=script.crc("r0"))
    script.state(
        ReplicaFound, **here, log_start_offset=0, log_end_offset=1, high_watermark=1, is_leader=True, in_isr=True,
        running=True,
    )  # fmt: skip
    assert script.verdict().records["duplicated"] == duplicated


def test_an_output_of_an_open_transaction_is_not_lost_yet() -> None:
    script = ledger_only()
    script.send("r0")
    script.emit(PROMISED)
    script.find("b1", "r0")
    script.emit(OpenBatchFound(node="b1", topic="t", partition=0, producer_id=1, base_offset=0, last_offset=0))
    assert script.verdict().kinds == ()


# ---------------------------------------------------------------------------------------------------- transactions


class Orders:
    """Producers of transactions to t-0; the id of one is 7, that of another 8."""

    def __init__(self) -> None:
        self.script = ledger_only()
        self.states = {7: "Empty", 8: "Empty"}
        for producer_id in self.states:
            self.change("Empty", producer_id)

    def change(self, state: str, producer_id: int = 7, partitions: tuple[str, ...] = ("t-0",)) -> None:
        previous, self.states[producer_id] = self.states[producer_id], state
        self.script.emit(
            TransactionStateChanged(
                node="b2", transactional_id=f"orders.{producer_id}", previous_state=previous, state=state,
                producer_id=producer_id, producer_epoch=0, partitions=partitions, fences=False,
                cause=TransactionCause.COMMIT,
            )
        )  # fmt: skip

    def acked(self, record: str, producer_id: int = 7) -> None:
        self.script.send(record)
        self.script.request(record, producer_id=producer_id)
        self.script.ack(record, int(record[1:]))

    def open(self, offset: int, node: str = "b1", producer_id: int = 7) -> None:
        self.script.emit(
            OpenBatchFound(
                node=node, topic="t", partition=0, producer_id=producer_id, base_offset=offset, last_offset=offset
            )
        )


@pytest.mark.parametrize(
    ("states", "lost", "aborted"),
    [
        ((), ("r0",), ()),  # It may still be committed.
        (("PrepareAbort",), (), ("r0",)),  # Nothing can take that back, and no marker is needed for it.
        (("PrepareAbort", "CompleteAbort"), (), ("r0",)),
        (("CompleteAbort",), (), ("r0",)),  # Who decided it died before it could say so.
        (("PrepareCommit",), ("r0",), ()),
        (("PrepareCommit", "CompleteCommit"), ("r0",), ()),
        (("PrepareCommit", "PrepareAbort"), ("r0",), ()),  # The decision was forgotten, and had been answered.
    ],
)
def test_what_no_log_has_is_lost_unless_its_transaction_was_aborted(
    states: tuple[str, ...], lost: tuple[str, ...], aborted: tuple[str, ...]
) -> None:
    orders = Orders()
    orders.acked("r0")
    for state in states:
        orders.change(state)
    orders.script.find("b1")
    verdict = orders.script.verdict()
    assert (verdict.records["lost"], verdict.records["aborted"]) == (lost, aborted)
    assert verdict.ok == (not lost)


def test_each_producer_decides_about_its_own_records_sent_so_far() -> None:
    orders = Orders()
    orders.acked("r0", 7)
    orders.acked("r1", 8)
    orders.change("PrepareAbort", 7)
    orders.acked("r2", 7)  # Its transaction begins before all markers of the last one are written.
    orders.change("CompleteAbort", 7)
    orders.change("PrepareCommit", 8)
    orders.script.find("b1")
    verdict = orders.script.verdict()
    assert (verdict.records["lost"], verdict.records["aborted"]) == (("r1", "r2"), ("r0",))


def test_work_done_again_is_aborted_only_if_every_attempt_was() -> None:
    orders = Orders()
    for record, ends in {"r0": ("PrepareAbort", "PrepareAbort"), "r1": ("PrepareAbort", "PrepareCommit")}.items():
        for state in ends:
            orders.acked(record)
            orders.change(state)
    orders.script.find("b1")
    verdict = orders.script.verdict()
    assert (verdict.records["lost"], verdict.records["aborted"]) == (("r1",), ("r0",))


def test_a_reader_of_everything_may_have_read_what_was_aborted_and_is_gone() -> None:
    orders = Orders()
    orders.acked("r0")
    orders.script.read("r0", 0)
    orders.change("PrepareAbort")
    orders.script.find("b1")
    assert orders.script.verdict().kinds == ("dirty-read",)


@pytest.mark.parametrize(("committed", "lost"), [(True, ("r0",)), (False, ())])
def test_without_a_word_of_the_coordinator_that_of_the_producer_counts(committed: bool, lost: tuple[str, ...]) -> None:
    """As on a real Kafka, whose log of transactions is not looked at."""
    script = ledger_only()
    about: dict[str, Any] = {
        "client": "p1", "transactional_id": "o", "number": 1, "producer_id": 7, "producer_epoch": 0
    }  # fmt: skip
    script.emit(TransactionBegan(**about))
    script.send("r0")
    script.request("r0", producer_id=7)
    script.ack("r0", 0)
    script.emit(TransactionEnded(**about, committed=committed))
    script.find("b1")
    assert script.verdict().records["lost"] == lost


def test_records_of_aborted_transactions_are_aborted_in_the_log_too() -> None:
    orders = Orders()
    orders.acked("r0")
    orders.change("PrepareAbort")
    orders.change("CompleteAbort")
    orders.script.find("b1", "r0")
    orders.script.emit(
        AbortedBatchFound(node="b1", topic="t", partition=0, producer_id=7, base_offset=0, last_offset=0)
    )
    verdict = orders.script.verdict()
    assert verdict.ok and verdict.records["aborted"] == ("r0",)


@pytest.mark.parametrize(
    ("states", "kinds"),
    [
        ((), ()),  # It is open, and nothing was promised yet.
        (("PrepareCommit",), ()),  # The marker comes.
        (("PrepareCommit", "CompleteCommit"), ("unseen",)),  # It came, and a disk has lost it.
        (("PrepareAbort", "CompleteAbort"), ()),
    ],
)
def test_what_was_committed_and_has_no_marker_any_more_cannot_be_read(
    states: tuple[str, ...], kinds: tuple[str, ...]
) -> None:
    orders = Orders()
    orders.acked("r0")
    for state in states:
        orders.change(state)
    orders.script.find("b1", "r0")
    orders.open(0)
    verdict = orders.script.verdict()
    assert verdict.kinds == kinds
    if kinds:
        assert verdict.anomalies[0].sentence.endswith("(the commit marker is not in the log of b1)")


@pytest.mark.parametrize(
    ("state", "partitions", "copies", "settled"),
    [
        ("Ongoing", ("t-0",), 2, 1),
        ("PrepareCommit", ("t-0",), 2, 2),
        ("PrepareAbort", ("t-0",), 1, 1),
        ("PrepareCommit", ("t-1",), 2, 1),  # No marker comes to t-0: a batch that was late.
    ],
)
def test_a_decision_counts_before_its_marker_is_written(
    state: str, partitions: tuple[str, ...], copies: int, settled: int
) -> None:
    orders = Orders()
    for producer_id in (8, 7):
        orders.acked("r0", producer_id)
    orders.change("PrepareCommit", 8)
    orders.change("CompleteCommit", 8)
    orders.change(state, 7, partitions)
    orders.script.find("b1", "r0", "r0")
    orders.open(1)
    orders.script.verdict()
    ledger = orders.script.ledger
    assert (len(ledger.copies("r0")), len(ledger.settled_copies("r0"))) == (copies, settled)


def test_an_output_whose_only_copy_will_be_aborted_is_lost() -> None:
    orders = Orders()
    orders.acked("r0")
    orders.script.emit(PROMISED)
    orders.change("PrepareAbort")
    orders.script.find("b1", "r0")
    orders.open(0)
    verdict = orders.script.verdict()
    assert (verdict.records["lost"], verdict.records["aborted"]) == (("r0",), ())


@pytest.mark.parametrize(("sends", "overtaken"), [("r0 r1 r0", ()), ("r0 r0 r1", ("r0",)), ("r0 r1 r0 r1", ())])
def test_a_record_that_is_sent_again_has_its_place_by_the_last_sending(sends: str, overtaken: tuple[str, ...]) -> None:
    """A transform whose transaction was aborted does its work again, and may begin with another partition."""
    script = ledger_only()
    script.send(*sends.split())
    script.find("b1", "r1", "r0")
    assert script.verdict().records["reordered"] == overtaken


def test_reordered_judges_each_producer_by_itself() -> None:
    script = ledger_only()
    script.send("r1", client="p1")
    script.send("r0", client="p2")
    script.find("b1", "r0", "r1")
    assert script.verdict().ok


def test_offset_regression_ignores_refusals() -> None:
    script = ledger_only()
    script.end_offset(11)
    script.end_offset(-1, error="OFFSET_NOT_AVAILABLE")
    script.end_offset(11)
    assert script.verdict().ok
    script.end_offset(10)
    (found,) = script.verdict().anomalies
    assert (found.kind, found.offsets, found.client) == ("offset-regression", (11, 10), "r1")


@pytest.mark.parametrize(
    ("error", "goes_back", "skipped"),
    [("OFFSET_OUT_OF_RANGE", False, ("r1", "r2")), (None, False, ()), ("OFFSET_OUT_OF_RANGE", True, ("r2",))],
)
def test_poll_skip_is_a_jump_nobody_asked_for(error: str | None, goes_back: bool, skipped: tuple[str, ...]) -> None:
    script = ledger_only()
    script.read("r0", 0)
    script.reset(3, error=error)
    script.read("r3", 3)
    if goes_back:
        script.reset(1, error=None)
        script.read("r1", 1)
    script.find("b1", "r0", "r1", "r2", "r3")
    assert tuple(name for found in script.verdict().of("poll-skip") for name in found.records) == skipped


def made_again(*read_before: int) -> TraceScript:
    script = ledger_only()
    for offset in read_before:
        script.read(f"r{offset}", offset)
    script.state(TopicDeleted, node="c1")
    script.create(1)
    script.leads("b1", 0, 0)
    return script


def test_a_jump_in_a_topic_that_is_deleted_later_skips_nothing() -> None:
    script = made_again(0, 3)
    script.find("b1", "r1", "r2")
    assert script.verdict().of("poll-skip") == ()


def test_a_reader_that_does_not_notice_that_its_topic_was_made_again_skips_what_lies_before() -> None:
    script = made_again(0, 1)
    script.read("r7", 2)
    script.find("b1", "r5", "r6", "r7")
    (found,) = script.verdict().of("poll-skip")
    assert found.records == ("r5", "r6")
    assert found.sentence == "r1 continued at offset 2 of a recreated topic, and never read r5..r6"


@pytest.mark.parametrize("offset", [0, 2])
def test_a_reader_that_begins_anew_or_has_sought_skips_nothing(offset: int) -> None:
    script = made_again(0, 1)
    script.reset(offset, error="OFFSET_OUT_OF_RANGE" if offset == 0 else None)
    script.read("r5" if offset == 0 else "r7", offset)
    script.find("b1", "r5", "r6", "r7")
    assert script.verdict().of("poll-skip") == ()


def test_the_verdict_lists_kinds_in_the_fixed_order() -> None:
    script = ledger_only()
    script.send("r0", "r1", "r2")
    script.ack("r0", 0)
    script.read("r0", 0)
    script.find("b1", "r2", "r1", "r2")
    assert script.verdict().kinds == ("lost", "dirty-read", "duplicated", "reordered")
    assert tuple(JEPSEN_CLASS) == ANOMALIES
