"""Requests of a ZooKeeper-era controller to brokers.

The controller collects changes, then sends each broker one request of each kind, in this order: LeaderAndIsr with the
state of partitions to their replicas, UpdateMetadata with the same to every broker, StopReplica to former replicas.

Source: ControllerChannelManager.scala, AbstractControllerBrokerRequestBatch
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypedDict
from uuid import UUID

from controller.image import PartitionRegistration
from controller.zookeeper.znodes import LiveBroker
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """The states of one topic's partitions in a request."""

    topic: str
    topic_id: UUID
    partitions: Mapping[int, PartitionRegistration]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """A request to one broker. `broker_epoch` identifies the broker's incarnation; before KIP-380 it is -1."""

    broker: LiveBroker
    controller_id: BrokerId
    controller_epoch: int
    broker_epoch: BrokerEpoch


class Head(TypedDict):
    """The fields that all requests have, as keyword arguments of `ControlRequest`."""

    broker: LiveBroker
    controller_id: BrokerId
    controller_epoch: int
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsr(ControlRequest):
    topics: tuple[TopicState, ...]
    live_leaders: tuple[LiveBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadata(ControlRequest):
    topics: tuple[TopicState, ...]
    live_brokers: tuple[LiveBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplica(ControlRequest):
    """A request to stop replicas. `delete` is True to delete their logs, too, since the topic was deleted."""

    partitions: tuple[TopicPartition, ...]
    delete: bool


class RequestBatch:
    """The changes to send to brokers after one event. `requests` returns them as requests and empties the batch."""

    def __init__(self) -> None:
        self._leader_and_isr: dict[BrokerId, dict[TopicPartition, PartitionRegistration]] = {}
        self._metadata_to: dict[BrokerId, dict[TopicPartition, PartitionRegistration]] = {}
        self._stop: dict[BrokerId, dict[TopicPartition, None]] = {}

    def leader_and_isr(
        self, brokers: Iterable[BrokerId], name: TopicPartition, registration: PartitionRegistration
    ) -> None:
        for broker_id in brokers:
            self._leader_and_isr.setdefault(broker_id, {})[name] = registration

    def update_metadata(
        self, brokers: Iterable[BrokerId], partitions: Mapping[TopicPartition, PartitionRegistration]
    ) -> None:
        for broker_id in brokers:
            self._metadata_to.setdefault(broker_id, {}).update(partitions)

    def stop_replica(self, broker_id: BrokerId, name: TopicPartition) -> None:
        self._stop.setdefault(broker_id, {})[name] = None

    def requests(
        self,
        *,
        controller_id: BrokerId,
        controller_epoch: int,
        live: Mapping[BrokerId, LiveBroker],
        topic_ids: Mapping[str, UUID],
        with_broker_epochs: bool,
    ) -> list[ControlRequest]:
        """Return the requests to live brokers, in the order in which to send them."""
        found: list[ControlRequest] = []
        everybody = tuple(live[broker_id] for broker_id in sorted(live))

        def head(broker_id: BrokerId) -> Head:
            broker = live[broker_id]
            epoch = broker.broker_epoch if with_broker_epochs else NO_BROKER_EPOCH
            return {
                "broker": broker,
                "controller_id": controller_id,
                "controller_epoch": controller_epoch,
                "broker_epoch": epoch,
            }

        for broker_id, partitions in sorted(self._leader_and_isr.items()):
            if broker_id in live:
                leaders = {registration.leader for registration in partitions.values()}
                live_leaders = tuple(broker for broker in everybody if broker.broker_id in leaders)
                topics = _by_topic(partitions, topic_ids)
                found.append(LeaderAndIsr(**head(broker_id), topics=topics, live_leaders=live_leaders))
        for broker_id, partitions in sorted(self._metadata_to.items()):
            if broker_id in live:
                topics = _by_topic(partitions, topic_ids)
                found.append(UpdateMetadata(**head(broker_id), topics=topics, live_brokers=everybody))
        for broker_id, names in sorted(self._stop.items()):
            if broker_id in live:
                found.append(StopReplica(**head(broker_id), partitions=tuple(names), delete=False))
        self._leader_and_isr, self._metadata_to, self._stop = {}, {}, {}
        return found


def _by_topic(
    partitions: Mapping[TopicPartition, PartitionRegistration], topic_ids: Mapping[str, UUID]
) -> tuple[TopicState, ...]:
    topics: dict[str, dict[int, PartitionRegistration]] = {}
    for name, registration in sorted(partitions.items()):
        topics.setdefault(name.topic, {})[name.partition] = registration
    return tuple(
        TopicState(topic=topic, topic_id=topic_ids[topic], partitions=found) for topic, found in topics.items()
    )
