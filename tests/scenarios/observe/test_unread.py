"""How long partitions stood unread: nobody's, or their reader frozen or down. An event of a group a second."""

from __future__ import annotations

from dataclasses import astuple

from replica.trace import events as trace
from scenarios.observe.groups import UnreadTimes
from scenarios.observe.view import ClusterView
from tests.group_script import GroupScript

SECOND = 1_000_000


class World:
    def __init__(self) -> None:
        view = ClusterView(("b1",), clients=("m1-client",))
        self.unread = UnreadTimes(view)
        self.script = GroupScript(listeners=[view, self.unread])
        self.script.log.emit(trace.NodeStarted(node="m1-client", role="consumer", incarnation=1))

    def fault(self, verb: str) -> None:
        self.script.log.at_us += SECOND
        self.script.log.emit(trace.FaultBegan(fault=verb, verb=verb, targets=("m1-client",), effect="as it is"))

    def found(self) -> dict[str, tuple[float, ...]]:
        """Observed, unread, longest stretch in seconds; how often it moved."""
        self.unread.settle(self.script.log.at_us + SECOND)
        found = self.unread.found["g"]
        return {name: tuple(one // SECOND if one >= SECOND else one for one in astuple(found[name])) for name in found}


def test_of_an_eager_group_all_stand_unread_while_it_rebalances():
    world = World()
    world.script.joined("m1")
    world.script.rebalanced(1, "range", m1=("t-0", "t-1"))
    world.script.joined("m2")
    world.script.rebalance_began(1)
    world.script.rebalanced(2, "range", m1=("t-0",), m2=("t-1",))
    assert world.found() == {"t-0": (5, 2, 2, 0), "t-1": (5, 2, 2, 1)}


def test_of_a_cooperative_one_what_moves():
    world = World()
    world.script.joined("m1")
    world.script.rebalanced(1, "cooperative-sticky", m1=("t-0", "t-1"))
    world.script.rebalance_began(1)
    world.script.rebalanced(2, "cooperative-sticky", m1=("t-0",), m2=())
    world.script.rebalance_began(2)
    world.script.rebalanced(3, "cooperative-sticky", m1=("t-0",), m2=("t-1",))
    assert world.found() == {"t-0": (7, 0, 0, 0), "t-1": (7, 3, 3, 1)}


def test_one_that_is_frozen_reads_nothing_though_its_partitions_are_its_own():
    world = World()
    world.script.reconciled("m1", 1, "t-0", "t-1")
    world.fault("pause")
    world.script.reconciled("m1", 1, "t-0", revoking=("t-1",))
    world.fault("resume")
    world.script.joined("m3")
    world.script.reconciled("m1", 2, "t-0")
    world.fault("pause")
    world.script.left("m1")
    world.script.reconciled("m3", 3, "t-0")
    found = world.found()
    assert found["t-0"] == (9, 4, 2, 1)
    assert found["t-1"][1:] == (6, 4, 0), "and nobody has t-1 since m1 gave it up"


def test_a_frozen_coordinator_decides_nothing_when_it_wakes():
    world = World()
    world.script.elected("b1", 1)
    world.script.reconciled("m1", 1, "t-0")
    world.script.elected("b2", 2)
    world.script.reconciled("m1", 2, "t-0")
    world.script.coordinator = "b1"
    world.script.left("m1")
    world.script.say(trace.GroupRemoved, generation=1)
    world.script.elected("b1", 3)
    world.script.reconciled("m1", 3, "t-0")
    assert world.found() == {"t-0": (7, 0, 0, 0)}
