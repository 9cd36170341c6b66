"""A producer's trace events: one method for each, so the causes are named in one place."""

from __future__ import annotations

from cluster.client.connection_states import Failure
from cluster.client.events import CausalRecorder, ClientEvents
from cluster.client.interceptors import Interception
from cluster.client.producer.batch import PendingRecord, ProducerBatch
from replica.ids import TopicPartition
from replica.trace import events as trace


class ProducerEvents(ClientEvents):
    """Events of one producer; call `begin_step` first in every step."""

    def __init__(self, client: str, acks: int, recorder: CausalRecorder) -> None:
        super().__init__(client, recorder)
        self._acks = acks
        self.failed_records = 0

    def record_sent(self, tp: TopicPartition, record: str) -> int:
        return self._emit(
            trace.RecordSent(
                client=self._client, topic=tp.topic, partition=tp.partition, record=record, acks=self._acks
            )
        )

    def record_intercepted(
        self,
        pending: PendingRecord,
        partition: int,
        call: Interception,
        offset: int | None = None,
        error: str | None = None,
    ) -> None:
        self._emit(
            trace.RecordIntercepted(
                client=self._client,
                topic=pending.record.topic,
                partition=partition,
                record=pending.record.name,
                offset=offset,
                error=error,
                **call._asdict(),
            ),
            pending.sent_seq,
        )

    def record_serialized(
        self, pending: PendingRecord, *, key_format: str, value_format: str, size_bytes: int, took_us: int
    ) -> None:
        record = pending.record
        self._emit(
            trace.RecordSerialized(
                client=self._client,
                topic=record.topic,
                partition=-1 if record.partition is None else record.partition,
                record=record.name,
                key_format=key_format,
                value_format=value_format,
                size_bytes=size_bytes,
                took_us=took_us,
            ),
            pending.sent_seq,
        )

    def batch_sent(self, batch: ProducerBatch, crc: int, peer: str) -> int:
        """Caused by the sends of its records, or by the refusal of its last attempt."""
        own = (batch.last_seq,) if batch.sends > 1 else tuple(pending.sent_seq for pending in batch.records)
        tp = batch.topic_partition
        return self._emit(
            trace.BatchSent(
                client=self._client,
                peer=peer,
                topic=tp.topic,
                partition=tp.partition,
                records=batch.names,
                crc=crc,
                attempt=batch.sends,
                acks=self._acks,
                producer_id=batch.producer_id,
                base_sequence=batch.base_sequence,
            ),
            *own,
        )

    def transaction_began(self, transactional_id: str, number: int, producer_id: int, producer_epoch: int) -> None:
        self._emit(
            trace.TransactionBegan(
                client=self._client,
                transactional_id=transactional_id,
                number=number,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
        )

    def transaction_ends(
        self,
        event: type[trace.TransactionEndAsked | trace.TransactionEnded],
        transactional_id: str,
        number: int,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
    ) -> None:
        """event: that its end is asked for, or answered"""
        self._emit(
            event(
                client=self._client,
                transactional_id=transactional_id,
                number=number,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=committed,
            )
        )

    def transaction_failed(
        self, transactional_id: str, number: int, error: str, failure: Failure, *, fatal: bool
    ) -> None:
        self._emit(
            trace.TransactionFailed(
                client=self._client,
                transactional_id=transactional_id,
                number=number,
                error=error,
                fatal=fatal,
                **failure._asdict(),
            )
        )

    def batch_refused(
        self, batch: ProducerBatch, crc: int, peer: str, error: str, will_retry: bool, failure: Failure
    ) -> int:
        tp = batch.topic_partition
        return self._emit(
            trace.BatchRefused(
                client=self._client,
                topic=tp.topic,
                partition=tp.partition,
                records=batch.names,
                crc=crc,
                attempt=batch.sends,
                error=error,
                will_retry=will_retry,
                **failure._replace(peer=peer)._asdict(),
            ),
            batch.last_seq,
        )

    def record_acked(self, batch: ProducerBatch, pending: PendingRecord, peer: str, offset: int, now_us: int) -> None:
        tp = batch.topic_partition
        self._emit(
            trace.RecordAcked(
                client=self._client,
                peer=peer,
                topic=tp.topic,
                partition=tp.partition,
                record=pending.record.name,
                offset=offset,
                acks=self._acks,
                latency_us=now_us - pending.sent_us,
            ),
            batch.last_seq,
        )

    def record_handed_over(self, batch: ProducerBatch, pending: PendingRecord, peer: str, now_us: int) -> None:
        tp = batch.topic_partition
        self._emit(
            trace.RecordHandedOver(
                client=self._client,
                peer=peer,
                topic=tp.topic,
                partition=tp.partition,
                record=pending.record.name,
                acks=self._acks,
                latency_us=now_us - pending.sent_us,
            ),
            batch.last_seq,
        )

    def record_failed(
        self,
        tp: TopicPartition,
        pending: PendingRecord,
        error: str,
        definite: bool,
        failure: Failure,
        now_us: int,
        cause: int = -1,
    ) -> None:
        self.failed_records += 1
        self._emit(
            trace.RecordFailed(
                client=self._client,
                topic=tp.topic,
                partition=tp.partition,
                record=pending.record.name,
                acks=self._acks,
                error=error,
                definite=definite,
                latency_us=now_us - pending.sent_us,
                **failure._asdict(),
            ),
            cause if cause >= 0 else pending.sent_seq,
        )
