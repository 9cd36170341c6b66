"""In a fetch session of many partitions those without news rest: a fetch is about the others, and nothing is missed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from broker_world import B1, B2, BrokerWorld, batch
from segments import joined

from cluster.broker.replicas.resting import MANY
from cluster.protocol.api_01_fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response, fetch_response_segments
from controller.inputs import CreateTopic, DeleteTopic
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.trace.events import FollowerFetched, IsrProposed

COUNT = MANY + 20
SEVENTH = TopicPartition("t", 7)


class Session:
    """A fetcher's, with b1 that leads all: full at first, then `fetch` names what has changed for the fetcher."""

    def __init__(self, world: BrokerWorld, replica_id: int = B2) -> None:
        """replica_id: -1 for a consumer"""
        self._world = world
        self._replica_id = replica_id
        self._caller = world.call("b2" if replica_id == B2 else "c1")
        self._id, self._epoch = 0, 0
        self._topic = world.topic_id("t")

    def fetch(self, *changed: FetchPartition) -> Any:
        """The answer, None while it waits."""
        request = FetchRequest(
            replica_id=self._replica_id,
            replica_epoch=self._world.broker_epoch(B2) if self._replica_id == B2 else -1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[(self._topic, list(changed))] if changed else [],
        )
        self._answered = len(self._caller.answers)
        self._caller.send(encode_fetch_request(16, 1, "b2", request))
        return self.answer()

    def answer(self) -> Any:
        if len(self._caller.answers) == self._answered:
            return None
        response = decode_fetch_response(16, self._caller.answers[-1])
        self._id, self._epoch = response.session_id, self._epoch + 1
        return response

    def begin(self) -> None:
        """The first fetch, of all partitions; it waits for news, but its answer names every partition."""
        count = len(self._world.broker.replicas.partitions)
        assert self.fetch(*(entry(number) for number in range(count))) is None
        self._world.run(500)
        assert sum(len(parts) for _, parts in self.answer().topics) == count

    def idle(self) -> list[FollowerFetched]:
        """A fetch with an empty answer when its time is over; returns its trace events."""
        before = len(self._world.events(FollowerFetched))
        assert self.fetch() is None
        self._world.run(500)
        answer = self.answer()
        assert answer.error is ErrorCode.NONE and answer.topics == []
        return self._world.events(FollowerFetched)[before:]


