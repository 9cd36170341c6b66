"""When a topic is gone: deleted, not made again, and every broker that had it has deleted its logs.

What observers keep of its partitions is of no use then. Records stay: the verdict names each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from replica.trace import events as trace
from replica.trace.events import TraceRow

if TYPE_CHECKING:
    from scenarios.observe.mirror import LogMirror
    from scenarios.observe.view import ClusterView

IsGone = Callable[[str], bool]
"""Of the topic of this name."""

REPLICAS_MIN = 64
"""Replicas that are deleted before anything is dropped, at least as many as there are partitions: looking through
all that is kept is then a small part of the work for each."""


class Forgetful(Protocol):
    def forget(self, is_gone: IsGone) -> None:
        """Drop what is kept of topics that are gone."""


class GoneTopics:
    """Listener, behind those that are to forget, which include the mirror.

    The names of deleted topics stay with the view: whatever is made again under one of them is judged by less.
    """

    def __init__(self, view: ClusterView, mirror: LogMirror, forgetful: Sequence[Forgetful]) -> None:
        self._view = view
        self._mirror = mirror
        self._forgetful = forgetful
        self._deleted = 0

    def wants(self, kind: type) -> bool:
        return kind is trace.ReplicaDeleted

    def __call__(self, row: TraceRow) -> None:
        event = row.event
        if not isinstance(event, trace.ReplicaDeleted) or event.topic not in self._view.deleted_topics:
            return
        self._deleted += 1
        if self._deleted >= max(REPLICAS_MIN, len(self._view.partitions)):
            self._deleted = 0
            self._drop()

    def _drop(self) -> None:
        here = {name.topic for name in self._view.partitions}.union(self._mirror.doomed_topics)
        deleted = self._view.deleted_topics

        def is_gone(topic: str) -> bool:
            return topic in deleted and topic not in here

        for one in self._forgetful:
            one.forget(is_gone)


def drop(is_gone: IsGone, *kept: dict[Any, Any]) -> None:
    """From dictionaries whose keys are tuples that begin with a topic."""
    for known in kept:
        for key in [key for key in known if is_gone(key[0])]:
            del known[key]
