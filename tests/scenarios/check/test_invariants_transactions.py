"""The invariants of transactions: traces by hand that keep each of them, and that break it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_probe import FakeProbe
from trace_script import HERE, T0, TraceScript

from replica.causes import DataLossCause, TransactionCause
from replica.rules import PROFILES
from replica.trace import events as trace
from scenarios.check.invariants.checker import StableOffsetSnapshot
from scenarios.check.invariants.transactions import StableIsDecided

PRODUCER_ID = 7


class TransactionScript(TraceScript):
    """A producer `p1` with producer id 7, whose batches b1 leads; its epoch rises as the test says."""

    def __init__(self, profile: str = "kafka-4.1") -> None:
        super().__init__(rules=PROFILES[profile])
        self.sequence = 0
        self.number = 0
        self.markers: dict[int, bool] = {}

    def begin(self, *, epoch: int = 0) -> None:
        self.number += 1
        self.emit(
            trace.TransactionBegan(
                client="p1", transactional_id="x", number=self.number, producer_id=PRODUCER_ID, producer_epoch=epoch
            )
        )

    def write(self, *names: str, epoch: int = 0, request: bool = True, sequence: int | None = None) -> None:
        self.sequence = self.sequence if sequence is None else sequence
        for name in names:
            offset = self.ends["b1"]
            if request:
                self.send(name)
                self.request(name)
            for node in self.brokers:
                self.append(node, offset, name, producer=(PRODUCER_ID, epoch, self.sequence))
            self._commit(offset + 1)
            self.sequence += 1

    def mark(self, *, commit: bool = True, epoch: int = 0, replicated: bool = True) -> int:
        """returns: the offset of the marker"""
        offset = self.ends["b1"]
        for node in self.brokers if replicated else ("b1",):
            self.append(node, offset, "r0", crc=500 + offset, producer=(PRODUCER_ID, epoch, -1))
        self.markers[offset] = commit
        if replicated:
            self._commit(offset + 1)
        return offset

    def _commit(self, end: int) -> None:
        for follower in ("b2", "b3"):
            self.fetch(follower, end)
        self.advance(end)

    def end(self, *, committed: bool = True, epoch: int = 0) -> None:
        self.emit(
            trace.TransactionEnded(
                client="p1",
                transactional_id="x",
                number=self.number,
                producer_id=PRODUCER_ID,
                producer_epoch=epoch,
                committed=committed,
            )
        )

    def ask(self, *, commit: bool, epoch: int = 0) -> None:
        self.emit(
            trace.TransactionEndAsked(
                client="p1",
                transactional_id="x",
                number=self.number,
                producer_id=PRODUCER_ID,
                producer_epoch=epoch,
                committed=commit,
            )
        )

    def decide(self, *, commit: bool, epoch: int = 0, fences: bool = False) -> None:
        """What the coordinator writes first."""
        self.emit(
            trace.TransactionStateChanged(
                node="b1", transactional_id="x", previous_state="Ongoing",
                state="PrepareCommit" if commit else "PrepareAbort", producer_id=PRODUCER_ID, producer_epoch=epoch,
                partitions=("t-0",), fences=fences, cause=TransactionCause.COMMIT,
            )
        )  # fmt: skip

    def finish(self, *aborted: int) -> None:
        """The leader's log is read; aborted: offsets of batches that readers of committed records leave out"""
        for offset in aborted:
            self.emit(
                trace.AbortedBatchFound(
                    node="b1", **HERE, producer_id=PRODUCER_ID, base_offset=offset, last_offset=offset
                )
            )
        end = self.ends["b1"]
        self.state(
            trace.ReplicaFound, node="b1", log_start_offset=0, log_end_offset=end, high_watermark=end, is_leader=True,
            in_isr=True, running=True,
        )  # fmt: skip


Story = Callable[[TransactionScript], None]

# ------------------------------------------------------------------------------------------------------ what is legal


def one_after_the_other(script: TransactionScript) -> None:
    script.begin()
    script.write("r0", "r1")
    script.mark()
    script.end()
    script.begin()
    script.write("r2")
    script.mark(commit=False)
    script.end(committed=False)
    script.finish(3)


def undecided_at_the_end(script: TransactionScript) -> None:
    script.begin()
    script.write("r0")
    script.finish()


