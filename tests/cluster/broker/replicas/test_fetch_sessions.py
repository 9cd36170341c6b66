"""Fetch sessions against their transcript (FetchSessionTest), as a property, and through a whole broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from broker_world import B1, BrokerWorld, batch
from hypothesis import given
from hypothesis import strategies as st

from cluster.broker.replicas import fetch_sessions
from cluster.broker.replicas.fetch_sessions import FetchContext, FetchSessionCache, FetchSessions, Key
from cluster.broker.replicas.resting import FEW
from cluster.protocol.api_01_fetch import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    size_of,
)
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from replica.errors import ErrorCode

SECOND = 1_000_000
GOLDEN = Path(__file__).parents[3] / "golden" / "fetch_sessions.txt"


class SessionWorld:
    """Verbs of the transcript. Partitions are t-0, t-1, ...; each has a high watermark, records or an error."""

    def __init__(self) -> None:
        self.now_us = 0
        self.state: dict[int, FetchPartitionResponse] = {}
        self.waiting: dict[str, FetchContext] = {}
        self.sessions: FetchSessions
        self.cache(slots=2)

    def cache(self, slots: int) -> None:
        ids = count(101)
        self.sessions = FetchSessions(FetchSessionCache(slots, lambda: next(ids)), str)

    def at(self, now_us: int) -> None:
        self.now_us = now_us

    def partition(self, name: str, *, hw: int = 0, records: int = 0, start: int = 0, error: str = "NONE") -> None:
        number = int(name.removeprefix("t-"))
        self.state[number] = FetchPartitionResponse(
            number, ErrorCode[error], hw, hw, start, slice=memoryview(b"x" * records)
        )

    def fetch(self, **request: Any) -> Iterator[str]:
        """id, epoch, ask=(t-0,t-1), forget=(t-0), version, by"""
        context = self._context(**request)
        yield from self._answer(context)

    def park(self, name: str, **request: Any) -> None:
        self.waiting[name] = self._context(**request)

    def complete(self, name: str) -> Iterator[str]:
        yield from self._answer(self.waiting.pop(name))

    def _context(
        self, *, id: int, epoch: int, ask=(), forget=(), version: int = 12, by: str = "client"
    ) -> FetchContext:
        numbers = [int(name.removeprefix("t-")) for name in ask]
        forgotten = [int(name.removeprefix("t-")) for name in forget]
        request = FetchRequest(
            replica_id=2 if by == "follower" else -1,
            session_id=id,
            session_epoch=epoch,
            topics=[("t", [FetchPartition(number) for number in numbers])],
            forgotten=[("t", forgotten)],
        )
        return self.sessions.context(request, version, self.now_us)

    def _answer(self, context: FetchContext) -> Iterator[str]:
        asked = [item.entry.partition for item in context.asked()]
        answered = context.answer({("t", number): self.state[number] for number in asked}, self.now_us)
        outcome = "" if answered.error is ErrorCode.NONE else f", {answered.error.name}"
        yield f"session {answered.session_id}{outcome}; read {self._list(asked)}"
        for (_, number), result in answered.partitions.items():
            error = "" if result.error is ErrorCode.NONE else f" {result.error.name}"
            size = size_of(result.slice)
            records = f" {size} bytes" if size else ""
            yield f"  t-{number} HW {result.high_watermark}{records}{error}"

    def show(self) -> Iterator[str]:
        yield f"sessions: {', '.join(map(str, self.sessions.cache._sessions)) or 'none'}"

    @staticmethod
    def _list(numbers: list[int]) -> str:
        return ", ".join(f"t-{number}" for number in numbers) or "nothing"


def test_transcript(transcript: Callable[[Path, object], None]) -> None:
    transcript(GOLDEN, SessionWorld())


# ------------------------------------------------------------------------------------------------------------ property

PARTITIONS = st.integers(0, 4)
ERRORS = st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
RESULT = st.builds(
    lambda error, hw, start, size: (error, hw, start, size) if error is ErrorCode.NONE else (error, -1, -1, 0),
    ERRORS,
    st.integers(0, 3),
    st.integers(0, 1),
    st.sampled_from([0, 0, 7]),
)
STEP = st.tuples(
    st.dictionaries(PARTITIONS, RESULT),
    st.sets(PARTITIONS),
    st.sets(PARTITIONS),
    st.sampled_from(["next"] * 8 + ["full", "wrong epoch"]),
)


@pytest.mark.parametrize(
    ("replica_id", "partitions", "may_rest"), [(2, 1, False), (2, 2, True), (-1, 1, False), (-1, 2, True)]
)
def test_by_the_wall_clock_partitions_rest_in_each_session_with_more_than_one(
    replica_id: int, partitions: int, may_rest: bool
):
    sessions = FetchSessions(FetchSessionCache(10, lambda: 7, rests_above=FEW), str)
    asked = [FetchPartition(number) for number in range(partitions)]
    first = sessions.context(FetchRequest(replica_id=replica_id, session_epoch=0, topics=[("t", asked)]), 12, 0)
    results: dict[Key, FetchPartitionResponse] = {
        ("t", one.partition): FetchPartitionResponse(one.partition, ErrorCode.NONE, 0, 0, 0) for one in asked
    }
    assert first.answer(results, 0).session_id == 7
    request = FetchRequest(replica_id=replica_id, session_id=7, session_epoch=1, topics=[])
    assert sessions.context(request, 12, 0).may_rest is may_rest


def test_sessions_hold_so_many_partitions_and_a_fetcher_that_gets_none_goes_on_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_sessions, "IN_SESSIONS_MAX", 5)
    world = SessionWorld()
    for number in range(6):
        world.partition(f"t-{number}")
    for session, epoch, ask, came in (
        (0, 0, ("t-0", "t-1", "t-2"), "session 101; read t-0, t-1, t-2"),
        (0, 0, ("t-3", "t-4", "t-5"), "session 0; read t-3, t-4, t-5"),
        (101, 1, ("t-3", "t-4"), "session 101; read t-0, t-1, t-2, t-3, t-4"),
        (101, 2, ("t-5",), "session 0, FETCH_SESSION_ID_NOT_FOUND; read nothing"),
        (0, 0, ("t-5",), "session 102; read t-5"),
    ):
        assert next(world.fetch(id=session, epoch=epoch, ask=ask)) == came


@given(st.lists(STEP, max_size=30))
def test_the_incremental_answers_add_up_to_what_full_answers_would_say(steps) -> None:
    """Records aside (they come whenever there are some), a client that keeps every answer knows the true state."""
    ids = count(1)
    sessions = FetchSessions(FetchSessionCache(10, lambda: next(ids)), str)
    truth = {number: FetchPartitionResponse(number, ErrorCode.NONE, 0, 0, 0) for number in range(5)}
    session_id, epoch = NO_SESSION, 0
    asked: set[int] = {0}
    known: dict[int, tuple[ErrorCode, int, int]] = {}
    for changes, ask, forget, kind in steps:
        for number, (error, hw, start, size) in changes.items():
            truth[number] = FetchPartitionResponse(number, error, hw, hw, start, slice=memoryview(bytes(size)))
        if kind == "full":
            epoch, asked = 0, ask or {0}
        named = asked if epoch == 0 else ask
        forgotten = [] if epoch == 0 else sorted(forget)
        request = FetchRequest(
            session_id=session_id,
            session_epoch=epoch + 5 if kind == "wrong epoch" and epoch else epoch,
            topics=[("t", [FetchPartition(number) for number in sorted(named)])],
            forgotten=[("t", forgotten)],
        )
        context = sessions.context(request, 12, 0)
        read = [item.entry.partition for item in context.asked()]
        answered = context.answer({("t", number): truth[number] for number in read}, 0)
        if request.session_epoch != epoch:
            assert (answered.error, read) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
            continue
        asked = (asked | set(named)) - set(forgotten)
        assert set(read) == asked or not asked
        for (_, number), result in answered.partitions.items():
            known[number] = (result.error, result.high_watermark, result.log_start_offset)
        for number in asked:
            result = truth[number]
            assert known[number] == (result.error, result.high_watermark, result.log_start_offset)
            if result.error is not ErrorCode.NONE or size_of(result.slice):
                assert ("t", number) in answered.partitions
        session_id, epoch = answered.session_id, epoch + 1
        if not asked:
            assert session_id == NO_SESSION
            epoch, asked, known = 0, {0}, {}


# --------------------------------------------------------------------------------------------------------- at a broker


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.create(B1)
    return world


def fetch(world, client, session_id, epoch, topics=(), version=12, max_wait_ms=0):
    request = FetchRequest(max_wait_ms=max_wait_ms, session_id=session_id, session_epoch=epoch, topics=topics)
    answers = len(client.answers)
    client.send(encode_fetch_request(version, 1, "c", request))
    return decode_fetch_response(version, client.answers[-1]) if len(client.answers) > answers else None


@pytest.mark.parametrize("version", [12, 13])
def test_a_consumer_names_its_partition_once_and_then_hears_news_only(world, version):
    topic = "t" if version < 13 else world.topic_id("t")
    consumer, producer = world.call("c"), world.call("p")
    first = fetch(world, consumer, 0, 0, [(topic, [FetchPartition(0)])], version)
    assert first.session_id != NO_SESSION
    assert [part.partition for _, parts in first.topics for part in parts] == [0]
    nothing = fetch(world, consumer, first.session_id, 1, version=version)
    assert (nothing.session_id, list(nothing.topics)) == (first.session_id, [])
    assert fetch(world, consumer, first.session_id, 2, version=version, max_wait_ms=500) is None
    producer.produce(batch("r0"), acks=1)
    news = decode_fetch_response(version, consumer.answers[-1])
    assert [(asked, len(parts[0].records) > 0) for asked, parts in news.topics] == [(topic, True)]


def test_a_session_is_asked_for_with_topic_ids_or_names_but_not_both(world):
    consumer = world.call("c")
    session_id = fetch(world, consumer, 0, 0, [("t", [FetchPartition(0)])]).session_id
    answer = fetch(world, consumer, session_id, 1, version=13)
    assert (answer.error, answer.session_id) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, NO_SESSION)


def test_a_restarted_broker_knows_no_sessions(world):
    session_id = fetch(world, world.call("c"), 0, 0, [("t", [FetchPartition(0)])]).session_id
    world.kill()
    world.run(20_000)
    world.start().run(1_000)
    answer = fetch(world, world.call("c"), session_id, 1)
    assert answer.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_without_slots_a_request_for_a_session_is_answered_in_full_without_one(tmp_path):
    world = BrokerWorld(tmp_path, max_incremental_fetch_session_cache_slots="0").start()
    world.run(100)
    world.create(B1)
    consumer = world.call("c")
    for epoch in (0, FINAL_EPOCH):
        answer = fetch(world, consumer, 0, epoch, [("t", [FetchPartition(0)])])
        assert (answer.session_id, len(answer.topics)) == (NO_SESSION, 1)
