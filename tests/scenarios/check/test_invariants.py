"""Each invariant: a trace made by hand that breaks it and only it, and legal runs in which nothing is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from trace_script import HERE, T0, TraceScript, crc_of

from replica.trace import events as trace
from scenarios.check.invariants.checker import (
    EVENTS_KEPT,
    EpochCacheSnapshot,
    FetcherSnapshot,
    LeaderSnapshot,
    MetadataLogSnapshot,
    all_invariants,
)
from scenarios.check.invariants.records import READINGS_MAX, _Route

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
    """What the leader alone had goes; the same batch sent again gets its offset in the new epoch."""
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
    script.emit(trace.BrokerUnfenced(node="c1", broker="b1", reason="is back"))
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
    script.emit(trace.ConnectionLost(node="p1", peer="b1", reason="reset"))
    script.request("r1", attempt=2)
    script.append("b1", 1, "r1")
    script.append("b1", 2, "r2")


LEGAL: tuple[Story, ...] = (
    everyday,
    shrink_and_grow,
    clean_failover_of_acks_1,
    unclean_election,
    everybody_loses_power,
    idempotent_retry,
    resent_on_a_new_connection,
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
    script.replicate("r0")
    script.append("b1", 1, "r1")
    script.fetch("b2", 2)
    script.fetch("b3", 2)
    script.elect("b2", "b2", "b3")
    script.advance(2, node="b1", epoch=0)


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
    script.emit(trace.QuorumLeaderElected(node="c1", controller_epoch=3, reason=""))
    script.emit(trace.QuorumLeaderElected(node="c2", controller_epoch=3, reason=""))


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
        trace.PartitionWentOffline(
            node="c1", previous_leader="b1", **HERE, leader_epoch=1, partition_epoch=1, isr=(), reason="nobody is left"
        )
    )


def s24(script: TraceScript) -> None:
    script.append("b1", 0, "r0")
    script.append("b2", 0, "r0")
    script.learn("b2", 1)


def s25_min_isr(script: TraceScript) -> None:
    script.at(2)
    script.commit_isr("b1")
    script.elect("b1", "b1")  # a new epoch, in which no in-sync set was ever large enough
    script.leads("b1", 1)
    script.append("b1", 0, "r0")
    script.advance(1)


def s25_unheard(script: TraceScript) -> None:
    script.fail_over("b2", "b2", "b3")
    script.append("b1", 0, "r0")  # b1 leads on in its old epoch, and nobody has fetched
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


# -------------------------------------------------------------------------------------------------- with the probe


@dataclass
class FakeProbe:
    leaders: Sequence[LeaderSnapshot] = ()
    fetching: Sequence[FetcherSnapshot] = ()
    caches: Sequence[EpochCacheSnapshot] = ()
    metadata: tuple[int, Mapping[str, int]] = field(default=(0, {}))
    metadata_of_controllers: Sequence[MetadataLogSnapshot] = ()

    def leader_states(self) -> Sequence[LeaderSnapshot]:
        return self.leaders

    def fetchers(self) -> Sequence[FetcherSnapshot]:
        return self.fetching

    def epoch_caches(self) -> Sequence[EpochCacheSnapshot]:
        return self.caches

    def metadata_offsets(self) -> tuple[int, Mapping[str, int]]:
        return self.metadata

    def metadata_logs(self) -> Sequence[MetadataLogSnapshot]:
        return self.metadata_of_controllers


ALL = ("b1", "b2", "b3")


def leader(maximal: tuple[str, ...], *, pending: bool = False, epoch: int = 0) -> FakeProbe:
    return FakeProbe(leaders=[LeaderSnapshot("b1", T0, epoch, 0, ALL, maximal, pending)])


def fetching(*pairs: tuple[str, str]) -> FakeProbe:
    return FakeProbe(fetching=[FetcherSnapshot(node, T0, target) for node, target in pairs])


def cache(*entries: tuple[int, int]) -> FakeProbe:
    return FakeProbe(caches=[EpochCacheSnapshot("b1", T0, entries)])


@pytest.mark.parametrize(
    ("probe", "broken"),
    [
        (leader(ALL), []),
        (leader(("b1", "b2")), ["S7"]),
        (leader((*ALL, "b4")), ["S7"]),
        (leader((*ALL, "b4"), pending=True), []),
        (leader(("b1",), epoch=-1), []),
        (fetching(("b2", "b1"), ("b3", "b1")), []),
        (fetching(("b2", "b1"), ("b2", "b1")), ["S23"]),
        (fetching(("b1", "b2")), ["S23"]),
        (fetching(("b2", "b3")), ["S23"]),
        (cache((0, 0)), []),
        (cache((0, 0), (1, 2)), []),
        (cache((0, 1)), ["S15"]),
        (cache((0, 0), (1, 1)), ["S15"]),
        (cache(), ["S15"]),
        (FakeProbe(metadata=(9, {"b1": 9, "b2": 4})), []),
        (FakeProbe(metadata=(9, {"b1": 10})), ["S22"]),
    ],
)
def test_what_the_cores_show(probe: FakeProbe, broken: list[str]) -> None:
    script = TraceScript()
    script.replicate("r0", "r1")
    script.checker.probe(probe)
    assert script.broken() == broken


@pytest.mark.parametrize(
    ("next_proposal", "counted", "pending", "broken"),
    [
        (None, ("b1", "b2"), True, ["S7"]),  # what the controller has accepted is pending, and not counted on
        (None, ALL, True, []),
        (None, ("b1", "b2"), False, []),  # repeated metadata made the leader forget it
        (("b1",), ("b1", "b2"), True, []),  # and it has proposed something else since then
    ],
)
def test_a_leader_may_have_forgotten_what_the_controller_accepts(
    next_proposal: tuple[str, ...] | None, counted: tuple[str, ...], pending: bool, broken: list[str]
) -> None:
    script = TraceScript()
    script.commit_isr("b1", "b2")
    known = script.partition_epoch
    script.propose(ALL)
    script.commit_isr(*ALL, by="b1")
    if next_proposal is not None:
        script.propose(next_proposal, on=known)
    isr = ("b1", "b2")
    script.checker.probe(FakeProbe(leaders=[LeaderSnapshot("b1", T0, 0, known, isr, counted, pending)]))
    assert script.broken() == broken


@pytest.mark.parametrize(
    ("entries", "broken"), [([(0, 1), (1, 2)], []), ([(1, 2)], ["S15"]), ([(0, 0), (1, 2)], ["S15"])]
)
def test_of_deleted_records_an_epoch_cache_says_nothing(entries: list[tuple[int, int]], broken: list[str]) -> None:
    script = TraceScript()
    script.replicate("r0", "r1")
    script.emit(
        trace.LogStartOffsetAdvanced(
            node="b1", role="leader", **HERE, leader_epoch=0, log_start_offset=1, reason="admin asked"
        )
    )
    script.checker.probe(cache(*entries))
    assert script.broken() == broken


def test_metadata_logs_of_controllers_match_below_what_is_committed() -> None:
    script = TraceScript()
    c1 = MetadataLogSnapshot("c1", ((1, 0), (2, 7)), 9, 8)
    behind = MetadataLogSnapshot("c2", ((1, 0),), 7, 3)
    ahead = MetadataLogSnapshot("c3", ((1, 0), (2, 7), (3, 8)), 12, 0)
    script.checker.probe(FakeProbe(metadata_of_controllers=[c1, behind, ahead]))
    assert "S22" not in script.broken()
    overwritten = MetadataLogSnapshot("c3", ((1, 0), (3, 7)), 9, 8)
    script.checker.probe(FakeProbe(metadata_of_controllers=[c1, overwritten]))
    assert "S22" in script.broken()


def test_applied_metadata_never_falls_within_a_life() -> None:
    script = TraceScript()
    script.checker.probe(FakeProbe(metadata=(9, {"b1": 9, "b2": 9})))
    script.start("b1")
    script.checker.probe(FakeProbe(metadata=(9, {"b1": 2, "b2": 9})))
    assert script.broken() == []
    script.checker.probe(FakeProbe(metadata=(9, {"b1": 2, "b2": 8})))
    assert script.broken() == ["S22"]


# ---------------------------------------------------------------------------------------------------------- the end


def rest(script: TraceScript, *, seconds: float = 100) -> None:
    script.learn("b2", 1)
    script.learn("b3", 1)
    script.at(seconds)
    script.find("b1", "r0")


def test_a_quiet_end_with_everything_in_place_is_fine() -> None:
    script = TraceScript()
    script.replicate("r0")
    rest(script)
    assert script.broken() == []


def l1(script: TraceScript) -> None:
    script.emit(trace.BrokerRegistered(node="c1", broker="b2", broker_epoch=9, reason="again"))


def l2(script: TraceScript) -> None:
    script.propose(["b1", "b2"])
    script.commit_isr("b1", "b2")


def l3(script: TraceScript) -> None:
    script.append("b1", 1, "r1")


def l4(script: TraceScript) -> None:
    script.send("r7")


def l5(script: TraceScript) -> None:
    script.checker.probe(FakeProbe(metadata=(9, {"b1": 8})))


@pytest.mark.parametrize(("name", "story"), [("L1", l1), ("L2", l2), ("L3", l3), ("L4", l4), ("L5", l5)])
@pytest.mark.parametrize("disturbance", ["none", "cut in force", "throttle in force", "just now", "broker down"])
def test_liveness_is_judged_only_at_rest(name: str, story: Story, disturbance: str) -> None:
    script = TraceScript()
    script.replicate("r0")
    story(script)
    if disturbance.endswith(" in force"):
        verb = disturbance.removesuffix(" in force")
        script.emit(trace.FaultBegan(fault=f"{verb}-1", verb=verb, targets=("b1",), reason=verb))
    if disturbance == "broker down":
        script.stop("b3")
    rest(script, seconds=30 if disturbance == "just now" else 100)
    broken = script.broken()
    assert (name in broken) is (disturbance == "none")


@pytest.mark.parametrize(
    ("acks", "isr", "broken"),
    [(-1, ["b1"], ["L2"]), (1, ["b1"], ["L2", "L4"]), (-1, ["b1", "b2"], ["L2", "L4"])],
)
def test_a_record_that_cannot_be_written_for_want_of_replicas_is_no_second_finding(
    acks: int, isr: list[str], broken: list[str]
) -> None:
    """min.insync.replicas is 2: the producer is told to try again, and hears nothing else before it gives up."""
    script = TraceScript()
    script.replicate("r0")
    script.propose(isr)
    script.commit_isr(*isr)
    script.send("r7", acks=acks)
    rest(script)
    assert script.broken() == broken


# ------------------------------------------------------------------------------------------------------- the checker


def test_what_a_disk_lost_may_still_be_committed_on_the_word_of_its_broker() -> None:
    """b2 told b1 of r0 and lost it; b3, which held the high watermark up, is fenced before b2 registers anew."""
    script = TraceScript()
    script.send("r0")
    script.request("r0")
    script.append("b1", 0, "r0")
    script.append("b2", 0, "r0")
    script.fetch("b2", 1)
    script.stop("b2", "power_off")
    script.lose("b2")
    script.start("b2")
    script.recover("b2", 0)
    script.fence("b3")
    script.commit_isr("b1", "b2")
    script.advance(1)
    assert script.broken() == []


def test_a_violation_brings_the_last_events_of_its_partition_and_is_told_once() -> None:
    script = TraceScript()
    for offset in range(EVENTS_KEPT):
        script.append("b1", offset, f"r{offset}")
    for offset in (0, 1):
        script.append("b2", offset, "r99")
    (violation,) = script.checker.violations
    assert violation.invariant == "S9" and violation.partition == T0 and violation.seq == script.rows[-2].seq
    assert violation.last_events == tuple(script.rows[-EVENTS_KEPT - 1 : -1])
    assert [event.invariant for event in script.checker.take_new()] == ["S9"]
    assert script.checker.take_new() == []


def test_every_invariant_is_there_and_can_be_broken() -> None:
    assert len(all_invariants()) >= 22
    caught = {name.split()[0] for name, _ in BROKEN} | {"S7", "S15", "S22", "S23"}
    assert caught == {f"S{number}" for number in range(1, 30)} - {"S20", "S21"}  # test_invariants_elr.py


def test_records_are_told_apart_by_their_crc() -> None:
    assert crc_of("r1") != crc_of("r2")


@pytest.mark.parametrize(("idle_s", "is_judged"), [(1, False), (5, True)])
def test_a_producer_that_still_works_off_its_backlog_is_not_at_rest(idle_s: int, is_judged: bool) -> None:
    script = TraceScript()
    script.replicate("r0")
    l3(script)
    script.send("r7", "r8")
    script.at(100 - idle_s)
    script.hand_over("r8")
    rest(script)
    assert ({"L3", "L4"} <= set(script.broken())) is is_judged
    assert bool({"L3", "L4"} & set(script.broken())) is is_judged


@pytest.mark.parametrize(("idle_s", "is_judged"), [(1, False), (5, True)])
def test_a_leader_that_has_just_appended_is_not_at_rest(idle_s: int, is_judged: bool) -> None:
    """There may be no trace of a live client's records."""
    script = TraceScript()
    script.replicate("r0")
    script.at(100 - idle_s)
    l3(script)
    rest(script)
    assert ("L3" in script.broken()) is is_judged


