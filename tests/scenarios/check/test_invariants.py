"""Each invariant: a trace made by hand that breaks it and only it, and legal runs in which nothing is broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_probe import FakeProbe
from trace_script import HERE, TraceScript

from replica.causes import ConnectionEnd, InjectionCause
from replica.rules import PROFILES
from replica.trace import events as trace
from scenarios.check.invariants.checker import (
    all_invariants,
)

Story = Callable[[TraceScript], None]

# ---------------------------------------------------------------------------------------------------- legal runs


def everyday(script: TraceScript) -> None:
    script.replicate("r0", "r1", "r2", acks=-1)
    script.learn("b2", 3)
    script.read("r2", 2)


def shrink_and_grow(script: TraceScript) -> None:
    script.replicate("r0")
    script.propose(["b1", "b2"])
    script.at(2)
    script.commit_isr("b1", "b2")
    script.replicate("r1", via=["b2"])
    script.append("b3", 1, "r1")
    script.fetch("b3", 2)
    script.propose(["b1", "b2", "b3"])
    script.at(3)
    script.commit_isr("b1", "b2", "b3")


def clean_failover_of_acks_1(script: TraceScript) -> None:
    """Records that only the leader had are cut; the same batch, sent again, gets its offset in the new epoch."""
    script.replicate("r0")
    script.send("r1")
    script.request("r1")
    script.append("b1", 1, "r1")
    script.ack("r1", 1)
    script.fail_over("b2", "b2", "b3")
    script.request("r1", "b2", attempt=2)
    script.append("b2", 1, "r1")
    script.append("b3", 1, "r1")
    script.fetch("b3", 2)
    script.advance(2)
    script.start("b1")
    script.recover("b1", 2)
    script.follows("b1", "b2", 1)
    script.truncate("b1", 1)
    script.append("b1", 1, "r1")


def unclean_election(script: TraceScript) -> None:
    """Configured loss: the committed log is re-based, so truncating and reading on are legal."""
    script.replicate("r0", acks=-1)
    script.at(2)
    script.commit_isr("b1", "b2")
    script.replicate("r1", acks=-1, via=["b2"])
    script.read("r1", 1)
    script.stop("b2")
    script.at(3)
    script.fence("b2")
    script.commit_isr("b1")
    script.fail_over("b3", "b3", clean=False)
    script.append("b3", 1, "r2")
    script.start("b1")
    script.recover("b1", 2)
    script.follows("b1", "b3", 1)
    script.truncate("b1", 1)
    script.append("b1", 1, "r2")
    script.read("r1", 1, peer="b1", epoch=0)  # an answer that was on its way


def everybody_loses_power(script: TraceScript) -> None:
    """Acked records die in the page caches; the one that may lead has lost them too."""
    script.replicate("r0", "r1", acks=-1)
    for node in ("b1", "b2", "b3"):
        script.stop(node, "power_off")
        script.lose(node)
    for node, isr in (("b2", ("b1", "b3")), ("b3", ("b1",))):
        script.at(script.log.at_us / 1e6 + 1)
        script.fence(node)
        script.commit_isr(*isr)
    script.at(10)
    for node in ("b1", "b2", "b3"):
        script.start(node)
        script.recover(node, 1)
    script.emit(trace.BrokerUnfenced(node="c1", broker="b1"))
    script.elect("b1", "b1")
    script.leads("b1", 1, hw=0)
    script.follows("b2", "b1", 1)
    script.append("b1", 1, "r2")


def idempotent_retry(script: TraceScript) -> None:
    script.replicate("r0")
    for sequence, name in enumerate(("r1", "r2", "r3")):
        script.request(name)
        script.append("b1", 1 + sequence, name, producer=(7, 0, sequence))
    script.request("r4")
    script.append("b1", 4, "r4", producer=(7, 1, 0))


def resent_on_a_new_connection(script: TraceScript) -> None:
    script.replicate("r0")
    script.request("r1")
    script.request("r2")
    script.emit(trace.ConnectionLost(node="p1", peer="b1", cause=ConnectionEnd.RESET))
    script.request("r1", attempt=2)
    script.append("b1", 1, "r1")
    script.append("b1", 2, "r2")


def expired_under_way(script: TraceScript) -> None:
    """delivery.timeout.ms is over before request.timeout.ms: the connection's end shows in no batch's outcome."""
    script.replicate("r0")
    script.request("r1")
    script.request("r2")
    script.fail("r1", "REQUEST_TIMED_OUT", definite=False)
    script.fail("r2", "REQUEST_TIMED_OUT", definite=False)
    script.request("r3")
    script.append("b1", 1, "r1")
    script.append("b1", 2, "r3")
    script.append("b1", 3, "r2")


def removed_before_its_leader_knows(script: TraceScript) -> None:
    """b3 is moved away and deletes its log; b1 still counts it, and moves its high watermark in its old epoch."""
    script.replicate("r0")
    script.append("b1", 1, "r1")
    for follower in ("b2", "b3"):
        script.append(follower, 1, "r1")
        script.fetch(follower, 2)
    script.elect("b1", "b1", "b2")
    script.state(
        trace.ReassignmentCompleted,
        node="c1",
        leader_epoch=1,
        replicas=("b1", "b2"),
        previous_replicas=("b1", "b2", "b3"),
    )
    script.emit(trace.ReplicaDeleted(node="b3", **HERE, previous_log_end_offset=2))
    script.advance(2, node="b1", epoch=0)
    script.leads("b1", 1)
    script.find("b1", "r0", "r1")
    script.find("b2", "r0", "r1")


LEGAL: tuple[Story, ...] = (
    removed_before_its_leader_knows,
    everyday,
    shrink_and_grow,
    clean_failover_of_acks_1,
    unclean_election,
    everybody_loses_power,
    idempotent_retry,
    resent_on_a_new_connection,
    expired_under_way,
)


@pytest.mark.parametrize("story", LEGAL)
def test_a_legal_run_breaks_nothing(story: Story) -> None:
    script = TraceScript()
    story(script)
    assert script.broken() == [], [violation.sentence for violation in script.checker.violations]


# ---------------------------------------------------------------------------------------------------- broken runs


def s1(script: TraceScript) -> None:
    script.commit_isr("b2", "b3")


def s1_stranger(script: TraceScript) -> None:
    script.elect("b1", "b1", "b9")


def s3(script: TraceScript) -> None:
    script.append("b1", 0, "r0")
    script.append("b2", 0, "r0")
    script.fetch("b2", 1)
    script.fetch("b3", 1)  # b3 claims what it does not have
    script.advance(1)


def s2(script: TraceScript) -> None:
    """A zombie leader moves its high watermark over what no in-sync set of its epoch holds."""
    s2_begins(script)
    script.advance(2, node="b1", epoch=0)


def s2_begins(script: TraceScript) -> None:
    script.replicate("r0")
    script.append("b1", 1, "r1")
    script.fetch("b2", 2)
    script.fetch("b3", 2)
    script.elect("b2", "b2", "b3")


def s4(script: TraceScript) -> None:
    script.append("b1", 0, "r0")
    script.append("b2", 0, "r0")
    script.append("b3", 0, "r0")
    script.fetch("b2", 1)
    script.advance(1)


def s5(script: TraceScript) -> None:
    script.replicate("r0")
    script.at(2)
    script.commit_isr("b1", "b2")
    script.replicate("r1", via=["b2"])
    script.fail_over("b3", "b3")


def s6_join(script: TraceScript) -> None:
    script.at(2)
    script.commit_isr("b1", "b2")
    script.replicate("r0", via=["b2"])
    script.propose(["b1", "b2", "b3"])
    script.at(3)
    script.commit_isr("b1", "b2", "b3")


def s6_forgotten(script: TraceScript) -> None:
    """The leader hears that b2 is in the ISR, proposes b3, and forgets that when the metadata of b2's join comes."""
    script.at(2)
    script.commit_isr("b1")
    script.at(3)
    script.propose(["b1", "b2"])
    script.commit_isr("b1", "b2", by="b1")
    script.propose(["b1", "b2", "b3"])
    script.replicate("r0", via=["b2"])
    script.at(4)
    script.commit_isr("b1", "b2", "b3", by="b1")


