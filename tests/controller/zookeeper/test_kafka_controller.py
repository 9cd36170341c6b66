"""The ZooKeeper-era controller, with a registry at its side that answers at once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from controller.inputs import AlterPartition, ElectLeader, IsrProposal
from controller.zookeeper import znodes
from controller.zookeeper.control_requests import ControlRequest, LeaderAndIsr, StopReplica, UpdateMetadata
from controller.zookeeper.controller_context import Process, Reply
from controller.zookeeper.kafka_controller import ControlledShutdownReply, KafkaController
from controller.zookeeper.registry import NO_SESSION, Create, Delete, Operation, Registry, SetData
from replica.errors import ErrorCode
from replica.ids import NO_BROKER, Names, TopicPartition
from replica.rules import PROFILES, Rules
from replica.trace import events as trace
from replica.trace.events import Emit

NAMES = Names({1: "b1", 2: "b2", 3: "b3"})
T0 = TopicPartition("t", 0)
V2_7, V2_1 = PROFILES["kafka-2.7"], PROFILES["kafka-2.1"]


class ControllerWorld:
    """Brokers 1 to 3 in a registry, each with a controller core; nothing is delivered but the registry's answers."""

    def __init__(self, rules: Rules = V2_7, replicas: tuple[int, ...] = (1, 2, 3), **config: str) -> None:
        self.registry = Registry()
        self.sessions = {broker: self.registry.open_session(NAMES(broker), 9_000_000, 0) for broker in (1, 2, 3)}
        self.controllers = {broker: KafkaController(broker_id=broker, names=NAMES, rules=rules) for broker in (1, 2, 3)}
        self.sent: list[ControlRequest] = []
        self.told: list[trace.TraceEvent] = []
        for broker in (1, 2, 3):
            self.join(broker)
        self.operate(Create(path=znodes.config_path("t"), data=znodes.config_data(config)))
        self.operate(Create(path=znodes.topic_path("t"), data=znodes.topic_data(UUID(int=7), (replicas,))))
        self.run(1, self.controllers[1].elect())

    def operate(self, operation: Operation, broker: int | None = None) -> None:
        (result,) = self.registry.apply(NO_SESSION if broker is None else self.sessions[broker], operation)
        assert result.error is None, result

    def join(self, broker: int) -> None:
        data = znodes.broker_data(NAMES(broker), 9092, None)
        self.operate(Create(path=znodes.broker_path(broker), data=data, ephemeral=True), broker)

    def leave(self, *brokers: int) -> None:
        for broker in brokers:
            self.operate(Delete(path=znodes.broker_path(broker)))

    def run(self, broker: int, process: Process) -> None:
        controller = self.controllers[broker]
        operation = controller.post(process)
        while operation is not None:
            operation = controller.resume(self.registry.apply(self.sessions[broker], operation))
        for action in controller.take_actions():
            match action:
                case Emit():
                    self.told.append(action.event)
                case Reply():
                    action.answer(action.value)
                case ControlRequest():
                    self.sent.append(action)

    def brokers_changed(self, broker: int = 1) -> None:
        self.sent.clear()
        self.run(broker, self.controllers[broker].brokers_changed())

    @property
    def state(self) -> tuple[int, int, tuple[int, ...], int]:
        """leader, leader epoch, ISR, version"""
        node = self.registry.nodes[znodes.state_path(T0)]
        state = znodes.state_of(node.data)
        return state.leader, state.leader_epoch, state.in_sync_replicas, node.version

    def told_of(self, kind: type) -> list[int]:
        """Brokers to which requests of one kind went."""
        return [request.broker.broker_id for request in self.sent if isinstance(request, kind)]


def election_of(broker_id: int) -> ElectLeader:
    return ElectLeader(now_us=0, topic=T0.topic, partition=T0.partition, desired=broker_id)


def test_the_first_controls_and_the_others_follow_it() -> None:
    world = ControllerWorld()
    world.run(2, world.controllers[2].elect())
    assert world.controllers[1].is_active
    assert world.controllers[2].active_controller == 1
    assert world.state == (1, 0, (1, 2, 3), 0)
    assert world.told_of(LeaderAndIsr) == [1, 2, 3]
    assert {request.controller_epoch for request in world.sent} == {1}


