"""Requests of a cluster's operator to its nodes, whether they run in this process or in another.

Answers come by callback: a node in this process may answer at once, one in another process answers later or, if it is
stopped or dies, never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cluster.config import ConsumerConfig, ProducerConfig
from cluster.node import Action
from controller.inputs import ControllerInput, OnReply
from replica.ids import BrokerId, Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """To the leader; `offset` is the first to be kept, KEEP_UNCOMMITTED the high watermark."""

    partition: TopicPartition
    offset: Offset


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """To its coordinator (DeleteGroups); with `partitions` it forgets their offsets alone (OffsetDelete)."""

    group_id: str
    partitions: tuple[TopicPartition, ...] = ()


BrokerInput = DeleteRecords | DeleteGroup


class OperatedNode(Protocol):
    """answers_operator: false while a request of an operator would get no answer, as far as this process knows"""

    @property
    def answers_operator(self) -> bool: ...

    def begin_shutdown(self, now_us: int) -> list[Action]:
        """SIGTERM: it stops in order, and exits by itself."""

    def crash(self) -> None:
        """The process is gone: its files are closed, nothing is written."""


class OperatedBroker(OperatedNode, Protocol):
    def flush(self, wanted: TopicPartition | None, answer: Callable[[None], None], now_us: int) -> list[Action]:
        """fsync of all logs, or of one."""

    def elect_leader(
        self, topic_partition: TopicPartition, desired: BrokerId | None, unclean: bool, answer: OnReply, now_us: int
    ) -> list[Action]:
        """To the broker that is the controller, in the ZooKeeper era."""

    def operate(self, make_input: Callable[[int], BrokerInput], answer: OnReply, now_us: int) -> list[Action]:
        """What leaders and coordinators decide."""


class OperatedRegistry(OperatedNode, Protocol):
    """Where operators make topics and change settings: the registry of the ZooKeeper era, or an active controller."""

    def create_topic(
        self,
        name: str,
        assignment: tuple[tuple[BrokerId, ...], ...] | None,
        partitions: int | None,
        replication_factor: int | None,
        config: dict[str, str],
        answer: OnReply,
        now_us: int,
    ) -> list[Action]: ...

    def operate(self, make_input: Callable[[int], ControllerInput], answer: OnReply, now_us: int) -> list[Action]:
        """Any other request; `make_input` receives the time."""


class OperatedController(OperatedRegistry, Protocol):
    """A controller of a quorum."""

    def elect_leader(
        self, topic_partition: TopicPartition, desired: BrokerId | None, unclean: bool, answer: OnReply, now_us: int
    ) -> list[Action]: ...

    def topic_config(self, topic: str, answer: Callable[[Mapping[str, str]], None], now_us: int) -> list[Action]:
        """A topic's own settings; none if the controller is not active any more."""


class NodeElsewhere(OperatedBroker, OperatedController, Protocol):
    """A node in another process, which makes its core itself; only there it is known what kind of node it is."""

    def launch(self) -> None: ...

    def operate(
        self, make_input: Callable[[int], ControllerInput | BrokerInput], answer: OnReply, now_us: int
    ) -> list[Action]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOrder:
    """What a client that runs elsewhere is made from.

    topics: those that a consumer reads, or the one of a producer     partitions: of that one
    largest_batch: key and value of the records that its application puts into one batch at most; () for a consumer
    """

    topics: tuple[str, ...]
    config: ProducerConfig | ConsumerConfig
    partitions: int = 0
    largest_batch: Sequence[tuple[bytes | None, bytes]] = ()


@runtime_checkable
class ClientElsewhere(Protocol):
    """A producer or consumer whose core is not in this process. Its application's calls are those of the cores."""

    def launch(self) -> None: ...
