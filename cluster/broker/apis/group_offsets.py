"""Committed offsets of groups: OffsetCommit (8), OffsetFetch (9), TxnOffsetCommit (28), OffsetDelete (47)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values
from cluster.broker.metadata.follower import MetadataCache
from cluster.groups.inputs import (
    NO_GENERATION,
    NO_MEMBER_ID,
    CommitOffsets,
    CommitResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    InTransaction,
    Result,
)
from cluster.groups.state.offsets import NO_EXPIRY, OffsetAndMetadata
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH, TXN_OFFSET_COMMIT, RequestHeader
from cluster.slices import paced
from replica.errors import ErrorCode, KafkaError
from replica.ids import UNDEFINED_EPOCH, UNKNOWN_OFFSET, TopicPartition
from replica.log.batches.records import NO_PRODUCER_ID
from replica.log.producers.transaction_index import NOT_ASKED_FOR


def instance_id_of(request: Entity) -> str | None:
    """group.instance.id; older versions of every request have no field for it"""
    found: object = getattr(request, "group_instance_id", None)
    return None if found is None else str(found)


def exists(cache: MetadataCache, name: TopicPartition) -> bool:
    return cache.image.partition(name.topic, name.partition) is not None


def commits_of(
    request: Entity, cache: MetadataCache, now_ms: int, expires_ms: int
) -> tuple[list[TopicPartition], dict[TopicPartition, OffsetAndMetadata]]:
    """Of OffsetCommit or TxnOffsetCommit: the partitions named, and the commits of those that exist."""
    names: list[TopicPartition] = []
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in request.topics:
        for one in topic.partitions:
            name = TopicPartition(str(topic.name), int(one.partition_index))
            names.append(name)
            if exists(cache, name):
                offsets[name] = _commit_of(one, now_ms, expires_ms)
    return names, offsets


def _commit_of(one: Entity, now_ms: int, expires_ms: int) -> OffsetAndMetadata:
    """Times are the wall clock's."""
    return OffsetAndMetadata(
        offset=int(one.committed_offset),
        leader_epoch=int(getattr(one, "committed_leader_epoch", UNDEFINED_EPOCH)),
        metadata="" if one.committed_metadata is None else str(one.committed_metadata),
        committed_ms=now_ms,
        expires_ms=expires_ms,
    )


def by_topic(partitions: Iterable[tuple[TopicPartition, Values]]) -> Iterator[Values]:
    """Answers about partitions, gathered by topic in the order in which topics first come.

    They are gathered when the answer is written, which is done in slices.
    """
    topics: dict[str, list[Values]] = {}
    for name, answer in paced(partitions):
        topics.setdefault(name.topic, []).append(answer)
    for topic, answers in topics.items():
        yield {"name": topic, "partitions": answers}


def error_of_each(names: Sequence[TopicPartition], errors: Mapping[TopicPartition, ErrorCode]) -> Iterator[Values]:
    """Partitions that the coordinator was not asked about do not exist."""
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return by_topic(
        (name, {"partition_index": name.partition, "error_code": errors.get(name, missing)}) for name in names
    )


DEFAULT_RETENTION = -1
FIRST_WITH_MEMBER_EPOCHS = 9