def test_a_successor_takes_over_what_stands_in_the_registry() -> None:
    world = ControllerWorld()
    world.registry.close_session(world.sessions[1])
    world.sent.clear()
    world.run(2, world.controllers[2].controller_changed())
    assert world.controllers[2].is_active
    assert {request.controller_epoch for request in world.sent} == {2}
    assert world.state == (2, 2, (2, 3), 2), "elected, and then b1 is taken out of the ISR: a term each"


@pytest.mark.parametrize(("rules", "isr"), [(V2_7, (1, 2)), (V2_1, (1, 2, 3))])
def test_only_since_kafka_3143_a_successor_removes_who_died_before(rules: Rules, isr: tuple[int, ...]) -> None:
    world = ControllerWorld(rules)
    world.leave(3)
    world.operate(Delete(path=znodes.CONTROLLER))
    world.run(2, world.controllers[2].controller_changed())
    assert world.state[2] == isr


def test_a_dead_follower_leaves_the_isr_in_a_new_term_of_the_same_leader() -> None:
    world = ControllerWorld()
    world.leave(3)
    world.brokers_changed()
    assert world.state == (1, 1, (1, 2), 1)
    assert world.told_of(LeaderAndIsr) == [1, 2]


def test_the_last_of_the_isr_stays_in_it_without_leading() -> None:
    world = ControllerWorld()
    world.leave(2, 3)
    world.brokers_changed()
    world.leave(1)
    world.run(1, world.controllers[1].brokers_changed())
    assert world.state[0] == NO_BROKER
    assert world.state[2] == (1,)
    world.join(2)
    world.brokers_changed()
    assert world.state[0] == NO_BROKER, "b2 is not in the ISR"
    world.join(1)
    world.brokers_changed()
    assert world.state[0] == 1


def test_a_leader_that_was_found_dead_leads_again_only_in_a_new_term() -> None:
    world = ControllerWorld(V2_1)
    node = world.registry.nodes[znodes.state_path(T0)]
    world.operate(SetData(path=znodes.state_path(T0), data=node.data.replace("[1,2,3]", "[1]")))
    world.leave(1)
    world.operate(Delete(path=znodes.CONTROLLER))
    world.run(2, world.controllers[2].controller_changed())
    assert world.state == (1, 0, (1,), 1), "nobody else can lead"
    world.join(1)
    world.brokers_changed(2)
    assert world.state == (1, 1, (1,), 2)
    assert world.told_of(LeaderAndIsr) == [1, 1, 2, 3], "b1 of all that it has, and then everybody of the election"


def test_an_unclean_election_takes_the_first_that_lives() -> None:
    config: dict[str, Any] = {"unclean.leader.election.enable": "true"}
    world = ControllerWorld(**config)
    world.leave(2, 3)
    world.brokers_changed()
    world.leave(1)
    world.join(3)
    world.brokers_changed()
    assert (world.state[0], world.state[2]) == (3, (3,))


@pytest.mark.parametrize(("rules", "is_news"), [(V2_7, True), (V2_1, False)])
def test_a_bounce_between_two_looks_is_seen_by_the_broker_epoch(rules: Rules, is_news: bool) -> None:
    world = ControllerWorld(rules)
    world.leave(3)
    world.join(3)
    world.brokers_changed()
    assert (3 in world.told_of(LeaderAndIsr)) is is_news
    assert world.state[2] == ((1, 2) if is_news else (1, 2, 3))


def test_a_write_of_an_older_controller_is_refused_and_it_resigns() -> None:
    world = ControllerWorld()
    world.operate(Delete(path=znodes.CONTROLLER))
    world.run(2, world.controllers[2].elect())
    before = world.state
    world.run(1, world.controllers[1].elect_leader(election_of(3), lambda reply: None))
    assert world.state == before
    assert not world.controllers[1].is_active
    assert [type(event) for event in world.told][-1] is trace.ControllerResigned


def test_before_kafka_6082_only_what_the_newer_one_wrote_is_safe() -> None:
    world = ControllerWorld(V2_1)
    world.operate(Delete(path=znodes.CONTROLLER))
    world.run(2, world.controllers[2].elect())
    world.run(1, world.controllers[1].elect_leader(election_of(3), lambda reply: None))
    assert world.state[0] == 3, "the partition's state was still of the older one's epoch"
    world.run(2, world.controllers[2].elect_leader(election_of(2), lambda reply: None))
    world.run(1, world.controllers[1].elect_leader(election_of(1), lambda reply: None))
    assert world.state[0] == 2


