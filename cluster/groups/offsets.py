"""The offsets that one group has committed, and those on their way into the log.

source: GroupMetadata.scala (offsets, pendingOffsetCommits, removeExpiredOffsets), OffsetAndMetadata.java
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from replica.ids import UNDEFINED_EPOCH, LeaderEpoch, Offset, TopicPartition

NO_EXPIRY = -1


class OffsetAndMetadata(NamedTuple):
    """A member's commit for one partition: the next offset it will read, and a text of its own.

    expires_ms: wall clock, given by clients of OffsetCommit 2 to 4 alone, else -1
    """

    offset: Offset
    leader_epoch: LeaderEpoch = UNDEFINED_EPOCH
    metadata: str = ""
    committed_ms: int = 0
    expires_ms: int = NO_EXPIRY


class CommittedOffset(NamedTuple):
    """A commit in the log; `at` is the offset of its batch there: of two the later one counts."""

    value: OffsetAndMetadata
    at: Offset


class GroupOffsets:
    """committed: by partition, in order of first commit     pending: appended, not yet on all in-sync replicas"""

    __slots__ = ("committed", "pending")

    def __init__(self, committed: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        self.committed: dict[TopicPartition, CommittedOffset] = dict(committed or {})
        self.pending: dict[TopicPartition, OffsetAndMetadata] = {}

    @property
    def any(self) -> bool:
        return bool(self.committed or self.pending)

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.pending.update(offsets)

    def appended(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], at: Offset) -> None:
        """The commit is on all in-sync replicas. Offsets removed meanwhile stay removed (onOffsetCommitAppend)."""
        for name, value in offsets.items():
            if name in self.pending:
                known = self.committed.get(name)
                if known is None or known.at < at:
                    self.committed[name] = CommittedOffset(value, at)
                if self.pending[name] == value:
                    del self.pending[name]

    def failed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for name, value in offsets.items():
            if self.pending.get(name) == value:
                del self.pending[name]

    def remove(self, names: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Returns those that there were."""
        removed = []
        for name in names:
            self.pending.pop(name, None)
            if self.committed.pop(name, None) is not None:
                removed.append(name)
        return removed

    def remove_expired(
        self, now_ms: int, retention_ms: int, since_ms: Callable[[OffsetAndMetadata], int], spared: frozenset[str]
    ) -> list[TopicPartition]:
        """since_ms: when the retention of a commit began     spared: topics that are in use"""

        def is_expired(name: TopicPartition, value: OffsetAndMetadata) -> bool:
            if name.topic in spared or name in self.pending:
                return False
            if value.expires_ms != NO_EXPIRY:
                return now_ms >= value.expires_ms
            return now_ms - since_ms(value) >= retention_ms

        return self.remove([name for name, known in self.committed.items() if is_expired(name, known.value)])
