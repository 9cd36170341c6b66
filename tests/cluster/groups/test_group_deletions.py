"""Groups and their offsets, deleted: with all that they hold, and of KIP-848's only where that can be written."""

from __future__ import annotations

import pytest
from coordinator_world import CoordinatorWorld

from cluster.groups.inputs import DeleteOffsetsResult
from replica.errors import ErrorCode


def empty_group(world: CoordinatorWorld) -> None:
    """With an offset of t-0, and one of t-1 in an open transaction."""
    world.elect()
    world.beat("m", 0)
    world.commit("m", 1, t_0=5)
    world.beat("m", -1)
    world.commit(transaction=7, t_1=6)


def test_a_group_that_is_deleted_takes_the_offsets_of_an_open_transaction_along() -> None:
    world = CoordinatorWorld()
    empty_group(world)
    assert world.delete("g")[-1] == "delete <- g NONE"
    world.resign()
    world.elect()
    world.marker(7, "commit")
    assert world.show() == ["no group g"]


def test_the_deletion_of_no_group_is_answered() -> None:
    assert CoordinatorWorld().delete() == ["delete <- "]


@pytest.mark.parametrize("since_4_0", [False, True])
def test_a_group_that_is_deleted_has_tombstones_for_open_transactions_since_4_0(since_4_0: bool) -> None:
    """GroupMetadata.removeAllOffsets; OffsetMetadataManager.deleteAllOffsets"""
    world = CoordinatorWorld(one_coordinator=since_4_0)
    world.commit(t_0=5)
    world.commit(transaction=7, t_1=6)
    (written,) = [line for line in world.delete("g") if line.startswith("write")]
    assert ("offset of t-1 in g is no more" in written) is since_4_0


def test_a_group_whose_end_cannot_be_written_is_still_there() -> None:
    world = CoordinatorWorld()
    empty_group(world)
    world.hold()
    assert world.show()[0] == "g is Empty, epoch 2, target of epoch 1"
    assert [line for line in world.delete("g", "other") if "<-" in line] == [], "it is answered when it is written"
    assert world.show() == ["no group g"]
    answers = world.release("NOT_ENOUGH_REPLICAS")
    assert answers == ["delete <- g COORDINATOR_NOT_AVAILABLE, other GROUP_ID_NOT_FOUND"]
    assert world.fetch("t-0") == ["t-0 at 5"] and world.fetch("t-1") == ["t-1 UNSTABLE_OFFSET_COMMIT"]


def test_an_offset_whose_end_cannot_be_written_is_still_there() -> None:
    world = CoordinatorWorld()
    empty_group(world)
    world.hold()
    world.delete_offsets("t-0", "t-1")
    assert world.fetch("t-0") == ["t-0 none"]
    assert world.release("NOT_ENOUGH_REPLICAS") == ["delete-offsets <- COORDINATOR_NOT_AVAILABLE"]
    assert world.answers[len(world.requests)] == DeleteOffsetsResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, {})
    assert world.fetch("t-0") == ["t-0 at 5"] and world.fetch("t-1") == ["t-1 UNSTABLE_OFFSET_COMMIT"]
    assert "delete-offsets <- t-0 NONE" in world.delete_offsets("t-0")
    assert world.fetch("t-0") == ["t-0 none"]


def emptied(world: CoordinatorWorld) -> list[str]:
    """A classic group without members, of which an operator deletes the last offset."""
    world.commit(t_0=5)
    return [line for line in world.delete_offsets("t-0") if "group_removed" in line]


def test_a_classic_group_stays_when_its_last_offset_goes_until_the_next_check() -> None:
    world = CoordinatorWorld(retention_check_interval_ms=600_000)
    world.elect()
    assert emptied(world) == []
    assert world.show()[0].startswith("g is Empty")
    assert world.delete("g")[-1] == "delete <- g NONE"
    emptied(world)
    world.at(599_000_000)
    assert world.show()[0].startswith("g is Empty")
    world.at(601_000_000)
    assert world.show() == ["no group g"]


def test_before_4_0_it_goes_with_its_last_offset() -> None:
    world = CoordinatorWorld(one_coordinator=False)
    world.elect()
    assert len(emptied(world)) == 1
    assert world.delete("g")[-1] == "delete <- g GROUP_ID_NOT_FOUND"
