"""Describe and list producers and transactions: DescribeProducers (61), DescribeTransactions (65),
ListTransactions (66).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import ApiHandler, Serve, Values
from cluster.protocol.versions import DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from cluster.server.responder import Call
from cluster.slices import paced
from cluster.topic_pattern import described_by
from cluster.transactions.transaction import TransactionState as State
from controller.topics import check_legal
from replica.errors import ErrorCode, KafkaError
from replica.ids import TopicPartition

NO_TRANSACTION = -1


class DescribeProducersHandler(ApiHandler):
    """DescribeProducers (61): return a partition's producers, and where the open transaction of each begins (KIP-664).

         0  the only version

    Source: ReplicaManager.activeProducerState
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        topics = [
            {
                "name": str(topic.name),
                "partitions": [
                    self._producers(TopicPartition(str(topic.name), int(number))) for number in topic.partition_indexes
                ],
            }
            for topic in request.topics
        ]
        self._answer(call, topics=topics)

    def _producers(self, name: TopicPartition) -> Values:
        partition = self._broker.replicas.partitions.get(name)
        if partition is None:
            try:
                check_legal(name.topic)
                error, message = self._broker.replicas.missing_partition_error(name), None
            except KafkaError as illegal:
                error, message = illegal.code, illegal.message
            return {"partition_index": name.partition, "error_code": error, "error_message": message}
        return {
            "partition_index": name.partition,
            "error_code": ErrorCode.NONE,
            "active_producers": [
                {
                    "producer_id": producer_id,
                    "producer_epoch": entry.epoch,
                    "last_sequence": entry.last_sequence,
                    "last_timestamp": entry.last_timestamp_ms,
                    "coordinator_epoch": entry.coordinator_epoch,
                    "current_txn_start_offset": NO_TRANSACTION
                    if entry.transaction_offset is None
                    else entry.transaction_offset,
                }
                for producer_id, entry in sorted(partition.log.producers.producers.items())
            ],
        }


class DescribeTransactionsHandler(ApiHandler):
    """DescribeTransactions (65): return the state of transactions (KIP-664).

    0  the only version
    """

    def __call__(self, call: Call) -> None:
        asked = call.decoded().transactional_ids
        self._answer(call, transaction_states=[self._state(str(name)) for name in asked])

    def _state(self, transactional_id: str) -> Values:
        try:
            found = self._broker.transactions.coordinator.describe(transactional_id)
        except KafkaError as error:
            return {"transactional_id": transactional_id, "error_code": error.code}
        topics: dict[str, list[int]] = {}
        for name in found.partitions:
            topics.setdefault(name.topic, []).append(name.partition)
        return {
            "error_code": ErrorCode.NONE,
            "transactional_id": transactional_id,
            "transaction_state": found.state.value,
            "transaction_timeout": found.timeout_ms,
            "transaction_start_time": found.started_ms,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()],
        }


ANY_TIME = -1
_STATES = {state.value: state for state in State}


class ListTransactionsHandler(ApiHandler):
    """ListTransactions (66): return the transactions of this coordinator (KIP-664).
    Source: KafkaApis.handleListTransactionsRequest

    0  first version
    1  a filter by how long they have been open (KIP-994)
    2  a filter by a pattern for their transactional ids (KIP-1152)
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        names = [str(name) for name in request.state_filters]
        states = [_STATES[name] for name in names if name in _STATES]
        try:
            found = self._broker.transactions.coordinator.listed(
                {int(item) for item in request.producer_id_filters},
                states if names else None,
                int(getattr(request, "duration_filter", ANY_TIME)),
                call.now_us,
            )
            pattern = getattr(request, "transactional_id_pattern", None)
            is_wanted = described_by(str(pattern), "Transaction ID pattern") if pattern else None
        except KafkaError as error:
            self._answer(call, error_code=error.code)
            return
        self._answer(
            call,
            error_code=ErrorCode.NONE,
            unknown_state_filters=[name for name in names if name not in _STATES],
            transaction_states=[
                {
                    "transactional_id": item.transactional_id,
                    "producer_id": item.producer_id,
                    "transaction_state": item.state.value,
                }
                for item in paced(found)
                if is_wanted is None or is_wanted(item.transactional_id)
            ],
        )


APIS: Final[Mapping[int, Serve]] = {
    DESCRIBE_PRODUCERS: DescribeProducersHandler,
    DESCRIBE_TRANSACTIONS: DescribeTransactionsHandler,
    LIST_TRANSACTIONS: ListTransactionsHandler,
}
