"""What an operator's tools ask of the controller that is active: elections, topics, and any other decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import trio

from cluster.network.world import SETTLE_S
from cluster.node import Action
from cluster.operated import OperatedBroker, OperatedController
from controller.client_quotas import CLIENT_ID, USER, entity_of
from controller.inputs import AlterClientQuota, ControllerInput, CreateTopicReply, Reply
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from scenarios.language.spec import ClientQuota, TopicSpec
from scenarios.language.steps import DEFAULT
from scenarios.run.cluster_under_test import ClusterUnderTest, NotPossibleNow

Answer = Callable[[Reply | None], None]


def alteration(quota: ClientQuota, now_us: int) -> AlterClientQuota:
    """A quota as the controller is asked for it. source: kafka-configs --entity-type clients, users"""
    names = {USER: quota.user, CLIENT_ID: quota.client}
    return AlterClientQuota(
        now_us=now_us,
        entity=entity_of({kind: None if name == DEFAULT else name for kind, name in names.items() if name is not None}),
        quotas={key: None if value is None else float(value) for key, value in quota.quota},
    )


class ControllerCalls:
    """Requests to the active controller; each raises NotPossibleNow while there is none."""

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self._cluster = cluster

    @property
    def _in_zookeeper_era(self) -> bool:
        """The machine that the scenario calls its controller is the registry, and one of the brokers controls."""
        return self._cluster.scenario.rules.membership == "zk-session"

    def ask_for_topic(self, topic: TopicSpec, answer: Answer) -> bool:
        """Whether there is a controller to ask."""
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
        factor, config = topic.replication_factor, dict(topic.config)
        ask = partial(node.create_topic, topic.name, ids, topic.partitions, factor, config, answer)
        cluster.machines[name].host.call(ask)
        return True

    async def topic_creation(self, topic: TopicSpec) -> Reply | None:
        """What the controller answers; as `decision`."""

        def ask(answer: Answer) -> None:
            if not self.ask_for_topic(topic, answer):
                raise NotPossibleNow("no controller is active")

        return await self._settled(ask)

    def elect_leader(self, name: TopicPartition, desired: int | None, unclean: bool, answer: Answer) -> None:
        """Ask the active controller for an election."""
        node = self._active_controller() if not self._in_zookeeper_era else self._broker_that_controls()
        self._call_active(partial(node.elect_leader, name, desired, unclean, answer))

    def operate(self, make_input: Callable[[int], ControllerInput], answer: Answer) -> None:
        """Any other request to the active controller of a quorum, or to the registry of the ZooKeeper era."""
        if self._in_zookeeper_era:
            name = self._cluster.scenario.cluster.controllers[0]
            registry = self._cluster.answering(self._cluster.nodes.registries, name)
            if registry is None:
                raise NotPossibleNow(f"the registry {name} is down")
            self._cluster.machines[name].host.call(partial(registry.operate, make_input, answer))
            return
        self._call_active(partial(self._active_controller().operate, make_input, answer))

    async def decision(self, make_input: Callable[[int], ControllerInput]) -> Reply | None:
        """What `operate` is answered; None: nothing in time. In virtual time a step does not wait for a controller that
        has to ask others first."""
        return await self._settled(partial(self.operate, make_input))

    async def topic_config(self, topic: str) -> Mapping[str, str]:
        """As the active controller knows it. raises: NotPossibleNow, also while there is no such topic"""
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
        """In the ZooKeeper era."""
        broker = self._cluster.answering(self._cluster.nodes.brokers, self._cluster.view.controller)
        if broker is None:
            raise NotPossibleNow("no controller is active")
        return broker


class FirstTopics:
    """The topics and quotas that a scenario has from the start: asked for once every broker is unfenced."""

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self._cluster = cluster
        self._calls = ControllerCalls(cluster)
        self._replies: dict[str, list[Reply | None]] = {}
        """By topic: the answer to its creation; empty while it is awaited, None if a second request is needed."""
        self._quotas = list(cluster.scenario.cluster.quotas)
        """Those that are not set yet."""

    def are_there(self) -> bool:
        """Asks for what is lacking. Returns whether all is done and committed.

        raises: NotPossibleNow if a topic is refused
        """
        scenario = self._cluster.scenario
        if any(self._cluster.view.nodes[name].fenced for name in scenario.cluster.brokers):
            return False
        there = all([self._is_there(topic) for topic in scenario.topics_at_the_start])
        return there and self._quotas_are_set()

    def _is_there(self, topic: TopicSpec) -> bool:
        """Asks the active controller, once; again only if it was deposed before it had answered."""
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
        """Once there are topics."""
        while self._quotas:
            try:
                self._calls.operate(partial(alteration, self._quotas[0]), lambda reply: None)
            except NotPossibleNow:
                return False
            self._quotas.pop(0)
        return True
