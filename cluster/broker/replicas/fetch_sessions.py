"""Fetch sessions: a client names its partitions once; later requests and responses have only changes (KIP-227).

The pair (session_id, session_epoch) states the kind of a request: (any, 0) is full and asks for a new session; (any,
-1) is full and asks for no session; (x, n) is incremental, the nth request of session x. A full fetch closes the
session that it names.

Source: FetchSession.scala (FetchManager, FetchSessionCacheShard, CachedPartition), FetchMetadata.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from operator import attrgetter
from typing import Final, Protocol

from cluster.broker.replicas.resting import MANY, RestingPartitions
from cluster.protocol.api_01_fetch import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    next_epoch,
    size_of,
)
from cluster.protocol.primitives import Topic
from cluster.slices import paced
from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import NO_BROKER, UNKNOWN_OFFSET, Offset, TopicPartition

MIN_EVICTION_US: Final = 120_000_000
"""Time since its creation or last use after which a session may be evicted.

Source: MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS
"""
IN_SESSIONS_MAX: Final = 100_000
"""Maximum number of partitions in all sessions together, which take some 60 MB.

A client for which there is no room names all its partitions in each request. Differs from Kafka, which limits only the
number of sessions.
"""

Key = tuple[Topic, int]
"""(topic, partition number), with the topic's name or, from version 13 on, its id, as in the request."""

Names = Callable[[Topic], str | None]
"""Returns the name of a topic, given its name or id; None while the id is unknown."""

_TURN = attrgetter("turn")


@dataclass(frozen=True, slots=True)
class RequestedPartition:
    """One partition of a fetch, named by this request or by an earlier request of its session.

    Attributes:
        topic: name or id of the topic, as in the request.
        name: None while the topic id is unknown.
    """

    topic: Topic
    name: TopicPartition | None
    entry: FetchPartition


def _asked(topic: Topic, topic_name: str | None, entry: FetchPartition) -> RequestedPartition:
    return RequestedPartition(topic, None if topic_name is None else TopicPartition(topic_name, entry.partition), entry)


@dataclass(frozen=True, slots=True)
class Answered:
    """The contents of a response. `partitions` has the results to send; in a session, only changed ones."""

    error: ErrorCode
    session_id: int
    partitions: Mapping[Key, FetchPartitionResponse]


class FetchContext(Protocol):
    """A fetch request in the context of its session, if any: the partitions that it requests, and its response.

    It skips resting partitions: those of the session that are unchanged (resting.py).
    """

    @property
    def resting(self) -> RestingPartitions | None:
        """The resting partitions of the session, which `asked` omits; None if partitions cannot rest."""

    @property
    def may_rest(self) -> bool:
        """True if unchanged partitions may begin to rest."""

    def asked(self) -> list[RequestedPartition]: ...

    def answer(self, results: dict[Key, FetchPartitionResponse], now_us: int) -> Answered:
        """Return the contents of the response. `results` has every partition of `asked`."""

    def throttled(self) -> Answered:
        """Return the empty response to a throttled client. Source: FetchContext.getThrottledResponse"""


# ------------------------------------------------------------------------------------------------------------ sessions


class CachedPartition:
    """A partition of a session: the request for it, the values last sent, and its `turn` in the session's order."""

    __slots__ = ("asked", "high_watermark", "log_start_offset", "turn")

    def __init__(self, asked: RequestedPartition) -> None:
        self.asked = asked
        self.turn = 0
        self.high_watermark: Offset = UNKNOWN_OFFSET
        self.log_start_offset: Offset = UNKNOWN_OFFSET

    def is_news(self, result: FetchPartitionResponse, found_bytes: int) -> bool:
        """Remember the values of a result, and return True if the response must have it.

        Args:
            found_bytes: size of the records in the result.

        Source: CachedPartition.maybeUpdateResponseData
        """
        failed = result.error is not ErrorCode.NONE
        news = (
            found_bytes > 0
            or self.high_watermark != result.high_watermark
            or self.log_start_offset != result.log_start_offset
            or result.preferred_read_replica != NO_BROKER
            or failed
            or result.diverging_epoch is not None
        )
        # UNKNOWN_OFFSET equals no high watermark; so the partition is sent again after its error.
        self.high_watermark = UNKNOWN_OFFSET if failed else result.high_watermark
        self.log_start_offset = result.log_start_offset
        return news


