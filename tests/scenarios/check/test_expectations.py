"""`expect`, `check` and `when`: each kind of test held against a run that fits it and one that does not."""

from __future__ import annotations

from typing import Any

import pytest
from stories import acks_1_leader_dies
from trace_script import T0, TraceScript

from replica.trace import events as trace
from scenarios.check.event_watch import EventWatch, described, state_failures, state_holds
from scenarios.check.expectations import (
    Expectation,
    Expectations,
    RunSight,
    check_now,
    end_offset_seen,
    latency_statistics,
)
from scenarios.language.expect import (
    DivergedTest,
    EndOffsetTest,
    ErrorTest,
    EventTest,
    Expect,
    LatencyTest,
    LogTest,
    NodeTest,
    NumberTest,
    PartitionTest,
    RecordsTest,
    ReplicaTest,
    StateTest,
    TimeTest,
    UnavailableTest,
    UnavailableWindow,
)
from scenarios.language.selectors import NO_NODES, Selector, Term, resolve
from scenarios.language.verbs.checks import Check
from scenarios.observe.availability import Window
from scenarios.observe.columns.names import LazyNames, PlaceRuns

S = 1_000_000


def sight_of(script: TraceScript, captured: dict[str, tuple[str, ...]] | None = None) -> RunSight:
    return RunSight(script.view, script.ledger, script.mirror, captured or {})


def results(
    script: TraceScript, expect: Expect, captured: dict[str, tuple[str, ...]] | None = None
) -> list[Expectation]:
    """As if the expectations had listened all along."""
    expectations = Expectations(expect, sight_of(script, captured))
    for row in script.rows:
        expectations(row)
    return expectations.results(script.verdict(), end_us=40 * S)


def one(script: TraceScript, expect: Expect) -> Expectation:
    (result,) = results(script, expect)
    return result


def node(*names: str) -> Selector:
    return Selector(tuple(Term("node", (name,)) for name in names))


def exactly(kind: str, *names: str) -> RecordsTest:
    return RecordsTest(kind=kind, at_least=names, at_most=names)


# ------------------------------------------------------------------------------------------------ verdict, records


@pytest.mark.parametrize(("wanted", "held", "why"), [(("lost",), True, "lost"), ((), False, "expected ok, found lost")])
def test_verdict(wanted: tuple[str, ...], held: bool, why: str) -> None:
    assert one(acks_1_leader_dies(), Expect(verdict=wanted)) == Expectation("verdict", held, why)


def test_a_verdict_that_was_not_written_says_so() -> None:
    expect = Expect(verdict=(), verdict_is_written=False)
    why = "expected ok (the scenario has no `verdict`; add `verdict: lost`), found lost"
    assert one(acks_1_leader_dies(), expect) == Expectation("verdict", False, why)


@pytest.mark.parametrize(
    ("test", "held"),
    [
        (exactly("lost", "r2", "r1"), True),
        (exactly("lost", "r1"), False),
        (RecordsTest(kind="acked", at_least=("r0", "r2")), True),
        (RecordsTest(kind="acked", at_least=("r0", "r7")), False),
        (RecordsTest(kind="lost", at_most=("r1", "r2", "r3")), True),
        (RecordsTest(kind="lost", at_most=("r1",)), False),
        (RecordsTest(kind="lost", count=NumberTest(2, 2)), True),
        (RecordsTest(kind="lost", count=NumberTest(3, None)), False),
        (exactly("duplicated"), True),
    ],
)
def test_records(test: RecordsTest, held: bool) -> None:
    result = one(acks_1_leader_dies(), Expect(records=(test,)))
    assert result.held is held and result.what == f"records.{test.kind}"
    assert ("expected" in result.why) is not held


def test_why_shows_ranges_of_expected_and_found() -> None:
    result = one(acks_1_leader_dies(), Expect(records=(exactly("lost", "r1", "r2", "r3"),)))
    assert result.why == "expected r1..r3, found r1..r2 (2)"


@pytest.mark.parametrize(("where", "names", "held"), [(None, ("r0",), True), ("b3", ("r0", "r1"), False)])
def test_logs(where: str | None, names: tuple[str, ...], held: bool) -> None:
    assert one(acks_1_leader_dies(), Expect(logs=(LogTest(partition=T0, node=where, records=names),))).held is held