def s4_forgotten(script: TraceScript) -> None:
    """The same, but the controller is faster: b3 is in the ISR when the leader commits a record without it."""
    _two_join(script)
    script.replicate("r0", via=["b2"])


def _two_join(script: TraceScript) -> None:
    script.at(2)
    script.commit_isr("b1")
    script.propose(["b1", "b2"])
    script.commit_isr("b1", "b2", by="b1")
    script.propose(["b1", "b2", "b3"])
    script.commit_isr("b1", "b2", "b3", by="b1")


def s6_restart(script: TraceScript) -> None:
    """A crash is not a power failure: the page cache survives."""
    script.replicate("r0", "r1")
    script.stop("b3")
    script.start("b3")
    script.recover("b3", 1)


def s8(script: TraceScript) -> None:
    script.replicate("r0")
    script.replicate("r1")
    script.at(2)
    script.commit_isr("b1", "b2")
    script.replicate("r2", via=["b2"])
    script.append("b3", 2, "r9", epoch=1)
    script.learn("b3", 3)


def s9(script: TraceScript) -> None:
    script.append("b1", 0, "r0")
    script.append("b2", 0, "r1")


def s10(script: TraceScript) -> None:
    script.replicate("r0", "r1", acks=-1)
    for node in ("b1", "b2", "b3"):
        script.find(node, "r0")


