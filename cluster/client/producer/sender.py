"""The sender of a producer: it drains batches into Produce requests and handles the responses.

Source: Sender.java
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cluster.client.connection_states import ClientRequest, ClientResponse, Failure
from cluster.client.connections import ClientConnections
from cluster.client.events import ClientEvents
from cluster.client.producer.accumulator import RecordAccumulator
from cluster.client.producer.batch import PendingRecord, ProducerBatch
from cluster.client.producer.idempotence import IdempotenceState, ProducerState
from cluster.config import ProducerConfig
from cluster.protocol.api_00_produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    decode_produce_response,
    encode_produce_request,
)
from cluster.protocol.versions import INIT_PRODUCER_ID, PRODUCE
from replica.causes import FailureCause
from replica.config import NEVER
from replica.errors import INDEFINITE, INVALID_METADATA, RETRIABLE, ErrorCode, PeerViolation
from replica.ids import ACKS_ALL, UNKNOWN_OFFSET, TopicPartition
from replica.log.batches.records import crc_of
from replica.rules import Rules
from replica.trace import events as trace

if TYPE_CHECKING:
    from cluster.client.producer.pipeline import ProducerPipeline
    from cluster.client.producer.transactions import TransactionManager

NO_TRANSACTION_TIMEOUT_MS = 2_147_483_647


def may_be_written(error: ErrorCode, acks: int) -> bool:
    """Return True if a batch that got this error may be in a log nevertheless, and be committed later.

    With acks=all a broker may answer with an error after the append. For example, if it stops leading while the request
    waits for replication, it answers NOT_LEADER_OR_FOLLOWER, but the next leader may have the records (DelayedProduce).
    """
    if error in INDEFINITE or error in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR):
        return True
    return acks == ACKS_ALL and error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Sender:
    """The part of a producer that sends batches from the accumulator until each is acknowledged or has failed."""

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: RecordAccumulator,
        connections: ClientConnections,
        events: ClientEvents,
        idempotence: IdempotenceState | None,
        rules: Rules,
        transactions: TransactionManager | None = None,
        pipeline: ProducerPipeline | None = None,
    ) -> None:
        self.failed_records = 0
        self._frees_expired = rules.expired_memory == "freed"
        self._pipeline = pipeline
        self._config = config
        self._acks = config.required_acks
        self._delivery_timeout_us = config.delivery_timeout_ms * 1000
        self._request_timeout_us = config.request_timeout_ms * 1000
        self._keeps_order_by_muting = config.max_in_flight_requests_per_connection == 1
        self._accumulator = accumulator
        self._connections = connections
        self._metadata = connections.metadata
        self._events = events
        self._idempotence = idempotence
        self._transactions = transactions
        self._in_flight: dict[TopicPartition, list[ProducerBatch]] = {}
        self._asked_for_producer_id = False
        self._producer_id_retry_us = 0
        self.next_deadline_us = NEVER
        """The time at which to call `run_once` if no other event comes first."""

    @property
    def has_in_flight(self) -> bool:
        return bool(self._in_flight)

    def run_once(self, now_us: int) -> bool:
        """Expire, drain and send batches once; return True if another call may do more immediately."""
        self.next_deadline_us = NEVER
        has_lost = self._idempotence is not None and self._idempotence.resolve()
        if has_lost and self._transactions is not None:
            self._transactions.sequences_lost()
            if self._transactions.state is ProducerState.FATAL_ERROR:
                # All batches fail immediately, and the application gets the error (transitionToFatalError).
                self._serve_transaction(self._transactions, now_us)
                return True
        if self._transactions is not None:
            if self._serve_transaction(self._transactions, now_us):
                return True
            if self._transactions.is_asking:
                self._expire(now_us)
                self._wake_at(self._next_expiry_us())
                return False
        elif self._idempotence is not None:
            self._maybe_ask_for_producer_id(now_us)
        check = self._accumulator.ready(now_us)
        if check.unknown_leaders:
            self._metadata.request_update()
        self._wake_at(check.next_check_us)
        requests: list[tuple[int, list[ProducerBatch]]] = []  # Has an entry even if nothing was drained for a leader.
        for node_id in check.nodes:
            if self._connections.ready(node_id, now_us):
                requests.append((node_id, self._accumulator.drain(node_id, now_us)))
            else:
                self._wake_at(self._connections.retry_at_us(node_id, now_us))
        for _, batches in requests:
            for batch in batches:
                self._in_flight.setdefault(batch.topic_partition, []).append(batch)
                if self._keeps_order_by_muting:
                    self._accumulator.mute(batch.topic_partition)
        # Kafka's sender loop runs again immediately while a leader is ready (Sender.sendProducerData), otherwise within
        # request.timeout.ms (NetworkClient.poll), even if nothing has changed. Here it does so only after an expiry.
        gave_up = self._expire(now_us)
        again = gave_up and bool(requests)
        if gave_up:
            self._wake_at(now_us + self._request_timeout_us)
        for node_id, batches in requests:
            # Differs from Kafka: a batch that expires in the call that drained it is not sent.
            alive = [batch for batch in batches if not batch.done]
            if alive:
                self._send(node_id, alive, now_us)
                again = True
        self._wake_at(self._next_expiry_us())
        return again

    def _serve_transaction(self, transactions: TransactionManager, now_us: int) -> bool:
        """Send the next transactional request if one is due, and return True if it was sent.

        Batches that were not sent fail first if the transaction cannot be committed.

        Source: Sender.runOnce, maybeSendAndPollTransactionalRequest
        """
        if transactions.gives_up_unsent:
            error = transactions.error if transactions.has_failed else ErrorCode.TRANSACTION_ABORTABLE
            failure = transactions.failure
            is_over = transactions.state is ProducerState.FATAL_ERROR
            for batch in self._accumulator.take_all() if is_over else self._accumulator.take_unsent():
                self._fail(batch, error, failure, now_us, adjust_sequences=False)
        has_incomplete = self._accumulator.has_undrained or bool(self._in_flight)
        if transactions.is_ending:
            self._accumulator.flushing = True
        sent = transactions.run_once(now_us, has_incomplete=has_incomplete)
        self._wake_at(transactions.next_deadline_us)
        return sent

    def _wake_at(self, at_us: int | None) -> None:
        if at_us is not None and at_us < self.next_deadline_us:
            self.next_deadline_us = at_us

    # ------------------------------------------------------------------------------------------------- producer id

    def _maybe_ask_for_producer_id(self, now_us: int) -> None:
        """Ask any broker for a producer id, which is needed before the first batch is drained (KIP-98)."""
        assert self._idempotence is not None
        if self._idempotence.has_producer_id or self._asked_for_producer_id:
            return
        if now_us < self._producer_id_retry_us:
            self._wake_at(self._producer_id_retry_us)
            return
        node_id = self._connections.least_loaded(now_us)
        if node_id is None or not self._connections.ready(node_id, now_us):
            self._wake_at(None if node_id is None else self._connections.retry_at_us(node_id, now_us))
            return
        self._asked_for_producer_id = True
        values = {
            "transactional_id": None,
            "transaction_timeout": NO_TRANSACTION_TIMEOUT_MS,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        self._connections.ask(node_id, INIT_PRODUCER_ID, values, self._producer_id_answered, now_us)

    def _producer_id_answered(self, response: Any, error: ErrorCode, now_us: int) -> None:
        assert self._idempotence is not None
        self._asked_for_producer_id = False
        if error is ErrorCode.NONE:
            self._idempotence.producer_id_given(int(response.producer_id), int(response.producer_epoch))
            return
        # Simplified: Kafka stops the producer for good on a fatal error here.
        self._producer_id_retry_us = now_us + self._config.retry_backoff_ms * 1000
        self._metadata.request_update()

    # ------------------------------------------------------------------------------------------------------ sending

    def _send(self, node_id: int, batches: Sequence[ProducerBatch], now_us: int) -> None:
        peer = self._connections.name(node_id)
        by_topic: dict[str, list[tuple[int, bytearray]]] = {}
        sent: list[tuple[ProducerBatch, int]] = []
        for batch in batches:
            records = batch.encode(self._config.compression_type)
            batch.sends += 1
            batch.in_request = True
            crc = crc_of(records)
            sent.append((batch, crc))
            tp = batch.topic_partition
            # The causes are the send calls of its records, or the refusal of its last attempt.
            own = (batch.last_seq,) if batch.sends > 1 else tuple(pending.sent_seq for pending in batch.records)
            batch.last_seq = self._events.emit(
                trace.BatchSent(
                    self._events.client,
                    *tp,
                    peer=peer,
                    records=batch.names,
                    crc=crc,
                    attempt=batch.sends,
                    acks=self._acks,
                    producer_id=batch.producer_id,
                    base_sequence=batch.base_sequence,
                ),
                *own,
            )
            by_topic.setdefault(tp.topic, []).append((tp.partition, records))
        transactional_id = None if self._transactions is None else self._transactions.transactional_id
        produce = ProduceRequest(transactional_id, self._acks, self._config.request_timeout_ms, list(by_topic.items()))
        request = ClientRequest(
            PRODUCE,
            lambda version, correlation_id: encode_produce_request(
                version, correlation_id, self._connections.client_id, produce
            ),
            lambda answer, answered_us: self._answered(peer, sent, answer, answered_us),
            expects_answer=self._acks != 0,
            cause=batches[-1].last_seq,
            allowed=None if self._transactions is None else self._transactions.level.produces(),
        )
        self._connections.send(node_id, request, now_us)

    def _answered(
        self, peer: str, sent: Sequence[tuple[ProducerBatch, int]], answer: ClientResponse, now_us: int
    ) -> None:
        if answer.frame is None and answer.error is ErrorCode.NONE:  # acks=0
            for batch, _ in sent:
                self._hand_over(batch, peer, now_us)
            return
        if answer.frame is None:
            for batch, crc in sent:
                lost = ProducePartitionResponse(batch.topic_partition.partition, answer.error)
                self._complete(batch, crc, lost, peer, now_us, answer.failure)
            return
        response = decode_produce_response(answer.version, answer.frame)
        if response.throttle_time_ms:
            self._connections.throttled(PRODUCE, answer.version, response.throttle_time_ms, now_us)
        results = _results(response)
        if any(batch.topic_partition not in results for batch, _ in sent):
            raise PeerViolation("a Produce response lacks a partition of its request")
        for batch, crc in sent:
            result = results[batch.topic_partition]
            self._complete(batch, crc, result, peer, now_us)
            if result.current_leader is not None:
                self._metadata.update_leader(batch.topic_partition, result.current_leader, response.node_endpoints)

    # ------------------------------------------------------------------------------------------------------ answers

    def _complete(
        self,
        batch: ProducerBatch,
        crc: int,
        result: ProducePartitionResponse,
        peer: str,
        now_us: int,
        failure: Failure | None = None,
    ) -> None:
        """Acknowledge, retry, split or fail one batch. Source: Sender.completeBatch"""
        error = result.error
        self._request_ended(batch)
        if error is ErrorCode.NONE or error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._ack(batch, result.base_offset, peer, now_us)
        else:
            message = result.error_message or None
            failure = failure or Failure(FailureCause.ERROR, peer, answered=error.name, message=message)
            self._refused(batch, crc, result, peer, failure, now_us)
            if error in INVALID_METADATA:
                self._metadata.request_update()
        if self._keeps_order_by_muting:
            self._accumulator.unmute(batch.topic_partition)

    def _refused(
        self,
        batch: ProducerBatch,
        crc: int,
        result: ProducePartitionResponse,
        peer: str,
        failure: Failure,
        now_us: int,
    ) -> None:
        error = result.error
        batch.maybe_written |= may_be_written(error, self._acks)
        splits = error is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1 and not batch.done
        will_retry = splits or self._can_retry(batch, result, now_us)
        if not batch.done:
            refused = trace.BatchRefused(
                client=self._events.client,
                topic=batch.topic_partition.topic,
                partition=batch.topic_partition.partition,
                records=batch.names,
                crc=crc,
                attempt=batch.sends,
                error=error.name,
                will_retry=will_retry,
                **failure._replace(peer=peer)._asdict(),
            )
            batch.last_seq = self._events.emit(refused, batch.last_seq)
        if splits:
            self._split(batch)
        elif will_retry:
            self._forget_in_flight(batch)
            self._accumulator.reenqueue(batch, now_us)
        else:
            # A batch that has used up its retries may have been written, so its sequence may not be reused.
            adjust = batch.attempts < self._config.retries
            if self._transactions is not None and not batch.done:
                self._transactions.batch_failed(error, failure)
            self._fail(batch, error, failure, now_us, adjust_sequences=adjust)

    def _can_retry(self, batch: ProducerBatch, result: ProducePartitionResponse, now_us: int) -> bool:
        if batch.done or batch.attempts >= self._config.retries:
            return False
        if batch.has_expired(self._delivery_timeout_us, now_us):
            return False
        decided = None
        if self._idempotence is not None:
            decided = self._idempotence.can_retry(batch, result.error, result.log_start_offset)
        return result.error in RETRIABLE if decided is None else decided

    def _split(self, batch: ProducerBatch) -> None:
        if self._idempotence is not None:
            self._idempotence.remove(batch)
        self._accumulator.split_and_reenqueue(batch)
        self._release(batch)

    def _ack(self, batch: ProducerBatch, base_offset: int, peer: str, now_us: int) -> None:
        if self._idempotence is not None:
            self._idempotence.batch_completed(batch, base_offset)
        if batch.done:  # The batch failed before the response, and the application knows.
            return
        for index, pending in enumerate(batch.records):
            offset = base_offset + index if base_offset != UNKNOWN_OFFSET else UNKNOWN_OFFSET
            acked = trace.RecordAcked(
                self._events.client,
                *batch.topic_partition,
                peer=peer,
                record=pending.record.name,
                offset=offset,
                acks=self._acks,
                latency_us=now_us - pending.sent_us,
            )
            self._events.emit(acked, batch.last_seq)
            if self._pipeline is not None:
                self._pipeline.on_acknowledgement(batch.topic_partition, pending, offset)
        self._release(batch)

    def _hand_over(self, batch: ProducerBatch, peer: str, now_us: int) -> None:
        self._request_ended(batch)
        for pending in batch.records:
            handed_over = trace.RecordHandedOver(
                self._events.client,
                *batch.topic_partition,
                peer=peer,
                record=pending.record.name,
                acks=self._acks,
                latency_us=now_us - pending.sent_us,
            )
            self._events.emit(handed_over, batch.last_seq)
            if self._pipeline is not None:
                self._pipeline.on_acknowledgement(batch.topic_partition, pending, None)
        self._release(batch)
        if self._keeps_order_by_muting:
            self._accumulator.unmute(batch.topic_partition)

    def _fail(
        self, batch: ProducerBatch, error: ErrorCode, failure: Failure, now_us: int, *, adjust_sequences: bool
    ) -> None:
        """Report the failure of a batch's records to the application, unless the batch is done already."""
        if batch.done:
            return
        if self._idempotence is not None:
            self._idempotence.batch_failed(batch, error, adjust_sequences=adjust_sequences)
        for pending in batch.records:
            self.record_failed(
                batch.topic_partition, pending, error.name, not batch.maybe_written, failure, now_us, batch.last_seq
            )
        self._release(batch)

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
        """Report the failure of a record to the application.

        Args:
            definite: True if the record is certainly in no log.
            cause: number of its batch's last event, -1 without a batch.
        """
        self.failed_records += 1
        failed = trace.RecordFailed(
            client=self._events.client,
            topic=tp.topic,
            partition=tp.partition,
            record=pending.record.name,
            acks=self._acks,
            error=error,
            definite=definite,
            latency_us=now_us - pending.sent_us,
            **failure._asdict(),
        )
        self._events.emit(failed, cause if cause >= 0 else pending.sent_seq)
        if self._pipeline is not None:
            self._pipeline.on_acknowledgement(tp, pending, None, error)

    def _release(self, batch: ProducerBatch) -> None:
        batch.done = True
        self._forget_in_flight(batch)
        if self._frees_expired or not batch.in_request:
            self._free_memory(batch)

    def _request_ended(self, batch: ProducerBatch) -> None:
        """Free the memory of a batch that expired in this request (KAFKA-19012)."""
        batch.in_request = False
        if batch.done:
            self._free_memory(batch)

    def _free_memory(self, batch: ProducerBatch) -> None:
        self._accumulator.pool.deallocate(batch.memory_bytes)
        batch.memory_bytes = 0

    def _forget_in_flight(self, batch: ProducerBatch) -> None:
        batches = self._in_flight.get(batch.topic_partition, [])
        if batch in batches:
            batches.remove(batch)
            if not batches:
                del self._in_flight[batch.topic_partition]

    # ------------------------------------------------------------------------------------------------------- expiry

    def _expire(self, now_us: int) -> bool:
        """Fail all batches, queued or in flight, that are older than delivery.timeout.ms; return True if any was."""
        expired = self._accumulator.expired(now_us)
        for batches in self._in_flight.values():
            for batch in batches:
                if not batch.has_expired(self._delivery_timeout_us, now_us):
                    break
                batch.maybe_written |= batch.sends > 0  # The request may still reach the broker.
                expired.append(batch)
        for batch in expired:
            self._fail_expired(batch, now_us)
        return bool(expired)

    def _fail_expired(self, batch: ProducerBatch, now_us: int) -> None:
        failure = Failure(FailureCause.DELIVERY_TIMEOUT, timeout_ms=self._config.delivery_timeout_ms)
        if self._transactions is not None:
            self._transactions.batch_failed(ErrorCode.REQUEST_TIMED_OUT, failure)
        self._fail(batch, ErrorCode.REQUEST_TIMED_OUT, failure, now_us, adjust_sequences=False)
        if self._idempotence is not None and batch.in_retry:
            self._idempotence.mark_unresolved(batch)

    def _next_expiry_us(self) -> int:
        oldest = [batches[0].created_us for batches in self._in_flight.values()]
        in_flight_us = min(oldest) + self._delivery_timeout_us if oldest else NEVER
        return min(in_flight_us, self._accumulator.next_expiry_us)

    def abort(self, failure: Failure, now_us: int) -> None:
        """Fail all records that are not acknowledged yet, because the timeout of closing the producer has passed."""
        in_flight = [batch for batches in self._in_flight.values() for batch in batches]
        for batch in in_flight:
            batch.maybe_written |= batch.sends > 0
        for batch in in_flight + self._accumulator.take_all():
            self._fail(batch, ErrorCode.UNKNOWN_SERVER_ERROR, failure, now_us, adjust_sequences=False)


def _results(response: ProduceResponse) -> dict[TopicPartition, ProducePartitionResponse]:
    return {TopicPartition(str(topic), part.partition): part for topic, parts in response.topics for part in parts}