def test_diverged() -> None:
    script = TraceScript()
    script.find("b1", "r0", "r1")
    script.find("b2", "r0", "r2")
    wanted = DivergedTest(partition=T0, offsets=(1,), replicas=("b2", "b1"))
    assert one(script, Expect(diverged=(wanted,))).held
    none = one(script, Expect(diverged=()))
    assert not none.held and none.why == "expected none, found t-0 at 1 on b1, b2"


# -------------------------------------------------------------------------------------------------------- events


@pytest.mark.parametrize(
    ("test", "held"),
    [
        (EventTest(event="leader_elected", where={"topic": "t", "partition": NumberTest(0, 0), "broker": "b2"}), True),
        (EventTest(event="leader_elected", where={"broker": "b3"}), False),
        (EventTest(event="leader_elected", where={"leader_epoch": NumberTest(1, 1), "clean": True}), True),
        (EventTest(event="leader_elected", where={"clean": False}), False),
        (EventTest(event="leader_elected", between=TimeTest(17 * S, 20 * S)), True),
        (EventTest(event="leader_elected", between=TimeTest(20 * S, None)), False),
        (EventTest(event="log_truncated", where={"node": "@victim", "log_end_offset": NumberTest(1, 1)}), True),
        (EventTest(event="isr_committed", where={"isr": ("b1", "b2", "b3")}), True),
        (EventTest(event="isr_committed", where={"isr": ("@victim", "b2", "b3")}), True),
        (EventTest(event="isr_committed", where={"isr": ("b1", "b2")}), False),
        (EventTest(event="record_acked", count=NumberTest(3, 3)), True),
        (EventTest(event="record_acked", count=NumberTest(None, 2)), False),
        (EventTest(event="leader_elected", never=True), False),
        (EventTest(event="partition_went_offline", never=True), True),
        (EventTest(event="position_reset", where={"error": None}, never=True), True),
    ],
)
def test_events(test: EventTest, held: bool) -> None:
    (result,) = results(acks_1_leader_dies(), Expect(events=(test,)), {"victim": ("b1",)})
    assert result.held is held, result


def test_records_of_a_final_log_are_compared_and_shown_as_a_list() -> None:
    """A run names them by their indexes."""
    script = acks_1_leader_dies()
    names = script.ledger.records.index
    records = LazyNames(names, PlaceRuns.of(names.places_or_add(("r0", "r1"))))
    script.at(50).emit(trace.LogEntriesFound("b1", "u", 0, offset=0, records=records, leader_epoch=0, crc=0))
    tests = (
        EventTest(event="log_entries_found", where={"topic": "u", "records": of}) for of in (("r1", "r0"), ("r1",))
    )
    whole, part = results(script, Expect(events=tuple(tests)))
    assert whole.held
    assert (
        not part.held and part.why == "expected at least 1, found 0; events of that kind: 50.000 s (records {r0, r1})"
    )


def test_a_missing_event_is_shown_beside_those_of_its_kind() -> None:
    test = EventTest(
        event="leader_elected",
        where={"topic": "t", "partition": NumberTest(0, 0), "broker": "b3"},
        between=TimeTest(17 * S, 20 * S),
    )
    (result,) = results(acks_1_leader_dies(), Expect(events=(test,)))
    assert result.what == "event leader_elected of t-0 with broker b3, between 17.000 s and 20.000 s"
    assert result.why == "expected at least 1, found 0; events of that kind: 19.000 s (broker b2)"
    assert described(EventTest(event="leader_elected", never=True)) == "never leader_elected"


def test_a_captured_name_means_what_it_stood_for_at_that_moment() -> None:
    captured: dict[str, tuple[str, ...]] = {}
    watch = EventWatch([EventTest(event="node_stopped", where={"node": "@victim"})], captured)
    script = TraceScript()
    script.stop("b2")
    watch(script.rows[-1])
    captured["victim"] = ("b2",)
    assert watch.watches[0].found == 0
    watch(script.rows[-1])
    assert watch.watches[0].found == 1


# ------------------------------------------------------------------------------------------------ errors, latency