def entry(number: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(number, 0, offset, -1 if offset == 0 else 0, 0, 1 << 20)


@pytest.fixture
def world(tmp_path: Any) -> BrokerWorld:
    return world_of(tmp_path, (B1, B2), COUNT)


def world_of(root: Path, replicas: tuple[int, ...], count: int) -> BrokerWorld:
    """b1 and b2 with a topic of so many partitions."""
    world = BrokerWorld(root).start()
    world.run(100)
    world.join(B2)
    world.decide(CreateTopic(now_us=world.now_us, name="t", assignment=(replicas,) * count))
    world.run(1000)
    assert len(world.broker.replicas.partitions) == count
    return world


@pytest.fixture
def session(world: BrokerWorld) -> Session:
    """All but a few of its partitions rest."""
    session = Session(world)
    session.begin()
    assert len(session.idle()) == COUNT, "each is looked at once more"
    return session


def produce(world: BrokerWorld, number: int, acks: int = 1) -> Any:
    client = world.call("p1")
    client.produce(batch("r"), acks=acks, partition=number)
    return client


def test_an_idle_fetch_looks_at_none_of_them(session: Session) -> None:
    assert session.idle() == session.idle() == []


def test_a_record_wakes_the_fetch_that_waits_and_is_acknowledged_by_the_next(
    world: BrokerWorld, session: Session
) -> None:
    assert session.fetch() is None
    client = produce(world, SEVENTH.partition, acks=-1)
    answer = session.answer()
    ((_, (told,)),) = answer.topics
    assert told.partition == SEVENTH.partition and len(told.records) > 0
    assert client.answers == []
    assert session.fetch(entry(SEVENTH.partition, 1)) is None
    assert client.produced().error is ErrorCode.NONE
    fetched = world.events(FollowerFetched)[-1]
    assert (fetched.partition, fetched.fetch_offset, fetched.log_end_offset) == (SEVENTH.partition, 1, 1)
    world.run(500)
    ((_, (told,)),) = session.answer().topics
    assert told.high_watermark == 1
    assert len(session.idle()) == 1
    assert session.idle() == []


def test_a_fetch_that_moves_the_high_watermark_and_is_answered_at_once_is_not_the_last_word(
    world: BrokerWorld, session: Session
) -> None:
    """Its answer has the high watermark of before, as in Kafka (Partition.fetchRecords); the next one has the new."""
    assert session.fetch() is None
    produce(world, SEVENTH.partition)
    session.answer()
    produce(world, SEVENTH.partition + 1)
    ((_, (told,)),) = session.fetch(entry(SEVENTH.partition, 1)).topics
    assert told.partition == SEVENTH.partition + 1, "the seventh has no records, and its high watermark was 0"
    assert session.fetch(entry(SEVENTH.partition + 1, 1)) is None
    world.run(500)
    ((_, answered),) = session.answer().topics
    assert {told.partition: told.high_watermark for told in answered} == {7: 1, 8: 1}
    session.idle()
    assert session.idle() == []


def test_a_record_that_comes_between_two_fetches_is_read_by_the_second(world: BrokerWorld, session: Session) -> None:
    produce(world, SEVENTH.partition)
    ((_, (told,)),) = session.fetch().topics
    assert told.partition == SEVENTH.partition and len(told.records) > 0


def test_the_follower_was_caught_up_at_its_latest_fetch(world: BrokerWorld, session: Session) -> None:
    """And not when the partition began to rest, 40 s earlier, which is longer than replica.lag.time.max.ms."""
    for _ in range(80):
        session.idle()
    at_us = world.now_us
    assert session.fetch() is None
    world.run(200)
    produce(world, SEVENTH.partition)
    leader = world.broker.replicas.partitions[SEVENTH].leader
    assert leader is not None
    assert leader.replicas[B2].last_caught_up_us == world.broker.base.clock.at(at_us)
    world.run(29_000)
    assert leader.in_sync_replicas == (B1, B2) and world.events(IsrProposed) == []
    world.run(20_000)
    assert {event.partition for event in world.events(IsrProposed)} == {SEVENTH.partition}, (
        "it lacks a record for too long"
    )


def test_a_follower_outside_the_isr_rests_until_it_may_join(world: BrokerWorld) -> None:
    world.fall_silent(B2)
    world.run(1000)
    assert world.broker.replicas.partitions[SEVENTH].leader.in_sync_replicas == (B1,)
    beats, world.heartbeat = world.heartbeat, lambda *args, **options: None  # type: ignore[method-assign]
    world.join(B2, life=1)  # and stays fenced: it has not caught up with the metadata yet
    world.run(100)
    session = Session(world)
    session.begin()
    session.idle()
    assert session.idle() == [] and world.events(IsrProposed) == []
    world.heartbeat = beats  # type: ignore[method-assign]
    world.heartbeat(B2)
    world.run(100)
    session.fetch()
    assert len(world.events(IsrProposed)) == COUNT


def test_of_a_topic_that_is_deleted_it_hears_at_once(world: BrokerWorld, session: Session) -> None:
    assert session.fetch() is None
    world.decide(DeleteTopic(now_us=world.now_us, name="t"))
    world.run(1000)
    told = [part for answer in (session.answer(), session.fetch()) for _, parts in answer.topics for part in parts]
    assert {one.partition for one in told} == set(range(COUNT))
    assert {one.error for one in told} <= {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_what_the_follower_asks_anew_is_looked_at(world: BrokerWorld, session: Session) -> None:
    """It was cut back, or has another start of its log."""
    before = len(world.events(FollowerFetched))
    assert session.fetch(replace(entry(SEVENTH.partition), log_start_offset=0)) is None
    assert [event.partition for event in world.events(FollowerFetched)[before:]] == [SEVENTH.partition]


# ----------------------------------------------------------------------------------------------------------- consumers


@pytest.fixture
def lone(tmp_path: Path) -> BrokerWorld:
    """b1 has the only replicas."""
    return world_of(tmp_path, (B1,), COUNT)


@pytest.fixture
def reading(lone: BrokerWorld) -> Session:
    """Of a consumer that has read everything: all of its partitions rest."""
    session = Session(lone, -1)
    session.begin()
    session.idle()
    return session


def test_a_consumer_that_waits_gets_a_record_of_a_partition_that_rested(lone: BrokerWorld, reading: Session) -> None:
    assert reading.fetch() is None
    produce(lone, SEVENTH.partition)
    ((_, (told,)),) = reading.answer().topics
    assert (told.partition, told.high_watermark) == (SEVENTH.partition, 1) and len(told.records) > 0
    assert reading.fetch(consumers_entry(SEVENTH.partition, 1)) is None
    produce(lone, SEVENTH.partition)
    ((_, (told,)),) = reading.answer().topics
    assert told.high_watermark == 2


def test_a_consumer_gets_what_came_between_two_fetches(lone: BrokerWorld, reading: Session) -> None:
    for number in (8, 7):
        produce(lone, number)
    ((_, told),) = reading.fetch().topics
    assert sorted(one.partition for one in told) == [7, 8]


def test_a_consumer_of_a_topic_that_is_deleted_hears_of_it(lone: BrokerWorld, reading: Session) -> None:
    assert reading.fetch() is None
    lone.decide(DeleteTopic(now_us=lone.now_us, name="t"))
    lone.run(1000)
    told = [part for answer in (reading.answer(), reading.fetch()) for _, parts in answer.topics for part in parts]
    assert {one.partition for one in told} == set(range(COUNT))
    assert ErrorCode.NONE not in {one.error for one in told}


def test_a_consumer_hears_where_the_log_begins_now(lone: BrokerWorld, reading: Session) -> None:
    produce(lone, SEVENTH.partition)
    reading.fetch()
    assert reading.fetch(consumers_entry(SEVENTH.partition, 1)) is None
    lone.run(500)
    reading.answer()
    reading.idle()
    lone.call("admin").ask(
        21,
        2,
        topics=[{"name": "t", "partitions": [{"partition_index": SEVENTH.partition, "offset": 1}]}],
        timeout=1000,
    )
    assert reading.fetch() is None
    lone.run(500)
    ((_, (told,)),) = reading.answer().topics
    assert (told.partition, told.log_start_offset) == (SEVENTH.partition, 1)


def test_two_consumers_rest_each_for_itself(lone: BrokerWorld, reading: Session) -> None:
    other = Session(lone, -1)
    other.begin()
    other.idle()
    produce(lone, SEVENTH.partition)
    for session in (reading, other):
        ((_, (told,)),) = session.fetch().topics
        assert told.partition == SEVENTH.partition and len(told.records) > 0


def consumers_entry(number: int, offset: int) -> FetchPartition:
    return FetchPartition(number, 0, offset, -1, -1, 1 << 20)


# ------------------------------------------------------------------------------------------------------------- counted


def calls_of(work: Callable[[], object]) -> int:
    """How many functions of Python it calls."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def calls_of_a_leader(root: Path, count: int) -> tuple[int, int]:
    """For a fetch with a record of one partition, and for an idle second."""
    world = world_of(root, (B1, B2), count)
    session = Session(world)
    session.begin()
    session.idle()
    assert session.fetch() is None
    produced = calls_of(lambda: (produce(world, SEVENTH.partition), session.answer()))
    assert session.fetch(entry(SEVENTH.partition, 1)) is None
    return produced, calls_of(lambda: world.run(1000))


def calls_of_a_consumer(root: Path, count: int) -> int:
    """For a fetch that gets a record after it has waited."""
    world = world_of(root, (B1,), count)
    session = Session(world, -1)
    session.begin()
    session.idle()
    return calls_of(lambda: (session.fetch(), produce(world, SEVENTH.partition), session.answer()))


def calls_of_a_follower(root: Path, count: int) -> int:
    """For a fetch and its empty answer."""
    world = world_of(root, (B2, B1), count)
    everything = [FetchPartitionResponse(number, ErrorCode.NONE, 0, 0, 0) for number in range(count)]

    def answer(parts: list[FetchPartitionResponse]) -> None:
        topics = [(world.topic_id("t"), parts)] if parts else []
        world.answer(
            "b2",
            lambda correlation_id: joined(
                fetch_response_segments(16, correlation_id, topics, ErrorCode.NONE, session_id=1)
            ),
        )

    answer(everything[:8])  # What it had asked for before it knew of them all.
    answer(everything)
    answer([])
    return calls_of(lambda: answer([]))


def test_a_fetch_costs_what_has_news(tmp_path: Path) -> None:
    """Of twice as many partitions it costs the same, where it would cost twice as much if each were looked at."""
    (few, few_idle), (many, many_idle) = (calls_of_a_leader(tmp_path / str(n), n) for n in (2 * MANY, 4 * MANY))
    assert many < 1.2 * few
    assert many_idle < 2.2 * few_idle
    assert calls_of_a_consumer(tmp_path / "a", 4 * MANY) < 1.2 * calls_of_a_consumer(tmp_path / "b", 2 * MANY)
    assert calls_of_a_follower(tmp_path / "c", 4 * MANY) < 1.2 * calls_of_a_follower(tmp_path / "d", 2 * MANY)