def test_metadata_logs_that_are_cut_are_compared_from_where_they_begin() -> None:
    script = TraceScript()
    whole = MetadataLogSnapshot("c1", ((1, 0), (2, 7)), 9, 9)
    cut = MetadataLogSnapshot("c2", ((2, 8),), 11, 11, 8)
    script.checker.probe(FakeProbe(metadata_of_controllers=[cut, whole]))
    later = MetadataLogSnapshot("c1", ((3, 15),), 17, 16, 15)
    script.checker.probe(FakeProbe(metadata_of_controllers=[later, cut]))
    assert not script.checker.violations
    wrong = MetadataLogSnapshot("c3", ((1, 8), (3, 15)), 17, 16, 8)
    script.checker.probe(FakeProbe(metadata_of_controllers=[wrong]))
    assert not script.checker.violations, "what lies before 15 is known of nobody any more"
    wrong = MetadataLogSnapshot("c3", ((4, 15),), 17, 16, 15)
    script.checker.probe(FakeProbe(metadata_of_controllers=[wrong]))
    assert [violation.invariant for violation in script.checker.violations] == ["S22"]


def test_a_storm_of_retries_does_not_pile_up_readings() -> None:
    """Eight batches sent again over ten connections: the ways to tell their copies apart multiply with each append."""
    route = _Route()
    for connection in range(10):
        for crc in range(8):
            route.sent(crc, connection)
    for crc in [*range(8), *range(8), *range(8)]:
        assert route.appended(crc)
        assert len(route._readings) <= READINGS_MAX


def test_disorder_on_one_connection_is_seen_among_others() -> None:
    route = _Route()
    for crc in (1, 2, 3):
        route.sent(crc, 7)
    assert route.appended(2)
    assert not route.appended(1)
