"""The state of an active ZooKeeper-era controller, and the actions it wants done. source: ControllerContext.scala"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from controller.image import PartitionRegistration
from controller.zookeeper.control_requests import ControlRequest, RequestBatch
from controller.zookeeper.registry import Operation, Result
from controller.zookeeper.znodes import LiveBroker
from replica.ids import BrokerId, TopicPartition
from replica.trace.events import Emit

Results = Sequence[Result]
Process = Generator[Operation, Results, None]
"""Yields operations for the registry and is resumed with their results."""
Answer = Callable[[Any], None]


class ControllerMoved(Exception):
    """According to the registry another broker is the controller by now."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a process, for the caller that started it."""

    answer: Answer
    value: object | None


ControllerAction = ControlRequest | Emit | Reply


class ControllerContext:
    """live: brokers in the registry     states: of partitions, as this controller last saw or wrote them; none for
    a partition it has not decided about yet     epoch_version: of the controller epoch's file, as of our election

    offline: partitions whose leader was found dead, until one is elected; that it is back does not make it the leader
    """

    def __init__(self, broker_id: BrokerId, *, with_broker_epochs: bool) -> None:
        self.epoch = 0
        self.epoch_version = 0
        self.live: dict[BrokerId, LiveBroker] = {}
        self.shutting_down: dict[BrokerId, None] = {}
        self.topic_ids: dict[str, UUID] = {}
        self.assignment: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self.states: dict[TopicPartition, PartitionRegistration] = {}
        self.offline: dict[TopicPartition, None] = {}
        self.batch = RequestBatch()
        self.actions: list[ControllerAction] = []
        self._broker_id = broker_id
        self._with_broker_epochs = with_broker_epochs

    def clear(self) -> None:
        """No longer the controller: drop all unsent requests."""
        for known in (self.live, self.shutting_down, self.topic_ids, self.assignment, self.states, self.offline):
            known.clear()
        self.batch = RequestBatch()

    def live_of(self, brokers: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Those that requests can be sent to."""
        return tuple(broker_id for broker_id in brokers if broker_id in self.live)

    def online_of(self, brokers: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Those that may lead or be in sync. source: ControllerContext.isReplicaOnline"""
        return tuple(filter(self.is_online, brokers))

    def is_online(self, broker_id: BrokerId) -> bool:
        return broker_id in self.live and broker_id not in self.shutting_down

    def send(self) -> None:
        """Send the gathered requests to the brokers."""
        self.actions += self.batch.requests(
            controller_id=self._broker_id,
            controller_epoch=self.epoch,
            live=self.live,
            topic_ids=self.topic_ids,
            with_broker_epochs=self._with_broker_epochs,
        )

    def reply(self, answer: Answer, value: object) -> None:
        """After the requests to brokers: an answer never says more than has been sent."""
        self.send()
        self.actions.append(Reply(answer, value))
