"""A coordinator as part of a broker, which passes it requests and elections and performs its actions.

The coordinator writes to its internal topic through the replica manager, as a produce request with acks=all does, and
reads the broker's own log after an election.

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
    InTransaction,
    LeadershipResigned,
    Load,
    RequestId,
    Result,
    Written,
)
from cluster.coordinators.topic_log import TopicLog
from cluster.coordinators.waiting import EarliestDeadline, WaitingRequests
from cluster.node import ConnectionId
from cluster.slices import undivided
from replica.ids import LeaderEpoch, TopicPartition
from replica.log.batches.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, build_batch
from replica.log.producers.transaction_index import NOT_ASKED_FOR
from replica.trace.events import Emit

Input = TypeVar("Input", contravariant=True)


class CoordinatorCore(Protocol[Input, Action, Result]):
    @property
    def next_deadline_us(self) -> int | None: ...

    def tick(self, now_us: int) -> list[CommonAction[Result] | Action]: ...

    def step(self, given: CommonInput | Input) -> list[CommonAction[Result] | Action]: ...


class CoordinatorService(Generic[Input, Action, Result]):
    """Runs one coordinator in a broker: passes on requests and elections, and performs the coordinator's actions."""

    def __init__(
        self, topic: str, base: BrokerBase, replicas: ReplicaManager, changed: CoordinatorCore[Input, Action, Result]
    ) -> None:
        self._log = TopicLog(topic, node=base.node, outbox=base.outbox, replicas=replicas)
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
        """Submit a request.

        Args:
            make_input: creates the input from the number of the waiting request.
            respond: called once, unless the client disconnects first.
        """
        given = make_input(self._requests.enter(connection, respond))
        undivided(lambda: self._step(given, now_us))

    def gone(self, connection: ConnectionId) -> None:
        """Forget the requests of a closed connection. What they have changed remains."""
        self._requests.gone(connection)

    def led(self, name: TopicPartition, leader_epoch: LeaderEpoch, now_us: int) -> None:
        """Record that this broker leads a partition of the internal topic since this epoch."""
        self._step(Elected(now_us=now_us, partition=name.partition, leader_epoch=leader_epoch), now_us)

    def not_led(self, name: TopicPartition, leader_epoch: LeaderEpoch | None, now_us: int) -> None:
        """Record that this broker does not lead a partition. `leader_epoch` is None if it no longer has a replica."""
        self._step(LeadershipResigned(now_us=now_us, partition=name.partition, leader_epoch=leader_epoch), now_us)

    def settle(self, now_us: int) -> None:
        """Apply finished writes, at the end of each step of the broker."""
        while self._log.written:
            write, error, offset = self._log.written.popleft()
            self._step(Written(now_us=now_us, write=write, error=error, offset=offset), now_us)

    def _ring(self, now_us: int) -> None:
        self._perform(self._changed.tick(now_us), now_us)

    def _step(self, given: CommonInput | Input, now_us: int) -> None:
        self._perform(self._changed.step(given), now_us)

    def _perform(self, actions: list[CommonAction[Result] | Action], now_us: int) -> None:
        for action in actions:
            match action:
                case AnswerRequest():
                    self._requests.answer(action.request, action.result)
                case Append():
                    self._append(action, now_us)
                case Load():
                    self._load(action, now_us)
                case Emit():
                    self._recorder.emit(action.event)
                case _:
                    self._do(action, now_us)
        self._alarm.set(self._changed.next_deadline_us)

    def _append(self, wanted: Append, now_us: int) -> None:
        part_of = wanted.transaction or InTransaction(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NOT_ASKED_FOR)
        batch = build_batch(
            wanted.records,
            timestamp_ms=wanted.timestamp_ms,
            producer_id=part_of.producer_id,
            producer_epoch=part_of.producer_epoch,
            base_sequence=NO_SEQUENCE if wanted.transaction is None else 0,
            transactional=wanted.transaction is not None,
        )
        self._log.append(wanted.partition, batch, wanted.write, wanted.timeout_ms * 1000, now_us, part_of.guard)

    def _load(self, wanted: Load, now_us: int) -> None:
        """Read the partition's log, and pass its contents to the coordinator."""
        raise NotImplementedError

    def _do(self, action: Action, now_us: int) -> None:
        """Perform an action that only this kind of coordinator has."""
        raise NotImplementedError