def s11(script: TraceScript) -> None:
    script.replicate("r0", "r1")
    script.read("r0", 1)


def s12(script: TraceScript) -> None:
    script.leads("b2", 0)


def s12_controllers(script: TraceScript) -> None:
    script.emit(trace.QuorumLeaderElected(node="c1", controller_epoch=3))
    script.emit(trace.QuorumLeaderElected(node="c2", controller_epoch=3))


def s13_controller(script: TraceScript) -> None:
    script.elect("b2", "b1", "b2", "b3", epoch=5)
    script.at(2)
    script.elect("b3", "b1", "b2", "b3", epoch=4)


def s13_same_version(script: TraceScript) -> None:
    script.at(2)
    script.commit_isr("b1", "b2", partition_epoch=0)


def s13_broker(script: TraceScript) -> None:
    script.elect("b2", "b1", "b2", "b3")
    script.follows("b3", "b2", 1)
    script.follows("b3", "b1", 0, 0)


def s14_falls(script: TraceScript) -> None:
    script.replicate("r0", "r1")
    script.advance(1)


def s14_above_the_end(script: TraceScript) -> None:
    script.replicate("r0")
    script.stop("b3")
    script.start("b3")
    script.recover("b3", 1, hw=2)


def s16_gap(script: TraceScript) -> None:
    script.append("b1", 0, "r0")
    script.append("b1", 2, "r1")


def s16_epoch(script: TraceScript) -> None:
    script.append("b1", 0, "r0", epoch=3)
    script.append("b1", 1, "r1", epoch=2)


def s17_committed(script: TraceScript) -> None:
    script.replicate("r0", "r1")
    script.propose(["b1", "b2"])
    script.at(2)
    script.commit_isr("b1", "b2")
    script.truncate("b3", 1)


def s17_leader(script: TraceScript) -> None:
    script.append("b1", 0, "r0")
    script.truncate("b1", 0)


def s18_old_version(script: TraceScript) -> None:
    shrink_and_grow(script)
    script.at(5)
    script.commit_isr("b1", "b2")
    script.propose(["b1", "b2", "b3"], on=1)
    script.at(6)
    script.commit_isr("b1", "b2", "b3")


def s18_former_leader(script: TraceScript) -> None:
    script.at(2)
    script.commit_isr("b1", "b2")
    script.elect("b2", "b1", "b2")
    script.at(3)
    script.propose(["b1", "b2", "b3"], by="b1", epoch=0)
    script.commit_isr("b1", "b2", "b3", epoch=1)


