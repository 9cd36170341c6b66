"""The offsets that one group has committed, and those whose commit is not complete.

Source: GroupMetadata.scala (offsets, pendingOffsetCommits, pendingTransactionalOffsetCommits, removeExpiredOffsets),
OffsetAndMetadata.java
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from replica.ids import UNDEFINED_EPOCH, LeaderEpoch, Offset, TopicPartition

NO_EXPIRY = -1


class OffsetAndMetadata(NamedTuple):
    """A commit for one partition: the next offset to read, and a text from the client.

    Attributes:
        committed_ms: wall-clock time of the commit.
        expires_ms: wall-clock time at which the commit expires, -1 if not set; only OffsetCommit 2 to 4 can set it.
        topic_id: id of the topic, None before OffsetCommit version 10 and TxnOffsetCommit version 6.
    """

    offset: Offset
    leader_epoch: LeaderEpoch = UNDEFINED_EPOCH
    metadata: str = ""
    committed_ms: int = 0
    expires_ms: int = NO_EXPIRY
    topic_id: UUID | None = None


class CommittedOffset(NamedTuple):
    """A commit in the log; `at` is the offset of its batch, which orders commits."""

    value: OffsetAndMetadata
    at: Offset


class TransactionalOffset(NamedTuple):
    """A commit in an open transaction; `at` is the offset of its batch, None until all in-sync replicas have it."""

    value: OffsetAndMetadata
    at: Offset | None


class GroupOffsets:
    """The offsets of one group.

    Attributes:
        committed: committed offset by partition, in the order of first commits.
        pending: offsets whose records are appended and not yet on all in-sync replicas.
        transactional: offsets in open transactions, by producer id; they take effect when the transaction is committed.
    """

    __slots__ = ("committed", "pending", "transactional")

    def __init__(
        self,
        committed: Mapping[TopicPartition, CommittedOffset] | None = None,
        transactional: Mapping[int, Mapping[TopicPartition, TransactionalOffset]] | None = None,
    ) -> None:
        self.committed: dict[TopicPartition, CommittedOffset] = dict(committed or {})
        self.pending: dict[TopicPartition, OffsetAndMetadata] = {}
        self.transactional: dict[int, dict[TopicPartition, TransactionalOffset]] = {
            producer_id: dict(offsets) for producer_id, offsets in (transactional or {}).items()
        }

    @property
    def any(self) -> bool:
        return bool(self.committed or self.pending or self.transactional)

    @property
    def names(self) -> list[TopicPartition]:
        """All partitions with an offset, including pending ones and those in open transactions."""
        in_transactions = (name for offsets in self.transactional.values() for name in offsets)
        return list(dict.fromkeys((*self.committed, *self.pending, *in_transactions)))

    def copy(self) -> GroupOffsets:
        found = GroupOffsets(self.committed, self.transactional)
        found.pending = dict(self.pending)
        return found

    def is_unstable(self, name: TopicPartition) -> bool:
        """Return True if a commit for the partition is pending or in an open transaction."""
        return name in self.pending or any(name in offsets for offsets in self.transactional.values())

    # ------------------------------------------------------------------------------------------------ in transactions

    def prepare_in_transaction(self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        known = self.transactional.setdefault(producer_id, {})
        known.update({name: TransactionalOffset(value, None) for name, value in offsets.items()})

    def appended_in_transaction(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], at: Offset
    ) -> None:
        """Note that all in-sync replicas have offsets of a transaction, which now wait for its marker.

        Source: onTxnOffsetCommitAppend
        """
        known = self.transactional.get(producer_id, {})
        for name, value in offsets.items():
            if name in known and known[name].value == value:
                known[name] = TransactionalOffset(value, at)

    def failed_in_transaction(self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Drop offsets of a transaction that could not be written. Source: failPendingTxnOffsetCommit"""
        known = self.transactional.get(producer_id, {})
        for name in offsets:
            known.pop(name, None)
        if not known:
            self.transactional.pop(producer_id, None)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> dict[TopicPartition, OffsetAndMetadata]:
        """Apply the end of a transaction, and return the offsets that it committed or dropped.

        A later commit outside of the transaction is kept. Source: completePendingTxnOffsetCommit
        """
        ended: dict[TopicPartition, OffsetAndMetadata] = {}
        for name, (value, at) in self.transactional.pop(producer_id, {}).items():
            known = self.committed.get(name)
            if not committed:
                ended[name] = value
            elif at is not None and (known is None or known.at < at):
                self.committed[name] = CommittedOffset(value, at)
                ended[name] = value
        return ended

    # ------------------------------------------------------------------------------------------------------- outside

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.pending.update(offsets)

    def appended(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], at: Offset) -> None:
        """Apply a commit that all in-sync replicas have; `at` is the offset of its batch.

        Offsets that were removed since the append stay removed. Source: onOffsetCommitAppend
        """
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

    def remove(self, names: Iterable[TopicPartition], *, pending: bool = False) -> list[TopicPartition]:
        """Remove offsets, including pending ones and those in open transactions; return the partitions that had any.

        Args:
            pending: True to also return partitions that only had a pending commit: it is in the log and would be loaded
                again without a tombstone.

        Source: OffsetMetadataManager.replay
        """
        removed = []
        for name in names:
            found = self.pending.pop(name, None) is not None and pending
            found |= self.committed.pop(name, None) is not None
            for producer_id, offsets in list(self.transactional.items()):
                found |= offsets.pop(name, None) is not None
                if not offsets:
                    del self.transactional[producer_id]
            if found:
                removed.append(name)
        return removed

    def take_back(self, removed: Iterable[TopicPartition], before: GroupOffsets) -> None:
        """Restore removed offsets from `before`, a copy from before the removal; later commits are kept.

        Simplified: a commit that was pending at the removal is not restored, though the log may have it.
        """
        for name in removed:
            if name in before.committed:
                self.committed.setdefault(name, before.committed[name])
            for producer_id, offsets in before.transactional.items():
                if name in offsets:
                    self.transactional.setdefault(producer_id, {}).setdefault(name, offsets[name])

    def remove_expired(
        self, now_ms: int, retention_ms: int, since_ms: Callable[[OffsetAndMetadata], int], spared: frozenset[str]
    ) -> list[TopicPartition]:
        """Remove expired offsets and return their partitions.

        Args:
            since_ms: returns the time at which the retention of a commit began.
            spared: topics whose offsets do not expire, because members subscribe to them.
        """

        def is_expired(name: TopicPartition, value: OffsetAndMetadata) -> bool:
            if name.topic in spared or self.is_unstable(name):
                return False
            if value.expires_ms != NO_EXPIRY:
                return now_ms >= value.expires_ms
            return now_ms - since_ms(value) >= retention_ms

        return self.remove([name for name, known in self.committed.items() if is_expired(name, known.value)])