class FetchSession:
    """A session: the partitions that one client fetches. The longer a partition had no records, the lower its turn.

    Attributes:
        awake: partitions that are not resting (resting.py).
    """

    __slots__ = (
        "_turns",
        "awake",
        "created_us",
        "epoch",
        "evictable_by_all",
        "evictable_by_privileged",
        "last_used_us",
        "partitions",
        "privileged",
        "resting",
        "session_id",
        "size",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        *,
        privileged: bool,
        uses_topic_ids: bool,
        partitions: dict[Key, CachedPartition],
        now_us: int,
    ) -> None:
        self.session_id = session_id
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self._turns = count()
        for cached in partitions.values():
            cached.turn = next(self._turns)
        self.awake = dict(partitions)
        self.resting = RestingPartitions(self.awake)
        self.created_us = self.last_used_us = now_us
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.size = 0
        self.evictable_by_all = self.evictable_by_privileged = False

    def update(self, request: FetchRequest, names: Names) -> None:
        """Add or change the partitions that an incremental request names, then remove those that it forgets."""
        for topic, entries in request.topics:
            for entry in paced(entries):
                key = topic, entry.partition
                known = self.partitions.get(key)
                self.resting.end(key)
                if known is None:
                    known = self.partitions[key] = self.awake[key] = CachedPartition(_asked(topic, names(topic), entry))
                    known.turn = next(self._turns)
                else:  # If a request names a partition twice, its last entry counts.
                    known.asked = RequestedPartition(topic, known.asked.name, entry)
        for topic, numbers in paced(request.forgotten) if request.forgotten else ():
            for number in paced(numbers):
                self.resting.end((topic, number))
                self.partitions.pop((topic, number), None)
                self.awake.pop((topic, number), None)

    def in_turn(self) -> list[CachedPartition]:
        """Return the partitions that are not resting, by increasing turn."""
        return sorted(self.awake.values(), key=_TURN)

    def had_records(self, cached: CachedPartition) -> None:
        """Move a partition to the end of the order, because max.bytes should serve the others first next time."""
        cached.turn = next(self._turns)

    def used(self, now_us: int) -> None:
        """Record the use of the session. Source: FetchSessionCacheShard.touch"""
        self.last_used_us = now_us
        self.size = len(self.partitions)
        is_old = now_us - self.created_us > MIN_EVICTION_US
        self.evictable_by_privileged = is_old or not self.privileged
        self.evictable_by_all = is_old

    @property
    def worth(self) -> tuple[bool, int, int]:
        """Sort key for eviction; the session with the lowest key is evicted first. Source: EvictableKey"""
        return (self.privileged, self.size, self.session_id)


class FetchSessionCache:
    """A cache of at most `slots` sessions.

    Simplified: there is one shard; Kafka divides the slots among eight (KAFKA-9401).

    Args:
        draw: returns a random number from 1 to 2**31 - 1; session ids must not be guessable.
        rests_above: number of partitions in a session above which unchanged ones rest (resting.py).
    """

    def __init__(self, slots: int, draw: Callable[[], int], rests_above: int = MANY) -> None:
        self.rests_above = rests_above
        self._slots = slots
        self._draw = draw
        self._sessions: dict[int, FetchSession] = {}
        """Sessions by id, in order of last use."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.resting.end_all()

    def touch(self, session: FetchSession, now_us: int) -> None:
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session
        session.used(now_us)

    def create(
        self, *, privileged: bool, uses_topic_ids: bool, partitions: dict[Key, CachedPartition], now_us: int
    ) -> int:
        """Create a session and return its id, or NO_SESSION if there is no room. Source: maybeCreateSession"""
        if self.partitions + len(partitions) > IN_SESSIONS_MAX:
            return NO_SESSION
        if len(self._sessions) >= self._slots and not self._evict((privileged, len(partitions), 0), now_us):
            return NO_SESSION
        session_id = self._draw()
        while session_id in self._sessions:
            session_id = self._draw()
        session = FetchSession(
            session_id, privileged=privileged, uses_topic_ids=uses_topic_ids, partitions=partitions, now_us=now_us
        )
        session.used(now_us)
        self._sessions[session_id] = session
        return session_id

    def _evict(self, worth: tuple[bool, int, int], now_us: int) -> bool:
        """Make room for a session of this `worth`: evict a stale session, or else the one that is worth least.

        Return False if no session may be evicted. A follower's session is privileged: it may evict a consumer's session
        of any age. Source: tryEvict
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_us - oldest.last_used_us > MIN_EVICTION_US:
            self.remove(oldest.session_id)
            return True
        privileged = worth[0]
        evictable = [
            session.worth
            for session in self._sessions.values()
            if (session.evictable_by_privileged if privileged else session.evictable_by_all)
        ]
        if not evictable or worth < min(evictable):
            return False
        self.remove(min(evictable)[2])
        return True


# ------------------------------------------------------------------------------------------------------------ contexts


def _entries(request: FetchRequest) -> dict[Key, FetchPartition]:
    """Return the request's entries by partition, the last one of a repeated partition (FetchRequest.fetchData)."""
    return {(topic, entry.partition): entry for topic, partitions in paced(request.topics) for entry in partitions}


class SessionlessFetch:
    """A fetch without a session. It names all partitions, and the response has all of them."""

    __slots__ = ("_entries", "_names")
    resting = None
    may_rest = False

    def __init__(self, entries: dict[Key, FetchPartition], names: Names) -> None:
        self._entries = entries
        self._names = names

    def asked(self) -> list[RequestedPartition]:
        return [_asked(topic, self._names(topic), entry) for (topic, _), entry in paced(self._entries.items())]

    def answer(self, results: dict[Key, FetchPartitionResponse], now_us: int) -> Answered:
        return Answered(ErrorCode.NONE, NO_SESSION, results)

    def throttled(self) -> Answered:
        """Return an empty response without a session."""
        return Answered(ErrorCode.NONE, NO_SESSION, {})


