"""The fetcher's side of a fetch session: each request names only what the leader does not know yet (KIP-227).

The broker's side is cluster/broker/replicas/fetch_sessions.py. Pure: no connection, no time.
source: FetchSessionHandler.java, FetchMetadata.java
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count

from cluster.protocol.api_01_fetch import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    FetchPartition,
    FetchResponse,
    next_epoch,
)
from cluster.protocol.by_topic import Topic
from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import TopicPartition

Entries = dict[TopicPartition, FetchedPartition]
Forgotten = list[tuple[Topic, TopicPartition]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The request for one partition. topic: as requests name it, by its id from version 13 on"""

    topic: Topic
    entry: FetchPartition


@dataclass(frozen=True, slots=True)
class SessionFetch:
    """The content of the next request, as fields of `FetchRequest`."""

    session_id: int
    session_epoch: int
    topics: Sequence[tuple[Topic, Sequence[FetchPartition]]]
    forgotten: Sequence[tuple[Topic, Sequence[int]]]


class FetchSessionHandler:
    """One fetcher's session with one broker, of requests that all name topics by id, or all by name.

    A request is built, sent and answered (`answered`, or `failed` when no answer came) before the next one is built.
    """

    def __init__(self) -> None:
        self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        self.is_full = True
        """Whether the next request begins a session."""
        self._partitions: dict[TopicPartition, Wanted] = {}
        self._names: dict[Topic, str] = {}
        self._places: dict[TopicPartition, int] = {}
        self._count = count()

    @property
    def partitions(self) -> Mapping[TopicPartition, Wanted]:
        """What the last request was for."""
        return self._partitions

    def build(
        self, wanted: Mapping[TopicPartition, Wanted], stirred: Collection[TopicPartition]
    ) -> SessionFetch | None:
        """The next request; None: there is nothing to ask for, and nothing to forget.

        wanted: of those that are `stirred` what is to be asked for, not at all what is missing; the others are asked
            for as before. A full request is for what is wanted, and nothing else.
        """
        told: dict[TopicPartition, Wanted] = {}
        forgotten: Forgotten = []
        if self.is_full:
            self._partitions.clear()
            self._names.clear()
            self._add(wanted)
            told |= wanted
        elif wanted or stirred:
            told, forgotten = self._changes(wanted, stirred)
        self._names |= {one.topic: name.topic for name, one in wanted.items()}
        if not self._partitions and not forgotten:
            return None
        return SessionFetch(self._session_id, self._epoch, _by_topic(told), _forgotten(forgotten))

    def _changes(
        self, wanted: Mapping[TopicPartition, Wanted], stirred: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, Wanted], Forgotten]:
        """The partitions that the next request has to name, new ones first, and those that the leader is to forget."""
        known = self._partitions
        added = {name: one for name, one in wanted.items() if name not in known}
        altered: dict[TopicPartition, Wanted] = {}
        removed: Forgotten = []
        replaced: Forgotten = []
        for name in sorted([name for name in stirred if name in known], key=self._places.__getitem__):
            before, now = known[name], wanted.get(name)
            if now is None:
                del known[name]
                removed.append((before.topic, name))
            elif now != before:
                altered[name] = known[name] = now
                if now.topic != before.topic:
                    replaced.append((before.topic, name))
        if added:
            self._add(added)
        return added | altered, removed + replaced

    def _add(self, wanted: Mapping[TopicPartition, Wanted]) -> None:
        """Behind all others."""
        self._partitions.update(wanted)
        self._places.update(zip(wanted, self._count, strict=False))

    def close(self) -> SessionFetch:
        """The last request, for nothing: the leader forgets the session. source: FetchSessionHandler.notifyClose"""
        return SessionFetch(self._session_id, FINAL_EPOCH, (), ())

    def answered(self, response: FetchResponse) -> Entries | None:
        """The partitions in an answer; None: it cannot be used, and the next request begins anew."""
        if response.error is not ErrorCode.NONE:
            if response.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._begin(NO_SESSION)
            else:
                self._begin(self._session_id)
            return None
        entries, was_full = self._named(response), self.is_full
        if was_full:
            if entries is None or len(entries) < len(self._partitions):
                self._begin(NO_SESSION)
                return None
        elif entries is None:
            self._begin(self._session_id)
            return None
        if response.session_id == NO_SESSION:  # There was no room for one, or the leader has closed it.
            self._begin(NO_SESSION)
        else:
            self._session_id, self.is_full = response.session_id, False
            self._epoch = next_epoch(self._epoch)
        return entries

    def failed(self) -> None:
        """No answer came: whether the leader has taken note of the request is not known."""
        self._begin(self._session_id)

    def _begin(self, closing: int) -> None:
        """The next request is a full one: it asks for a new session, and closes the session it names."""
        self._session_id, self._epoch = closing, INITIAL_EPOCH
        self.is_full = True

    def _named(self, response: FetchResponse) -> Entries | None:
        """None: it has partitions that the session does not have."""
        entries: Entries = {}
        for named, parts in response.topics:
            topic = self._names.get(named)
            if topic is None:
                return None
            for part in parts:
                name = TopicPartition(topic, part.partition)
                if name not in self._partitions:
                    return None
                entries[name] = part
        return entries


def _by_topic(told: Mapping[TopicPartition, Wanted]) -> list[tuple[Topic, Sequence[FetchPartition]]]:
    topics: dict[Topic, list[FetchPartition]] = {}
    for one in told.values():
        topics.setdefault(one.topic, []).append(one.entry)
    return list(topics.items())


def _forgotten(forgotten: Forgotten) -> list[tuple[Topic, Sequence[int]]]:
    topics: dict[Topic, list[int]] = {}
    for topic, name in forgotten:
        topics.setdefault(topic, []).append(name.partition)
    return list(topics.items())
