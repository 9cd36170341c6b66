"""TxnOffsetCommit (28): offsets of a group, in a transaction (KIP-98): they count once it is committed.
source: KafkaApis.handleTxnOffsetCommitRequest

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  leader epochs (KIP-320); COORDINATOR_LOAD_IN_PROGRESS may be the answer (KAFKA-7296)
3  flexible; which member of the group commits (KIP-447)
4  TRANSACTION_ABORTABLE may be the answer (KIP-890)
5  the group need not be added to the transaction first (KIP-890)
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.groups.partition_answers import commits_of, error_of_each, instance_id_of
from cluster.groups.inputs import NO_GENERATION, NO_MEMBER_ID, CommitOffsets, CommitResult, InTransaction, Result
from cluster.groups.state.offsets import NO_EXPIRY
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import NO_PRODUCER_ID
from replica.log.producers.transaction_index import NOT_ASKED_FOR

FIRST_WITH_LOAD_IN_PROGRESS = 2


class TxnOffsetCommitHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._cache = broker.cache
        self._clock = broker.clock
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        group_id, producer_id, epoch = str(request.group_id), int(request.producer_id), int(request.producer_epoch)
        now_ms = self._clock.at(now_us) // 1000
        names, offsets = commits_of(request, self._cache, now_ms, NO_EXPIRY)

        def respond(errors: dict[TopicPartition, ErrorCode]) -> None:
            told = {name: _error_in(header.api_version, error) for name, error in errors.items()}
            self._answer(connection, header, topics=error_of_each(names, told))

        if not offsets:
            respond({})
            return

        # Without a producer's id it is a commit like any other (GroupMetadataManager.storeOffsets).
        is_transactional = producer_id != NO_PRODUCER_ID

        def commit(guard: int, error: ErrorCode, at_us: int) -> None:
            if error is not ErrorCode.NONE:
                respond(dict.fromkeys(offsets, error))
                return

            def make_input(number: int) -> CommitOffsets:
                return CommitOffsets(
                    now_us=at_us,
                    request=number,
                    group_id=group_id,
                    generation=int(getattr(request, "generation_id", NO_GENERATION)),
                    member_id=str(getattr(request, "member_id", NO_MEMBER_ID)),
                    instance_id=instance_id_of(request),
                    offsets=offsets,
                    transaction=InTransaction(producer_id, epoch, guard) if is_transactional else None,
                )

            def answer(result: Result) -> None:
                assert isinstance(result, CommitResult)
                respond(result.errors)

            self._service.submit(connection, make_input, answer, at_us)

        if not is_transactional:
            commit(NOT_ASKED_FOR, ErrorCode.NONE, now_us)
            return
        self._service.ask_transaction(
            group_id, str(request.transactional_id), producer_id, epoch, header.api_version, commit, now_us
        )


def _error_in(version: int, error: ErrorCode) -> ErrorCode:
    """As producers of that version understand it."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_WITH_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


API = TxnOffsetCommitHandler
