"""The commit, deletion and expiry of groups' offsets.

Source: GroupCoordinator.doCommitOffsets, GroupMetadataManager.storeOffsets, cleanupGroupMetadata;
GroupMetadata.removeExpiredOffsets
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from cluster.coordinators.core import IN_THE_LOG
from cluster.groups.desk import WRITE_ERRORS, GroupDesk
from cluster.groups.inputs import CommitOffsets, CommitResult
from cluster.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from cluster.groups.state.consumer_records import ConsumerRecord
from cluster.groups.state.group import Group, State
from cluster.groups.state.offsets import NO_EXPIRY, OffsetAndMetadata
from cluster.groups.state.records import group_key, offset_key, offset_value
from replica.causes import RemovalCause
from replica.errors import ErrorCode
from replica.ids import Offset, TopicPartition
from replica.trace import events as trace
from replica.wording import shown

OFFSET_WRITE_ERRORS = {
    **WRITE_ERRORS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""The error that a client gets, by the error of writing its commit or verifying its transaction.

After COORDINATOR_LOAD_IN_PROGRESS a client retries at the same coordinator. Source: maybeConvertOffsetCommitError
"""

OnDeleted = Callable[[ErrorCode, bool], None]
"""A callback with (error, True if the deletion is in the log)."""


class Commits:
    """The commits of offsets, and their removal, in all groups of one coordinator."""

    def __init__(self, desk: GroupDesk) -> None:
        self._desk = desk

    def commit(self, group: Group | ConsumerGroup, event: CommitOffsets) -> None:
        """Write the offsets of a request whose metadata is not too long; answer when all in-sync replicas have them."""
        settings = self._desk.settings
        # As in Kafka, the limit in bytes is compared with the number of UTF-16 code units.
        limit = settings.metadata_max_bytes
        fitting = {name: value for name, value in event.offsets.items() if _utf16_units(value.metadata) <= limit}
        if settings.versions.each_offset_expires:
            fitting = {name: _with_expiry(value, settings.retention_ms) for name, value in fitting.items()}
        if not fitting:
            self.refuse(event, ErrorCode.OFFSET_METADATA_TOO_LARGE)
            return
        if event.transaction is None:
            group.offsets.prepare(fitting)
        else:
            group.offsets.prepare_in_transaction(event.transaction.producer_id, fitting)

        def written(error: ErrorCode, offset: Offset, now_us: int) -> None:
            is_late = error is ErrorCode.REQUEST_TIMED_OUT
            answer = settings.late_commit if is_late else OFFSET_WRITE_ERRORS.get(error, error)
            if group.state is not State.DEAD:
                self._written(group, event, fitting, error, offset)
                if answer is ErrorCode.NONE:
                    self._tell(group, event, fitting)
            errors = {
                name: answer if name in fitting else ErrorCode.OFFSET_METADATA_TOO_LARGE for name in event.offsets
            }
            self._desk.answer(event.request, CommitResult(errors))

        records: list[tuple[bytes, bytes | None]] = [
            (offset_key(group.group_id, name), offset_value(value, settings.versions.offset))
            for name, value in fitting.items()
        ]
        self._desk.write(group.group_id, records, written, event.now_us, event.transaction)

    def _written(
        self,
        group: Group | ConsumerGroup,
        event: CommitOffsets,
        fitting: Mapping[TopicPartition, OffsetAndMetadata],
        error: ErrorCode,
        offset: Offset,
    ) -> None:
        # Simplified: an offset that was appended but not replicated in time is dropped until a coordinator reads the
        # log. Kafka does the same before 4.0; since then the offset counts as soon as it is replicated.
        if event.transaction is None:
            if error is ErrorCode.NONE:
                group.offsets.appended(fitting, offset)
            else:
                group.offsets.failed(fitting)
        elif error is ErrorCode.NONE:
            group.offsets.appended_in_transaction(event.transaction.producer_id, fitting, offset)
        else:
            group.offsets.failed_in_transaction(event.transaction.producer_id, fitting)

    def transaction_ended(self, group: Group | ConsumerGroup, producer_id: int, *, committed: bool) -> None:
        """Apply or drop the offsets of a transaction, because its marker was written to the group's partition."""
        node, group_id = self._desk.node, shown(group.group_id)
        event: Callable[..., trace.TraceEvent] = trace.HeldBackOffsetDropped
        if committed:
            event = partial(trace.OffsetCommitted, member=None, generation=group.generation)
        for name, value in group.offsets.transaction_ended(producer_id, committed=committed).items():
            self._desk.tell(event(node, *name, group=group_id, producer_id=producer_id, offset=value.offset))

    def _tell(
        self,
        group: Group | ConsumerGroup,
        request: CommitOffsets,
        fitting: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        transaction, member = request.transaction, group.members.get(request.member_id)
        event: Callable[..., trace.TraceEvent]
        event = partial(trace.OffsetCommitted, client_id=None if member is None else shown(member.client_id))
        if transaction is not None:
            event = partial(trace.OffsetHeldBack, producer_id=transaction.producer_id)
        event = partial(event, group=shown(group.group_id), member=shown(request.member_id) or None)
        for name, value in fitting.items():
            self._desk.tell(event(self._desk.node, *name, generation=request.generation, offset=value.offset))

    def refuse(self, event: CommitOffsets, error: ErrorCode) -> None:
        """Answer a commit with this error for all its offsets."""
        self._desk.answer(event.request, CommitResult(dict.fromkeys(event.offsets, error)))

    # ------------------------------------------------------------------------------------------------------- removing

    def delete(self, group: Group, partitions: Iterable[TopicPartition], why: RemovalCause, now_us: int) -> bool:
        """Delete offsets of a classic group; return True if this also removes the group.

        Since 4.0 this never removes the group; the next retention check does.
        Source: OffsetMetadataManager.deleteOffsets, onPartitionsDeleted; before 4.0 cleanupGroupMetadata
        """
        stays = self._desk.settings.one_coordinator
        removed = group.offsets.remove(partitions, pending=stays)
        return self._clean_up(group, removed, why, now_us, stays=stays)

    def delete_of_consumers(
        self,
        group: ConsumerGroup,
        partitions: Iterable[TopicPartition],
        why: RemovalCause,
        then: OnDeleted | None,
        now_us: int,
        further: Iterable[ConsumerRecord] = (),
    ) -> None:
        """Delete offsets of a consumer group, and write `further` records; a failed write restores the offsets.

        Args:
            then: called when the write has ended.

        Source: OffsetMetadataManager.deleteOffsets, onPartitionsDeleted
        """
        before, known = group.offsets.copy(), dict.fromkeys(group.offsets.names)
        removed = [name for name in partitions if name in known]
        group.offsets.remove(removed)
        records: list[tuple[bytes, bytes | None]] = [(offset_key(group.group_id, name), None) for name in removed]
        records += [group.encoded(record) for record in further]

        def written(error: ErrorCode, offset: Offset, written_us: int) -> None:
            is_in_log = error in IN_THE_LOG
            if is_in_log:
                for name in removed:
                    self._tell_offset_removed(group, name, why)
            else:
                group.offsets.take_back(removed, before)
            if then is not None:
                then(error, is_in_log)

        if records:
            self._desk.write(group.group_id, records, written, now_us)
        elif then is not None:
            then(ErrorCode.NONE, True)

    def delete_consumer_group(self, group: ConsumerGroup, why: RemovalCause, then: OnDeleted, now_us: int) -> None:
        """Write the deletion of a consumer group and all its offsets; a failed write restores the offsets.

        Source: GroupCoordinatorShard.deleteGroups, OffsetMetadataManager.deleteAllOffsets
        """

        def written(error: ErrorCode, is_in_log: bool) -> None:
            if is_in_log:
                self._tell_removed(group, why)
            then(error, is_in_log)

        self.delete_of_consumers(group, group.offsets.names, why, written, now_us, group.tombstones())

    def expire_of_consumers(self, group: ConsumerGroup, now_us: int) -> bool:
        """Remove expired offsets of a consumer group; return True if the group is then empty and has to be removed.

        Source: ConsumerGroup.offsetExpirationCondition
        """
        spared = frozenset(group.subscribed)
        retention_ms = self._desk.settings.retention_ms
        removed = group.offsets.remove_expired(self._desk.wall_ms(now_us), retention_ms, _committed_ms, spared)
        tombstones: list[tuple[bytes, bytes | None]] = []
        for name in removed:
            tombstones.append((offset_key(group.group_id, name), None))
            self._tell_offset_removed(group, name, RemovalCause.NOT_USED)
        gone = group.state is ConsumerGroupState.EMPTY and not group.offsets.any
        if gone:
            self._tell_removed(group, RemovalCause.EMPTY)
            tombstones += [group.encoded(record) for record in group.tombstones()]
        if tombstones:
            self._desk.write(group.group_id, tombstones, None, now_us)
        return gone

    def expire(self, group: Group, now_us: int) -> bool:
        """Remove expired offsets of a classic group; return True if the group is then empty and has to be removed.

        Source: GroupMetadata.removeExpiredOffsets
        """
        now_ms = self._desk.wall_ms(now_us)
        retention_ms = self._desk.settings.retention_ms
        state_since_ms = group.since_ms
        removed: list[TopicPartition] = []
        if self._desk.settings.versions.each_offset_expires:
            removed = group.offsets.remove_expired(now_ms, retention_ms, _committed_ms, frozenset())
            # Before KIP-211 offsets expire even if the group has members.
            return self._clean_up(group, removed, RemovalCause.NOT_COMMITTED, now_us)
        if group.protocol_type is None:
            # The consumers that committed these offsets assign their partitions themselves.
            removed = group.offsets.remove_expired(now_ms, retention_ms, _committed_ms, frozenset())
        elif group.state is State.EMPTY:

            def empty_since_ms(value: OffsetAndMetadata) -> int:
                return value.committed_ms if state_since_ms is None else state_since_ms

            removed = group.offsets.remove_expired(now_ms, retention_ms, empty_since_ms, frozenset())
        elif group.subscribed is not None and group.state is State.STABLE:
            removed = group.offsets.remove_expired(now_ms, retention_ms, _committed_ms, group.subscribed)
        return self._clean_up(group, removed, RemovalCause.NOT_USED, now_us)

    def _clean_up(
        self, group: Group, removed: Iterable[TopicPartition], why: RemovalCause, now_us: int, *, stays: bool = False
    ) -> bool:
        """Write tombstones for removed offsets, and for the group if it has no members and offsets left.

        Args:
            stays: True to keep the group in any case.

        Returns:
            True if the group has to be removed.
        """
        why_removed = why
        if not stays and group.state is State.EMPTY and not group.offsets.any:
            why_removed = RemovalCause.EMPTY
            group.enter(State.DEAD, self._desk.wall_ms(now_us))
        tombstones: list[tuple[bytes, bytes | None]] = []
        for name in removed:
            tombstones.append((offset_key(group.group_id, name), None))
            self._tell_offset_removed(group, name, why)
        if group.state is State.DEAD:
            for member_id in list(group.pending_members):
                group.forget_pending(member_id)
            self._tell_removed(group, why_removed)
            # Before 4.0 a group of generation 0 gets no tombstone, since it was never written (cleanupGroupMetadata).
            if group.generation > 0 or self._desk.settings.one_coordinator:
                tombstones.append((group_key(group.group_id), None))
        if tombstones:
            # No request waits for this write; the next check repeats lost tombstones.
            self._desk.write(group.group_id, tombstones, None, now_us)
        return group.state is State.DEAD

    def _tell_removed(self, group: Group | ConsumerGroup, why: RemovalCause) -> None:
        name, generation = shown(group.group_id), group.generation
        self._desk.tell(trace.GroupRemoved(node=self._desk.node, group=name, generation=generation, cause=why))

    def _tell_offset_removed(self, group: Group | ConsumerGroup, name: TopicPartition, why: RemovalCause) -> None:
        self._desk.tell(trace.CommittedOffsetRemoved(self._desk.node, *name, group=shown(group.group_id), cause=why))


def _committed_ms(value: OffsetAndMetadata) -> int:
    return value.committed_ms


def _with_expiry(value: OffsetAndMetadata, retention_ms: int) -> OffsetAndMetadata:
    """Return the offset with its expiry time set, unless the client has set it (until 2.0).

    Source: KafkaApis.handleOffsetCommitRequest, defaultExpireTimestamp
    """
    return value._replace(expires_ms=value.committed_ms + retention_ms) if value.expires_ms == NO_EXPIRY else value


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
