"""Eligible leader replicas: the checker's answer to a controller that respects them, and to one that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_probe import FakeProbe
from trace_script import T0, TraceScript

from controller.features import ELR_VERSION
from replica.rules import PROFILES
from scenarios.check.invariants.checker import LeaderSnapshot

Story = Callable[[TraceScript], None]


def shrink_below_min(script: TraceScript) -> None:
    """r0 is committed on three brokers; then b3 leaves the ISR, and b2, which stays eligible."""
    script.replicate("r0")
    script.fence("b3")
    script.commit_isr("b1", "b2")
    script.fence("b2")
    script.commit_isr("b1")
    script.commit_elr("b2")
    script.at(5)


def last_one_goes(script: TraceScript) -> None:
    shrink_below_min(script)
    script.stop("b1", "power_off")
    script.lose("b1")
    script.fence("b1")
    script.go_offline()
    script.commit_elr("b1", "b2")
    script.at(10)


def back_in_disorder(script: TraceScript, *elr: str) -> None:
    script.start("b1")
    script.recover("b1", 0)
    if elr != ("b1", "b2"):
        script.commit_elr(*elr, alone=True)
    script.register("b1")
    script.at(11)


def deposed_leader_goes_by_a_former_fetch(script: TraceScript) -> None:
    """b3 fetched r1 from b1, which is paused; it loses r1 with its power, comes back and is no member of the ISR."""
    script.replicate("r0")
    script.append("b1", 1, "r1")
    script.append("b2", 1, "r1")
    script.append("b3", 1, "r1")
    script.fetch("b2", 2)
    script.fetch("b3", 2)
    script.elect("b2", "b2", "b3")
    script.leads("b2", 2)
    script.stop("b3", "power_off")
    script.lose("b3")
    script.fence("b3")
    script.commit_isr("b2")
    script.start("b3")
    script.recover("b3", 0)
    script.register("b3")
    script.advance(2, node="b1", epoch=0)


# ------------------------------------------------------------------------------------------------- what must not be


def s19_fenced(script: TraceScript) -> None:
    """Without ELR the last member may stay in the ISR."""
    shrink_below_min(script)
    script.fence("b1")
    script.at(6)


def s20_stranger(script: TraceScript) -> None:
    shrink_below_min(script)
    script.commit_elr("b4")
    script.at(6)


def s20_in_both(script: TraceScript) -> None:
    shrink_below_min(script)
    script.commit_elr("b1")
    script.at(6)


def s20_beside_a_whole_isr(script: TraceScript) -> None:
    shrink_below_min(script)
    script.propose(("b1", "b2"))
    script.commit_isr("b1", "b2")
    script.commit_elr("b3")
    script.at(6)


def s20_without_elr(script: TraceScript) -> None:
    """The level is 0 by then: no one becomes eligible."""
    shrink_below_min(script)
    script.set_level(ELR_VERSION, 0)
    script.commit_elr("b2", "b3", alone=True)
    script.at(6)


def s19_emptied_without_elr(script: TraceScript) -> None:
    shrink_below_min(script)
    script.set_level(ELR_VERSION, 0)
    script.commit_isr()
    script.commit_elr()
    script.at(6)


def s19_alone_again(script: TraceScript) -> None:
    """Who was alone in the ISR when ELR was switched on; not who comes to be alone afterwards."""
    shrink_below_min(script)
    script.set_level(ELR_VERSION, 0)
    script.commit_elr(alone=True)
    script.at(6)
    script.set_level(ELR_VERSION, 1)
    script.propose(("b1", "b2"))
    script.commit_isr("b1", "b2")
    script.at(7)
    script.fence("b1")
    script.commit_isr("b1")
    script.at(8)


def s21_in_elr(script: TraceScript) -> None:
    last_one_goes(script)
    back_in_disorder(script, "b1", "b2")


def s21_wiped(script: TraceScript) -> None:
    """An orderly stop is worth nothing once the disk has been replaced."""
    shrink_below_min(script)
    script.stop("b2", "stop")
    script.wipe("b2")
    script.start("b2")
    script.register("b2")
    script.at(6)


def s5_lossy_leader(script: TraceScript) -> None:
    """Struck out, and elected as if nothing were amiss: without ELR the controller could not have known better."""
    last_one_goes(script)
    back_in_disorder(script, "b2")
    script.elect("b1", "b1")
    script.leads("b1", 2)


def s6_joins_elr(script: TraceScript) -> None:
    script.send("r0")
    script.request("r0")
    script.append("b1", 0, "r0")
    script.append("b2", 0, "r0")
    script.fence("b3")
    script.commit_isr("b1", "b2")
    script.fetch("b2", 1)
    script.advance(1)
    script.commit_elr("b3")


def s6_committed_without_elr(script: TraceScript) -> None:
    shrink_below_min(script)
    script.send("r1")
    script.request("r1")
    script.append("b1", 1, "r1")
    script.advance(2)


def s17_eligible_truncates(script: TraceScript) -> None:
    shrink_below_min(script)
    script.truncate("b2", 0)


BROKEN: tuple[tuple[str, Story], ...] = (
    ("S5", s5_lossy_leader),
    ("S6", s6_joins_elr),
    ("S6", s6_committed_without_elr),
    ("S17", s17_eligible_truncates),
    ("S19", s19_fenced),
    ("S19", s19_emptied_without_elr),
    ("S19", s19_alone_again),
    ("S20", s20_without_elr),
    ("S20", s20_stranger),
    ("S20", s20_in_both),
    ("S20", s20_beside_a_whole_isr),
    ("S21", s21_in_elr),
    ("S21", s21_wiped),
)


@pytest.mark.parametrize(("name", "story"), BROKEN, ids=[story.__name__ for _, story in BROKEN])
def test_a_run_that_breaks_the_rule_is_caught(name: str, story: Story) -> None:
    script = TraceScript(rules=PROFILES["kafka-4.1"])
    story(script)
    assert name in script.broken(), [violation.sentence for violation in script.checker.violations]


# -------------------------------------------------------------------------------------------------- what may well be


def kip_966(script: TraceScript) -> None:
    """b1 is struck out, b2 leads cleanly with all that is committed, b1 follows it."""
    last_one_goes(script)
    back_in_disorder(script, "b2")
    script.unfence("b2")
    script.elect("b2", "b2")
    script.epoch = 2
    script.commit_elr()
    script.leads("b2", 2)
    script.at(12)


def exhausted(script: TraceScript) -> None:
    """Both eligible ones came back in disorder; the last known leader is elected, which is no clean election."""
    last_one_goes(script)
    back_in_disorder(script, "b2")
    script.commit_elr(alone=True)
    script.unfence("b1")
    script.elect("b1", "b1", clean=False)
    script.leads("b1", 2)
    script.at(12)


def left_over(script: TraceScript) -> None:
    """Switched off: ELR and empty ISR of before stand until the partition changes, and who was eligible leads."""
    last_one_goes(script)
    script.set_level(ELR_VERSION, 0)
    script.register("b2")
    script.at(11)
    script.unfence("b2")
    script.elect("b2", "b2")
    script.epoch = 2
    script.commit_elr()
    script.leads("b2", 2)
    script.at(12)


def left_over_is_cleared(script: TraceScript) -> None:
    last_one_goes(script)
    script.set_level(ELR_VERSION, 0)
    script.commit_elr(alone=True)
    script.at(12)


def alone_since_before(script: TraceScript) -> None:
    """Switched on: b1, which died as the last member of the ISR, is in it still."""
    shrink_below_min(script)
    script.set_level(ELR_VERSION, 0)
    script.fence("b1")
    script.go_offline("b1")
    script.commit_elr()
    script.at(6)
    script.set_level(ELR_VERSION, 1)
    script.unfence("b2")
    script.at(7)


def registers_again(script: TraceScript) -> None:
    """A late copy of the registration: the broker stays unfenced, and in the ISR that it has joined meanwhile."""
    kip_966(script)
    script.unfence("b1")
    script.append("b1", 0, "r0", epoch=0)
    script.fetch("b1", 1)
    script.propose(("b2", "b1"))
    script.commit_isr("b2", "b1")
    script.register("b1")
    script.at(13)


def registers_after_its_death(script: TraceScript) -> None:
    """b2 was stopped in order; the registration of its next life arrives when that one has been killed."""
    script.stop("b2", "stop")
    script.fence("b2")
    script.commit_isr("b1")
    script.commit_elr("b2")
    script.at(5).start("b2")
    script.stop("b2", "kill")
    script.register("b2", 20)
    script.at(6)


@pytest.mark.parametrize(
    "story",
    [
        shrink_below_min,
        last_one_goes,
        kip_966,
        exhausted,
        left_over,
        left_over_is_cleared,
        alone_since_before,
        registers_again,
        registers_after_its_death,
        deposed_leader_goes_by_a_former_fetch,
    ],
)
def test_what_kafka_does_breaks_nothing(story: Story) -> None:
    script = TraceScript(rules=PROFILES["kafka-4.1"])
    story(script)
    assert script.broken() == []


def test_without_elr_the_same_isr_is_wrong() -> None:
    script = TraceScript(rules=PROFILES["kafka-3.9"])
    last_one_goes(script)
    assert {"S19", "S20"} <= set(script.broken())


@pytest.mark.parametrize(("isr", "is_broken"), [(("b1",), False), (("b1", "b2"), False), (("b1", "b3"), True)])
def test_a_leader_that_may_commit_counts_on_the_eligible(isr: tuple[str, ...], is_broken: bool) -> None:
    script = TraceScript(rules=PROFILES["kafka-4.1"])
    shrink_below_min(script)
    leader = LeaderSnapshot("b1", T0, 0, script.partition_epoch, isr, isr, pending=False)
    script.checker.probe(FakeProbe(leaders=[leader]))
    assert ("S7" in script.broken()) is is_broken
