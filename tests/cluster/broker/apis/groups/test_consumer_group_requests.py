"""What clients of Kafka 4.1 hear of groups of KIP-848 beside classic ones: codes and messages of its coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from broker_world import BrokerWorld
from group_world import Consumer, coordinating

from cluster.protocol.versions import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_DELETE,
    OFFSET_FETCH,
)
from replica.errors import ErrorCode

NONE, NOT_FOUND, INVALID = ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID
IN_USE, UNKNOWN = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def world(tmp_path: Path) -> BrokerWorld:
    """Groups: `modern` with a member of KIP-848 that reads t, and `classic`, which only has offsets."""
    world = coordinating(tmp_path, "kafka-4.1")
    assert beat(world, 0, topics=["t"]) == (NONE, 1)
    Consumer(world, "tool", group="classic").commit(7)
    return world


def beat(world: BrokerWorld, epoch: int, topics: list[str] | None = None) -> tuple[ErrorCode, int]:
    """(error, epoch of the member)"""
    answer = Consumer(world, "member").ask(
        CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id="modern",
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout=60_000,
        subscribed_topic_names=topics,
        subscribed_topic_regex="",
        topic_partitions=[] if epoch == 0 else None,
    )
    return answer.error_code, answer.member_epoch


def test_a_consumer_group_is_described(world: BrokerWorld) -> None:
    names = ["modern", "classic", "none", ""]
    groups = Consumer(world, "tool").ask(CONSUMER_GROUP_DESCRIBE, 1, group_ids=names).groups
    assert [(one.group_id, one.error_code, one.error_message) for one in groups] == [
        ("modern", NONE, None),
        ("classic", NOT_FOUND, "Group classic is not a consumer group."),
        ("none", NOT_FOUND, "Group none not found."),
        ("", INVALID, None),
    ]
    modern = groups[0]
    assert (modern.group_state, modern.group_epoch, modern.assignment_epoch) == ("Stable", 1, 1)
    assert modern.assignor_name == "uniform"
    (member,) = modern.members
    assert (member.subscribed_topic_names, member.subscribed_topic_regex, member.member_type) == (("t",), "", 1)
    assert [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions] == [("t", (0,))]


@pytest.mark.parametrize("version", [5, 6])
def test_a_consumer_group_is_none_for_those_who_ask_for_classic_ones(world: BrokerWorld, version: int) -> None:
    def told(group_id: str) -> tuple[Any, ...]:
        (group,) = Consumer(world, "tool").ask(DESCRIBE_GROUPS, version, groups=[group_id]).groups
        return group.error_code, getattr(group, "error_message", None), group.group_state

    if version < 6:
        assert told("modern") == told("none") == (NONE, None, "Dead")
    else:
        assert told("modern") == (NOT_FOUND, "Group modern is not a classic group.", "Dead")
        assert told("none") == (NOT_FOUND, "Group none not found.", "Dead")
    assert told("classic") == (NONE, None, "Empty")


def test_offsets_are_fetched_with_a_member_and_its_epoch_or_without_both(world: BrokerWorld) -> None:
    """ConsumerGroup.validateOffsetFetch: an epoch without a member fails in Kafka"""

    def error(member_id: str | None, epoch: int) -> ErrorCode:
        one = {"group_id": "modern", "topics": [], "member_id": member_id, "member_epoch": epoch}
        (group,) = Consumer(world, "tool").ask(OFFSET_FETCH, 9, groups=[one]).groups
        return group.error_code

    assert error(None, -1) == error("m", 1) == NONE
    assert error("m", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert error("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(None, 1) == ErrorCode.UNKNOWN_SERVER_ERROR


def listed(world: BrokerWorld, version: int = 5, **filters: list[str]) -> list[tuple[str, ...]]:
    answer = Consumer(world, "tool").ask(LIST_GROUPS, version, **filters)
    fields = ("group_id", "protocol_type", "group_state", "group_type")
    return [tuple(str(getattr(group, field)) for field in fields if hasattr(group, field)) for group in answer.groups]


def test_groups_are_listed_by_state_and_type(world: BrokerWorld) -> None:
    classic, modern = ("classic", "", "Empty", "classic"), ("modern", "consumer", "Stable", "consumer")
    assert listed(world) == [classic, modern]
    assert listed(world, 4) == [classic[:3], modern[:3]]
    assert listed(world, 3) == [classic[:2], modern[:2]]
    assert listed(world, states_filter=[" STABLE "]) == listed(world, types_filter=["Consumer"]) == [modern]
    assert listed(world, states_filter=["Empty", "Reconciling"]) == listed(world, types_filter=["classic"]) == [classic]
    assert listed(world, states_filter=["Stable"], types_filter=["classic"]) == []
    assert listed(world, states_filter=["Odd"]) == listed(world, types_filter=["share"]) == []


@pytest.mark.parametrize(("release", "listed"), [("3.9", ["classic"]), ("4.1", [])])
def test_a_coordinator_that_reads_a_log_lists_what_its_release_does(
    tmp_path: Path, release: str, listed: list[str]
) -> None:
    """GroupCoordinatorService.listGroups: nothing; GroupCoordinator.handleListGroups: what is there already"""
    world = coordinating(tmp_path, f"kafka-{release}")
    Consumer(world, "tool", group="classic").commit(7)
    world.broker.groups.coordinator.index.loading[1] = 1
    answer = Consumer(world, "tool").ask(LIST_GROUPS, 5)
    names = [group.group_id for group in answer.groups]
    assert (answer.error_code, names) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, listed)


def deleted(world: BrokerWorld, *groups: str) -> dict[str, ErrorCode]:
    results = Consumer(world, "tool").ask(DELETE_GROUPS, 2, groups_names=list(groups)).results
    return {one.group_id: one.error_code for one in results}


def test_a_consumer_group_is_deleted_once_it_has_no_members(world: BrokerWorld) -> None:
    assert deleted(world, "modern", "none") == {"modern": ErrorCode.NON_EMPTY_GROUP, "none": NOT_FOUND}
    beat(world, -1)
    assert deleted(world, "modern", "classic") == {"modern": NONE, "classic": NONE}
    assert deleted(world, "modern", "classic") == {"modern": NOT_FOUND, "classic": NOT_FOUND}
    assert listed(world) == []
    world.kill()
    world.start()
    world.run(20_000)
    assert listed(world) == []


def test_offsets_of_a_consumer_group_are_deleted_where_no_member_reads_the_topic(world: BrokerWorld) -> None:
    member = Consumer(world, "member", group="modern")
    member.member_id, member.generation = "m", 1
    assert member.commit(3) == NONE

    def delete(group: str, *numbers: int) -> tuple[ErrorCode, list[ErrorCode]]:
        topics = [{"name": "t", "partitions": [{"partition_index": number} for number in numbers]}]
        answer = Consumer(world, "tool").ask(OFFSET_DELETE, 0, group_id=group, topics=topics)
        return answer.error_code, [one.error_code for topic in answer.topics for one in topic.partitions]

    assert delete("modern", 0, 9) == (NONE, [IN_USE, UNKNOWN])
    assert delete("none", 0) == (NOT_FOUND, [])
    assert delete("", 0) == (INVALID, [])
    beat(world, -1)
    assert Consumer(world, "tool", group="modern").committed() == (3, NONE)
    assert delete("modern", 0) == (NONE, [NONE])
    assert Consumer(world, "tool", group="modern").committed() == (-1, NONE)
    assert ("modern", "consumer", "Empty", "consumer") in listed(world), "the group goes when its time has come"
