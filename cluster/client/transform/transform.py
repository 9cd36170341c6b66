"""A consume-transform-produce application, which makes one output record from each input record.

It commits the group's offsets with, after or before the outputs. Its loop is that of Kafka's example
ExactlyOnceMessageProcessor: poll; begin a transaction; send the outputs; send the offsets; commit; poll again. An
aborted transaction is repeated from the committed offsets. The consumer and the producer have their own connections.

Simplified: the consumer fetches while records are processed, unless deserializers take time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from cluster.client.consumer.consumer import ConsumerCore
from cluster.client.node import OpensConnections
from cluster.client.producer.batch import ProducerRecord
from cluster.client.producer.idempotence import GroupMetadata
from cluster.client.producer.producer import ProducerCore, TransactionCall
from cluster.config import CommitOrder
from cluster.node import Action, Close, Connect, ConnectionId, EndProcess, Send
from replica.config import NEVER
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import Record

Input = tuple[TopicPartition, Record]
CLIENTS = 2
CONSUMER, PRODUCER = 0, 1


class Phase(Enum):
    POLLS = auto()
    PROCESSES = auto()
    COMMITS_BEFORE = auto()
    PRODUCES = auto()
    COMMITS_AFTER = auto()
    LEAVES = auto()
    FLUSHES = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The settings of a transform, which processes records in rounds.

    Attributes:
        offsets: how offsets are committed: by the transaction, by the consumer after or before the outputs, or
            automatically (enable.auto.commit).
        names_member: True to commit offsets in a transaction with generation and member id (KIP-447), not only with the
            group id.
        batch: largest number of records in one round.
        flushes: True to poll again only after the outputs are acknowledged.
        process_us: processing time of an input before its output is sent.
    """

    group_id: str
    is_transactional: bool
    offsets: CommitOrder
    names_member: bool
    batch: int
    flushes: bool = True
    process_us: int = 0


