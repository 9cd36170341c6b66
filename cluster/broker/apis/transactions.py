"""Transaction APIs of producers: InitProducerId (22), AddPartitionsToTxn (24), AddOffsetsToTxn (25),
EndTxn (26).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from cluster.broker.apis.api import ApiHandler, Serve, Values
from cluster.node import ConnectionId
from cluster.protocol import cold, versions
from cluster.protocol.entities import Entity
from cluster.server.responder import Call
from cluster.slices import paced
from cluster.transactions.inputs import (
    AddPartitions,
    AddResult,
    EndResult,
    EndTxn,
    InitProducerId,
    InitResult,
    ProducerIdAndEpoch,
    TransactionResult,
)
from cluster.transactions.transaction import BUMPS_EPOCH
from replica.errors import ErrorCode
from replica.ids import OFFSETS_TOPIC, TopicPartition

FIRST_WITH_PRODUCER_FENCED = 2
"""First version with PRODUCER_FENCED of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn (KIP-588)."""
FIRST_INIT_WITH_PRODUCER_FENCED = 4


def error_in(version: int, error: ErrorCode, fenced_since: int = FIRST_WITH_PRODUCER_FENCED) -> ErrorCode:
    """Return `error`, with PRODUCER_FENCED replaced by INVALID_PRODUCER_EPOCH in versions before `fenced_since`."""
    if error is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1


class InitProducerIdHandler(ApiHandler):
    """InitProducerId (22): return an id for an idempotent or transactional producer (KIP-98).

    Source: KafkaApis.handleInitProducerIdRequest

    0  first version
    1  a throttled client gets its response before the delay (KIP-219)
    2  flexible
    3  the request has the producer's current id and epoch (KIP-360)
    4  PRODUCER_FENCED is a possible error (KIP-588)
    5  TRANSACTION_ABORTABLE is a possible error (KIP-890)
    """

    def __call__(self, call: Call) -> None:
        def answer(error: ErrorCode, producer_id: int = NO_PRODUCER_ID, epoch: int = NO_PRODUCER_EPOCH) -> None:
            error = error_in(call.header.api_version, error, FIRST_INIT_WITH_PRODUCER_FENCED)
            self._answer(call, error_code=error, producer_id=producer_id, producer_epoch=epoch)

        def give(producer_id: int | None) -> None:
            if producer_id is None:
                answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            else:
                answer(ErrorCode.NONE, producer_id, 0)

        def respond(result: TransactionResult) -> None:
            assert isinstance(result, InitResult)
            answer(*result)

        request = call.decoded()
        known = _known(request)
        if (known.producer_id == NO_PRODUCER_ID) != (known.epoch == NO_PRODUCER_EPOCH):
            answer(ErrorCode.INVALID_REQUEST)
            return
        if request.transactional_id is None:
            self._broker.plane.producer_ids.next(give, call.now_us)
            return

        def make_input(number: int) -> InitProducerId:
            return InitProducerId(
                now_us=call.now_us,
                request=number,
                transactional_id=str(request.transactional_id),
                timeout_ms=cold.milliseconds(request.transaction_timeout),
                expected=None if known.producer_id == NO_PRODUCER_ID else known,
            )

        self._broker.transactions.submit(call.connection, make_input, respond, call.now_us)


def _known(request: Entity) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(
        int(getattr(request, "producer_id", NO_PRODUCER_ID)),
        int(getattr(request, "producer_epoch", NO_PRODUCER_EPOCH)),
    )


FIRST_OF_MANY = 4
BY_CLIENT = 0
"""transaction.version of a producer that sends AddPartitionsToTxn itself."""


Errors = Mapping[TopicPartition, ErrorCode]


class _Asked(NamedTuple):
    """One transaction of a request; `version` is the transaction.version that the API version implies."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    verify_only: bool
    version: int


