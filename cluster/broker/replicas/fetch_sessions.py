"""Fetch sessions: a fetcher names its partitions once, and afterwards both sides send only changes (KIP-227).

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
"""How long a session is not evicted after its creation or use (MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""
IN_SESSIONS_MAX: Final = 100_000
"""The largest number of partitions in all sessions together, which take some 60 MB.

A fetcher without a session names all its partitions each time. Differs from Kafka, which limits only the number of
sessions.
"""

Key = tuple[Topic, int]
"""A partition as requests name it: by its topic's name, or from version 13 on by its id."""

Names = Callable[[Topic], str | None]
"""Returns a topic's name, None while its id is unknown."""

_TURN = attrgetter("turn")


@dataclass(frozen=True, slots=True)
class RequestedPartition:
    """One partition of a fetch, named by this request or by an earlier request of its session.

    Attributes:
        topic: name or id of the topic, whichever the request has.
        name: None while the topic id is unknown.
    """

    topic: Topic
    name: TopicPartition | None
    entry: FetchPartition


def _asked(topic: Topic, topic_name: str | None, entry: FetchPartition) -> RequestedPartition:
    return RequestedPartition(topic, None if topic_name is None else TopicPartition(topic_name, entry.partition), entry)


@dataclass(frozen=True, slots=True)
class Answered:
    """The contents of a response; `partitions` are in the order of the results, without unchanged ones."""

    error: ErrorCode
    session_id: int
    partitions: Mapping[Key, FetchPartitionResponse]


class FetchContext(Protocol):
    """One fetch request, interpreted by its session.

    Some of its partitions may be resting: unchanged, and therefore skipped (resting.py).
    """

    @property
    def resting(self) -> RestingPartitions | None:
        """The partitions of the session that `asked` omits; None if none can rest."""

    @property
    def may_rest(self) -> bool:
        """True if unchanged partitions may rest from now on."""

    def asked(self) -> list[RequestedPartition]: ...

    def answer(self, results: dict[Key, FetchPartitionResponse], now_us: int) -> Answered:
        """Return the response; `results` has every partition of `asked`."""

    def throttled(self) -> Answered:
        """Return an empty response, because a quota is exceeded. Source: FetchContext.getThrottledResponse"""


# ------------------------------------------------------------------------------------------------------------ sessions


class CachedPartition:
    """The request for a partition of a session, and the values last sent; `turn` gives the order in the session."""

    __slots__ = ("asked", "high_watermark", "log_start_offset", "turn")

    def __init__(self, asked: RequestedPartition) -> None:
        self.asked = asked
        self.turn = 0
        self.high_watermark: Offset = UNKNOWN_OFFSET
        self.log_start_offset: Offset = UNKNOWN_OFFSET

    def is_news(self, result: FetchPartitionResponse, found_bytes: int) -> bool:
        """Remember the values of a result, and return True if they have to be sent to the fetcher.

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
        # An impossible offset has the partition sent again when its error is over.
        self.high_watermark = UNKNOWN_OFFSET if failed else result.high_watermark
        self.log_start_offset = result.log_start_offset
        return news


class FetchSession:
    """The partitions of one fetcher; the one that has been without records for longest has the lowest turn.

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
        """Add, change and remove partitions as an incremental request says, in this order."""
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
        """Return the partitions that are not resting, in order of their turns."""
        return sorted(self.awake.values(), key=_TURN)

    def had_records(self, cached: CachedPartition) -> None:
        """Move a partition behind the others, so that each of them gets records within max.bytes."""
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
        """The key of the order of eviction; sessions with the lowest key are evicted first. Source: EvictableKey"""
        return (self.privileged, self.size, self.session_id)


class FetchSessionCache:
    """A cache of at most `slots` sessions.

    Simplified: there is one shard; Kafka divides the slots among eight (KAFKA-9401).

    Args:
        draw: returns a random number from 1 to 2**31 - 1, so that ids cannot be guessed.
        rests_above: size of a session above which unchanged partitions rest (resting.py).
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
        """Create a session and return its id, NO_SESSION if the cache is full. Source: maybeCreateSession"""
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
        """Evict a stale session, or that with the lowest worth if the new session's `worth` is not lower.

        Return True if a session was evicted. Followers' sessions are privileged: a consumer's session makes room for
        them immediately. Source: tryEvict
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
    """Return the entries by partition; for a repeated partition the last one counts (FetchRequest.fetchData)."""
    return {(topic, entry.partition): entry for topic, partitions in paced(request.topics) for entry in partitions}


class SessionlessFetch:
    """A fetch outside of sessions, which names all its partitions and gets results for all of them."""

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
    """The first fetch of a session, which is created with the response if the cache has room for it."""

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
    """A fetch of all partitions of its session; the response has only those that changed."""

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
    """A fetch whose session is unknown, or whose epoch is not the next one of its session."""

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
    """The sessions of one broker, which give each request its context. Source: FetchManager.newContext"""

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