def refused(script: TraceScript) -> None:
    script.send("r0")
    for at_s in (45, 46, 50):
        script.at(at_s)
        script.refuse("r0", "NOT_ENOUGH_REPLICAS")


@pytest.mark.parametrize(
    ("test", "held"),
    [
        (ErrorTest(client="p1", error="NOT_ENOUGH_REPLICAS"), True),
        (ErrorTest(client="p1", error=None, count=NumberTest(3, 3)), True),
        (ErrorTest(client="p1", error="NOT_ENOUGH_REPLICAS", first=TimeTest(45 * S, None)), True),
        (ErrorTest(client="p1", error="NOT_ENOUGH_REPLICAS", first=TimeTest(46 * S, None)), False),
        (ErrorTest(client="p1", error="NOT_ENOUGH_REPLICAS", last=TimeTest(None, 49 * S)), False),
        (ErrorTest(client="p1", error="NOT_ENOUGH_REPLICAS", count=NumberTest(4, None)), False),
        (ErrorTest(client="p1", error="REQUEST_TIMED_OUT"), False),
        (ErrorTest(client="p1", error="REQUEST_TIMED_OUT", count=NumberTest(0, 0)), True),
    ],
)
def test_errors(test: ErrorTest, held: bool) -> None:
    script = TraceScript()
    refused(script)
    assert one(script, Expect(errors=(test,))).held is held


def test_errors_of_consumers_count_too_and_are_printed_with_their_times() -> None:
    script = TraceScript()
    script.emit(
        trace.FetchFailed(client="r1", peer="b1", topic="t", partition=0, offset=3, error="OFFSET_OUT_OF_RANGE")
    )
    script.end_offset(-1, error="OFFSET_NOT_AVAILABLE")
    result = one(script, Expect(errors=(ErrorTest(client="r1", error=None, count=NumberTest(5, 5)),)))
    assert result.why == "expected 5, found 2, 1.000 s to 1.000 s"


def test_latency_is_nearest_rank() -> None:
    script = TraceScript()
    for number in range(100):
        script.send(f"r{number}")
        script.emit(
            trace.RecordAcked(
                client="p1", peer="b1", topic="t", partition=0, record=f"r{number}", offset=number, acks=1,
                latency_us=(number + 1) * 1000,
            )
        )  # fmt: skip
    assert latency_statistics(script.ledger.records.answers()["p1"].latencies_us) == {
        "min": 1000, "mean": 50_500, "p50": 50_000, "p90": 90_000, "p99": 99_000, "max": 100_000,
    }  # fmt: skip
    expect = Expect(
        latency=(
            LatencyTest(client="p1", what="p99", bounds=TimeTest(None, 99_000)),
            LatencyTest(client="p1", what="r0", bounds=TimeTest(2000, None)),
            LatencyTest(client="p9", what="max", bounds=TimeTest(None, 1)),
        )
    )
    found = results(script, expect)
    assert [result.held for result in found] == [True, False, False]
    assert found[1].why == "expected at least 2ms, found 1ms"
    assert found[2].why == "expected at most 1us, but no such record was acked"


# ---------------------------------------------------------------------------------------------------- availability


def steady_load_with_a_gap(script: TraceScript) -> None:
    """A record a second from 1 s to 20 s, acked at once, but none between 5.5 s and 12 s."""
    for second in range(1, 21):
        script.at(second)
        script.send(f"r{second}")
        if second == 12:
            for waiting in range(6, 13):
                script.ack(f"r{waiting}", waiting)
        elif not 6 <= second < 12:
            script.ack(f"r{second}", second)


def test_writes_are_unavailable_from_the_first_waiting_record_to_the_next_ack() -> None:
    script = TraceScript()
    steady_load_with_a_gap(script)
    assert script.ledger.writes.windows(T0, 40 * S) == [Window(6 * S, 12 * S)]
    test = UnavailableTest(partition=T0, what="writes", windows=(UnavailableWindow(5_500_000, 12 * S, S),))
    assert one(script, Expect(unavailable=(test,))).held
    late = UnavailableTest(partition=T0, what="writes", windows=(UnavailableWindow(8 * S, 12 * S, S),))
    result = one(script, Expect(unavailable=(late,)))
    assert result.why == "expected 8.000 s to 12.000 s, found 6.000 s to 12.000 s"
    assert not one(script, Expect(unavailable=(UnavailableTest(partition=T0, what="writes", windows=()),))).held


