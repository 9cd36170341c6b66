"""The logic that the group, transaction and share coordinators have in common, without I/O: inputs in, actions out.

A coordinator keeps the state of each key (such as a group id) in one partition of its internal topic, and coordinates
the keys of the partitions that its broker leads. A new leader reads the partition's log; a former leader drops the
state. Inputs carry the time in integer microseconds. A request waits for an `AnswerRequest` with its number.

Source: GroupMetadataManager.scala, TransactionStateManager.scala; since 4.0 CoordinatorRuntime.java
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from cluster.clocks import Timer, Timers, WallClock
from replica.errors import ErrorCode
from replica.ids import LeaderEpoch, Offset
from replica.trace.events import Emit, TraceEvent

RequestId = int
"""Number that identifies a waiting request."""
WriteId = int
Records = tuple[tuple[bytes, bytes | None], ...]
"""(key, value) of each record; None is the value of a tombstone."""
OnWritten = Callable[[ErrorCode, Offset, int], None]
"""Called with (error, offset of the batch, now_us)."""
CHANGE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error with which a request is answered, by the error of its failed write; others are unchanged.

Source: appendTransactionToLog, CoordinatorOperationExceptionHelper
"""
IN_THE_LOG = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

# ------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """This broker was elected leader of a partition of the internal topic."""

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipResigned:
    """This broker does not lead a partition of the internal topic.

    `leader_epoch` is that of the current leader; None if the broker has no replica.
    """

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An `Append` ended. `offset` is the offset of its batch if there was no error."""

    now_us: int
    write: WriteId
    error: ErrorCode
    offset: Offset


CommonInput = Elected | LeadershipResigned | Written

# ------------------------------------------------------------------------------------------------------------ actions

Result = TypeVar("Result")
Action = TypeVar("Action")


@dataclass(frozen=True, slots=True)
class AnswerRequest(Generic[Result]):
    request: RequestId
    result: Result


class InTransaction(NamedTuple):
    """The transaction of an offset commit. `guard` identifies the verification that it is open (KIP-890)."""

    producer_id: int
    producer_epoch: int
    guard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Append one batch to a partition of the internal topic.

    Attributes:
        write: number of the `Written` input that follows when every in-sync replica has the batch, or after the
            timeout; None for acks=0, without such an input.
        transaction: transaction that the batch belongs to, None for none.
    """

    partition: int
    records: Records
    timestamp_ms: int
    timeout_ms: int
    write: WriteId | None
    transaction: InTransaction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Read the log of a partition of the internal topic. A later input has its contents."""

    partition: int
    leader_epoch: LeaderEpoch


CommonAction = AnswerRequest[Result] | Append | Load | Emit

# --------------------------------------------------------------------------------------------------------------- state


class LedPartitions:
    """The partitions of the internal topic that this broker leads.

    Attributes:
        partition_of: returns the partition of a key.
        owned: leader epoch of each partition whose log was read.
        loading: leader epoch of each partition whose log is being read.
    """

    def __init__(self, partition_of: Callable[[str], int]) -> None:
        self.partition_of = partition_of
        self.owned: dict[int, LeaderEpoch] = {}
        self.loading: dict[int, LeaderEpoch] = {}
        self._epochs: dict[int, LeaderEpoch] = {}

    def status(self, key: str) -> ErrorCode:
        """Return NONE if this broker coordinates the key, else NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        partition = self.partition_of(key)
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self.owned else ErrorCode.NOT_COORDINATOR

    def is_news(self, event: Elected | LeadershipResigned) -> bool:
        """Store a partition's leader epoch. Return False if it is not a newer one, because only the ISR changed."""
        if event.leader_epoch is None:
            self._epochs.pop(event.partition, None)
        elif event.leader_epoch <= self._epochs.get(event.partition, -1):
            return False
        else:
            self._epochs[event.partition] = event.leader_epoch
        return True

    def is_loading(self, partition: int, leader_epoch: LeaderEpoch) -> bool:
        return self.loading.get(partition) == leader_epoch

    def loaded(self, partition: int, leader_epoch: LeaderEpoch) -> bool:
        """Record that a partition's log was read. Return False if the broker no longer leads in this epoch."""
        if not self.is_loading(partition, leader_epoch):
            return False
        self.owned[partition] = self.loading.pop(partition)
        return True

    def lost(self, partition: int) -> None:
        self.owned.pop(partition, None)
        self.loading.pop(partition, None)


class Desk(Generic[Action, Result]):
    """What the parts of a coordinator share: timers, writes in progress, and the actions to perform."""

    def __init__(self, node: str, clock: WallClock) -> None:
        self.node = node
        self.clock = clock
        self.timers: Timers[CommonAction[Result] | Action] = Timers()
        self._actions: list[CommonAction[Result] | Action] = []
        self._writes: dict[WriteId, OnWritten] = {}
        self._last_write = 0

    def wall_ms(self, now_us: int) -> int:
        return self.clock.at(now_us) // 1000

    def after(self, delay_ms: int, callback: Callable[[int], None], now_us: int) -> Timer:
        return self.timers.at(now_us + delay_ms * 1000, callback)

    def answer(self, request: RequestId, result: Result) -> None:
        self._actions.append(AnswerRequest(request, result))

    def tell(self, event: TraceEvent) -> None:
        self._actions.append(Emit(event))

    def want(self, action: Load | Action) -> None:
        self._actions.append(action)

    def append(
        self,
        partition: int,
        records: Records,
        on_written: OnWritten | None,
        now_us: int,
        *,
        timeout_ms: int,
        transaction: InTransaction | None = None,
    ) -> None:
        """Request the append of records to a partition of the internal topic.

        `on_written` is called when every in-sync replica has them, or after an error; None for acks=0.
        """
        write: WriteId | None = None
        if on_written is not None:
            self._last_write += 1
            write = self._last_write
            self._writes[write] = on_written
        self._actions.append(
            Append(
                partition=partition,
                records=records,
                timestamp_ms=self.wall_ms(now_us),
                timeout_ms=timeout_ms,
                write=write,
                transaction=transaction,
            )
        )

    def written(self, event: Written) -> None:
        self._writes.pop(event.write)(event.error, event.offset, event.now_us)

    def take(self) -> list[CommonAction[Result] | Action]:
        actions, self._actions = self._actions, []
        return actions
