"""The connection between a coordinator and its broker: requests and elections go in, actions come out.

Writes to the internal topic go through the replica manager, like a Produce request with acks=all. After an election,
the coordinator reads the broker's own log.

Source: GroupMetadataManager.scala, TransactionStateManager.scala
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.manager import ReplicaManager
from cluster.coordinators.core import (
    Action,
    AnswerRequest,
    Append,
    CommonAction,
    CommonInput,
    Elected,
    LeadershipResigned,
    Load,
    RequestId,
    Result,
    Written,
)
from cluster.coordinators.topic_log import AT_ONCE, TopicLog
from cluster.coordinators.waiting import EarliestDeadline, WaitingRequests
from cluster.node import ConnectionId
from cluster.slices import undivided
from replica.ids import LeaderEpoch, TopicPartition
from replica.trace.events import Emit

Input = TypeVar("Input", contravariant=True)


class CoordinatorCore(Protocol[Input, Action, Result]):
    @property
    def next_deadline_us(self) -> int | None: ...

    def tick(self, now_us: int) -> list[CommonAction[Result] | Action]: ...

    def step(self, event: CommonInput | Input) -> list[CommonAction[Result] | Action]: ...


class CoordinatorService(Generic[Input, Action, Result]):
    """Runs one coordinator in a broker: passes requests and elections to it, and performs its actions."""

    def __init__(
        self,
        topic: str,
        base: BrokerBase,
        replicas: ReplicaManager,
        changed: CoordinatorCore[Input, Action, Result],
        linger_ms: int = AT_ONCE,
    ) -> None:
        self._log = TopicLog(topic, node=base.node, outbox=base.outbox, replicas=replicas, linger_ms=linger_ms)
        self._changed = changed
        self._recorder = base.recorder
        self._requests: WaitingRequests[Result] = WaitingRequests()
        self._alarm = EarliestDeadline(base.outbox.timers, self._ring)

    def submit(
        self,
        connection: ConnectionId,
        make_input: Callable[[RequestId], Input],
        respond: Callable[[Result], None],
        now_us: int,
    ) -> None:
        """Submit a request to the coordinator.

        Args:
            make_input: returns the coordinator's input, given the request's number.
            respond: called once with the result, unless the client disconnects first.
        """
        value = make_input(self._requests.enter(connection, respond))
        undivided(lambda: self._step(value, now_us))

    def gone(self, connection: ConnectionId) -> None:
        """Drop the requests of a closed connection. Their changes of state remain."""
        self._requests.gone(connection)

    def led(self, name: TopicPartition, leader_epoch: LeaderEpoch, now_us: int) -> None:
        """Handle metadata by which this broker leads a partition of the internal topic."""
        self._step(Elected(now_us=now_us, partition=name.partition, leader_epoch=leader_epoch), now_us)

    def not_led(self, name: TopicPartition, leader_epoch: LeaderEpoch | None, now_us: int) -> None:
        """Handle metadata by which this broker does not lead a partition; `leader_epoch` is None without a replica."""
        self._step(LeadershipResigned(now_us=now_us, partition=name.partition, leader_epoch=leader_epoch), now_us)
        self._log.not_led(name.partition)

    def settle(self, now_us: int) -> None:
        """Pass finished writes to the coordinator; called at the end of each step of the broker."""
        while self._log.written:
            write, error, offset = self._log.written.popleft()
            self._step(Written(now_us=now_us, write=write, error=error, offset=offset), now_us)

    def _ring(self, now_us: int) -> None:
        self._perform(self._changed.tick(now_us), now_us)

    def _step(self, event: CommonInput | Input, now_us: int) -> None:
        self._perform(self._changed.step(event), now_us)

    def _perform(self, actions: list[CommonAction[Result] | Action], now_us: int) -> None:
        for action in actions:
            match action:
                case AnswerRequest():
                    self._requests.answer(action.request, action.result)
                case Append():
                    self._log.append(action, now_us)
                case Load():
                    self._load(action, now_us)
                case Emit():
                    self._recorder.emit(action.event)
                case _:
                    self._do(action, now_us)
        self._alarm.set(self._changed.next_deadline_us)

    def _load(self, wanted: Load, now_us: int) -> None:
        """Read a partition's log, and pass its contents to the coordinator."""
        raise NotImplementedError

    def _do(self, action: Action, now_us: int) -> None:
        """Perform an action that is not a CommonAction; for subclasses."""
        raise NotImplementedError
