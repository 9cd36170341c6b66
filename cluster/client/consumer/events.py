"""A consumer's trace events: one method for each. Events of one step share the cause the shell named for it."""

from __future__ import annotations

from cluster.client.consumer.positions import Reset
from cluster.client.events import ClientEvents, record_name
from cluster.client.interceptors import Interception
from cluster.protocol.versions import OFFSET_COMMIT, api_name
from replica.errors import RECORD_DESERIALIZATION, ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import Record
from replica.trace import events as trace
from replica.wording import shown

Formats = tuple[str, str]
"""Deserializers of the key and of the value."""


class ConsumerEvents(ClientEvents):
    """Events of one consumer; call `begin_step` first in every step."""

    def record_read(self, tp: TopicPartition, peer: str, record: Record, leader_epoch: int) -> None:
        self._emit(
            trace.RecordRead(
                client=self._client,
                peer=peer,
                topic=tp.topic,
                partition=tp.partition,
                offset=record.offset,
                record=record_name(record),
                leader_epoch=leader_epoch,
            )
        )

    def position_reset(
        self,
        tp: TopicPartition,
        peer: str,
        offset: int,
        previous_offset: int,
        error: str | None,
        reset: Reset,
        cause: int | None = None,
    ) -> None:
        self._emit(
            trace.PositionReset(
                client=self._client,
                peer=peer,
                topic=tp.topic,
                partition=tp.partition,
                offset=offset,
                previous_offset=previous_offset,
                error=error,
                **reset._asdict(),
            ),
            cause,
        )

    def end_offset_seen(self, tp: TopicPartition, peer: str, offset: int, error: str | None) -> None:
        self._emit(
            trace.EndOffsetSeen(
                client=self._client,
                peer=peer,
                topic=tp.topic,
                partition=tp.partition,
                offset=offset,
                error=error,
            )
        )

    def fetch_failed(self, tp: TopicPartition, peer: str, offset: int, error: str) -> int:
        return self._emit(
            trace.FetchFailed(
                client=self._client,
                peer=peer,
                topic=tp.topic,
                partition=tp.partition,
                offset=offset,
                error=error,
            )
        )

    def commit_failed(self, group_id: str, why: str) -> None:
        """Without a request: the client knows the answer."""
        self._emit(
            trace.OffsetCommitRefused(
                node=self._client,
                client=self._client,
                api=api_name(OFFSET_COMMIT),
                error=ErrorCode.UNKNOWN_MEMBER_ID.name,
                group=shown(group_id),
                member=None,
                reason=f"{self._client} cannot commit: {why} (CommitFailedException)",
            )
        )

    # ------------------------------------------------------------------------------------------------------ pipeline

    def record_deserialized(self, tp: TopicPartition, offset: int, record: str, formats: Formats, took_us: int) -> None:
        self._emit(
            trace.RecordDeserialized(
                client=self._client,
                topic=tp.topic,
                partition=tp.partition,
                offset=offset,
                record=record,
                key_format=formats[0],
                value_format=formats[1],
                took_us=took_us,
            )
        )

    def deserialization_failed(
        self, tp: TopicPartition, peer: str, offset: int, record: str, formats: Formats, message: str
    ) -> None:
        cause = self.fetch_failed(tp, peer, offset, RECORD_DESERIALIZATION)
        self._emit(
            trace.DeserializationFailed(
                client=self._client,
                topic=tp.topic,
                partition=tp.partition,
                offset=offset,
                record=record,
                key_format=formats[0],
                value_format=formats[1],
                message=message,
            ),
            cause,
        )

    def position_intercepted(
        self, tp: TopicPartition, offset: int, call: Interception, first_offset: int | None = None
    ) -> None:
        self._emit(
            trace.PositionIntercepted(
                client=self._client,
                topic=tp.topic,
                partition=tp.partition,
                offset=offset,
                first_offset=first_offset,
                **call._asdict(),
            )
        )