def test_silence_without_demand_is_not_unavailability() -> None:
    script = TraceScript()
    script.send("r0")
    script.ack("r0", 0)
    script.at(30)
    script.send("r1")
    script.ack("r1", 1)
    assert script.ledger.writes.windows(T0, 40 * S) == []


@pytest.mark.parametrize(("given_up", "window"), [(None, Window(5 * S, 40 * S)), (9, Window(5 * S, 9 * S))])
def test_a_window_that_no_ack_ends(given_up: int | None, window: Window) -> None:
    script = TraceScript()
    script.at(5)
    script.send("r0")
    if given_up:
        script.at(given_up)
        script.fail("r0", "REQUEST_TIMED_OUT", definite=False)
    assert script.ledger.writes.windows(T0, 40 * S) == [window]


def test_a_window_ends_with_its_last_pending_attempt_and_not_with_the_next_ack() -> None:
    script = TraceScript()
    script.at(10)
    script.send("r0")
    script.at(12)
    script.fail("r0", "REQUEST_TIMED_OUT", definite=False)
    script.at(25)
    script.send("r1")
    script.ack("r1", 0)
    assert script.ledger.writes.windows(T0, 40 * S) == [Window(10 * S, 12 * S)]


def test_attempts_that_overlap_are_one_window_and_a_success_splits_it() -> None:
    script = TraceScript()
    script.at(2)
    for record in ("r0", "r1", "r2"):
        script.send(record)
    script.at(4)
    script.fail("r1", "REQUEST_TIMED_OUT", definite=False)
    script.send("r3")
    script.at(6)
    script.ack("r0", 0)
    script.at(7)
    script.fail("r2", "REQUEST_TIMED_OUT", definite=False)
    script.at(9)
    script.fail("r3", "REQUEST_TIMED_OUT", definite=False)
    assert script.ledger.writes.windows(T0, 40 * S) == [Window(2 * S, 6 * S), Window(6 * S, 9 * S)]


def test_a_client_that_died_waits_no_more_and_one_started_again_sends_anew() -> None:
    script = TraceScript()
    script.at(5)
    script.send("r0")
    script.at(8)
    script.stop("p1")
    script.at(20)
    script.start("p1", "producer")
    script.send("r0")
    script.at(22)
    script.ack("r0", 0)
    assert script.ledger.writes.windows(T0, 40 * S) == [Window(5 * S, 8 * S), Window(20 * S, 22 * S)]


def test_windows_of_a_topic_that_is_gone_stay_and_partitions_without_one_are_forgotten() -> None:
    script, other = TraceScript(), "other"
    script.at(2)
    script.send("r0")
    script.at(5)
    script.ack("r0", 0)
    writes = script.ledger.writes
    for event in (
        trace.RecordSent(client="p1", topic=other, partition=0, record="r1", acks=0),
        trace.RecordHandedOver(client="p1", peer="b1", topic=other, partition=0, record="r1", acks=0, latency_us=None),
    ):
        writes(trace.TraceRow(0, 6 * S, (), event))
    writes.forget(lambda topic: True)
    assert writes.windows(T0, 40 * S) == [Window(2 * S, 5 * S)]
    assert list(writes._partitions) == [(T0.topic, T0.partition)]


def test_reads_are_unavailable_while_no_running_broker_leads() -> None:
    test = UnavailableTest(partition=T0, what="reads", windows=(UnavailableWindow(10_500_000, 19 * S, 0),))
    assert one(acks_1_leader_dies(), Expect(unavailable=(test,))).held


# ------------------------------------------------------------------------------------------------ states and checks


