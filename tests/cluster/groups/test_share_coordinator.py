"""The share coordinator: what it keeps, whom it fences, and what another broker reads from its log."""

from __future__ import annotations

from itertools import count
from typing import Any
from uuid import UUID

import pytest

from cluster.clocks import WallClock
from cluster.coordinators.core import IN_THE_LOG, AnswerRequest, Append, Elected, LeadershipResigned, Load, Written
from cluster.share.coordinator import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    ShareCoordinator,
    ShareRequest,
    ShareResult,
    ShareSettings,
    StatesLoaded,
    TopicsDeleted,
    WriteState,
)
from cluster.share.state import RecordState, ShareKey, ShareReplay, StateBatch
from replica.errors import ErrorCode

TOPIC = UUID(int=7)
KEY = ShareKey("g", TOPIC, 0)
ACCEPTED = StateBatch(0, 4, RecordState.ACKNOWLEDGED, 1)


class World:
    """A coordinator of one partition, with its log; a write is replicated at once unless `error` says otherwise."""

    def __init__(self) -> None:
        self.topics = {TOPIC: 2}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.error = ErrorCode.NONE
        self._requests = count()
        self.answer: ShareResult | None = None
        self.coordinator = self._new()
        self.elect(0)

    def _new(self) -> ShareCoordinator:
        return ShareCoordinator(
            node="b1",
            settings=ShareSettings(updates_per_snapshot=3, write_timeout_ms=5000),
            clock=WallClock(),
            partition_of=lambda key: 0,
            partition_count=self.topics.get,
            topic_name=lambda topic_id: "t" if topic_id in self.topics else None,
        )

    def elect(self, epoch: int) -> None:
        actions = self.coordinator.step(Elected(now_us=0, partition=0, leader_epoch=epoch))
        assert isinstance(actions[0], Load)
        replay = ShareReplay()
        for record in self.log:
            replay.record(*record)
        loaded = StatesLoaded(now_us=0, partition=0, leader_epoch=epoch, states=replay.states, unreadable=0)
        self.coordinator.step(loaded)

    def ask(self, kind: type[ShareRequest], key: ShareKey = KEY, **fields: Any) -> ErrorCode:
        self.answer = None
        self._perform(self.coordinator.step(kind(now_us=0, request=next(self._requests), key=key, **fields)))
        assert self.answer is not None
        return self.answer.error

    def delete_topic(self) -> None:
        self.topics.clear()
        self._perform(self.coordinator.step(TopicsDeleted(now_us=0)))

    def _perform(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, AnswerRequest):
                self.answer = action.result
            elif isinstance(action, Append):
                if self.error in IN_THE_LOG:
                    self.log += action.records
                assert action.write is not None
                written = Written(now_us=0, write=action.write, error=self.error, offset=len(self.log))
                self._perform(self.coordinator.step(written))

    def write(self, *batches: StateBatch, start: int = 0, leader: int = 1, state: int = 1) -> ErrorCode:
        about: dict[str, Any] = {"state_epoch": state, "leader_epoch": leader, "delivery_complete": 0}
        return self.ask(WriteState, batches=batches, start_offset=start, **about)

    def read(self, leader: int = 1) -> tuple[ErrorCode, int, tuple[StateBatch, ...]]:
        error = self.ask(ReadState, leader_epoch=leader)
        assert self.answer is not None
        return error, self.answer.state.start_offset, self.answer.state.batches


@pytest.fixture
def world() -> World:
    world = World()
    assert world.write() is world.read()[0] is ErrorCode.INVALID_REQUEST, "not initialized"
    assert world.ask(InitializeState, state_epoch=1, start_offset=0) is ErrorCode.NONE
    return world


def test_another_coordinator_reads_what_was_written(world: World) -> None:
    world.read(leader=1)
    for number in range(8):
        assert world.write(ACCEPTED._replace(first=number, last=number), start=min(number, 2)) is ErrorCode.NONE
    kept = (ErrorCode.NONE, 2, (ACCEPTED._replace(first=2, last=7),))
    assert world.read() == kept
    assert [key[1] for key, _ in world.log] == [0, 1, 1, 1, 0, 1, 1, 1, 0, 1], "a snapshot after three updates"
    world.coordinator.step(LeadershipResigned(now_us=0, partition=0, leader_epoch=1))
    assert world.write() is ErrorCode.NOT_COORDINATOR
    world.elect(2)
    assert world.read() == kept


def test_an_older_leader_and_an_older_state_are_fenced(world: World) -> None:
    assert world.read(leader=3)[0] is ErrorCode.NONE
    assert world.write(ACCEPTED, leader=2) is ErrorCode.FENCED_LEADER_EPOCH
    assert world.read(leader=2)[0] is ErrorCode.FENCED_LEADER_EPOCH
    assert world.ask(InitializeState, state_epoch=2, start_offset=9) is ErrorCode.NONE
    assert world.write(ACCEPTED, leader=3, state=1) is ErrorCode.FENCED_STATE_EPOCH
    assert world.ask(InitializeState, state_epoch=1, start_offset=0) is ErrorCode.FENCED_STATE_EPOCH
    assert world.read(leader=3) == (ErrorCode.NONE, 9, ())


@pytest.mark.parametrize(
    "error, told, stays",
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR, False),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
    ],
)
def test_what_could_not_be_written_is_taken_back(world: World, error: ErrorCode, told: ErrorCode, stays: bool) -> None:
    world.read()
    world.error = error
    assert world.write(ACCEPTED) is told
    world.error = ErrorCode.NONE
    assert world.read()[2] == ((ACCEPTED,) if stays else ())


def test_unknown_partitions_have_no_state_and_deleted_ones_lose_it(world: World) -> None:
    beyond = ShareKey("g", TOPIC, 2)
    assert world.ask(InitializeState, beyond, state_epoch=1, start_offset=0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.ask(ReadSummary) is ErrorCode.NONE and world.answer is not None
    assert world.answer.state.start_offset == 0
    assert world.ask(DeleteState) is ErrorCode.NONE
    assert world.log[-1][1] is None
    assert world.ask(DeleteState) is ErrorCode.NONE, "it is gone already"
    world.ask(InitializeState, state_epoch=1, start_offset=0)
    world.delete_topic()
    assert world.log[-1][1] is None