def fenced_by_the_next_instance(script: TransactionScript) -> None:
    script.begin()
    script.write("r0")
    script.mark(commit=False, epoch=1)
    script.begin(epoch=2)
    script.write("r1", epoch=2, sequence=0)
    script.mark(epoch=2)
    script.end(epoch=2)
    script.finish(0)


def _one_that_was_asked_to(script: TransactionScript, *, commit: bool) -> None:
    script.begin()
    script.write("r0")
    script.ask(commit=commit)
    script.decide(commit=commit)
    script.mark(commit=commit)
    script.end(committed=commit)


def answer_lost(script: TransactionScript) -> None:
    script.begin()
    script.write("r0")
    script.ask(commit=True)
    script.decide(commit=True)
    script.mark()
    script.finish()


def timed_out(script: TransactionScript) -> None:
    """The coordinator ends it by itself, with what the producer has asked of an earlier one."""
    _one_that_was_asked_to(script, commit=False)
    script.begin()
    script.write("r1")
    script.ask(commit=True)
    script.decide(commit=False, epoch=1, fences=True)
    script.mark(commit=False, epoch=1)
    script.finish(0, 2)


def marker_truncated_and_written_again(script: TransactionScript) -> None:
    script.begin()
    script.write("r0")
    script.mark(epoch=1, replicated=False)
    script.fail_over("b2", "b2", "b3")
    script.start("b1")
    script.recover("b1", 2)
    script.follows("b1", "b2", 1)
    script.truncate("b1", 1)
    for node in script.brokers:
        script.append(node, 1, "r1", epoch=1, producer=(PRODUCER_ID, 0, 1))


@pytest.mark.parametrize(
    "story",
    [
        one_after_the_other,
        undecided_at_the_end,
        fenced_by_the_next_instance,
        answer_lost,
        timed_out,
        marker_truncated_and_written_again,
    ],
)
def test_a_legal_run_breaks_nothing(story: Story) -> None:
    script = TransactionScript()
    story(script)
    broken = [name for name in script.broken() if name.partition(" ")[0] in ("S26", "S30", "S31", "S32")]
    assert broken == [], [violation.sentence for violation in script.checker.violations]


# ----------------------------------------------------------------------------------------------------- what is broken


def s30_told_otherwise(script: TransactionScript) -> None:
    script.begin()
    script.write("r0")
    script.mark(commit=False)
    script.end(committed=True)
    script.finish(0)


def s30_abort_is_read(script: TransactionScript) -> None:
    script.begin()
    script.write("r0")
    script.mark()
    script.end(committed=False)
    script.finish()


def s30_in_part(script: TransactionScript) -> None:
    """The producer heard nothing of its end; half of it can be read."""
    script.begin()
    script.write("r0")
    script.mark()
    script.write("r1")
    script.mark(commit=False)
    script.finish(2)


def s30_late_batch(script: TransactionScript) -> None:
    script.begin()
    script.send("r0")
    script.request("r0")
    script.mark(commit=False)
    script.end(committed=False)
    script.begin()
    script.write("r0", request=False)
    script.write("r1")
    script.mark()
    script.end()
    script.finish()


def s31(script: TransactionScript) -> None:
    """The marker that fenced it had epoch 1; its next sequence fits, and S26 sees nothing wrong."""
    script.begin()
    script.write("r0")
    script.mark(commit=False, epoch=1)
    script.write("r1")


def s31_marker(script: TransactionScript) -> None:
    script.begin()
    script.write("r0", epoch=1)
    script.mark(epoch=0)


def s30_never_asked(script: TransactionScript) -> None:
    script.begin()
    script.write("r0")
    script.mark()
    script.finish()


def s30_asked_otherwise(script: TransactionScript) -> None:
    script.begin()
    script.write("r0")
    script.ask(commit=False)
    script.decide(commit=True)
    script.mark()
    script.finish()


def s30_late_commit(script: TransactionScript) -> None:
    """A commit that was sent twice ends the transaction after it, which its producer wants to abort (KAFKA-17754)."""
    _one_that_was_asked_to(script, commit=True)
    script.begin()
    script.write("r1")
    script.decide(commit=True)
    script.mark()
    script.ask(commit=False)
    script.finish()


