"""The work of a run for each of many partitions: counted in calls, not in seconds, so that nothing becomes quadratic.

When a broker dies, an event or two of every partition follow. Looking at all partitions for each of them would stop the
cluster for minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from controller_world import new_state, start_brokers

from controller.inputs import CreateTopic, EmitNumbered, SessionCheckDue, Several
from controller.placement import UsableBroker, place
from controller.state import ControllerState
from replica.rules import PROFILES
from replica.trace import events as trace
from replica.trace.events import TraceLog
from scenarios.check.invariants.checker import InvariantChecker
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.story import Story
from scenarios.observe.view import ClusterView
from scenarios.run.probe import PARTITIONS_PER_PROBE, PartitionRounds

FEW, MANY = 200, 400
NEARLY_TWICE = 2.2
CALLS_PER_PLACE = 200
"""A separate flow for every 32 partitions takes a thousand calls for each."""
CALLS_PER_TOPIC = 300
"""A flow for each topic, and the keys of its configuration found anew, take a thousand."""
RULES = PROFILES["kafka-4.1"]


def calls_of(work: Callable[[], object]) -> int:
    """How many functions of Python it calls."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


class Told:
    """A controller whose decisions reach its listeners at once."""

    def __init__(self) -> None:
        self.view = ClusterView(("b1", "b2", "b3"), ("c1",))
        self.mirror = LogMirror()
        self.story = Story(self.view)
        self.checker = InvariantChecker(self.view, self.mirror, RULES)
        ledger = RecordLedger(self.mirror.deleted)
        self.log = TraceLog([self.view, ledger, self.mirror, self.checker, self.story])
        self.state: ControllerState = new_state(RULES, session_timeout_us=1_000_000)
        for node in ("c1", "b1", "b2", "b3"):
            role = "controller" if node == "c1" else "broker"
            self.log.emit(trace.NodeStarted(node=node, role=role, incarnation=1))
        start_brokers(self.state, 1, 2, 3)
        for node in ("b1", "b2", "b3"):
            self.log.emit(trace.BrokerUnfenced(node="c1", broker=node))

    def create(self, partitions: int) -> None:
        self._tell(
            CreateTopic(
                now_us=1, name="many", assignment=None, partitions=partitions, replication_factor=3, config={}
            )
        )  # fmt: skip

    def everybody_dies(self) -> None:
        for number in (1, 2, 3):
            self.log.at_us = 2_000_000 + number
            self.log.emit(trace.NodeStopped(node=f"b{number}", how="kill"))
            self._tell(SessionCheckDue(now_us=self.log.at_us))
        self.log.at_us += 1
        self.checker.end()

    def _tell(self, given: CreateTopic | SessionCheckDue) -> None:
        for action in self.state.step(given):
            if isinstance(action, EmitNumbered):
                self.log.emit(action.event)


def calls_when_everybody_dies(partitions: int) -> int:
    told = Told()
    told.create(partitions)
    calls = calls_of(told.everybody_dies)
    assert len(told.state.image.leaderless) == partitions, "all went offline"
    assert [violation.sentence for violation in told.checker.violations] == []
    return calls


@pytest.mark.soak
def test_a_broker_s_death_costs_as_much_for_each_partition_however_many_there_are() -> None:
    assert calls_when_everybody_dies(MANY) < NEARLY_TWICE * calls_when_everybody_dies(FEW)


def test_so_does_the_creation_of_a_topic() -> None:
    few, many = (calls_of(lambda partitions=partitions: Told().create(partitions)) for partitions in (FEW, MANY))
    assert many < NEARLY_TWICE * few


def test_so_do_the_histories_of_its_partitions() -> None:
    told = {partitions: Told() for partitions in (FEW, MANY)}
    for partitions, one in told.items():
        one.create(partitions)
        one.everybody_dies()
    few, many = (calls_of(lambda one=one: one.story.histories) for one in told.values())
    assert many < NEARLY_TWICE * few
    history = told[FEW].story.histories[next(iter(told[FEW].view.partitions))]
    assert history.states[0][1] == ("leads", "in", "in")
    assert history.states[-1][1] == ("gone", "gone", "gone")


def test_a_fenced_broker_that_stays_in_isrs_is_found_in_each_of_them() -> None:
    """The checker looks only at changes, and misses no violation."""
    told = Told()
    told.create(FEW)
    told.log.at_us = 2_000_000
    told.log.emit(trace.BrokerFenced(node="c1", broker="b1"))
    told.log.at_us += 1
    told.checker.end()
    violations = told.checker.violations
    assert [violation.invariant for violation in violations] == ["S19"] * FEW
    assert [violation.partition for violation in violations] == list(told.view.partitions)


@pytest.mark.parametrize(("brokers", "replication_factor"), [(3, 3), (5, 3), (7, 2)])
def test_the_same_flow_is_not_solved_twice(brokers: int, replication_factor: int) -> None:
    usable = [UsableBroker(number, None, False) for number in range(brokers)]
    place(usable, 1, replication_factor)  # networkx is loaded
    count = 5 * FEW
    assert calls_of(lambda: place(usable, count, replication_factor)) < CALLS_PER_PLACE * count


def test_a_probe_looks_at_what_events_have_named_and_at_all_others_in_turn() -> None:
    told = Told()
    rounds = PartitionRounds(told.view, told.checker.touched)
    told.create(PARTITIONS_PER_PROBE)
    assert rounds.take() is None, "all of them, for they are few"
    told = Told()
    rounds = PartitionRounds(told.view, told.checker.touched)
    told.create(5 * PARTITIONS_PER_PROBE)
    assert set(rounds.take() or ()) == set(told.view.partitions), "all of them: an event has named each"
    seen = [name for _ in range(5) for name in rounds.take() or ()]
    assert len(seen) == 5 * PARTITIONS_PER_PROBE
    assert len(set(seen)) >= 4 * PARTITIONS_PER_PROBE


def test_a_request_for_many_topics_places_and_configures_each_at_little_cost() -> None:
    state = new_state(RULES)
    start_brokers(state, 1, 2, 3)
    state.step(several_topics("first", 3))  # networkx is loaded, and the three flows are solved
    assert calls_of(lambda: state.step(several_topics("many", FEW))) < CALLS_PER_TOPIC * FEW


def several_topics(prefix: str, count: int) -> Several:
    names = [f"{prefix}-{number}" for number in range(count)]
    return Several(
        now_us=1,
        inputs=tuple(
            CreateTopic(now_us=1, name=name, assignment=None, partitions=1, replication_factor=2, config={})
            for name in names
        ),
    )
