"""The trace events of one replica: each is made here, next to the others about the same partition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from cluster.broker.replicas.delayed import FetchParams
from cluster.protocol.api_01_fetch import FetchPartition
from controller.image import PartitionRegistration
from replica.causes import IsrCause
from replica.ids import INTERNAL_TOPICS, BrokerId, LeaderEpoch, Names, Offset, TopicPartition
from replica.inputs import (
    AdvanceHighWatermark,
    CaughtUp,
    OutOfSync,
    ProposalRefused,
    ProposeIsr,
    SetHighWatermark,
)
from replica.log.batches.control_records import ControlRecordType, EndTransactionMarker
from replica.log.batches.records import BatchHeader, Record
from replica.log.log import AppendInfo
from replica.log.segments import RetiredSegments
from replica.trace.events import (
    BatchAppended,
    BatchCompacted,
    DivergenceFound,
    FollowerFetched,
    FollowingBegan,
    HighWatermarkAdvanced,
    HighWatermarkLearned,
    IsrProposed,
    KeysAppended,
    LastStableOffsetMoved,
    LeadershipBegan,
    LogCompacted,
    LogStartOffsetAdvanced,
    LogTruncated,
    Recorder,
    RecordsExpired,
    TransactionMarkerWritten,
)

if TYPE_CHECKING:
    from replica.log.cleaner.cleanable import LogToClean
    from replica.log.cleaner.cleaner import Cleaned

KEY_CHARACTERS_MAX = 40


def key_text(key: bytes | None) -> str:
    """A record's key as a word of the trace; what is no short, printable text goes by its digest."""
    content = key or b""
    text = content.decode("utf-8", "replace")
    if len(text) <= KEY_CHARACTERS_MAX and text.isprintable() and "\N{REPLACEMENT CHARACTER}" not in text:
        return text
    return f"#{sha256(content).hexdigest()[:KEY_CHARACTERS_MAX]}"


def keys_of(node: str, name: TopicPartition, header: BatchHeader, records: Sequence[Record]) -> KeysAppended:
    return KeysAppended(
        node=node,
        topic=name.topic,
        partition=name.partition,
        leader_epoch=header.leader_epoch,
        base_offset=header.base_offset,
        crc=header.crc,
        keys=tuple(key_text(record.key) for record in records),
        tombstones=tuple(one.offset for one in records if one.value is None or one.key is None),
    )


