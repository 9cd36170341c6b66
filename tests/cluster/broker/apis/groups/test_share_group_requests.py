"""The start offsets of share groups (KIP-932), which operators alter and delete, and members that read from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from share_world import Shares

from cluster.protocol.versions import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_GROUPS,
    DELETE_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_STATE,
    VERSIONS,
)
from replica.errors import ErrorCode
from replica.trace.events import ShareStateReset

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NO_OFFSETS = "There is no offset information to delete."


@pytest.fixture
def shares(tmp_path: Path) -> Shares:
    return Shares(tmp_path)


def test_an_altered_group_begins_with_its_start_offsets(shares: Shares) -> None:
    answer = shares.alter(8)
    assert answer.error_code is NONE
    (topic,) = answer.responses
    assert (topic.topic_name, topic.topic_id) == ("t", shares.world.topic_id("t"))
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(0, NONE)]
    assert shares.start_offsets() == {"t-0": 8}
    shares.beat(0)
    consumer = shares.world.call("consumer")
    assert shares.read(consumer) == [(8, 9, 1)]


def test_unknown_partitions_are_refused_one_by_one(shares: Shares) -> None:
    (topic,) = shares.alter(3, 0, 7).responses
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(0, NONE), (7, UNKNOWN)]
    (topic,) = shares.alter(3, topic="none").responses
    assert (topic.topic_id, topic.partitions[0].error_code) == (None, UNKNOWN)
    assert shares.start_offsets() == {"t-0": 3}


def test_what_a_share_coordinator_refuses_stays_begun(shares: Shares) -> None:
    (topic,) = shares.alter(3, 0, -1).responses
    first, second = topic.partitions
    assert (first.partition_index, first.error_code) == (0, NONE)
    assert (second.partition_index, second.error_code) == (-1, ErrorCode.INVALID_REQUEST)
    assert second.error_message == "The partition id cannot be a negative number."
    assert shares.start_offsets() == {}, "the group's record does not say that it is done"
    assert shares.delete("t").responses[0].error_message == NO_OFFSETS


@pytest.mark.parametrize("is_altered_first", [False, True])
def test_the_first_member_of_a_share_group_gets_epoch_2(shares: Shares, is_altered_first: bool) -> None:
    """A new group begins with epoch 1 since 4.3. Source: ModernGroup's constructor (4.3.1)"""
    if is_altered_first:
        shares.alter(3)
    assert shares.beat(0).member_epoch == 2


@pytest.mark.parametrize("interval_ms", ["1000", "0"])
def test_what_is_initialized_is_assigned_once_the_interval_is_over(tmp_path: Path, interval_ms: str) -> None:
    """Source: maybeUpdateTargetAssignment(ShareGroup), canComputeNextTargetAssignment (4.3.1)"""
    shares = Shares(tmp_path, **{"group.share.assignment.interval.ms": interval_ms})
    first = shares.beat(0)
    assert first.assignment.topic_partitions == (), "nothing is initialized"
    second = shares.beat(first.member_epoch)
    is_early = interval_ms == "1000"
    assert (second.assignment is None) == is_early
    shares.world.run(1000)
    third = shares.beat(second.member_epoch)
    assert (third.assignment is None) == (not is_early)
    (assigned,) = (third if is_early else second).assignment.topic_partitions
    assert assigned.partitions == (0,)


def test_a_member_with_another_epoch_is_fenced(shares: Shares) -> None:
    epoch = shares.beat(0).member_epoch
    assert shares.beat(epoch + 1).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert shares.beat(epoch).error_code is NONE


def test_only_an_empty_share_group_is_altered(shares: Shares) -> None:
    assert shares.ask(ALTER_SHARE_GROUP_OFFSETS, group_id="", topics=[]).error_code is ErrorCode.INVALID_GROUP_ID
    assert shares.delete("t").error_code is ErrorCode.GROUP_ID_NOT_FOUND
    epoch = shares.beat(0).member_epoch
    for answer in (shares.alter(3), shares.delete("t")):
        assert (answer.error_code, answer.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        assert answer.responses == ()
    assert epoch > 0 and shares.beat(-1).error_code is NONE
    assert shares.alter(3).error_code is NONE


def test_a_leader_forgets_what_a_closed_session_had_of_a_group_that_is_altered(shares: Shares) -> None:
    """The group is empty once the connection is gone, though its session had ended before."""
    shares.alter(2)
    shares.beat(0)
    consumer = shares.world.call("consumer")
    assert shares.read(consumer) == [(2, 9, 1)]
    shares.close(consumer)
    consumer.hang_up()
    shares.relay()
    shares.beat(-1)
    shares.alter(5)
    shares.beat(0)
    again = shares.world.call("consumer")
    assert shares.read(again) == [(5, 9, 1)]


def test_deleted_offsets_are_gone_and_known_to_be(shares: Shares) -> None:
    shares.alter(8)
    answer = shares.delete("t", "none")
    assert answer.error_code is NONE
    assert [(one.topic_name, one.topic_id, one.error_code) for one in answer.responses] == [
        ("t", shares.world.topic_id("t"), NONE),
        ("none", None, UNKNOWN),
    ]
    assert shares.start_offsets() == {}
    told = [(one.name, one.group, one.start_offset) for one in shares.world.events(ShareStateReset)]
    assert told == [("t-0", "g", 8), ("t-0", "g", None)]
    (topic,) = shares.delete("t").responses
    assert (topic.error_code, topic.error_message) == (UNKNOWN, NO_OFFSETS)


def test_a_deletion_that_does_not_end_is_taken_up_by_the_next_one(shares: Shares) -> None:
    shares.alter(8)
    shares.held.append(DELETE_SHARE_GROUP_STATE)
    first = shares.world.call("first")
    first.send_only(DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[{"topic_name": "t"}])
    shares.relay()
    assert first.answers == [], "the share coordinator has not answered"
    assert shares.start_offsets() == {}
    shares.held.clear()
    (topic,) = shares.delete("t").responses
    assert topic.error_code is NONE
    assert len(first.answers) == 1
    assert shares.alter(4).error_code is NONE
    assert shares.start_offsets() == {"t-0": 4}


def test_a_group_takes_the_states_of_unfinished_deletions_along(shares: Shares) -> None:
    shares.alter(8)
    shares.held.append(DELETE_SHARE_GROUP_STATE)
    first = shares.world.call("first")
    first.send_only(DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[{"topic_name": "t"}])
    tool = shares.world.call("second")
    tool.send_only(DELETE_GROUPS, VERSIONS[DELETE_GROUPS][1], groups_names=["g"])
    shares.held.clear()
    before = len(shares.relayed)
    shares.relay()
    assert shares.relayed[before:] == [DELETE_SHARE_GROUP_STATE] * 2
    assert [one.error_code for one in shares.answer(DELETE_GROUPS, tool).results] == [NONE]
    assert shares.answer(DELETE_SHARE_GROUP_OFFSETS, first).responses[0].error_code is NONE
