"""The fetcher's side of fetch sessions: against the leader's side as a property, and through a whole broker."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest
from broker_world import B1, B2, BrokerWorld
from hypothesis import given
from hypothesis import strategies as st
from segments import joined

from cluster.broker.replicas.fetch_sessions import FetchSessionCache, FetchSessions
from cluster.protocol.api_01_fetch import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)
from cluster.protocol.fetch_request_codec import decode_fetch_request
from cluster.protocol.fetch_response_codec import fetch_response_segments
from cluster.protocol.fetch_session_handler import FetchSessionHandler, Wanted
from cluster.protocol.versions import read_request_header
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.rules import PROFILES

VERSION = 16

# ------------------------------------------------------------------------------------------------------------ property

WANTED = st.dictionaries(
    st.tuples(st.sampled_from("tu"), st.integers(0, 2)), st.tuples(st.integers(1, 2), st.integers(0, 3))
)
"""By topic and partition: the topic's life and the fetch offset."""
FATE = st.sampled_from(["answered"] * 6 + ["request lost", "answer lost", "cache emptied", "leader confused"])


def told(topic: str | UUID, results: list[FetchPartitionResponse]) -> tuple[str | UUID, list[FetchedPartition]]:
    return topic, [
        FetchedPartition(one.partition, one.error, one.high_watermark, -1, 0, None, None, memoryview(b""), None, -1)
        for one in results
    ]


@given(st.lists(st.tuples(WANTED, FATE), max_size=30), st.integers(0, 2))
def test_the_leader_reads_what_the_fetcher_wants_whatever_was_lost(steps, slots) -> None:
    ids = count(1)
    cache = FetchSessionCache(slots, lambda: next(ids))
    leader, handler = FetchSessions(cache, str), FetchSessionHandler()
    before: dict[TopicPartition, Wanted] = {}
    for places, fate in steps:
        wanted = {
            TopicPartition(topic, number): Wanted(UUID(int=10 * ord(topic) + life), FetchPartition(number, 0, offset))
            for (topic, number), (life, offset) in places.items()
            if topic == "t" or life == 1
        }
        stirred = {name for name in {*before, *wanted} if before.get(name) != wanted.get(name)}
        before = wanted
        fetch = handler.build(wanted, stirred)
        if fetch is None:
            assert not wanted
            continue
        if fate == "request lost":
            handler.failed()
            continue
        if fate == "cache emptied" and fetch.session_id:
            cache.remove(fetch.session_id)
        request = FetchRequest(
            2,
            session_id=fetch.session_id,
            session_epoch=fetch.session_epoch,
            topics=fetch.topics,
            forgotten=fetch.forgotten,
        )
        context = leader.context(request, VERSION, 0)
        asked = {(one.topic, one.entry.partition): one.entry for one in context.asked()}
        results = {key: FetchPartitionResponse(key[1], ErrorCode.NONE, 0, 0, 0) for key in asked}
        answered = context.answer(results, 0)
        if answered.error is ErrorCode.NONE:
            assert asked == {(one.topic, name.partition): one.entry for name, one in wanted.items()}
        if fate == "answer lost":
            handler.failed()
            continue
        topics = [told(topic, [part]) for (topic, _), part in answered.partitions.items()]
        if fate == "leader confused":
            topics.append(told(UUID(int=1), [FetchPartitionResponse(0, ErrorCode.NONE)]))
        entries = handler.answered(FetchResponse(answered.error, answered.session_id, topics, 0, ()))
        is_good = answered.error is ErrorCode.NONE and fate != "leader confused"
        assert (entries is not None) == is_good
        if is_good:
            assert {name.partition for name in entries} == {number for _, number in answered.partitions}


# ---------------------------------------------------------------------------------------------------------- a follower


@pytest.fixture
def world(tmp_path):
    return follower_of_b2(BrokerWorld(tmp_path))


def follower_of_b2(world: BrokerWorld) -> BrokerWorld:
    world.start().run(100)
    world.join(B2)
    world.create(B2, B1)
    world.create(B2, B1, topic="u")
    return world


def asked(world):
    """((session id, epoch), topics that are named, topics to be forgotten) of the fetch in flight."""
    ((_, frame),) = world.asked["b2"]
    request = decode_fetch_request(read_request_header(frame), frame)
    names = world.controller.state.image.topic_names
    return (
        (request.session_id, request.session_epoch),
        [names[topic] for topic, _ in request.topics],
        [names[topic] for topic, _ in request.forgotten],
    )


def answer(world, session_id, *, error=ErrorCode.NONE, **partitions):
    topics = [(world.topic_id(topic), [part]) for topic, part in partitions.items()]
    world.answer("b2", lambda number: joined(fetch_response_segments(VERSION, number, topics, error, session_id)))


NOTHING = FetchPartitionResponse(0, ErrorCode.NONE, 0, 0, 0)


def in_session(world):
    """t was asked for alone, before there was u."""
    answer(world, 7, t=NOTHING)
    assert asked(world) == ((7, 1), ["u"], [])
    answer(world, 7, u=NOTHING)
    assert asked(world) == ((7, 2), [], [])


def test_it_names_a_partition_once(world):
    assert asked(world) == ((NO_SESSION, 0), ["t"], [])
    in_session(world)
    answer(world, 7)
    assert asked(world) == ((7, 3), [], [])


def test_a_partition_that_has_to_wait_is_forgotten_meanwhile(world):
    in_session(world)
    answer(world, 7, u=FetchPartitionResponse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert asked(world) == ((7, 3), [], ["u"])
    answer(world, 7, t=FetchPartitionResponse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert asked(world) == ((7, 4), [], ["t"])
    answer(world, NO_SESSION)
    assert not world.asked["b2"]
    world.run(1_000)
    assert asked(world) == ((NO_SESSION, 0), ["t", "u"], [])


@pytest.mark.parametrize(
    ("error", "next_session"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7)],
)
def test_what_a_session_is_refused_for_is_asked_in_full_at_once(world, error, next_session):
    in_session(world)
    answer(world, NO_SESSION, error=error)
    assert asked(world) == ((next_session, 0), ["t", "u"], [])


def test_a_quarrel_about_topic_ids_takes_a_backoff(world):
    in_session(world)
    answer(world, NO_SESSION, error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    assert not world.asked["b2"]
    world.run(1_000)
    assert asked(world) == ((7, 0), ["t", "u"], [])


def test_a_lost_connection_ends_the_session_with_the_next_request(world):
    in_session(world)
    ((connection, _),) = world.asked["b2"]
    world.asked["b2"].clear()
    world.to_broker("disconnected", connection, "gone")
    world.run(1_000)
    assert asked(world) == ((7, 0), ["t", "u"], [])


def test_an_answer_in_full_that_leaves_a_partition_out_is_not_used(world):
    in_session(world)
    answer(world, NO_SESSION, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    answer(world, 8, t=NOTHING)
    assert asked(world) == ((NO_SESSION, 0), ["t", "u"], [])


def test_there_were_no_sessions_before_1_1(tmp_path):
    world = follower_of_b2(BrokerWorld(tmp_path, rules=PROFILES["kafka-3.9"].changed({"truncation": "leader-epoch"})))
    assert asked(world) == ((NO_SESSION, FINAL_EPOCH), ["t"], [])
    answer(world, NO_SESSION, t=NOTHING)
    assert asked(world) == ((NO_SESSION, FINAL_EPOCH), ["t", "u"], [])
