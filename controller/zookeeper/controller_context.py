"""The state of the active ZooKeeper-era controller, and its pending actions. Source: ControllerContext.scala"""

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
"""A generator that yields operations of the registry (the simulated ZooKeeper) and is resumed with their results."""
Answer = Callable[[Any], None]


class ControllerMoved(Exception):
    """The error of a write that the registry refuses because another broker is the controller now."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The action to pass the result of a `Process` to the caller that started it: call `answer(value)`."""

    answer: Answer
    value: object | None


ControllerAction = ControlRequest | Emit | Reply


class ControllerContext:
    """The state of the active controller.

    Attributes:
        live: brokers in the registry.
        states: partitions as this controller last read or wrote them; new partitions have no state yet.
        epoch_version: version of the znode with the controller epoch, at the election of this controller.
        offline: partitions whose leader has died, until a leader is elected; even the old leader must be elected again.
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
        """Remove all state and unsent requests, since this broker is no longer the controller."""
        for known in (self.live, self.shutting_down, self.topic_ids, self.assignment, self.states, self.offline):
            known.clear()
        self.batch = RequestBatch()

    def live_of(self, brokers: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Return those brokers to which requests can be sent."""
        return tuple(broker_id for broker_id in brokers if broker_id in self.live)

    def online_of(self, brokers: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Return those brokers that may lead or be in an ISR. Source: ControllerContext.isReplicaOnline"""
        return tuple(filter(self.is_online, brokers))

    def is_online(self, broker_id: BrokerId) -> bool:
        return broker_id in self.live and broker_id not in self.shutting_down

    def send(self) -> None:
        """Send the collected requests to the brokers."""
        self.actions += self.batch.requests(
            controller_id=self._broker_id,
            controller_epoch=self.epoch,
            live=self.live,
            topic_ids=self.topic_ids,
            with_broker_epochs=self._with_broker_epochs,
        )

    def reply(self, answer: Answer, value: object) -> None:
        """Send the collected requests, then the answer. So no change is reported before its requests are sent."""
        self.send()
        self.actions.append(Reply(answer, value))
