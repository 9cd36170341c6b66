"""max.partitions: a request above it is refused whole, as by a CreateTopicPolicy of Kafka's, in both eras."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from controller_world import NAMES, new_state, start_brokers

from cluster.config import BrokerConfig
from cluster.messages.topic_files import creation
from controller.image import MetadataImage
from controller.inputs import CreatePartitions, CreateTopic, CreateTopicReply, PlainReply, Several, SeveralReply
from controller.state import ControllerState
from replica.errors import ErrorCode, KafkaError

REFUSAL = "the cluster has {1} partitions, and {0} more would exceed max.partitions=5"


@pytest.fixture
def state() -> ControllerState:
    """Three brokers, two partitions, and room for three more."""
    state = new_state(max_partitions=5)
    start_brokers(state, 1, 2, 3)
    assert create(state, "t", 2).error is ErrorCode.NONE
    return state


def topic(name: str, partitions: int, **fields: Any) -> CreateTopic:
    return CreateTopic(now_us=0, name=name, partitions=partitions, replication_factor=3, config={}, **fields)


def create(state: ControllerState, name: str, partitions: int, **fields: Any) -> CreateTopicReply:
    reply = state.step(topic(name, partitions, **fields))[-1]
    assert isinstance(reply, CreateTopicReply)
    return reply


def grow(state: ControllerState, count: int, **fields: Any) -> PlainReply:
    reply = state.step(CreatePartitions(now_us=0, topic="t", count=count, assignment=None, **fields))[-1]
    assert isinstance(reply, PlainReply)
    return reply


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_too_many_is_not_created(state: ControllerState, validate_only: bool) -> None:
    before = state.image.offset
    refused = create(state, "u", 4, validate_only=validate_only)
    assert (refused.error, refused.message) == (ErrorCode.POLICY_VIOLATION, REFUSAL.format(4, 2))
    assert state.image.offset == before and "u" not in state.image.topics
    assert create(state, "u", 3, validate_only=validate_only).error is ErrorCode.NONE


def test_replicas_that_are_assigned_count_as_well(state: ControllerState) -> None:
    event = CreateTopic(now_us=0, name="u", assignment=((1,),) * 4, config={})
    (reply,) = state.step(event)
    assert isinstance(reply, CreateTopicReply) and reply.error is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_does_not_grow_too_far(state: ControllerState, validate_only: bool) -> None:
    before = state.image.offset
    refused = grow(state, 6, validate_only=validate_only)
    assert (refused.error, refused.message) == (ErrorCode.POLICY_VIOLATION, REFUSAL.format(4, 2))
    assert state.image.offset == before and len(state.image.topics["t"].partitions) == 2
    assert grow(state, 5, validate_only=validate_only).error is ErrorCode.NONE


def test_of_several_topics_each_counts_those_before_it(state: ControllerState) -> None:
    several = Several(now_us=0, inputs=(topic("u", 2), topic("v", 2), topic("w", 1)))
    reply = state.step(several)[-1]
    assert isinstance(reply, SeveralReply)
    assert [one.error for one in reply.replies] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]
    assert sorted(state.image.topics) == ["t", "u", "w"]


def test_in_the_zookeeper_era_what_is_written_already_counts(state: ControllerState) -> None:
    def files(partitions: int, under_way: int = 0) -> int:
        return len(written(state.image, partitions, under_way))

    assert files(3) == files(2, under_way=1) == 2
    for partitions, under_way in ((4, 0), (2, 2)):
        with pytest.raises(
            KafkaError, match=r"the cluster has 2 partitions, and 4 more would exceed max\.partitions=5"
        ) as refused:
            files(partitions, under_way)
        assert refused.value.code is ErrorCode.POLICY_VIOLATION


def written(image: MetadataImage, partitions: int, under_way: int) -> tuple[object, ...]:
    return creation(
        image,
        CreateTopic(now_us=0, name="u", partitions=partitions, replication_factor=3),
        topic_id=UUID(int=1),
        broker_config=BrokerConfig(max_partitions=5),
        names=NAMES,
        under_way=under_way,
    ).ops