def s19(script: TraceScript) -> None:
    script.fence("b3")


def s19_empty(script: TraceScript) -> None:
    script.emit(
        trace.PartitionWentOffline(node="c1", previous_leader="b1", **HERE, leader_epoch=1, partition_epoch=1, isr=())
    )


def s24(script: TraceScript) -> None:
    script.append("b1", 0, "r0")
    script.append("b2", 0, "r0")
    script.learn("b2", 1)


def s25_min_isr(script: TraceScript, at_s: float = 2) -> None:
    script.at(at_s)
    script.commit_isr("b1")
    script.elect("b1", "b1")  # a new epoch, in which no in-sync set was ever large enough
    script.leads("b1", 1)
    script.append("b1", 0, "r0")
    script.advance(1)


def s25_unheard(script: TraceScript) -> None:
    script.fail_over("b2", "b2", "b3")
    script.append("b1", 0, "r0")  # b1 leads on in its old epoch, and no follower has fetched
    script.advance(1, node="b1", epoch=0)


def s25_ack(script: TraceScript) -> None:
    script.append("b1", 0, "r0")
    script.ack("r0", 0, acks=-1)


def s26_gap(script: TraceScript) -> None:
    script.append("b1", 0, "r0", producer=(7, 0, 0))
    script.append("b1", 1, "r1", producer=(7, 0, 2))


def s26_twice(script: TraceScript) -> None:
    script.append("b1", 0, "r0", producer=(7, 0, 0))
    script.append("b1", 1, "r0", producer=(7, 0, 0))


def s27_other_bytes(script: TraceScript) -> None:
    script.replicate("r0")
    script.find("b1", "r0", crcs=[77])


def s27_shorter(script: TraceScript) -> None:
    script.replicate("r0", "r1")
    script.find("b1", "r0")


def s28(script: TraceScript) -> None:
    script.append("b1", 0, "r0")
    script.read("r0", 0)


def s29(script: TraceScript) -> None:
    script.request("r0")
    script.request("r1")
    script.append("b1", 0, "r1")
    script.append("b1", 1, "r0")


BROKEN: tuple[tuple[str, Story], ...] = (
    ("S1", s1),
    ("S1", s1_stranger),
    ("S2", s2),
    ("S3", s3),
    ("S4", s4),
    ("S5", s5),
    ("S6", s6_join),
    ("S6", s6_restart),
    ("S3 forgotten-proposal", s4_forgotten),
    ("S4 forgotten-proposal", s4_forgotten),
    ("S6 forgotten-proposal", s6_forgotten),
    ("S8", s8),
    ("S9", s9),
    ("S10", s10),
    ("S11", s11),
    ("S12", s12),
    ("S12", s12_controllers),
    ("S13", s13_controller),
    ("S13", s13_same_version),
    ("S13", s13_broker),
    ("S14", s14_falls),
    ("S14", s14_above_the_end),
    ("S16", s16_gap),
    ("S16", s16_epoch),
    ("S17", s17_committed),
    ("S17", s17_leader),
    ("S18", s18_old_version),
    ("S18", s18_former_leader),
    ("S19", s19),
    ("S19", s19_empty),
    ("S24", s24),
    ("S25", s25_unheard),
    ("S25 min-isr", s25_min_isr),
    ("S25", s25_ack),
    ("S26", s26_gap),
    ("S26", s26_twice),
    ("S27", s27_other_bytes),
    ("S27", s27_shorter),
    ("S28", s28),
    ("S29", s29),
)


@pytest.mark.parametrize(("name", "story"), BROKEN, ids=[story.__name__ for _, story in BROKEN])
def test_a_run_that_breaks_the_rule_is_caught(name: str, story: Story) -> None:
    script = TraceScript()
    story(script)
    assert name in script.broken(), [violation.sentence for violation in script.checker.violations]