class OffsetCommitHandler:
    """OffsetCommit (8): a group keeps how far it has come. source: KafkaApis.handleOffsetCommitRequest

    2  how long to keep the offsets: the oldest version that Kafka 4 takes
    3  throttle time
    4  a throttled client is answered first and held back then (KIP-219)
    5  how long they are kept is the broker's setting alone (KIP-211)
    6  leader epochs (KIP-320)
    7  group.instance.id: a static member (KIP-345)
    8  flexible
    9  members of KIP-848's groups; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH may be the answer
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._cache = broker.base.cache
        self._clock = broker.base.clock
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        now_ms = self._clock.at(now_us) // 1000
        retention = getattr(request, "retention_time", None)
        expires_ms = NO_EXPIRY
        if retention is not None and cold.milliseconds(retention) != DEFAULT_RETENTION:
            expires_ms = now_ms + cold.milliseconds(retention)
        names, offsets = commits_of(request, self._cache, now_ms, expires_ms)
        if not offsets:
            self._answer(connection, header, topics=error_of_each(names, {}))
            return

        def make_input(number: int) -> CommitOffsets:
            return CommitOffsets(
                now_us=now_us,
                request=number,
                group_id=str(request.group_id),
                generation=int(request.generation_id_or_member_epoch),
                member_id=str(request.member_id),
                instance_id=instance_id_of(request),
                offsets=offsets,
                knows_epochs=header.api_version >= FIRST_WITH_MEMBER_EPOCHS,
            )

        def answer(result: Result) -> None:
            assert isinstance(result, CommitResult)
            self._answer(connection, header, topics=error_of_each(names, result.errors))

        self._service.submit(connection, make_input, answer, now_us)


FIRST_WITH_ERROR = 2
FIRST_OF_MANY = 8


class OffsetFetchHandler:
    """OffsetFetch (9): how far a group has come. source: KafkaApis.handleOffsetFetchRequest

    1  offsets that the coordinator keeps: the oldest version that Kafka 4 takes
    2  null asks for all partitions; an error of the whole answer
    3  throttle time
    4  a throttled client is answered first and held back then (KIP-219)
    5  leader epochs (KIP-320)
    6  flexible
    7  only stable offsets, on request: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447)
    8  several groups at once (KIP-709)
    9  members of KIP-848's groups, by id and epoch
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._groups = broker.groups.coordinator
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        stable = bool(getattr(request, "require_stable", False))
        if header.api_version >= FIRST_OF_MANY:
            found = [self._of_group(one, stable) for one in request.groups]
            self._answer(connection, header, groups=found)
            return
        wanted = _wanted(request.topics)
        answer = self._committed(str(request.group_id), wanted, stable)
        error = answer["error_code"]
        if header.api_version < FIRST_WITH_ERROR and error is not ErrorCode.NONE:
            answer["topics"] = by_topic((name, _no_offset(name, error)) for name in wanted or ())
        self._answer(connection, header, error_code=error, topics=answer["topics"])

    def _of_group(self, asked: Entity, stable: bool) -> Values:
        member_id, epoch = getattr(asked, "member_id", None), int(getattr(asked, "member_epoch", NO_GENERATION))
        return self._committed(str(asked.group_id), _wanted(asked.topics), stable, member_id, epoch)

    def _committed(
        self,
        group_id: str,
        wanted: Sequence[TopicPartition] | None,
        stable: bool,
        member_id: str | None = None,
        member_epoch: int = NO_GENERATION,
    ) -> Values:
        """source: fetchOffsets, fetchAllOffsets"""
        try:
            found = self._groups.offsets(
                group_id, wanted, stable=stable, member_id=member_id, member_epoch=member_epoch
            )
        except KafkaError as refusal:
            return {"group_id": group_id, "error_code": refusal.code, "topics": []}
        topics = by_topic(
            (name, _offset_fields(name, value) if isinstance(value, OffsetAndMetadata) else _no_offset(name, value))
            for name, value in found.items()
        )
        return {"group_id": group_id, "error_code": ErrorCode.NONE, "topics": list(topics)}


def _wanted(topics: Iterable[Entity] | None) -> list[TopicPartition] | None:
    """None: all that the group has."""
    if topics is None:
        return None
    return [TopicPartition(str(topic.name), int(number)) for topic in topics for number in topic.partition_indexes]


def _offset_fields(name: TopicPartition, value: OffsetAndMetadata) -> Values:
    return {
        "partition_index": name.partition,
        "committed_offset": value.offset,
        "committed_leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "error_code": ErrorCode.NONE,
    }


def _no_offset(name: TopicPartition, error: object) -> Values:
    """error: None where there is no error, only no commit"""
    return {
        "partition_index": name.partition,
        "committed_offset": UNKNOWN_OFFSET,
        "committed_leader_epoch": UNDEFINED_EPOCH,
        "metadata": "",
        "error_code": error or ErrorCode.NONE,
    }


class OffsetDeleteHandler:
    """OffsetDelete (47): a group forgets its offsets of some partitions (KIP-496).

         0  the only version

    source: KafkaApis.handleOffsetDeleteRequest
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._cache = broker.base.cache
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        names = [
            TopicPartition(str(topic.name), int(one.partition_index))
            for topic in request.topics
            for one in topic.partitions
        ]
        known = tuple(name for name in paced(names) if exists(self._cache, name))

        def answer(result: Result) -> None:
            assert isinstance(result, DeleteOffsetsResult)
            topics = error_of_each(names, result.errors) if result.error is ErrorCode.NONE else ()
            self._answer(connection, header, error_code=result.error, topics=topics)

        def make_input(number: int) -> DeleteOffsets:
            return DeleteOffsets(now_us=now_us, request=number, group_id=str(request.group_id), partitions=known)

        self._service.submit(connection, make_input, answer, now_us)


FIRST_WITH_LOAD_IN_PROGRESS = 2


class TxnOffsetCommitHandler:
    """TxnOffsetCommit (28): offsets of a group, in a transaction (KIP-98): they count once it is committed.
    source: KafkaApis.handleTxnOffsetCommitRequest

    0  first version
    1  a throttled client is answered first and held back then (KIP-219)
    2  leader epochs (KIP-320); COORDINATOR_LOAD_IN_PROGRESS may be the answer (KAFKA-7296)
    3  flexible; which member of the group commits (KIP-447)
    4  TRANSACTION_ABORTABLE may be the answer (KIP-890)
    5  the group need not be added to the transaction first (KIP-890)
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._cache = broker.base.cache
        self._clock = broker.base.clock
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


APIS: Final[Mapping[int, Serve]] = {
    OFFSET_COMMIT: OffsetCommitHandler,
    OFFSET_FETCH: OffsetFetchHandler,
    OFFSET_DELETE: OffsetDeleteHandler,
    TXN_OFFSET_COMMIT: TxnOffsetCommitHandler,
}