def s30_late_abort(script: TransactionScript) -> None:
    _one_that_was_asked_to(script, commit=False)
    script.begin()
    script.write("r1")
    script.ask(commit=True)
    script.decide(commit=False)
    script.mark(commit=False)
    script.finish(0, 2)


def s30_late_abort_that_is_told(script: TransactionScript) -> None:
    """Half of it: what is written after the late abort is committed."""
    _one_that_was_asked_to(script, commit=False)
    script.begin()
    script.write("r1")
    script.decide(commit=False)
    script.mark(commit=False)
    script.write("r2")
    script.ask(commit=True)
    script.decide(commit=True)
    script.mark()
    script.end()
    script.finish(0, 2)


@pytest.mark.parametrize(
    ("name", "story"),
    [
        ("S30", s30_told_otherwise),
        ("S30", s30_abort_is_read),
        ("S30", s30_in_part),
        ("S30", s30_never_asked),
        ("S30", s30_asked_otherwise),
        ("S30 late-batch", s30_late_batch),
        ("S30 late-end", s30_late_commit),
        ("S30 late-end", s30_late_abort),
        ("S30 late-end", s30_late_abort_that_is_told),
        ("S31", s31),
        ("S31", s31_marker),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_a_run_that_breaks_the_rule_is_caught(name: str, story: Story) -> None:
    script = TransactionScript()
    story(script)
    assert script.broken() == [name], [violation.sentence for violation in script.checker.violations]


def test_a_decision_that_is_forgotten_is_promised_to_nobody() -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    script.end()
    script.emit(
        trace.DataLost(
            "b2", "__transaction_state", 0, size_bytes=100, log_end_offset=0, cause=DataLossCause.NOT_FLUSHED
        )
    )
    script.mark(commit=False)
    script.finish(0)
    assert script.broken() == ["S30 forgotten-decision"]
    assert not script.checker.violations[0].event.promised


@pytest.mark.parametrize(("readers", "broken"), [(["r1"], ["S33"]), (["r2"], [])])
def test_a_reader_of_committed_records_gets_nothing_that_is_aborted(readers: list[str], broken: list[str]) -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    script.checker.probe(FakeProbe(readers=readers))
    script.read("r0", 0)
    script.mark(commit=False)
    script.end(committed=False)
    script.finish(0)
    assert script.broken() == broken


@pytest.mark.parametrize(("profile", "missing"), [("kafka-4.1", 0), ("kafka-3.9", 1), ("kafka-3.5", 1)])
def test_a_late_batch_is_a_finding_of_the_old_rules_and_a_bug_of_the_new(profile: str, missing: int) -> None:
    script = TransactionScript(profile)
    s30_late_batch(script)
    script.broken()
    (violation,) = script.checker.violations
    assert len(violation.missing_rules) == missing
    assert all("KIP-890 (4.0)" in why for why in violation.missing_rules)


# --------------------------------------------------------------------------------------------- the last stable offset


def probed(script: TransactionScript, last_stable_offset: int) -> list[str]:
    end = script.high_watermarks["b1"]
    script.checker.probe(FakeProbe(stable=[StableOffsetSnapshot("b1", T0, end, last_stable_offset)]))
    return [name for name in script.broken() if name.startswith("S32")]


def test_the_last_stable_offset_stands_at_the_first_open_record() -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0", "r1")
    assert probed(script, 0) == []
    assert probed(script, 1) == ["S32"]


def test_no_run_rests_while_readers_of_committed_records_wait_for_a_transaction() -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0", "r1")
    (stable,) = (one for one in script.checker.invariants if isinstance(one, StableIsDecided))
    assert probed(script, 0) == []
    assert not stable.at_rest(0)
    script.mark()
    assert probed(script, script.high_watermarks["b1"]) == []
    assert stable.at_rest(0)


def test_the_last_stable_offset_waits_until_the_marker_is_replicated() -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    script.mark(replicated=False)
    assert probed(script, 0) == []
    assert probed(script, 1) == ["S32"]


def test_behind_a_replicated_marker_all_is_stable() -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    script.mark()
    assert probed(script, 2) == []


def test_the_last_stable_offset_is_not_above_the_high_watermark() -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    script.mark()
    assert probed(script, 3) == ["S32"]


@pytest.mark.parametrize(("profile", "broken"), [("kafka-2.1", []), ("kafka-2.7", ["S32"])])
def test_with_its_last_record_a_transaction_was_forgotten_before_kafka_7190(profile: str, broken: list[str]) -> None:
    script = TransactionScript(profile)
    script.begin()
    script.write("r0", "r1")
    script.state(trace.LogStartOffsetAdvanced, node="b1", log_start_offset=2)
    script.replicate("s0")
    script.state(trace.HighWatermarkAdvanced, node="b1", high_watermark=3, previous_high_watermark=2)
    assert probed(script, 3) == broken


def restart_b1(script: TransactionScript, *, log_start: int = 0, clean: bool = False) -> None:
    script.stop("b1")
    script.start("b1")
    script.recover("b1", script.ends["b1"], hw=script.high_watermarks["b1"], start=log_start, clean=clean)


def delete(script: TransactionScript, log_start: int) -> None:
    script.state(trace.LogStartOffsetAdvanced, node="b1", log_start_offset=log_start)


def write_other(script: TransactionScript, name: str) -> None:
    """a record that is in no transaction"""
    script.replicate(name)
    end = script.ends["b1"]
    script.state(trace.HighWatermarkAdvanced, node="b1", high_watermark=end, previous_high_watermark=end - 1)


def test_a_transaction_whose_records_are_deleted_is_open_until_its_log_is_opened_again() -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    write_other(script, "s0")
    delete(script, 1)
    assert probed(script, 1) == []
    assert probed(script, 2) == ["S32"]


@pytest.mark.parametrize(
    ("log_start", "clean", "broken"), [(1, False, []), (2, False, []), (2, True, []), (1, True, ["S32"])]
)
def test_a_log_that_is_opened_forgets_a_transaction_that_lies_below_its_snapshots(
    log_start: int, clean: bool, broken: list[str]
) -> None:
    """The snapshot of a stop in order is at the end of the log, and is deleted if the log begins there, too."""
    script = TransactionScript()
    script.begin()
    script.write("r0")
    write_other(script, "s0")
    delete(script, log_start)
    restart_b1(script, log_start=log_start, clean=clean)
    write_other(script, "s1")
    assert probed(script, 3) == broken


def test_of_a_transaction_a_log_that_is_opened_forgets_only_what_is_deleted() -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    write_other(script, "s0")
    script.write("r1")
    delete(script, 1)
    restart_b1(script, log_start=1)
    assert probed(script, 2) == []
    assert probed(script, 3) == ["S32"]


def test_a_log_that_is_opened_forgets_nothing_that_it_has() -> None:
    script = TransactionScript()
    script.begin()
    write_other(script, "s0")
    script.write("r0")
    delete(script, 1)
    restart_b1(script, log_start=1)
    assert probed(script, 1) == []
    assert probed(script, 2) == ["S32"]


@pytest.mark.parametrize(("cut", "broken"), [(True, []), (False, ["S32"])])
def test_a_log_that_is_cut_forgets_what_is_deleted(cut: bool, broken: list[str]) -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    write_other(script, "s0")
    delete(script, 1)
    if cut:
        script.append("b1", 2, "r9")
        script.truncate("b1", 2)
    assert probed(script, 2) == broken


def test_a_marker_from_before_the_leaders_start_may_be_forgotten() -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    script.mark(replicated=False)
    restart_b1(script)
    assert probed(script, 1) == ["S32 forgotten-marker"]
    assert not script.checker.violations[0].event.promised


def test_what_is_open_or_ended_since_the_leaders_start_is_not_forgotten() -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    restart_b1(script)
    assert probed(script, 0) == []
    assert probed(script, 1) == ["S32"]
    marked_since = TransactionScript()
    marked_since.begin()
    marked_since.write("r0")
    restart_b1(marked_since)
    marked_since.mark(replicated=False)
    assert probed(marked_since, 1) == ["S32"]


@pytest.mark.parametrize(("snapshot", "broken"), [(2, "S32 forgotten-marker"), (1, "S32")])
def test_a_truncation_forgets_the_markers_below_the_snapshot_that_it_loads(snapshot: int, broken: str) -> None:
    script = TransactionScript()
    script.begin()
    script.write("r0")
    if snapshot == 1:
        restart_b1(script)
    script.mark(replicated=False)
    if snapshot == 2:
        restart_b1(script)
    script.append("b1", 2, "r9")
    script.truncate("b1", 2)
    assert probed(script, 1) == [broken]
