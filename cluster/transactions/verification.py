"""The verification of a transaction by a partition's leader before the transaction's first batch is appended.

The leader asks the coordinator whether the partition is in the transaction (since 3.6), or to add it
(transaction.version 2).

Source: AddPartitionsToTxnManager.scala (KIP-890)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster.broker.replicas.transaction_checks import TransactionQuestion
from cluster.channel import Channel
from cluster.node import Outbox
from cluster.protocol import cold
from cluster.protocol.versions import ADD_PARTITIONS_TO_TXN
from controller.image import BrokerRegistration
from replica.errors import ErrorCode, PeerViolation
from replica.ids import TopicPartition

ADD_PARTITIONS_TO_TXN_VERSION = 5
FindCoordinator = Callable[[str, int], BrokerRegistration | None]
"""A function of (transactional id, now_us) that returns the coordinating broker, None if there is none now."""


class _Queue:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.waiting: dict[str, TransactionQuestion] = {}


class TransactionVerifier:
    """The AddPartitionsToTxn requests of a leader: one connection and at most one request in flight per coordinator.

    Only one question per transactional id waits for the next request. A later question replaces it, because a producer
    that sends again has given up its first request (AddPartitionsToTxnManager.addTxnData).
    """

    def __init__(self, *, node: str, outbox: Outbox, find: FindCoordinator, request_timeout_us: int) -> None:
        self._node = node
        self._outbox = outbox
        self._find = find
        self._request_timeout_us = request_timeout_us
        self._queues: dict[tuple[str, int], _Queue] = {}

    def ask(self, wanted: TransactionQuestion, now_us: int) -> None:
        coordinator = self._find(wanted.transactional_id, now_us)
        if coordinator is None:
            self._answer(wanted, dict.fromkeys(wanted.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE), now_us)
            return
        address = coordinator.host, coordinator.port
        queue = self._queues.get(address)
        if queue is None:
            queue = self._queues[address] = _Queue(Channel(self._outbox, *address))
        earlier = queue.waiting.get(wanted.transactional_id)
        if earlier is not None and earlier.producer_epoch > wanted.producer_epoch:
            self._answer(wanted, dict.fromkeys(wanted.partitions, ErrorCode.INVALID_PRODUCER_EPOCH), now_us)
            return
        queue.waiting[wanted.transactional_id] = wanted
        self._go_on(queue, now_us)
        if earlier is not None:
            is_fenced = earlier.producer_epoch < wanted.producer_epoch
            error = ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else ErrorCode.NETWORK_EXCEPTION
            self._answer(earlier, dict.fromkeys(earlier.partitions, error), now_us)

    def _go_on(self, queue: _Queue, now_us: int) -> None:
        if queue.channel.busy or not queue.waiting:
            return
        asked, queue.waiting = queue.waiting, {}
        entity = cold.request(
            ADD_PARTITIONS_TO_TXN,
            ADD_PARTITIONS_TO_TXN_VERSION,
            transactions=[_transaction(item) for item in asked.values()],
        )

        def encode(correlation_id: int) -> bytes:
            return cold.encode_request(
                ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_TO_TXN_VERSION, correlation_id, self._node, entity
            )

        def answered(frame: bytearray | None, answered_us: int) -> None:
            lost, errors = _errors_in(frame)
            for item in asked.values():
                found = errors.get(item.transactional_id, {})
                self._answer(item, {name: found.get(name, lost) for name in item.partitions}, answered_us)
            self._go_on(queue, answered_us)

        queue.channel.request(ADD_PARTITIONS_TO_TXN, encode, answered, self._request_timeout_us, now_us)

    def _answer(self, asked: TransactionQuestion, errors: Mapping[TopicPartition, ErrorCode], now_us: int) -> None:
        """Answer a question; ask again later if the previous transaction is still ending.

        Source: KAFKA-18654, ReplicaManager.handleProduceAppend (maybeRetryOnConcurrentTransactions)
        """
        concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
        if concurrent and asked.again is not None and now_us < asked.until_us:
            self._outbox.timers.at(now_us + asked.backoff_us, asked.again)
        else:
            asked.answered({name: _as_client_error(asked, error) for name, error in errors.items()}, now_us)


def _as_client_error(asked: TransactionQuestion, error: ErrorCode) -> ErrorCode:
    """Return the error in the form that the client's request version supports.

    Differs from Kafka: there the version of the first question in a request decides for all questions.
    Source: AddPartitionsToTxnHandler.onComplete
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not asked.aborts:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _transaction(wanted: TransactionQuestion) -> dict[str, object]:
    topics: dict[str, list[int]] = {}
    for name in wanted.partitions:
        topics.setdefault(name.topic, []).append(name.partition)
    return {
        "transactional_id": wanted.transactional_id,
        "producer_id": wanted.producer_id,
        "producer_epoch": wanted.producer_epoch,
        "verify_only": not wanted.adds,
        "topics": [{"name": topic, "partitions": numbers} for topic, numbers in topics.items()],
    }


def _errors_in(frame: bytearray | None) -> tuple[ErrorCode, dict[str, dict[TopicPartition, ErrorCode]]]:
    """Return the errors in a response: one for all partitions that it lacks, and those by transactional id."""
    if frame is None:
        return ErrorCode.NETWORK_EXCEPTION, {}
    try:
        answer = cold.decode_response(ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_TO_TXN_VERSION, frame)
    except PeerViolation:
        return ErrorCode.NETWORK_EXCEPTION, {}
    if answer.error_code is not ErrorCode.NONE:
        is_refused = answer.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # Not an error of the client.
        return ErrorCode.INVALID_TXN_STATE if is_refused else answer.error_code, {}
    return ErrorCode.NETWORK_EXCEPTION, {
        str(result.transactional_id): {
            TopicPartition(str(topic.name), int(part.partition_index)): part.partition_error_code
            for topic in result.topic_results
            for part in topic.results_by_partition
        }
        for result in answer.results_by_transaction
    }
