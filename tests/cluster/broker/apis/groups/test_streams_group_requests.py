"""What members of streams groups (KIP-1071) and operators hear of a broker: fields, types and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from broker_world import BrokerWorld
from group_world import Consumer, coordinating

from cluster.protocol.versions import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_COMMIT,
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
)
from replica.errors import ErrorCode

NONE = ErrorCode.NONE
COPY = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["t"]}]}
COUNT = {
    "epoch": 0,
    "subtopologies": [
        {
            "subtopology_id": "0",
            "source_topics": ["t"],
            "state_changelog_topics": [
                {"name": "log", "topic_configs": [{"key": "cleanup.policy", "value": "compact"}]}
            ],
        }
    ],
}


@pytest.fixture
def world(tmp_path: Path) -> BrokerWorld:
    return coordinating(tmp_path, "kafka-4.4", **{"group.streams.initial.rebalance.delay.ms": "0"})


def beat(world: BrokerWorld, epoch: int, topology: dict[str, Any] = COPY, **more: Any) -> Any:
    joins = epoch == 0
    more.setdefault("user_endpoint", {"host": "h", "port": 8080} if joins else None)
    tasks = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []} if joins else {}
    return Consumer(world, "member").ask(
        STREAMS_GROUP_HEARTBEAT,
        0,
        group_id="app",
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout=60_000 if joins else -1,
        topology=topology if joins else None,
        process_id="p" if joins else None,
        client_tags=[{"key": "zone", "value": "a"}] if joins else None,
        **tasks,
        **more,
    )


def test_a_member_gets_its_tasks_and_is_described(world: BrokerWorld) -> None:
    answer = beat(world, 0)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (NONE, "m", 2)
    assert [(one.subtopology_id, one.partitions) for one in answer.active_tasks] == [("0", (0,))]
    assert (answer.standby_tasks, answer.warmup_tasks, answer.status) == ((), (), ())
    assert beat(world, 2).active_tasks is None, "nothing has changed"
    tool = Consumer(world, "tool")
    found, missing = tool.ask(STREAMS_GROUP_DESCRIBE, 0, group_ids=["app", "none"]).groups
    assert missing.error_message == "Group none not found."
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 2, 2)
    assert [part.source_topics for part in found.topology.subtopologies] == [("t",)]
    (member,) = found.members
    assert (member.process_id, member.user_endpoint.port, member.client_tags[0].value) == ("p", 8080, "a")
    assert member.assignment.active_tasks == member.target_assignment.active_tasks != ()


def test_members_learn_what_is_read_at_each_endpoint(world: BrokerWorld) -> None:
    first = beat(world, 0, endpoint_information_epoch=-1)
    assert first.endpoint_information_epoch == 0, "Kafka loses the epoch of a group's first heartbeat"
    (found,) = first.partitions_by_user_endpoint
    assert (found.user_endpoint.host, found.user_endpoint.port, found.standby_partitions) == ("h", 8080, ())
    assert [(one.topic, one.partitions) for one in found.active_partitions] == [("t", (0,))]
    known = beat(world, 2, endpoint_information_epoch=0)
    assert (known.endpoint_information_epoch, known.partitions_by_user_endpoint) == (0, None)
    moved = beat(world, 2, endpoint_information_epoch=0, user_endpoint={"host": "other", "port": 1})
    assert moved.endpoint_information_epoch == 1
    assert [one.user_endpoint.host for one in moved.partitions_by_user_endpoint] == ["other"]


def test_as_in_kafka_an_endpoint_is_no_help_where_a_source_topic_is_missing(world: BrokerWorld) -> None:
    absent = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["absent"]}]}
    assert beat(world, 0, absent, endpoint_information_epoch=-1).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    without = beat(world, 0, absent, endpoint_information_epoch=-1, user_endpoint=None)
    assert [one.status_detail for one in without.status] == ["Source topics absent are missing."]


def test_a_streams_group_is_listed_and_is_no_classic_one(world: BrokerWorld) -> None:
    beat(world, 0)
    tool = Consumer(world, "tool")
    listed = tool.ask(LIST_GROUPS, 5, types_filter=["streams"]).groups
    assert [(one.group_id, one.protocol_type, one.group_type) for one in listed] == [("app", "streams", "streams")]
    (classic,) = tool.ask(DESCRIBE_GROUPS, 6, groups=["app"]).groups
    assert classic.error_message == "Group app is not a classic group."
    assert [one.error_code for one in tool.ask(DELETE_GROUPS, 2, groups_names=["app"]).results] == [
        ErrorCode.NON_EMPTY_GROUP
    ]
    assert beat(world, -1).error_code is NONE
    assert [one.error_code for one in tool.ask(DELETE_GROUPS, 2, groups_names=["app"]).results] == [NONE]


@pytest.mark.parametrize(("version", "epoch", "error"), [(9, 2, NONE), (9, 1, ErrorCode.STALE_MEMBER_EPOCH)])
def test_a_commit_counts_at_the_members_epoch(world: BrokerWorld, version: int, epoch: int, error: ErrorCode) -> None:
    beat(world, 0)
    partition = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
    answer = Consumer(world, "member").ask(
        OFFSET_COMMIT,
        version,
        group_id="app",
        member_id="m",
        generation_id_or_member_epoch=epoch,
        topics=[{"name": "t", "partitions": [partition]}],
    )
    assert answer.topics[0].partitions[0].error_code is error


def test_a_missing_internal_topic_is_named(world: BrokerWorld) -> None:
    answer = beat(world, 0, COUNT)
    assert [(one.status_code, one.status_detail) for one in answer.status] == [(3, "Internal topics are missing: log")]
    assert answer.active_tasks == ()


def test_a_refusal_names_no_member(world: BrokerWorld) -> None:
    answer = beat(world, 5)
    assert (answer.error_code, answer.member_id, answer.status) == (ErrorCode.GROUP_ID_NOT_FOUND, "", None)
    assert answer.error_message == "Streams group app not found."


def test_before_4_2_there_are_no_streams_groups(tmp_path: Path) -> None:
    world = coordinating(tmp_path, "kafka-4.1")
    assert beat(world, 0).error_code is ErrorCode.UNSUPPORTED_VERSION
    (found,) = Consumer(world, "tool").ask(STREAMS_GROUP_DESCRIBE, 0, group_ids=["app"]).groups
    assert found.error_code is ErrorCode.UNSUPPORTED_VERSION
