"""The share coordinator of one broker, which keeps the state of share partitions (KIP-932): inputs in, actions out.

1. The state of each share partition is in one partition of `__share_group_state`, whose leader is its coordinator.
2. The group coordinator initializes the state. The leader of the topic's partition reads it, and writes changes.
3. A read with a newer leader epoch fences writes of older leaders. A newer state epoch fences writes that began before
   the group's offsets were altered.
4. A write appends an update to the log, or a snapshot after share.coordinator.snapshot.update.records.per.snapshot
   updates.

Simplified: obsolete records are not deleted from the log (share.coordinator.state.topic.prune.interval.ms), and share
partitions without writes get no new snapshots (share.coordinator.cold.partition.snapshot.interval.ms).

Source: ShareCoordinatorShard.java, ShareCoordinatorService.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn
from uuid import UUID

from cluster.clocks import WallClock
from cluster.coordinators.core import (
    CHANGE_ERRORS,
    IN_THE_LOG,
    CommonAction,
    CommonInput,
    Desk,
    Elected,
    LeadershipResigned,
    LedPartitions,
    Load,
    RequestId,
    Written,
)
from cluster.share.state import (
    NO_COUNT,
    NO_LEADER_EPOCH,
    UNINITIALIZED,
    ShareKey,
    ShareState,
    ShareUpdate,
    StateBatch,
    combined,
    encode,
)
from replica.errors import ErrorCode, KafkaError
from replica.ids import SHARE_STATE_TOPIC, LeaderEpoch, Offset
from replica.trace.events import ShareStateReset, ShareStatesLoaded
from replica.wording import shown

NO_EPOCH = -1
NOT_INITIALIZED = "The share partition is not initialized."


# -------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeState:
    now_us: int
    request: RequestId
    key: ShareKey
    state_epoch: int
    start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    now_us: int
    request: RequestId
    key: ShareKey
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState:
    now_us: int
    request: RequestId
    key: ShareKey
    state_epoch: int
    leader_epoch: LeaderEpoch
    start_offset: Offset
    delivery_complete: int
    batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSummary:
    now_us: int
    request: RequestId
    key: ShareKey


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteState:
    now_us: int
    request: RequestId
    key: ShareKey


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsDeleted:
    """Topics were deleted: the metadata no longer has their ids."""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesLoaded:
    """A partition of `__share_group_state` was read. `unreadable` counts skipped records."""

    now_us: int
    partition: int
    leader_epoch: LeaderEpoch
    states: Mapping[ShareKey, ShareState]
    unreadable: int


ShareRequest = InitializeState | ReadState | WriteState | ReadSummary | DeleteState
ShareInput = ShareRequest | TopicsDeleted | StatesLoaded


class ShareResult(NamedTuple):
    """The result of a request for one share partition. `state` is its state after the request."""

    error: ErrorCode
    message: str | None = None
    state: ShareState = ShareState()


ShareAction = CommonAction[ShareResult]


class ShareSettings(NamedTuple):
    updates_per_snapshot: int
    write_timeout_ms: int


class ShareCoordinator:
    """The share coordinator of one broker. `led` has the partitions of `__share_group_state` that it coordinates.

    Args:
        partition_of: returns the partition of `__share_group_state` of a share partition (`str(ShareKey)`).
        partition_count: returns the number of partitions of a topic id, None if there is no such topic.
        topic_name: returns the name of a topic id, None if there is no such topic.
    """

    def __init__(
        self,
        *,
        node: str,
        settings: ShareSettings,
        clock: WallClock,
        partition_of: Callable[[str], int],
        partition_count: Callable[[UUID], int | None],
        topic_name: Callable[[UUID], str | None],
    ) -> None:
        self.led = LedPartitions(partition_of)
        self._states: dict[ShareKey, ShareState] = {}
        self._settings = settings
        self._partition_count = partition_count
        self._topic_name = topic_name
        self._desk: Desk[NoReturn, ShareResult] = Desk(node, clock)

    @property
    def next_deadline_us(self) -> int | None:
        return self._desk.timers.next_deadline_us

    def tick(self, now_us: int) -> list[ShareAction]:
        """Run the timers that are due."""
        self._desk.timers.run_due(now_us)
        return self._desk.take()

    def step(self, event: CommonInput | ShareInput) -> list[ShareAction]:
        match event:
            case Elected():
                self._elected(event)
            case LeadershipResigned():
                self._resigned(event)
            case StatesLoaded():
                self._loaded(event)
            case TopicsDeleted():
                self._forget_deleted(event.now_us)
            case Written():
                self._desk.written(event)
            case _:
                self._requested(event)
        return self._desk.take()

    # ------------------------------------------------------------------------------------------------------- requests

    def _requested(self, event: ShareRequest) -> None:
        try:
            self._check(event)
            match event:
                case InitializeState():
                    self._initialize(event)
                case ReadState():
                    self._read(event)
                case WriteState():
                    self._write(event)
                case ReadSummary():
                    state = self._states.get(event.key, ShareState())
                    self._desk.answer(event.request, ShareResult(ErrorCode.NONE, None, state))
                case DeleteState():
                    self._delete(event)
        except KafkaError as refusal:
            self._desk.answer(event.request, ShareResult(refusal.code, refusal.message or None))

    def _check(self, event: ShareRequest) -> None:
        """Check that this broker coordinates a request's share partition, and that its epochs are not fenced.

        Raises:
            KafkaError: if the request is refused.

        Source: maybeGetWriteStateError, maybeGetReadStateError, maybeGetInitializeStateError
        """
        error = self.led.status(str(event.key))
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        if event.key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
        known = self._states.get(event.key)
        if known is None and isinstance(event, ReadState | WriteState):
            raise KafkaError(ErrorCode.INVALID_REQUEST, NOT_INITIALIZED)
        if known is not None:
            if isinstance(event, ReadState | WriteState) and NO_EPOCH < event.leader_epoch < known.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            if isinstance(event, InitializeState | WriteState) and NO_EPOCH < event.state_epoch < known.state_epoch:
                raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        count = self._partition_count(event.key.topic_id)
        if count is None or count <= event.key.partition:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _initialize(self, event: InitializeState) -> None:
        known = self._states.get(event.key)
        now_ms = self._desk.wall_ms(event.now_us)
        fresh = ShareState(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=event.state_epoch,
            start_offset=event.start_offset,
            delivery_complete=NO_COUNT if event.start_offset == UNINITIALIZED else 0,
            created_ms=now_ms,
            written_ms=now_ms,
        )
        reset = None
        if known is not None or event.start_offset != UNINITIALIZED:
            reset = self._reset_event(event.key, None if event.start_offset == UNINITIALIZED else event.start_offset)
        self._put(event.key, fresh, fresh, event.request, event.now_us, reset)

    def _read(self, event: ReadState) -> None:
        """Answer with the state, after storing a new leader epoch. Source: readStateAndMaybeUpdateLeaderEpoch"""
        known = self._states[event.key]
        if event.leader_epoch in (NO_LEADER_EPOCH, known.leader_epoch):
            self._desk.answer(event.request, ShareResult(ErrorCode.NONE, None, known))
            return
        led = ShareUpdate(
            snapshot_epoch=known.snapshot_epoch,
            leader_epoch=event.leader_epoch,
            start_offset=known.start_offset,
            delivery_complete=known.delivery_complete,
            batches=(),
        )
        self._update(event.key, led, event.request, event.now_us)

    def _write(self, event: WriteState) -> None:
        known = self._states[event.key]
        update = ShareUpdate(
            snapshot_epoch=known.snapshot_epoch,
            leader_epoch=known.leader_epoch,
            start_offset=event.start_offset,
            delivery_complete=event.delivery_complete,
            batches=combined((), event.batches, event.start_offset),
        )
        self._update(event.key, update, event.request, event.now_us)

    def _update(self, key: ShareKey, update: ShareUpdate, request: RequestId, now_us: int) -> None:
        """Write an update, or a snapshot after enough updates. Source: generateShareStateRecord"""
        known = self._states[key]
        after = update.applied_to(known)
        if known.updates < self._settings.updates_per_snapshot:
            self._put(key, after, update, request, now_us)
            return
        now_ms = self._desk.wall_ms(now_us)
        snapshot = replace(
            after, snapshot_epoch=known.snapshot_epoch + 1, created_ms=now_ms, written_ms=now_ms, updates=0
        )
        self._put(key, snapshot, snapshot, request, now_us)

    def _delete(self, event: DeleteState) -> None:
        if event.key in self._states:
            self._put(event.key, None, None, event.request, event.now_us, self._reset_event(event.key, None))
        else:
            self._desk.answer(event.request, ShareResult(ErrorCode.NONE))

    def _reset_event(self, key: ShareKey, start_offset: Offset | None) -> ShareStateReset:
        topic, group = self._topic_name(key.topic_id) or "", shown(key.group_id)
        return ShareStateReset(self._desk.node, topic, key.partition, group=group, start_offset=start_offset)

    def _put(
        self,
        key: ShareKey,
        after: ShareState | None,
        record: ShareState | ShareUpdate | None,
        request: RequestId | None,
        now_us: int,
        reset: ShareStateReset | None = None,
    ) -> None:
        """Set a share partition's state, write it, and answer when all in-sync replicas have it.

        Args:
            after: new state, None to delete it.
            record: snapshot or update to write, None for a tombstone.
            request: number of the request to answer, None for none.
            reset: event to emit when the change is written.
        """
        before = self._states.get(key)
        self._set(key, after)

        def written(error: ErrorCode, offset: Offset, written_us: int) -> None:
            is_in_log = error in IN_THE_LOG
            if not is_in_log and self._states.get(key) is after:
                self._set(key, before)
            if is_in_log and reset is not None:
                self._desk.tell(reset)
            if request is not None:
                state = ShareState() if after is None else after
                self._desk.answer(request, ShareResult(CHANGE_ERRORS.get(error, error), None, state))

        partition, timeout_ms = self.led.partition_of(str(key)), self._settings.write_timeout_ms
        self._desk.append(partition, (encode(key, record),), written, now_us, timeout_ms=timeout_ms)

    def _set(self, key: ShareKey, state: ShareState | None) -> None:
        if state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = state

    def _forget_deleted(self, now_us: int) -> None:
        """Delete the states of deleted topics. Source: maybeCleanupShareState"""
        for key in [state for state in self._states if self._partition_count(state.topic_id) is None]:
            self._put(key, None, None, None, now_us)

    # ------------------------------------------------------------------------------------------------------ leadership

    def _elected(self, event: Elected) -> None:
        if self.led.is_news(event) and event.partition not in self.led.owned:
            self.led.loading[event.partition] = event.leader_epoch
            self._desk.want(Load(partition=event.partition, leader_epoch=event.leader_epoch))

    def _loaded(self, event: StatesLoaded) -> None:
        if not self.led.loaded(event.partition, event.leader_epoch):
            return
        self._states.update(event.states)
        if event.states or event.unreadable:
            self._desk.tell(
                ShareStatesLoaded(
                    self._desk.node,
                    SHARE_STATE_TOPIC,
                    event.partition,
                    leader_epoch=event.leader_epoch,
                    share_partitions=len(event.states),
                    unreadable=event.unreadable,
                )
            )

    def _resigned(self, event: LeadershipResigned) -> None:
        if self.led.is_news(event):
            self.led.lost(event.partition)
            for key in [state for state in self._states if self.led.partition_of(str(state)) == event.partition]:
                del self._states[key]