class PartitionEvents:
    """Events of one partition on the broker `node`."""

    __slots__ = ("_names", "_number", "_recorder", "_topic", "_topic_partition", "node", "place")

    def __init__(self, *, broker_id: BrokerId, names: Names, recorder: Recorder, name: TopicPartition) -> None:
        self.node = names(broker_id)
        self._names = names
        self._recorder = recorder
        self._topic_partition = name
        self._topic, self._number = name
        self.place = (self.node, name.topic, name.partition)

    # --------------------------------------------------------------------------------------------------------- roles

    def leadership_began(
        self, registration: PartitionRegistration, log_end_offset: Offset, high_watermark: Offset
    ) -> None:
        self._recorder.emit(
            LeadershipBegan(
                *self.place,
                leader_epoch=registration.leader_epoch,
                partition_epoch=registration.partition_epoch,
                isr=self._named(registration.in_sync_replicas),
                log_end_offset=log_end_offset,
                high_watermark=high_watermark,
            )
        )

    def following_began(
        self, registration: PartitionRegistration, log_end_offset: Offset, high_watermark: Offset
    ) -> None:
        self._recorder.emit(
            FollowingBegan(
                *self.place,
                broker=self._names(registration.leader) if registration.has_leader else None,
                leader_epoch=registration.leader_epoch,
                partition_epoch=registration.partition_epoch,
                log_end_offset=log_end_offset,
                high_watermark=high_watermark,
            )
        )

    # ----------------------------------------------------------------------------------------------------------- log

    def log_start_advanced(self, role: str, leader_epoch: LeaderEpoch, offset: Offset, peer: str) -> None:
        self._recorder.emit(
            LogStartOffsetAdvanced(
                *self.place, role=role, leader_epoch=leader_epoch, log_start_offset=offset, peer=peer
            )
        )

    def records_expired(self, role: str, leader_epoch: LeaderEpoch, retired: RetiredSegments) -> None:
        if retired.cause is None:
            return  # Its records could not be read any more.
        self._recorder.emit(
            RecordsExpired(
                *self.place,
                role=role,
                leader_epoch=leader_epoch,
                log_start_offset=retired.log_start_offset,
                size_bytes=sum(segment.size for segment in retired.segments),
                segments=len(retired.segments),
                cause=retired.cause,
                limit=retired.limit,
            )
        )

    def compacted(self, role: str, leader_epoch: LeaderEpoch, found: LogToClean, cleaned: Cleaned) -> None:
        self._recorder.emit(
            LogCompacted(
                *self.place,
                role=role,
                leader_epoch=leader_epoch,
                offset=cleaned.end_offset,
                size_bytes=cleaned.bytes_before - cleaned.bytes_after,
                first_dirty_offset=found.first_dirty_offset,
                dirty_percent=round(found.dirty_ratio * 100),
                records_removed=cleaned.records_removed,
                message=None if cleaned.problem is None else cleaned.problem.message,
            )
        )
        if self._topic in INTERNAL_TOPICS:
            return
        for batch in cleaned.batches:
            self._recorder.emit(
                BatchCompacted(
                    node=self.node,
                    topic=self._topic,
                    partition=self._number,
                    leader_epoch=batch.before.leader_epoch,
                    base_offset=batch.before.base_offset,
                    last_offset=batch.before.last_offset,
                    crc=batch.before.crc,
                    new_crc=None if batch.after is None else batch.after.crc,
                    cleaned_to=cleaned.end_offset,
                    removed=batch.removed,
                    aborted=batch.was_aborted,
                )
            )

    def keys_read(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """Of a compacted topic, so that it is known which of its records compaction may take."""
        if self._topic not in INTERNAL_TOPICS:
            self._recorder.aside(keys_of(self.node, self._topic_partition, header, records))

    def appended(self, info: AppendInfo, role: str) -> int | None:
        """One event per batch; returns the last one's seq, None for a duplicate, which appends nothing."""
        seq: int | None = None
        for header in info.batches:
            last_offset = header.last_offset
            seq = self._recorder.emit(
                BatchAppended(
                    node=self.node,
                    role=role,
                    topic=self._topic,
                    partition=self._number,
                    leader_epoch=header.leader_epoch,
                    base_offset=header.base_offset,
                    last_offset=last_offset,
                    log_end_offset=last_offset + 1,
                    size_bytes=header.size_bytes,
                    crc=header.crc,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                )
            )
        return seq

    def truncated(
        self,
        leader_epoch: LeaderEpoch,
        *,
        log_end_offset: Offset,
        previous_log_end_offset: Offset,
        previous_high_watermark: Offset,
        reason: str,
    ) -> None:
        self._recorder.emit(
            LogTruncated(
                node=self.node,
                topic=self._topic,
                partition=self._number,
                leader_epoch=leader_epoch,
                log_end_offset=log_end_offset,
                previous_log_end_offset=previous_log_end_offset,
                high_watermark=min(previous_high_watermark, log_end_offset),
                previous_high_watermark=previous_high_watermark,
                reason=reason,
            )
        )

    # ------------------------------------------------------------------------------------------------ high watermark

    def high_watermark_advanced(
        self, action: AdvanceHighWatermark, leader_epoch: LeaderEpoch, log_end_offset: Offset
    ) -> None:
        self._recorder.emit(
            HighWatermarkAdvanced(
                *self.place,
                role="leader",
                leader_epoch=leader_epoch,
                high_watermark=action.high_watermark,
                previous_high_watermark=action.previous,
                log_end_offset=log_end_offset,
                holders=self._named(action.holders),
                joining=None if action.joining is None else self._names(action.joining),
            )
        )

    def high_watermark_learned(
        self, action: SetHighWatermark, leader: str, leader_epoch: LeaderEpoch, log_end_offset: Offset
    ) -> None:
        self._recorder.emit(
            HighWatermarkLearned(
                *self.place,
                role="follower",
                leader_epoch=leader_epoch,
                high_watermark=action.high_watermark,
                previous_high_watermark=action.previous,
                log_end_offset=log_end_offset,
                cause=action.cause,
                leader=leader,
                leader_high_watermark=action.leader_high_watermark,
            )
        )

    # -------------------------------------------------------------------------------------------------- transactions

    def marker_written(self, header: BatchHeader, marker: EndTransactionMarker, first_offset: Offset | None) -> None:
        """first_offset: of the transaction's first record here, None if none was open"""
        self._recorder.emit(
            TransactionMarkerWritten(
                *self.place,
                leader_epoch=header.leader_epoch,
                offset=header.base_offset,
                first_offset=first_offset,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                committed=marker.control_type is ControlRecordType.COMMIT,
            )
        )

    def last_stable_offset_moved(
        self, leader_epoch: LeaderEpoch, offset: Offset, high_watermark: Offset, producer_id: int | None
    ) -> None:
        """producer_id: whose open transaction has its first record there; None: its marker is not replicated yet, or
        the offset is the high watermark
        """
        self._recorder.emit(
            LastStableOffsetMoved(
                *self.place,
                leader_epoch=leader_epoch,
                last_stable_offset=offset,
                high_watermark=high_watermark,
                producer_id=producer_id,
            )
        )

    # ----------------------------------------------------------------------------------------------------- followers

    def isr_proposed(self, action: ProposeIsr, previous_isr: tuple[BrokerId, ...]) -> None:
        made = partial(
            IsrProposed,
            *self.place,
            leader_epoch=action.leader_epoch,
            partition_epoch=action.partition_epoch,
            isr=self._named(action.in_sync_replicas),
            previous_isr=self._named(previous_isr),
        )
        match action.why:
            case CaughtUp(end, high_watermark, start):
                event = made(
                    cause=IsrCause.CAUGHT_UP, caught_up_to=end, high_watermark=high_watermark, epoch_start_offset=start
                )
            case OutOfSync(lags, limits):
                event = made(
                    cause=IsrCause.LAG,
                    lag_causes=tuple(lag.cause for _, lag in lags),
                    lags=tuple(-1 if lag.amount is None else lag.amount for _, lag in lags),
                    lag_time_max_us=limits.time_max_us,
                    lag_max_messages=limits.max_messages,
                )
            case ProposalRefused(error):
                event = made(cause=IsrCause.RETRY, error=error.name)
        self._recorder.emit(event)

    def follower_fetched(
        self,
        peer: str,
        leader_epoch: LeaderEpoch,
        fetch_offset: Offset,
        *,
        log_end_offset: Offset,
        high_watermark: Offset,
        in_isr: bool,
    ) -> None:
        self._recorder.emit(
            FollowerFetched(
                node=self.node,
                peer=peer,
                topic=self._topic,
                partition=self._number,
                leader_epoch=leader_epoch,
                fetch_offset=fetch_offset,
                log_end_offset=log_end_offset,
                high_watermark=high_watermark,
                in_isr=in_isr,
            )
        )

    def diverged(self, params: FetchParams, entry: FetchPartition, epoch: LeaderEpoch, end_offset: Offset) -> None:
        self._recorder.emit(
            DivergenceFound(
                *self.place,
                peer=params.peer,
                leader_epoch=epoch,
                offset=end_offset,
                fetch_offset=entry.fetch_offset,
                last_fetched_epoch=entry.last_fetched_epoch,
            )
        )

    def _named(self, brokers: tuple[BrokerId, ...]) -> tuple[str, ...]:
        return tuple(map(self._names, brokers))
