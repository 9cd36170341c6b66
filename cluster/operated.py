"""The requests of a cluster's operator to its nodes, which may run in this process or in others.

Answers come by callback. A node in this process may answer immediately. Any other node answers later or, if it is
stopped or dies, never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from cluster.config import ConsumerConfig, ProducerConfig
from cluster.node import Action
from controller.inputs import ChangeVoters, ControllerInput, ElectLeader, OnReply
from replica.ids import Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Delete records at the leader.

    `offset` is the first one to keep; KEEP_UNCOMMITTED stands for the high watermark.
    """

    partition: TopicPartition
    offset: Offset


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete a group at its coordinator (DeleteGroups), or only its offsets for `partitions` (OffsetDelete)."""

    group_id: str
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Set a group's offsets at its coordinator (OffsetCommit without a member).

    Attributes:
        bounds: log start offset and high watermark of each partition at its leader; new offsets stay within them.
        to: the new offset; None to move the group's offsets by `shift`.
    """

    group_id: str
    bounds: Mapping[TopicPartition, tuple[Offset, Offset]]
    to: Offset | Literal["earliest", "latest"] | None
    shift: int = 0


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    """Abort a transaction at the leader (WriteTxnMarkers).

    Attributes:
        start_offset: first offset of the open transaction to abort; None for the transaction that began first.
    """

    partition: TopicPartition
    start_offset: Offset | None


@dataclass(frozen=True, slots=True)
class FenceProducer:
    """Fence a producer at the coordinator of its transactional.id (InitProducerId)."""

    transactional_id: str


BrokerInput = DeleteRecords | DeleteGroup | ResetOffsets | AbortTransaction | FenceProducer | ElectLeader
"""Inputs for leaders and coordinators. In the ZooKeeper era, the broker that is the controller gets some, too."""


class OperatedNode(Protocol):
    """A node that an operator can use.

    Attributes:
        answers_operator: False if, as far as this process knows, an operator's request would get no answer.
    """

    @property
    def answers_operator(self) -> bool: ...

    def begin_shutdown(self, now_us: int) -> list[Action]:
        """Begin an orderly shutdown (SIGTERM). The process then exits by itself."""

    def crash(self) -> None:
        """Close all files without writing, as for a killed process."""


class OperatedBroker(OperatedNode, Protocol):
    def flush(self, wanted: TopicPartition | None, answer: Callable[[None], None], now_us: int) -> list[Action]:
        """Flush one partition's log, or all logs if None."""

    def operate(self, make_input: Callable[[int], BrokerInput], answer: OnReply, now_us: int) -> list[Action]: ...


class OperatedRegistry(OperatedNode, Protocol):
    """A node through which operators create topics and change settings: the ZooKeeper-era registry or a controller."""

    def operate(
        self, make_input: Callable[[int], ControllerInput | ChangeVoters], answer: OnReply, now_us: int
    ) -> list[Action]:
        """Decide an input. `make_input` creates it from the current time."""


class OperatedController(OperatedRegistry, Protocol):
    """A controller of a quorum."""

    def topic_config(self, topic: str, answer: Callable[[Mapping[str, str]], None], now_us: int) -> list[Action]:
        """Call `answer` with a topic's own settings; with an empty mapping if the controller is no longer active."""


class NodeElsewhere(OperatedBroker, OperatedController, Protocol):
    """A node in another process. It creates its own core and knows what kind of node it is."""

    def launch(self) -> None: ...

    def operate(
        self, make_input: Callable[[int], ControllerInput | ChangeVoters | BrokerInput], answer: OnReply, now_us: int
    ) -> list[Action]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOrder:
    """What a client in another process needs to know.

    Attributes:
        topics: topics that a consumer reads, or the one topic of a producer.
        partitions: number of partitions of a producer's topic.
        largest_batch: keys and values of the largest batch of its application; () for a consumer.
    """

    topics: tuple[str, ...]
    config: ProducerConfig | ConsumerConfig
    partitions: int = 0
    largest_batch: Sequence[tuple[bytes | None, bytes]] = ()


@runtime_checkable
class ClientElsewhere(Protocol):
    """A producer or consumer in another process. It has the methods of a core that an application calls."""

    def launch(self) -> None: ...