class AddPartitionsToTxnHandler(ApiHandler):
    """AddPartitionsToTxn (24): add partitions to a transaction (KIP-98).

    Source: KafkaApis.handleAddPartitionsToTxnRequest

    0  first version
    1  a throttled client gets its response before the delay (KIP-219)
    2  PRODUCER_FENCED is a possible error (KIP-588)
    3  flexible
    4  requests of brokers: several transactions together, or only a check that they are open (KIP-890)
    5  TRANSACTION_ABORTABLE is a possible error (KIP-890)
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        asked = self._asked(call.header.api_version, request)
        answered: dict[str, Errors] = {}

        def take(transactional_id: str, errors: Errors) -> None:
            answered[transactional_id] = errors
            if len(answered) == len(asked):
                self._respond(call, answered)

        if not asked:
            self._respond(call, answered)
        for item in paced(asked.values()):
            self._add(call.connection, item, partial(take, item.transactional_id), call.now_us)

    def _asked(self, api_version: int, request: Entity) -> dict[str, _Asked]:
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
            str(transaction.transactional_id): _Asked(
                str(transaction.transactional_id),
                int(transaction.producer_id),
                int(transaction.producer_epoch),
                _partitions(transaction.topics),
                bool(transaction.verify_only),
                BUMPS_EPOCH,
            )
            for transaction in request.transactions
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

        self._broker.transactions.submit(connection, make_input, take, now_us)

    def _respond(self, call: Call, answered: Mapping[str, Errors]) -> None:
        version = call.header.api_version
        if version < FIRST_OF_MANY:
            results = (result for errors in answered.values() for result in _results(version, errors))
            self._answer(call, results_by_topic_v3_and_below=results)
        elif any(ErrorCode.UNSUPPORTED_VERSION in errors.values() for errors in paced(answered.values())):
            # In Kafka, this error is thrown as an exception and replaces the response.
            self._answer(call, error_code=ErrorCode.UNSUPPORTED_VERSION)
        else:
            found = (
                {"transactional_id": name, "topic_results": _results(version, errors)}
                for name, errors in answered.items()
            )
            self._answer(call, results_by_transaction=found)


def _partitions(topics: Sequence[Entity]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(str(topic.name), int(number)) for topic in topics for number in topic.partitions)


def _results(version: int, errors: Errors) -> list[Values]:
    topics: dict[str, list[Values]] = {}
    for name, error in paced(errors.items()):
        result: Values = {"partition_index": name.partition, "partition_error_code": error_in(version, error)}
        topics.setdefault(name.topic, []).append(result)
    return [{"name": topic, "results_by_partition": results} for topic, results in topics.items()]


class AddOffsetsToTxnHandler(ApiHandler):
    """AddOffsetsToTxn (25): add the partition that stores a group's offsets to a transaction (KIP-98).

    Source: KafkaApis.handleAddOffsetsToTxnRequest

    0  first version
    1  a throttled client gets its response before the delay (KIP-219)
    2  PRODUCER_FENCED is a possible error (KIP-588)
    3  flexible
    4  TRANSACTION_ABORTABLE is a possible error (KIP-890)
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        offsets_topic = self._broker.coordinators.offsets_topic
        kept_in = TopicPartition(OFFSETS_TOPIC, offsets_topic.partition_of(str(request.group_id)))

        def make_input(number: int) -> AddPartitions:
            return AddPartitions(
                now_us=call.now_us,
                request=number,
                transactional_id=str(request.transactional_id),
                producer_id=int(request.producer_id),
                producer_epoch=int(request.producer_epoch),
                partitions=(kept_in,),
                verify_only=False,
                version=BY_CLIENT,
            )

        def respond(result: TransactionResult) -> None:
            assert isinstance(result, AddResult)
            self._answer(call, error_code=error_in(call.header.api_version, result.errors[kept_in]))

        self._broker.transactions.submit(call.connection, make_input, respond, call.now_us)


FIRST_WITH_NEXT_EPOCH = 5


class EndTxnHandler(ApiHandler):
    """EndTxn (26): commit or abort a transaction (KIP-98). Source: KafkaApis.handleEndTxnRequest

    0  first version
    1  a throttled client gets its response before the delay (KIP-219)
    2  PRODUCER_FENCED is a possible error (KIP-588)
    3  flexible
    4  TRANSACTION_ABORTABLE is a possible error (KIP-890)
    5  the response has the producer's next epoch (KIP-890)
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()

        def make_input(number: int) -> EndTxn:
            return EndTxn(
                now_us=call.now_us,
                request=number,
                transactional_id=str(request.transactional_id),
                producer_id=int(request.producer_id),
                producer_epoch=int(request.producer_epoch),
                commit=bool(request.committed),
                version=BUMPS_EPOCH if call.header.api_version >= FIRST_WITH_NEXT_EPOCH else 0,
            )

        def respond(result: TransactionResult) -> None:
            assert isinstance(result, EndResult)
            self._answer(
                call,
                error_code=error_in(call.header.api_version, result.error),
                producer_id=result.producer_id,
                producer_epoch=result.producer_epoch,
            )

        self._broker.transactions.submit(call.connection, make_input, respond, call.now_us)


APIS: Final[Mapping[int, Serve]] = {
    versions.INIT_PRODUCER_ID: InitProducerIdHandler,
    versions.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnHandler,
    versions.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnHandler,
    versions.END_TXN: EndTxnHandler,
}