@pytest.mark.parametrize(
    ("story", "broken"),
    [(s6_forgotten, ["S6 forgotten-proposal"]), (s4_forgotten, ["S3 forgotten-proposal", "S4 forgotten-proposal"])],
)
def test_what_kafkas_newest_rules_break_is_no_bug_of_ours(story: Story, broken: list[str]) -> None:
    script = TraceScript()
    story(script)
    script.fail_over("b3", "b3")  # It lacks r0, and no rule says that it may not lead.
    assert script.broken() == broken
    assert all(not one.event.promised and "KAFKA-13790" in one.event.sentence() for one in script.checker.violations)


@pytest.mark.parametrize(("known", "is_forgotten"), [(2, True), (3, False), (None, True)])
def test_a_leader_that_knows_of_a_member_waits_for_it(known: int | None, is_forgotten: bool) -> None:
    script = TraceScript()
    script.checker.cores = FakeProbe(partition_epochs={} if known is None else {"b1": known})
    s4_forgotten(script)
    end = " forgotten-proposal" if is_forgotten else ""
    assert script.broken() == [f"S3{end}", f"S4{end}"]


def only_one_is_accepted(script: TraceScript) -> None:
    script.at(2)
    script.commit_isr("b1", "b2")
    script.propose(["b1", "b2", "b3"])
    script.commit_isr("b1", "b2", "b3", by="b1")
    script.replicate("r0", via=["b2"])


def it_has_proposed_again_since(script: TraceScript) -> None:
    _two_join(script)
    script.propose(["b1", "b2"])
    script.replicate("r0", via=["b2"])


def another_leads(script: TraceScript) -> None:
    _two_join(script)
    script.fail_over("b2", "b2", "b3")
    script.append("b2", 0, "r0")
    script.advance(1)


@pytest.mark.parametrize("story", [only_one_is_accepted, it_has_proposed_again_since, another_leads])
def test_a_leader_that_cannot_have_forgotten_waits_for_every_member(story: Story) -> None:
    script = TraceScript()
    story(script)
    assert script.broken()[:2] == ["S3", "S4"]


def test_an_earlier_minimum_explains_nothing_where_none_is_asked_for() -> None:
    script = TraceScript(rules=PROFILES["kafka-3.5"])
    script.checker.cores = FakeProbe(min_isrs={"b1": 1})
    s25_min_isr(script)
    assert [one.invariant for one in script.checker.violations] == ["S25 min-isr"]


@pytest.mark.parametrize(
    ("known", "promised"), [({"b1": 1}, False), ({"b1": 2}, True), ({}, True)], ids=["earlier", "of-today", "unknown"]
)
def test_a_leader_that_does_not_know_a_larger_minimum_yet_goes_by_the_smaller(
    known: dict[str, int], promised: bool
) -> None:
    script = TraceScript()
    script.checker.cores = FakeProbe(min_isrs=known)
    s25_min_isr(script)
    assert [one.invariant for one in script.checker.violations] == ["S25 min-isr"] * promised


@pytest.mark.parametrize(("after_s", "promised"), [(1, False), (5, True)])
def test_a_leader_in_another_process_may_not_know_a_larger_minimum_for_a_moment(after_s: int, promised: bool) -> None:
    script = TraceScript(min_isr=1)
    script.at(10)
    key = "min.insync.replicas"
    script.emit(trace.ConfigAltered(node="c1", topic="t", key=key, value="2", min_isr=2))
    s25_min_isr(script, 10 + after_s)
    assert [one.invariant for one in script.checker.violations] == ["S25 min-isr"] * promised


@pytest.mark.parametrize(("known", "broken"), [(1, ["S6 earlier-min-isr"]), (2, ["S25 min-isr", "S5", "S6"])])
def test_what_is_committed_without_the_elr_is_excused_only_by_an_earlier_minimum(known: int, broken: list[str]) -> None:
    script = TraceScript(rules=PROFILES["kafka-4.1"])
    script.checker.cores = FakeProbe(min_isrs={"b1": known})
    script.at(2)
    script.elect("b1", "b1")
    script.leads("b1", 1)
    script.commit_elr("b2")
    script.append("b1", 0, "r0")
    script.advance(1)
    script.at(3)
    script.elect("b2", "b2")
    script.leads("b2", 2)
    script.commit_elr()
    assert sorted(script.broken()) == broken


