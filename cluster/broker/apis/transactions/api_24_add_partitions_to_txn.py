"""AddPartitionsToTxn (24): a transaction spreads to partitions (KIP-98). source:
KafkaApis.handleAddPartitionsToTxnRequest

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  PRODUCER_FENCED may be the answer (KIP-588)
3  flexible
4  brokers ask, too: of several transactions at once, or only whether they are open (KIP-890)
5  TRANSACTION_ABORTABLE may be the answer (KIP-890)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cluster.broker.apis.api import BrokerParts, Values
from cluster.broker.apis.transactions.errors import error_in
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from cluster.slices import paced
from cluster.transactions.inputs import AddPartitions, AddResult, TransactionResult
from cluster.transactions.transaction import BUMPS_EPOCH
from replica.errors import ErrorCode
from replica.ids import TopicPartition

FIRST_OF_MANY = 4
BY_CLIENT = 0
"""transaction.version of a producer that adds its partitions itself."""
Errors = Mapping[TopicPartition, ErrorCode]


class _Asked(NamedTuple):
    """One transaction of a request. version: transaction.version that the version of the request stands for"""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    verify_only: bool
    version: int


class AddPartitionsToTxnHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.transactions
        self._cache = broker.cache
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        asked = self._asked(header.api_version, request)
        answered: dict[str, Errors] = {}

        def take(transactional_id: str, errors: Errors) -> None:
            answered[transactional_id] = errors
            if len(answered) == len(asked):
                self._respond(connection, header, answered)

        if not asked:
            self._respond(connection, header, answered)
        for one in paced(asked.values()):
            self._add(connection, one, partial(take, one.transactional_id), now_us)

    def _asked(self, api_version: int, request: Entity) -> dict[str, _Asked]:
        """By transactional id."""
        if api_version < FIRST_OF_MANY:
            only = _Asked(
                str(request.v3_and_below_transactional_id),
                int(request.v3_and_below_producer_id),
                int(request.v3_and_below_producer_epoch),
                _partitions(request.v3_and_below_topics),
                False,
                BY_CLIENT,
            )
            return {only.transactional_id: only}
        return {
            str(one.transactional_id): _Asked(
                str(one.transactional_id),
                int(one.producer_id),
                int(one.producer_epoch),
                _partitions(one.topics),
                bool(one.verify_only),
                BUMPS_EPOCH,
            )
            for one in request.transactions
        }

    def _add(self, connection: ConnectionId, asked: _Asked, respond: Callable[[Errors], None], now_us: int) -> None:
        known = {name for name in paced(asked.partitions) if self._cache.image.partition(*name) is not None}
        if not known.issuperset(asked.partitions):
            respond(
                {
                    name: ErrorCode.OPERATION_NOT_ATTEMPTED if name in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    for name in paced(asked.partitions)
                }
            )
            return

        def make_input(number: int) -> AddPartitions:
            return AddPartitions(now_us=now_us, request=number, **asked._asdict())

        def take(result: TransactionResult) -> None:
            assert isinstance(result, AddResult)
            respond(result.errors)

        self._service.submit(connection, make_input, take, now_us)

    def _respond(self, connection: ConnectionId, header: RequestHeader, answered: Mapping[str, Errors]) -> None:
        version = header.api_version
        if version < FIRST_OF_MANY:
            results = (result for errors in answered.values() for result in _results(version, errors))
            self._answer(connection, header, results_by_topic_v3_and_below=results)
        elif any(ErrorCode.UNSUPPORTED_VERSION in errors.values() for errors in paced(answered.values())):
            # In Kafka it is an exception, which ends the request.
            self._answer(connection, header, error_code=ErrorCode.UNSUPPORTED_VERSION)
        else:
            found = (
                {"transactional_id": name, "topic_results": _results(version, errors)}
                for name, errors in answered.items()
            )
            self._answer(connection, header, results_by_transaction=found)


def _partitions(topics: Sequence[Entity]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(str(topic.name), int(number)) for topic in topics for number in topic.partitions)


def _results(version: int, errors: Errors) -> list[Values]:
    topics: dict[str, list[Values]] = {}
    for name, error in paced(errors.items()):
        result: Values = {"partition_index": name.partition, "partition_error_code": error_in(version, error)}
        topics.setdefault(name.topic, []).append(result)
    return [{"name": topic, "results_by_partition": results} for topic, results in topics.items()]


API = AddPartitionsToTxnHandler