def test_a_controlled_shutdown_moves_leaders_and_stops_followers() -> None:
    world = ControllerWorld()
    answers: list[Any] = []
    world.sent.clear()
    world.run(1, world.controllers[1].controlled_shutdown(3, _epoch(world, 3), answers.append))
    assert world.told_of(StopReplica) == [3]
    assert world.told_of(LeaderAndIsr) == [1, 2], "who leaves is told nothing more"
    assert world.state == (1, 1, (1, 2), 1)
    world.run(1, world.controllers[1].controlled_shutdown(1, _epoch(world, 1), answers.append))
    assert world.state == (2, 2, (2,), 2)
    world.run(1, world.controllers[1].controlled_shutdown(2, _epoch(world, 2), answers.append))
    assert answers == [
        ControlledShutdownReply(error=ErrorCode.NONE),
        ControlledShutdownReply(error=ErrorCode.NONE),
        ControlledShutdownReply(error=ErrorCode.NONE, remaining=(T0,)),
    ]


def test_a_shutdown_asked_for_by_an_earlier_life_is_refused() -> None:
    world = ControllerWorld()
    answers: list[Any] = []
    world.run(1, world.controllers[1].controlled_shutdown(3, _epoch(world, 3) - 1, answers.append))
    assert answers == [ControlledShutdownReply(error=ErrorCode.STALE_BROKER_EPOCH)]


@pytest.mark.parametrize(
    ("leader_epoch", "version", "error"),
    [
        (0, 0, ErrorCode.NONE),
        (0, 1, ErrorCode.INVALID_UPDATE_VERSION),
        (-1, 0, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_a_proposed_isr_is_written_only_over_the_version_it_knows(
    leader_epoch: int, version: int, error: ErrorCode
) -> None:
    world = ControllerWorld()
    proposal = IsrProposal(
        topic="t",
        partition=0,
        leader_epoch=leader_epoch,
        partition_epoch=version,
        in_sync_replicas=(1, 2),
        broker_epochs=(-1, -1),
    )
    event = AlterPartition(now_us=0, broker_id=1, broker_epoch=_epoch(world, 1), partitions=(proposal,))
    answers: list[Any] = []
    world.sent.clear()
    world.run(1, world.controllers[1].alter_partition(event, answers.append))
    assert answers[0].partitions[0].error is error
    assert (world.state[2] == (1, 2)) is (error is ErrorCode.NONE)
    assert (world.told_of(UpdateMetadata) == [1, 2, 3]) is (error is ErrorCode.NONE)


def test_an_isr_written_by_the_leader_reaches_everybody_s_metadata() -> None:
    world = ControllerWorld(V2_1)
    node = world.registry.nodes[znodes.state_path(T0)]
    world.operate(SetData(path=znodes.state_path(T0), data=node.data.replace("[1,2,3]", "[1,2]"), version=0))
    note = Create(path=znodes.ISR_CHANGE, data=znodes.isr_change_data([T0]), sequential=True)
    world.operate(note)
    world.sent.clear()
    world.run(1, world.controllers[1].isr_changed())
    assert world.told_of(UpdateMetadata) == [1, 2, 3]
    assert world.told_of(LeaderAndIsr) == []
    assert world.registry.children(znodes.ISR_CHANGES) == []


def test_leaders_return_to_their_preferred_replica_beyond_ten_percent() -> None:
    world = ControllerWorld()
    world.leave(1)
    world.brokers_changed()
    assert world.state[0] == 2
    world.join(1)
    world.brokers_changed()
    world.run(1, world.controllers[1].rebalance())
    assert world.state[0] == 2, "b1 is not in the ISR yet"
    node = world.registry.nodes[znodes.state_path(T0)]
    world.operate(SetData(path=znodes.state_path(T0), data=node.data.replace("[2,3]", "[2,3,1]")))
    world.run(1, world.controllers[1].rebalance())
    assert world.state[0] == 1


def _epoch(world: ControllerWorld, broker: int) -> int:
    return world.registry.nodes[znodes.broker_path(broker)].czxid