def partition(**tests: Any) -> StateTest:
    return StateTest(partitions=(PartitionTest(partition=T0, **tests),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("test", "failure"),
    [
        (partition(leader=node("b2"), epoch=NumberTest(1, 1), isr=node("b1", "b2", "b3"), offline=False), None),
        (partition(leo=NumberTest(1, 1), hw=NumberTest(0, 1)), None),
        (
            partition(leader=Selector((Term("captured", ("victim",)),))),
            "leader of t-0: expected b1 (@victim), found b2",
        ),
        (partition(leader=NO_NODES), "leader of t-0: expected nobody, found b2"),
        (partition(isr=node("b1")), "ISR of t-0: expected b1, found {b2, b3, b1}"),
        (partition(epoch=NumberTest(2, None)), "epoch of t-0: expected at least 2, found 1"),
        (partition(offline=True), "t-0: expected offline, found online"),
        (StateTest(nodes=(NodeTest(node=node("b1"), running=True, fenced=False),)), None),
        (StateTest(nodes=(NodeTest(node=node("b1"), running=False),)), "b1: expected down, found running"),
        (
            StateTest(nodes=(NodeTest(node=node("b2"), replicas=(ReplicaTest(partition=T0, leading=False),)),)),
            "b2 for t-0: expected not leading, found leading",
        ),
        (
            StateTest(nodes=(NodeTest(node=node("b1"), replicas=(ReplicaTest(partition=T0, leo=NumberTest(3, 3)),)),)),
            "LEO of t-0 on b1: expected 3, found 1",
        ),
    ],
)
def test_state(test: StateTest, failure: str | None) -> None:
    script = acks_1_leader_dies()
    captured = {"victim": ("b1",)}
    assert state_failures(test, script.view, captured) == ([] if failure is None else [failure])
    assert state_holds(test, script.view, captured) is (failure is None)


def test_the_state_of_a_partition_nobody_knows_yet() -> None:
    script = TraceScript(begin=False)
    failures = state_failures(partition(leader=node("b1"), hw=NumberTest(0, 0)), script.view, {})
    assert failures == ["leader of t-0: expected b1, found nobody", "HW of t-0: expected 0, found unknown"]


def test_a_check_sees_logs_and_records_of_this_moment() -> None:
    script = TraceScript()
    script.replicate("r0")
    script.send("r1")
    script.request("r1")
    script.append("b1", 1, "r1")
    script.ack("r1", 1)
    good = Check(
        logs=(
            LogTest(partition=T0, node="b1", records=("r0", "r1")),
            LogTest(partition=T0, node="b2", records=("r0",)),
            LogTest(partition=T0, node=None, records=("r0", "r1")),
        ),
        records=(exactly("acked", "r0", "r1"), exactly("lost")),
        clock=TimeTest(S, S),
    )
    assert check_now(good, sight_of(script), S) == Expectation("check", True, "holds at 1.000 s")
    script.fail_over("b2", "b2", "b3")
    result = check_now(good, sight_of(script), 3 * S)
    assert not result.held
    assert "clock: expected between 1.000 s and 1.000 s, found 3.000 s" in result.why
    assert "records.lost: expected none, found r1 (1)" in result.why


@pytest.mark.parametrize(
    ("test", "offset", "error", "held"),
    [
        (EndOffsetTest("r1", T0, offset=NumberTest(10, 10)), 10, None, True),
        (EndOffsetTest("r1", T0, offset=NumberTest(10, 10)), -1, "OFFSET_NOT_AVAILABLE", False),
        (EndOffsetTest("r1", T0, error="OFFSET_NOT_AVAILABLE"), -1, "OFFSET_NOT_AVAILABLE", True),
        (EndOffsetTest("r1", T0), 3, None, True),
    ],
)
def test_end_offset(test: EndOffsetTest, offset: int, error: str | None, held: bool) -> None:
    seen = trace.EndOffsetSeen(client="r1", peer="b1", topic="t", partition=0, offset=offset, error=error)
    assert end_offset_seen(test, seen).held is held


def test_selectors_resolve_against_the_view() -> None:
    script = acks_1_leader_dies()
    terms = (Term("leader", (), T0), Term("followers", (), T0), Term("controller"))
    assert resolve(Selector(terms), script.view, {}) == ("b2", "b1", "b3", "c1")


def test_version_rises_only_with_what_conditions_can_see() -> None:
    script = TraceScript()
    before = script.view.version
    script.send("r0")
    script.fetch("b2", 0)
    assert script.view.version == before
    script.append("b1", 0, "r0")
    assert script.view.version == before + 1