class TransformCore(OpensConnections):
    """A cluster.node.NodeCore with a consumer and a producer, whose connections have even and odd numbers.

    Args:
        make_consumer: returns the consumer, and takes the callback for its records.
        transform: returns the output for an input.
    """

    def __init__(
        self,
        make_consumer: Callable[[Callable[[TopicPartition, Record], None]], ConsumerCore],
        producer: ProducerCore,
        transform: Callable[[Record], ProducerRecord],
        rounds: Rounds,
    ) -> None:
        self._inputs: deque[Input] = deque()
        self._consumer = make_consumer(lambda tp, record: self._inputs.append((tp, record)))
        self._consumer.on_revoked = self._forget
        self._consumer.first_unread = self._first_unread
        self._producer = producer
        self._transform = transform
        self._rounds = rounds
        self._processed_us = NEVER
        """The time at which all inputs of the round are processed."""
        self._on_their_way: list[Input] = []
        """Inputs whose outputs may be unfinished, because `flushes` is off."""
        self._phase = Phase.POLLS
        self._round: list[Input] = []
        self._failed_before = 0
        self._committed: ErrorCode | None = None
        self._actions: list[Action] = []
        self._is_closing = False
        self._closed: dict[int, None] = {}
        self._ended = False

    def _forget(self, revoked: Sequence[TopicPartition]) -> None:
        self._inputs = deque(item for item in self._inputs if item[0] not in revoked)

    def _first_unread(self, tp: TopicPartition) -> int | None:
        return next((record.offset for name, record in self._inputs if name == tp), None)

    # ------------------------------------------------------------------------------------------------------- the node

    @property
    def next_deadline_us(self) -> int | None:
        deadlines = [core.next_deadline_us for core in (self._consumer, self._producer)]
        if self._phase is Phase.PROCESSES:
            deadlines.append(self._processed_us)
        return min((at_us for at_us in deadlines if at_us is not None), default=None)

    def start(self, now_us: int) -> list[Action]:
        self._of_consumer(self._consumer.start(now_us))
        self._of_producer(self._producer.start(now_us))
        return self._go_on(now_us)

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]:
        number, of_producer = divmod(connection, CLIENTS)
        if of_producer:
            self._of_producer(self._producer.connected(number, now_us))
        else:
            self._of_consumer(self._consumer.connected(number, now_us))
        return self._go_on(now_us)

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> list[Action]:
        number, of_producer = divmod(connection, CLIENTS)
        if of_producer:
            self._of_producer(self._producer.received(number, frame, now_us))
        else:
            self._of_consumer(self._consumer.received(number, frame, now_us))
        return self._go_on(now_us)

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]:
        number, of_producer = divmod(connection, CLIENTS)
        if of_producer:
            self._of_producer(self._producer.disconnected(number, reason, now_us))
        else:
            self._of_consumer(self._consumer.disconnected(number, reason, now_us))
        return self._go_on(now_us)

    def tick(self, now_us: int) -> list[Action]:
        self._of_consumer(self._consumer.tick(now_us))
        self._of_producer(self._producer.tick(now_us))
        return self._go_on(now_us)

    def close(self, now_us: int) -> list[Action]:
        """Finish the round, leave the group, close the producer and exit.

        As in ExactlyOnceMessageProcessor.run, the consumer is closed before the producer.
        """
        self._is_closing = True
        return self._go_on(now_us)

    def _of_consumer(self, actions: Sequence[Action]) -> None:
        self._take(actions, CONSUMER)

    def _of_producer(self, actions: Sequence[Action]) -> None:
        self._take(actions, PRODUCER)

    def _take(self, actions: Sequence[Action], which: int) -> None:
        """Collect a client's actions, but only note its exit; the process exits after both clients have."""
        for action in actions:
            if isinstance(action, EndProcess):
                self._closed[which] = None
            else:
                self._actions.append(_numbered(action, which))

    @property
    def under_way(self) -> frozenset[tuple[TopicPartition, int]]:
        """The partition and offset of each input whose processing has not ended, whether it is committed or not."""
        inputs = [] if self._phase is Phase.POLLS else self._round
        if self._producer.has_unfinished:
            inputs = [*inputs, *self._on_their_way]
        return frozenset((tp, record.offset) for tp, record in inputs)

    # ------------------------------------------------------------------------------------------------ the application

    def _go_on(self, now_us: int) -> list[Action]:
        while not self._ended and self._advance(now_us):
            pass
        actions, self._actions = self._actions, []
        return actions

    def _advance(self, now_us: int) -> bool:
        """Advance the application by one step; return False if it has to wait."""
        group = self._consumer.group
        refused = self._producer.refused or ("" if group is None else group.refused)
        if refused:
            self._close(refused, now_us)
            return False
        match self._phase:
            case Phase.POLLS:
                return self._begin_round(now_us)
            case Phase.PROCESSES:
                if now_us < self._processed_us:
                    return False
                self._produce(now_us)
                return True
            case Phase.COMMITS_BEFORE:
                return self._end_commit(Phase.PROCESSES, now_us)
            case Phase.PRODUCES:
                return self._end_production(now_us)
            case Phase.COMMITS_AFTER:
                return self._end_commit(Phase.POLLS, now_us)
            case Phase.LEAVES:
                return self._close_producer(now_us)
            case Phase.FLUSHES:
                if PRODUCER in self._closed:
                    self._end()
                return False

    def _begin_round(self, now_us: int) -> bool:
        if self._is_closing:
            self._round, self._phase = [], Phase.LEAVES
            self._of_consumer(self._consumer.close(now_us))
            return True
        if not self._inputs:
            return False
        self._round = [self._inputs.popleft() for _ in range(min(self._rounds.batch, len(self._inputs)))]
        self._polls(False, now_us)
        if self._rounds.offsets == "before":
            self._phase = Phase.COMMITS_BEFORE
            self._commit(now_us)
        else:
            self._process(now_us)
        return True

    def _process(self, now_us: int) -> None:
        self._phase = Phase.PROCESSES
        self._processed_us = now_us + len(self._round) * self._rounds.process_us

    def _produce(self, now_us: int) -> None:
        self._phase = Phase.PRODUCES
        self._failed_before = self._producer.failed_records
        if self._rounds.is_transactional:
            self._of_producer(self._producer.transaction(TransactionCall.BEGIN, now_us))
        for _, record in self._round:
            self._of_producer(self._producer.send(self._transform(record), now_us, own_batch=False))
        if self._rounds.offsets == "in-transaction":
            self._of_producer(self._producer.send_offsets(self._offsets(), self._group_metadata(), now_us))
        if self._rounds.is_transactional:
            self._of_producer(self._producer.transaction(TransactionCall.COMMIT, now_us))
        if not self._rounds.flushes:
            self._on_their_way = [*(self._on_their_way if self._producer.has_unfinished else ()), *self._round]
            self._phase = Phase.POLLS
            self._polls(True, now_us)

    def _end_production(self, now_us: int) -> bool:
        """Continue after commitTransaction or, without transactions, `flush`; return False until that has ended."""
        if self._producer.has_unfinished:
            return False
        failed = self._producer.failed_records > self._failed_before
        if failed or (self._rounds.is_transactional and not self._producer.has_committed):
            self._do_over(now_us)
        elif self._rounds.offsets == "after":
            self._phase = Phase.COMMITS_AFTER
            self._commit(now_us)
        else:
            self._phase = Phase.POLLS
            self._polls(True, now_us)
        return True

    def _commit(self, now_us: int) -> None:
        self._committed = None

        def committed(error: ErrorCode) -> None:
            self._committed = error

        self._of_consumer(self._consumer.commit(self._offsets(), committed, now_us))

    def _end_commit(self, then: Phase, now_us: int) -> bool:
        if self._committed is None:
            return False
        if self._committed is not ErrorCode.NONE:  # CommitFailedException: another member has the partitions.
            self._do_over(now_us)
        elif then is Phase.PROCESSES:
            self._process(now_us)
        else:
            self._phase = then
            self._polls(True, now_us)
        return True

    def _do_over(self, now_us: int) -> None:
        """Drop the round, and poll again from the committed offsets."""
        self._inputs.clear()
        self._phase = Phase.POLLS
        self._of_consumer(self._consumer.rewind(now_us))
        self._polls(True, now_us)

    def _polls(self, polls: bool, now_us: int) -> None:
        self._consumer.is_polled = polls
        if polls:
            self._of_consumer(self._consumer.poll(now_us))

    def _offsets(self) -> dict[TopicPartition, int]:
        return {tp: record.offset + 1 for tp, record in self._round}

    def _group_metadata(self) -> GroupMetadata:
        group = self._consumer.group
        assert group is not None, "the consumer of the transform has no group.id"
        if not self._rounds.names_member:
            return GroupMetadata(self._rounds.group_id)
        return GroupMetadata(self._rounds.group_id, group.generation, group.member_id, group.instance_id)

    def _close_producer(self, now_us: int) -> bool:
        if CONSUMER not in self._closed:
            return False
        self._phase = Phase.FLUSHES
        self._of_producer(self._producer.close(now_us))
        return True

    def _close(self, refused: str, now_us: int) -> None:
        """Close both clients and exit, because the application cannot continue."""
        self._of_consumer(self._consumer.close(now_us))
        self._of_producer(self._producer.close(now_us, 0))
        self._end(refused)

    def _end(self, refused: str = "") -> None:
        self._ended = True
        self._actions.append(EndProcess(refused=refused))


def _numbered(action: Action, which: int) -> Action:
    if isinstance(action, Connect | Send | Close):
        return replace(action, connection=action.connection * CLIENTS + which)
    return action
