"""OffsetCommit and OffsetFetch 10, TxnOffsetCommit 6: topics are named by their ids (KIP-848, KIP-1319)."""

from __future__ import annotations

from uuid import UUID

import pytest
from group_world import Consumer, coordinating

from cluster.protocol import versions as v
from replica.errors import ErrorCode

UNKNOWN = UUID(int=77)


@pytest.fixture
def member(tmp_path):
    return Consumer(coordinating(tmp_path, "kafka-4.4"), "c1")


def commit(member, topic_id, offset=7, api=v.OFFSET_COMMIT, version=10, **more):
    one = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"topic_id": topic_id, "partitions": [one]}]
    return member.ask(api, version, group_id="g", member_id="", topics=topics, **more).topics


def fetched(member, *topic_ids):
    topics = [{"topic_id": one, "partition_indexes": [0]} for one in topic_ids] or None
    (group,) = member.ask(v.OFFSET_FETCH, 10, groups=[{"group_id": "g", "topics": topics}]).groups
    return [
        (one.topic_id, int(one.partitions[0].committed_offset), one.partitions[0].error_code) for one in group.topics
    ]


def test_an_offset_is_committed_and_fetched_by_the_id_of_its_topic(member):
    known = member.world.topic_id("t")
    (topic,) = commit(member, known)
    assert (topic.topic_id, topic.partitions[0].error_code) == (known, ErrorCode.NONE)
    assert fetched(member, known) == fetched(member) == [(known, 7, ErrorCode.NONE)]


def test_an_unknown_id_is_answered_beside_the_known_ones(member):
    known = member.world.topic_id("t")
    (topic,) = commit(member, UNKNOWN)
    assert (topic.topic_id, topic.partitions[0].error_code) == (UNKNOWN, ErrorCode.UNKNOWN_TOPIC_ID)
    commit(member, known)
    assert fetched(member, UNKNOWN, known) == [
        (known, 7, ErrorCode.NONE),
        (UNKNOWN, -1, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_an_offset_of_an_earlier_topic_of_this_name_does_not_count(member):
    """Source: OffsetMetadataManager.isMismatchedTopicId"""
    world = member.world
    commit(member, world.topic_id("t"))
    commits = world.broker.groups.coordinator.index.find("g").offsets.committed
    (name,) = commits
    commits[name] = commits[name]._replace(value=commits[name].value._replace(topic_id=UNKNOWN))
    assert fetched(member, world.topic_id("t")) == [(world.topic_id("t"), -1, ErrorCode.NONE)]
    assert member.committed(9) == (7, 0), "whoever asks by name gets it"


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_producer_learns_from_version_6_on_that_there_is_no_group(member, version, error):
    one = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    topic = {"name": "t", "topic_id": member.world.topic_id("t"), "partitions": [one]}
    values = {"group_id": "none", "generation_id": 3, "member_id": "m", "transactional_id": "", "producer_id": -1}
    (answer,) = member.ask(v.TXN_OFFSET_COMMIT, version, topics=[topic], **values).topics
    assert answer.partitions[0].error_code is error