class FullFetch(SessionlessFetch):
    """A full fetch that asks for a session. The session is created with the response, if the cache has room."""

    __slots__ = ("_cache", "_privileged", "_uses_topic_ids")

    def __init__(
        self,
        entries: dict[Key, FetchPartition],
        names: Names,
        cache: FetchSessionCache,
        *,
        privileged: bool,
        uses_topic_ids: bool,
    ) -> None:
        super().__init__(entries, names)
        self._cache = cache
        self._privileged = privileged
        self._uses_topic_ids = uses_topic_ids

    def answer(self, results: dict[Key, FetchPartitionResponse], now_us: int) -> Answered:
        partitions: dict[Key, CachedPartition] = {}
        for key, result in paced(results.items()):
            cached = partitions[key] = CachedPartition(_asked(key[0], self._names(key[0]), self._entries[key]))
            cached.high_watermark, cached.log_start_offset = result.high_watermark, result.log_start_offset
        session_id = self._cache.create(
            privileged=self._privileged, uses_topic_ids=self._uses_topic_ids, partitions=partitions, now_us=now_us
        )
        return Answered(ErrorCode.NONE, session_id, results)


class IncrementalFetch:
    """A fetch in a session: of all its partitions, although the request and the response have only changed ones."""

    __slots__ = ("_epoch", "_names", "_session", "may_rest", "resting")

    def __init__(self, session: FetchSession, epoch: int, names: Names, rests_above: int) -> None:
        self._session = session
        self.may_rest = len(session.partitions) > rests_above
        self.resting = session.resting if self.may_rest or session.resting else None
        self._names = names
        self._epoch = epoch

    def asked(self) -> list[RequestedPartition]:
        due = self._session.in_turn()
        for cached in paced(due):
            if cached.asked.name is None:
                topic = cached.asked.topic
                cached.asked = _asked(topic, self._names(topic), cached.asked.entry)
        return [cached.asked for cached in due]

    def answer(self, results: dict[Key, FetchPartitionResponse], now_us: int) -> Answered:
        session = self._session
        # While this fetch waited, another fetch of the session may have arrived over another connection: a duplicate,
        # or one that removed the last partition.
        if session.epoch != self._epoch or not session.partitions:
            return Answered(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id, {})
        news = {}
        for key, result in paced(results.items()):
            cached = session.partitions.get(key)
            found_bytes = size_of(result.slice)
            if cached is None or not cached.is_news(result, found_bytes):
                continue
            news[key] = result
            if found_bytes:
                session.had_records(cached)
        return Answered(ErrorCode.NONE, session.session_id, news)

    def throttled(self) -> Answered:
        session = self._session
        error = ErrorCode.INVALID_FETCH_SESSION_EPOCH if session.epoch != self._epoch else ErrorCode.NONE
        return Answered(error, session.session_id, {})


class RefusedFetch:
    """A fetch that gets an error, because its session is unknown or its session epoch is wrong, for example."""

    __slots__ = ("_error",)
    resting = None
    may_rest = False

    def __init__(self, error: ErrorCode) -> None:
        self._error = error

    def asked(self) -> list[RequestedPartition]:
        return []

    def answer(self, results: dict[Key, FetchPartitionResponse], now_us: int) -> Answered:
        return Answered(self._error, NO_SESSION, {})

    def throttled(self) -> Answered:
        return Answered(ErrorCode.NONE, NO_SESSION, {})


class FetchSessions:
    """The fetch sessions of one broker. `context` finds the context of a request. Source: FetchManager.newContext"""

    def __init__(self, cache: FetchSessionCache, names: Names) -> None:
        self.cache = cache
        self._names = names

    def context(self, request: FetchRequest, version: int, now_us: int) -> FetchContext:
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._full(request, version)
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        session = self.cache.get(request.session_id)
        if session is None:
            return RefusedFetch(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return RefusedFetch(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return RefusedFetch(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        # Set first, because another request of the session may arrive while this one, with many partitions, pauses.
        session.epoch = epoch = next_epoch(session.epoch)
        before = len(session.partitions)
        session.update(request, self._names)
        if not session.partitions:
            self.cache.remove(session.session_id)
            return SessionlessFetch(_entries(request), self._names)
        if len(session.partitions) > before and self.cache.partitions > IN_SESSIONS_MAX:
            self.cache.remove(session.session_id)
        if self.cache.get(session.session_id) is not session:
            return RefusedFetch(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self.cache.touch(session, now_us)
        return IncrementalFetch(session, epoch, self._names, self.cache.rests_above)

    def _full(self, request: FetchRequest, version: int) -> FetchContext:
        if request.session_id != NO_SESSION:
            self.cache.remove(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            return SessionlessFetch(_entries(request), self._names)
        return FullFetch(
            _entries(request),
            self._names,
            self.cache,
            privileged=request.replica_id >= 0,
            uses_topic_ids=version >= FIRST_VERSION_WITH_TOPIC_IDS,
        )
