"""The fetcher's side of a fetch session, in which a request has only the partitions that changed (KIP-227).

The broker's side is cluster/broker/replicas/fetch_sessions.py. This module uses no connection and no clock.

Source: FetchSessionHandler.java, FetchMetadata.java
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
from cluster.protocol.primitives import Topic
from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import TopicPartition

Entries = dict[TopicPartition, FetchedPartition]
Forgotten = list[tuple[Topic, TopicPartition]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A partition to fetch. `topic` is the topic's id from version 13 on, its name below."""

    topic: Topic
    entry: FetchPartition


@dataclass(frozen=True, slots=True)
class SessionFetch:
    """The fields of a `FetchRequest` that depend on the session."""

    session_id: int
    session_epoch: int
    topics: Sequence[tuple[Topic, Sequence[FetchPartition]]]
    forgotten: Sequence[tuple[Topic, Sequence[int]]]


class FetchSessionHandler:
    """One fetcher's fetch session with one broker.

    Either all requests name topics by id, or all by name. After `build`, the caller sends the request. Before it builds
    another one, it calls `answered`, or `failed` if no response came.
    """

    def __init__(self) -> None:
        self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        self.is_full = True
        """True if the next request begins a session."""
        self._partitions: dict[TopicPartition, Wanted] = {}
        self._names: dict[Topic, str] = {}
        self._places: dict[TopicPartition, int] = {}
        self._count = count()

    @property
    def partitions(self) -> Mapping[TopicPartition, Wanted]:
        """The partitions of the session after the last request."""
        return self._partitions

    def build(
        self, wanted: Mapping[TopicPartition, Wanted], stirred: Collection[TopicPartition]
    ) -> SessionFetch | None:
        """Build the next request and update the session.

        Args:
            wanted: new state of the `stirred` partitions that are still to be fetched; for a full request, all
                partitions.
            stirred: partitions that may have changed since the last request. Without a state in `wanted`, they are
                dropped.

        Returns:
            None if the session has no partitions and none to drop.
        """
        sent: dict[TopicPartition, Wanted] = {}
        forgotten: Forgotten = []
        if self.is_full:
            self._partitions.clear()
            self._names.clear()
            self._add(wanted)
            sent |= wanted
        elif wanted or stirred:
            sent, forgotten = self._changes(wanted, stirred)
        self._names |= {item.topic: name.topic for name, item in wanted.items()}
        if not self._partitions and not forgotten:
            return None
        return SessionFetch(self._session_id, self._epoch, _by_topic(sent), _forgotten(forgotten))

    def _changes(
        self, wanted: Mapping[TopicPartition, Wanted], stirred: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, Wanted], Forgotten]:
        """Update the session's partitions. Return the added and changed partitions, and the partitions to forget."""
        known = self._partitions
        added = {name: item for name, item in wanted.items() if name not in known}
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
        """Add partitions at the end of the session."""
        self._partitions.update(wanted)
        self._places.update(zip(wanted, self._count, strict=False))

    def close(self) -> SessionFetch:
        """Return a last request that closes the session. Source: FetchSessionHandler.notifyClose"""
        return SessionFetch(self._session_id, FINAL_EPOCH, (), ())

    def answered(self, response: FetchResponse) -> Entries | None:
        """Process a response and return its partitions; None if it is unusable, so that a new session must begin."""
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
        if response.session_id == NO_SESSION:  # The leader had no room for a session, or has closed it.
            self._begin(NO_SESSION)
        else:
            self._session_id, self.is_full = response.session_id, False
            self._epoch = next_epoch(self._epoch)
        return entries

    def failed(self) -> None:
        """Begin a new session with the next request, because the leader may or may not have received this one."""
        self._begin(self._session_id)

    def _begin(self, closing: int) -> None:
        """Make the next request a full one. It closes the session with the id `closing` and asks for a new session."""
        self._session_id, self._epoch = closing, INITIAL_EPOCH
        self.is_full = True

    def _named(self, response: FetchResponse) -> Entries | None:
        """Return the partitions of a response by name; None if the session lacks any of them."""
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


def _by_topic(sent: Mapping[TopicPartition, Wanted]) -> list[tuple[Topic, Sequence[FetchPartition]]]:
    topics: dict[Topic, list[FetchPartition]] = {}
    for item in sent.values():
        topics.setdefault(item.topic, []).append(item.entry)
    return list(topics.items())


def _forgotten(forgotten: Forgotten) -> list[tuple[Topic, Sequence[int]]]:
    topics: dict[Topic, list[int]] = {}
    for topic, name in forgotten:
        topics.setdefault(topic, []).append(name.partition)
    return list(topics.items())