@pytest.mark.parametrize(("start", "broken"), [(0, ["S17"]), (1, ["S17"]), (2, [])])
def test_records_that_the_leader_has_deleted_may_be_truncated(start: int, broken: list[str]) -> None:
    script = TraceScript()
    if start:
        script.state(trace.LogStartOffsetAdvanced, node="b1", log_start_offset=start)
    s17_committed(script)
    assert script.broken() == broken


@pytest.mark.parametrize(("deletes", "broken"), [(0, ["S17"]), (2, [])])
def test_records_that_the_follower_had_deleted_before_it_died_may_be_truncated(deletes: int, broken: list[str]) -> None:
    """All its records were deleted, so its epochs were, too, and its new log start was not on disk yet."""
    script = TraceScript()
    script.replicate("r0", "r1")
    if deletes:
        script.state(trace.LogStartOffsetAdvanced, node="b1", log_start_offset=deletes)
    script.fail_over("b2", "b2", "b3")
    script.start("b1")
    script.recover("b1", 2)
    script.follows("b1", "b2", 1)
    script.truncate("b1", 1)
    assert script.broken() == broken


@pytest.mark.parametrize(("deletes", "broken"), [(False, ["S2"]), (True, [])])
def test_a_replica_that_was_removed_and_added_again_had_what_a_frozen_leader_heard(
    deletes: bool, broken: list[str]
) -> None:
    script = TraceScript()
    s2_begins(script)
    if deletes:
        for node in ("b2", "b3"):
            script.append(node, 1, "r1")
            script.emit(trace.ReplicaDeleted(node=node, **HERE, previous_log_end_offset=2))
    script.advance(2, node="b1", epoch=0)
    assert script.broken() == broken


def test_every_invariant_is_there_and_can_be_broken() -> None:
    assert len(all_invariants()) >= 22
    caught = {name.split()[0] for name, _ in BROKEN} | {"S7", "S15", "S22", "S23"}
    elsewhere = {"S20", "S21"} | {
        f"S{number}" for number in range(30, 36)
    }  # test_invariants_elr.py, ..._transactions.py, ..._groups.py
    assert caught == {f"S{number}" for number in range(1, 36)} - elsewhere


@pytest.mark.parametrize(
    ("when", "will_retry", "acked_at", "broken"),
    [
        pytest.param(InjectionCause.APPLIED, False, 0, "S10 refused-append", id="after the append"),
        pytest.param(InjectionCause.NOT_APPLIED, False, 0, "S10", id="before the append"),
        pytest.param(InjectionCause.APPLIED, True, 0, "S10", id="not for good"),
        pytest.param(InjectionCause.APPLIED, False, 1, "S10", id="at an offset of its own"),
    ],
)
def test_a_sequence_number_that_an_injected_error_gave_twice_is_a_case_of_its_own(
    when: InjectionCause, will_retry: bool, acked_at: int, broken: str
) -> None:
    """r0 is appended and refused, and r1 is acknowledged in its place. Search found it in era 2.1."""
    script = TraceScript()
    script.send("r0", "r1", acks=-1)
    script.request("r0", acks=-1)
    for node in script.brokers:
        script.append(node, 0, "r0")
    script.emit(
        trace.ResponseInjected(
            node="b1", peer="p1", api="Produce", fault="fail-1", cause=when, error="INVALID_TXN_STATE"
        )
    )
    script.refuse("r0", "INVALID_TXN_STATE", will_retry=will_retry)
    for follower in ("b2", "b3"):
        script.fetch(follower, 1)
    script.advance(1)
    script.request("r1", acks=-1)
    script.ack("r1", acked_at, acks=-1)
    for node in script.brokers:
        script.find(node, "r0")
    found = script.broken()
    assert [name for name in found if name.startswith("S10")] == [broken]
