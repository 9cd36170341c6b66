"""Reads the decisions of real controllers from a KRaft quorum's metadata log or from ZooKeeper's log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from cluster.kafka.observe.console_lines import ConsoleLine, SaidExpiry, SaidFencing, SaidLive
from cluster.kafka.observe.log_files import DiskLog
from cluster.kafka.observe.log_tail import MetadataTail
from cluster.kafka.observe.metadata_events import MetadataEvents
from cluster.kafka.observe.observed import Dated, ObservedNode, Seen
from cluster.kafka.observe.registry_events import RegistryEvents
from cluster.kafka.observe.registry_log import RegistryTail
from controller.image import PartitionRegistration
from replica.ids import METADATA_TOPIC, BrokerId, Names, TopicPartition


class Decisions(Protocol):
    @property
    def controller(self) -> str:
        """The name of the active controller, "" before the first one."""

    def look(self) -> Iterator[Dated]:
        """Yield the decisions since the last call.

        Raises:
            PeerViolation: if the log is damaged.
        """

    def have_joined(self, brokers: Sequence[BrokerId]) -> bool:
        """Return True if these brokers, the first of a cluster, have joined, so that the next broker may join."""

    def partition(self, name: TopicPartition) -> PartitionRegistration | None:
        """Return the latest decided state of a partition, None for an unknown partition."""

    def said(self, node: str, line: ConsoleLine) -> Iterable[Seen] | None:
        """Handle a console line of a node.

        Returns:
            The line's events, evaluated lazily; None if the line does not concern decisions.
        """


class QuorumDecisions:
    """The decisions of a KRaft quorum."""

    def __init__(self, voters: Iterable[ObservedNode], names: Names, topic_defaults: Mapping[str, str]) -> None:
        self._events = MetadataEvents(names, topic_defaults)
        self._tail = MetadataTail({node.name: DiskLog(node.log_dir / f"{METADATA_TOPIC}-0") for node in voters})

    @property
    def controller(self) -> str:
        return self._events.controller

    def look(self) -> Iterator[Dated]:
        for batch in self._tail.look():
            if batch:
                yield batch[0].wall_ms, list(self._events.decided(batch))

    def have_joined(self, brokers: Sequence[BrokerId]) -> bool:
        return all(broker_id in self._events.image.brokers for broker_id in brokers)

    def partition(self, name: TopicPartition) -> PartitionRegistration | None:
        return self._events.image.partition(*name)

    def said(self, node: str, line: ConsoleLine) -> Iterable[Seen] | None:
        if not isinstance(line.said, SaidFencing):
            return None
        self._events.fencing_said(line.said)
        return ()


class RegistryDecisions:
    """The decisions in a cluster with one ZooKeeper server, where one of the brokers is the controller."""

    def __init__(self, registry: ObservedNode, names: Names, topic_defaults: Mapping[str, str]) -> None:
        self._events = RegistryEvents(registry.name, names, topic_defaults)
        self._tail = RegistryTail(registry.log_dir)

    @property
    def controller(self) -> str:
        return self._events.controller

    def look(self) -> Iterator[Dated]:
        for transaction in self._tail.look():
            yield transaction.wall_ms, list(self._events.decided(transaction))

    def have_joined(self, brokers: Sequence[BrokerId]) -> bool:
        """Return True if there is a controller. It is the first broker; the order of the others does not matter."""
        return not brokers or bool(self.controller)

    def partition(self, name: TopicPartition) -> PartitionRegistration | None:
        return self._events.partitions.get(name)

    def said(self, node: str, line: ConsoleLine) -> Iterable[Seen] | None:
        match line.said:
            case SaidExpiry(session):
                self._events.expiry_said(session)
                return ()
            case SaidLive() as said:
                return self._events.live_said(node, said, line.wall_ms)
        return None
