"""Sends the requests of an operator's tools, such as elections and topic creation, to the active controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import trio

from cluster.network.world import SETTLE_S
from cluster.node import Action
from cluster.operated import OperatedBroker, OperatedController
from controller.client_quotas import CLIENT_ID, USER, entity_of
from controller.inputs import (
    AlterClientQuota,
    ChangeVoters,
    ControllerInput,
    CreateTopic,
    CreateTopicReply,
    ElectLeader,
    Reply,
)
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from scenarios.language.spec import ClientQuota, TopicSpec
from scenarios.language.steps import DEFAULT
from scenarios.run.cluster_under_test import ClusterUnderTest, NotPossibleNow

Answer = Callable[[Reply | None], None]


def alteration(quota: ClientQuota, now_us: int) -> AlterClientQuota:
    """Return the request that sets a client quota.

    Source: kafka-configs --entity-type clients, users
    """
    names = {USER: quota.user, CLIENT_ID: quota.client}
    return AlterClientQuota(
        now_us=now_us,
        entity=entity_of({kind: None if name == DEFAULT else name for kind, name in names.items() if name is not None}),
        quotas={key: None if value is None else float(value) for key, value in quota.quota},
    )


class ControllerCalls:
    """Requests to the active controller. Methods raise NotPossibleNow while no controller is active."""

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self._cluster = cluster

    @property
    def _in_zookeeper_era(self) -> bool:
        """Return True in the ZooKeeper era: the controller is a broker, and the registry has its own machine."""
        return self._cluster.scenario.rules.membership == "zk-session"

    def ask_for_topic(self, topic: TopicSpec, answer: Answer) -> bool:
        """Ask the active controller, or the registry in the ZooKeeper era, to create a topic.

        Args:
            answer: called with the controller's reply, possibly later.

        Returns:
            False if there is no controller to ask.
        """
        cluster = self._cluster
        name = cluster.scenario.cluster.controllers[0] if self._in_zookeeper_era else cluster.view.controller
        node = cluster.answering(
            cluster.nodes.registries if self._in_zookeeper_era else cluster.nodes.controllers, name
        )
        if node is None:
            return False
        broker_ids = cluster.scenario.cluster.ids
        ids = (
            None
            if topic.assignment is None
            else tuple(tuple(broker_ids[broker] for broker in replicas) for replicas in topic.assignment)
        )
        wanted = partial(
            CreateTopic,
            name=topic.name,
            assignment=ids,
            partitions=topic.partitions if ids is None else None,
            replication_factor=topic.replication_factor if ids is None else None,
            config=dict(topic.config),
        )
        ask = partial(node.operate, lambda now_us: wanted(now_us=now_us), answer)
        cluster.machines[name].host.call(ask)
        return True

    async def topic_creation(self, topic: TopicSpec) -> Reply | None:
        """Ask the active controller to create a topic. Return the reply, or None if no reply comes in time."""

        def ask(answer: Answer) -> None:
            if not self.ask_for_topic(topic, answer):
                raise NotPossibleNow("no controller is active")

        return await self._settled(ask)

    async def elect_leaders(
        self, names: Sequence[TopicPartition], desired: int | None, unclean: bool
    ) -> dict[TopicPartition, Reply | None]:
        """Ask the active controller to elect a leader of each partition. Return the replies, None if one is too late.

        In simulated mode this does not wait for a controller that has to ask other nodes first.

        Args:
            desired: id of the broker to elect; None for the preferred replica or, if `unclean`, any live replica.
        """
        node = self._active_controller() if not self._in_zookeeper_era else self._broker_that_controls()
        kind: Literal["preferred", "unclean"] = "unclean" if unclean else "preferred"
        replies: dict[TopicPartition, Reply | None] = {}
        answered = trio.Event()

        def answer(name: TopicPartition, reply: Reply | None) -> None:
            replies[name] = reply
            if len(replies) == len(names):
                answered.set()

        def make_input(name: TopicPartition, now_us: int) -> ElectLeader:
            return ElectLeader(now_us=now_us, topic=name.topic, partition=name.partition, kind=kind, desired=desired)

        for name in names:
            self._call_active(partial(node.operate, partial(make_input, name), partial(answer, name)))
        if len(replies) < len(names) and self._cluster.fabric.is_live:
            with trio.move_on_after(SETTLE_S):
                await answered.wait()
        return {name: replies.get(name) for name in names}

    def operate(self, make_input: Callable[[int], ControllerInput | ChangeVoters], answer: Answer) -> None:
        """Send a request to the active controller of a quorum, or to the registry in the ZooKeeper era.

        Args:
            make_input: creates the request for the current time in microseconds.
            answer: called with the reply, possibly later.
        """
        if self._in_zookeeper_era:
            name = self._cluster.scenario.cluster.controllers[0]
            registry = self._cluster.answering(self._cluster.nodes.registries, name)
            if registry is None:
                raise NotPossibleNow(f"the registry {name} is down")
            self._cluster.machines[name].host.call(partial(registry.operate, make_input, answer))
            return
        self._call_active(partial(self._active_controller().operate, make_input, answer))

    async def decision(self, make_input: Callable[[int], ControllerInput | ChangeVoters]) -> Reply | None:
        """Send a request as `operate` does. Return the reply, or None if no reply comes in time.

        In simulated mode this does not wait for a controller that has to ask other nodes first.
        """
        return await self._settled(partial(self.operate, make_input))

    async def topic_config(self, topic: str) -> Mapping[str, str]:
        """Return a topic's configuration from the active controller, {} if it does not answer in time.

        Raises:
            NotPossibleNow: no controller is active, or the topic does not exist.
        """
        if all(name.topic != topic for name in self._cluster.view.partitions):
            raise NotPossibleNow(f"there is no topic {topic} yet")
        ask = partial(self._active_controller().topic_config, topic)
        return await self._cluster.answer_of(self._cluster.view.controller, ask) or {}

    async def _settled(self, ask: Callable[[Answer], None]) -> Reply | None:
        answered = trio.Event()
        replies: list[Reply | None] = []

        def answer(reply: Reply | None) -> None:
            replies.append(reply)
            answered.set()

        ask(answer)
        if not replies and self._cluster.fabric.is_live:
            with trio.move_on_after(SETTLE_S):
                await answered.wait()
        return replies[0] if replies else None

    def _call_active(self, ask: Callable[[int], list[Action]]) -> None:
        self._cluster.machines[self._cluster.view.controller].host.call(ask)

    def _active_controller(self) -> OperatedController:
        controller = self._cluster.answering(self._cluster.nodes.controllers, self._cluster.view.controller)
        if controller is None:
            raise NotPossibleNow("no controller is active")
        return controller

    def _broker_that_controls(self) -> OperatedBroker:
        """Return the broker that is the controller in the ZooKeeper era. Raises NotPossibleNow if there is none."""
        broker = self._cluster.answering(self._cluster.nodes.brokers, self._cluster.view.controller)
        if broker is None:
            raise NotPossibleNow("no controller is active")
        return broker


class FirstTopics:
    """Creator of the topics and quotas that a scenario has from the start. It begins once all brokers are unfenced."""

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self._cluster = cluster
        self._calls = ControllerCalls(cluster)
        self._replies: dict[str, list[Reply | None]] = {}
        """Reply to the creation of each topic: [] while it is awaited, [None] if the request must be sent again."""
        self._quotas = list(cluster.scenario.cluster.quotas)
        """The quotas that are not set yet."""

    def are_there(self) -> bool:
        """Request every missing topic and quota. Return True if all of them exist.

        Raises:
            NotPossibleNow: the controller refused to create a topic.
        """
        scenario = self._cluster.scenario
        if any(self._cluster.view.nodes[name].fenced for name in scenario.cluster.brokers):
            return False
        there = all([self._is_there(topic) for topic in scenario.topics_at_the_start])
        return there and self._quotas_are_set()

    def _is_there(self, topic: TopicSpec) -> bool:
        """Return True if a topic exists, otherwise request it, again if the controller was deposed before its reply."""
        replies = self._replies.get(topic.name, [None])
        if not replies:
            return False
        (reply,) = replies
        if reply is None:
            replies = []
            if not self._calls.ask_for_topic(topic, replies.append):
                return False
            self._replies[topic.name] = replies
            return bool(replies) and self._is_there(topic)
        if isinstance(reply, CreateTopicReply) and reply.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise NotPossibleNow(f"topic {topic.name} cannot be created: {reply.error.name} {reply.message}")
        return True

    def _quotas_are_set(self) -> bool:
        """Send the quotas that are not set yet. Return True if all of them are sent."""
        while self._quotas:
            try:
                self._calls.operate(partial(alteration, self._quotas[0]), lambda reply: None)
            except NotPossibleNow:
                return False
            self._quotas.pop(0)
        return True
