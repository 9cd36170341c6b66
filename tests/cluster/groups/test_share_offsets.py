"""What the group coordinator keeps of start offsets that are altered and deleted, and what it takes back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from coordinator_world import CoordinatorWorld

from cluster.coordinators.core import AnswerRequest, Append, Written
from cluster.groups.inputs import (
    AlterShareOffsets,
    AlterShares,
    CoordinatorInput,
    DeleteShareOffsets,
    ForgetShares,
    ShareRefusal,
    SharesChanged,
)
from cluster.groups.state.assignors import TopicIdPartition
from cluster.groups.state.loading import Replay
from cluster.groups.state.share_group import ShareGroup
from replica.errors import ErrorCode
from replica.ids import TopicPartition

NONE, LOST, FENCED = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_STATE_EPOCH
TOPIC = UUID(int=100)
FIRST = TopicIdPartition(TOPIC, 0)


class World:
    """A coordinator of the group g, topic t with three partitions, and share coordinators that answer as told."""

    def __init__(self) -> None:
        self.coordinator = CoordinatorWorld().coordinator
        self.log: list[tuple[bytes, bytes | None]] = []
        self.error = NONE
        """Of each write."""
        self.refused: dict[TopicIdPartition, ShareRefusal] = {}
        self.asked: list[AlterShares | ForgetShares] = []
        self.answer: Any = None

    @property
    def group(self) -> ShareGroup | None:
        return self.coordinator.index.share_groups.get("g")

    def stored(self) -> ShareGroup:
        """Return the group as another coordinator reads it."""
        replay = Replay()
        for offset, record in enumerate(self.log):
            replay.record(offset, *record)
        assert replay.unreadable == 0
        return replay.share_groups["g"]

    def step(self, given: CoordinatorInput | Written) -> None:
        for action in self.coordinator.step(given):
            match action:
                case AnswerRequest():
                    self.answer = action.result
                case Append():
                    self.log += action.records if self.error is NONE else ()
                    assert action.write is not None
                    self.step(Written(now_us=0, write=action.write, error=self.error, offset=0))
                case AlterShares() | ForgetShares():
                    self.asked.append(action)
                    self.step(SharesChanged(now_us=0, number=action.number, refused=self.refused))

    def alter(self, **offsets: int) -> Any:
        """offsets: by partition, such as t_0"""
        named: dict[str, dict[int, int]] = {}
        for name, offset in offsets.items():
            topic, number = name.split("_")
            named.setdefault(topic, {})[int(number)] = offset
        self.step(AlterShareOffsets(now_us=0, request=1, group_id="g", offsets=named))
        return self.answer

    def delete(self, *topics: str) -> Any:
        self.step(DeleteShareOffsets(now_us=0, request=1, group_id="g", topics=topics))
        return self.answer


@pytest.fixture
def world() -> World:
    return World()


def test_a_new_group_is_kept_with_its_first_start_offset(world: World) -> None:
    refusal, partitions = world.alter(t_0=5)
    assert (refusal, partitions) == (ShareRefusal(NONE), {TopicPartition("t", 0): ShareRefusal(NONE)})
    assert world.group is not None
    assert world.asked == [AlterShares(1, "g", world.group.epoch, {FIRST: 5})]
    assert world.stored().shares == world.group.shares
    assert (world.group.shares.initializing, world.group.shares.initialized) == ((), (FIRST,))


def test_a_group_that_cannot_be_written_does_not_begin(world: World) -> None:
    world.error = ErrorCode.NOT_ENOUGH_REPLICAS
    refusal, partitions = world.alter(t_0=5)
    assert (refusal, partitions) == (ShareRefusal(ErrorCode.COORDINATOR_NOT_AVAILABLE), {})
    assert world.group is None and world.asked == []


def test_a_deletion_that_cannot_be_written_leaves_the_start_offsets(world: World) -> None:
    world.alter(t_0=5)
    world.error = LOST
    refusal, topics = world.delete("t")
    assert (refusal, topics) == (ShareRefusal(ErrorCode.NOT_COORDINATOR), {})
    assert world.group is not None and world.group.shares.initialized == (FIRST,)
    assert world.stored().shares == world.group.shares


def test_a_topic_whose_states_are_not_all_deleted_stays_in_deletion(world: World) -> None:
    world.alter(t_0=5, t_1=6)
    world.refused = {FIRST: ShareRefusal(FENCED, "told")}
    _, topics = world.delete("t", "u")
    assert topics["t"] == (TOPIC, ShareRefusal(FENCED)) and topics["u"][1].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.group is not None and world.group.shares.deleting == (TOPIC,)
    assert world.stored().shares == world.group.shares
    world.refused = {}
    _, topics = world.delete("t")
    assert topics == {"t": (TOPIC, ShareRefusal(NONE))}
    assert world.asked[-1] == ForgetShares(3, "g", tuple(TopicIdPartition(TOPIC, number) for number in range(3)))
    assert world.group.shares.deleting == world.stored().shares.deleting == ()


def test_what_is_set_again_is_no_longer_in_deletion(world: World) -> None:
    world.alter(t_0=5)
    world.refused = {FIRST: ShareRefusal(FENCED)}
    world.delete("t")
    world.refused = {}
    world.alter(t_0=7)
    assert world.group is not None
    assert (world.group.shares.deleting, world.group.shares.initialized) == ((), (FIRST,))
    assert world.stored().shares == world.group.shares
