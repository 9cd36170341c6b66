"""The offsets that one group has committed, and those on their way into the log.

source: GroupMetadata.scala (offsets, pendingOffsetCommits, pendingTransactionalOffsetCommits, removeExpiredOffsets),
OffsetAndMetadata.java
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


class TransactionalOffset(NamedTuple):
    """A commit that is part of a transaction; `at` as of CommittedOffset, None: not yet on all in-sync replicas."""

    value: OffsetAndMetadata
    at: Offset | None


class GroupOffsets:
    """committed: by partition, in order of first commit     pending: appended, not yet on all in-sync replicas

    transactional: by producer id, those that count once its transaction is committed
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
        """Of all, those on their way and in open transactions included."""
        in_transactions = (name for offsets in self.transactional.values() for name in offsets)
        return list(dict.fromkeys((*self.committed, *self.pending, *in_transactions)))

    def copy(self) -> GroupOffsets:
        found = GroupOffsets(self.committed, self.transactional)
        found.pending = dict(self.pending)
        return found

    def is_unstable(self, name: TopicPartition) -> bool:
        """A commit for it is on its way, or waits for the end of a transaction."""
        return name in self.pending or any(name in offsets for offsets in self.transactional.values())

    # ------------------------------------------------------------------------------------------------ in transactions

    def prepare_in_transaction(self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        known = self.transactional.setdefault(producer_id, {})
        known.update({name: TransactionalOffset(value, None) for name, value in offsets.items()})

    def appended_in_transaction(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], at: Offset
    ) -> None:
        """They are on all in-sync replicas, and wait for the transaction's marker (onTxnOffsetCommitAppend)."""
        known = self.transactional.get(producer_id, {})
        for name, value in offsets.items():
            if name in known and known[name].value == value:
                known[name] = TransactionalOffset(value, at)

    def failed_in_transaction(self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """source: failPendingTxnOffsetCommit"""
        known = self.transactional.get(producer_id, {})
        for name in offsets:
            known.pop(name, None)
        if not known:
            self.transactional.pop(producer_id, None)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> dict[TopicPartition, OffsetAndMetadata]:
        """returns: the commits that count from now on, or, of an aborted transaction, those that are gone

        A later commit from outside the transaction stays. source: completePendingTxnOffsetCommit
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

    def remove(self, names: Iterable[TopicPartition], *, pending: bool = False) -> list[TopicPartition]:
        """Returns those that there were. Commits in open transactions go with them (OffsetMetadataManager.replay).

        pending: a commit that is on its way counts as there: it is in the log, and would come back with the next load
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
        """They were not removed after all; what was committed since then stays. before: as it was before that

        Simplified: a commit that was on its way then does not come back here, though the log may have it.
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
        """since_ms: when the retention of a commit began     spared: topics that are in use"""

        def is_expired(name: TopicPartition, value: OffsetAndMetadata) -> bool:
            if name.topic in spared or self.is_unstable(name):
                return False
            if value.expires_ms != NO_EXPIRY:
                return now_ms >= value.expires_ms
            return now_ms - since_ms(value) >= retention_ms

        return self.remove([name for name, known in self.committed.items() if is_expired(name, known.value)])
