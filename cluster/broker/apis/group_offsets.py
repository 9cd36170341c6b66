"""Committed offsets of groups: OffsetCommit (8), OffsetFetch (9), TxnOffsetCommit (28), OffsetDelete (47)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from cluster.broker.apis.api import ApiHandler, Serve, Values
from cluster.broker.metadata.follower import MetadataCache
from cluster.coordinators.core import InTransaction
from cluster.groups.inputs import (
    NO_GENERATION,
    NO_MEMBER_ID,
    CommitOffsets,
    CommitResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    Result,
)
from cluster.groups.state.offsets import NO_EXPIRY, OffsetAndMetadata
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH, TXN_OFFSET_COMMIT
from cluster.server.responder import Call
from cluster.slices import paced
from replica.errors import ErrorCode, KafkaError
from replica.ids import UNDEFINED_EPOCH, UNKNOWN_OFFSET, TopicPartition
from replica.log.batches.records import NO_PRODUCER_ID
from replica.log.producers.transaction_index import NOT_ASKED_FOR


def instance_id_of(request: Entity) -> str | None:
    """Return the group.instance.id of a request, None if its version has no such field."""
    found: object = getattr(request, "group_instance_id", None)
    return None if found is None else str(found)


def exists(cache: MetadataCache, name: TopicPartition) -> bool:
    return cache.image.partition(name.topic, name.partition) is not None


class RequestedTopics:
    """The topics of a request, which names them or, in later versions, has their ids.

    Attributes:
        known: (name, entry of the request) of each topic, without those with unknown ids.
        ids: topic ids by name, if the request has ids.
        unknown: entries of the request with unknown topic ids.
    """

    def __init__(self, topics: Iterable[Entity], cache: MetadataCache) -> None:
        self.known: list[tuple[str, Entity]] = []
        self.ids: dict[str, UUID] = {}
        self.unknown: list[Entity] = []
        for topic in topics:
            name = str(topic.name) if hasattr(topic, "name") else cache.topic_name(topic.topic_id)
            if name is None:
                self.unknown.append(topic)
                continue
            self.known.append((name, topic))
            if hasattr(topic, "topic_id"):
                self.ids[name] = topic.topic_id


class RequestedCommits:
    """The offsets that an OffsetCommit or TxnOffsetCommit request commits.

    Attributes:
        offsets: committed offsets of the partitions that exist.

    Args:
        now_ms: commit time, by the wall clock.
        expires_ms: wall-clock time when the offsets expire.
    """

    def __init__(self, request: Entity, cache: MetadataCache, now_ms: int, expires_ms: int) -> None:
        topics = RequestedTopics(request.topics, cache)
        self._ids, self._unknown = topics.ids, topics.unknown
        self._names: list[TopicPartition] = []
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic_name, topic in topics.known:
            for partition in topic.partitions:
                name = TopicPartition(topic_name, int(partition.partition_index))
                self._names.append(name)
                if exists(cache, name):
                    self.offsets[name] = _commit_of(partition, now_ms, expires_ms, topics.ids.get(topic_name))

    def answers(self, errors: Mapping[TopicPartition, ErrorCode]) -> Iterator[Values]:
        """Yield the response's entry of each topic, with the errors of its partitions; see `error_of_each`."""
        yield from error_of_each(self._names, errors, self._ids)
        for topic in self._unknown:
            numbers = (int(partition.partition_index) for partition in topic.partitions)
            partitions = [{"partition_index": number, "error_code": ErrorCode.UNKNOWN_TOPIC_ID} for number in numbers]
            yield {"topic_id": topic.topic_id, "partitions": partitions}


def _commit_of(entity: Entity, now_ms: int, expires_ms: int, topic_id: UUID | None) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset=int(entity.committed_offset),
        leader_epoch=int(getattr(entity, "committed_leader_epoch", UNDEFINED_EPOCH)),
        metadata="" if entity.committed_metadata is None else str(entity.committed_metadata),
        committed_ms=now_ms,
        expires_ms=expires_ms,
        topic_id=topic_id,
    )


NO_IDS: Final[Mapping[str, UUID]] = {}


def by_topic(partitions: Iterable[tuple[TopicPartition, Values]], ids: Mapping[str, UUID] = NO_IDS) -> Iterator[Values]:
    """Group the response's entries of partitions by topic; yield the entry of each topic, in order of first appearance.

    A long response is built in slices; a generator makes this work part of them.

    Args:
        ids: topic ids to add, by topic name.
    """
    topics: dict[str, list[Values]] = {}
    for name, answer in paced(partitions):
        topics.setdefault(name.topic, []).append(answer)
    for topic, answers in topics.items():
        named: Values = {"name": topic, "topic_id": ids[topic]} if topic in ids else {"name": topic}
        yield {**named, "partitions": answers}


def error_of_each(
    names: Sequence[TopicPartition], errors: Mapping[TopicPartition, ErrorCode], ids: Mapping[str, UUID] = NO_IDS
) -> Iterator[Values]:
    """Yield the response's entry of each topic, with the errors of its partitions.

    A partition without an entry in `errors` gets UNKNOWN_TOPIC_OR_PARTITION.
    """
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return by_topic(
        ((name, {"partition_index": name.partition, "error_code": errors.get(name, missing)}) for name in names), ids
    )


DEFAULT_RETENTION = -1
FIRST_WITH_MEMBER_EPOCHS = 9


class OffsetCommitHandler(ApiHandler):
    """OffsetCommit (8): store a group's offsets. Source: KafkaApis.handleOffsetCommitRequest

    2  the retention of the offsets: the oldest version that Kafka 4 accepts
    3  throttle time
    4  a throttled client gets its response before the delay (KIP-219)
    5  only the broker's setting decides the retention (KIP-211)
    6  leader epochs (KIP-320)
    7  group.instance.id: a static member (KIP-345)
    8  flexible
    9  members of KIP-848's groups; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH are possible errors
    10 topics by id; UNKNOWN_TOPIC_ID is a possible error
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        now_ms = self._broker.base.clock.at(call.now_us) // 1000
        retention = getattr(request, "retention_time", None)
        expires_ms = NO_EXPIRY
        if retention is not None and cold.milliseconds(retention) != DEFAULT_RETENTION:
            expires_ms = now_ms + cold.milliseconds(retention)
        commits = RequestedCommits(request, self._cache, now_ms, expires_ms)
        if not commits.offsets:
            self._answer(call, topics=commits.answers({}))
            return

        def make_input(number: int) -> CommitOffsets:
            return CommitOffsets(
                now_us=call.now_us,
                request=number,
                group_id=str(request.group_id),
                generation=int(request.generation_id_or_member_epoch),
                member_id=str(request.member_id),
                instance_id=instance_id_of(request),
                offsets=commits.offsets,
                knows_epochs=call.header.api_version >= FIRST_WITH_MEMBER_EPOCHS,
            )

        def answer(result: Result) -> None:
            assert isinstance(result, CommitResult)
            self._answer(call, topics=commits.answers(result.errors))

        self._broker.groups.submit(call.connection, make_input, answer, call.now_us)


FIRST_WITH_ERROR = 2
FIRST_OF_MANY = 8
FIRST_WITH_TOPIC_IDS = 10


class OffsetFetchHandler(ApiHandler):
    """OffsetFetch (9): return a group's committed offsets. Source: KafkaApis.handleOffsetFetchRequest

    1  offsets stored by the coordinator: the oldest version that Kafka 4 accepts
    2  null requests all partitions; the response has a top-level error
    3  throttle time
    4  a throttled client gets its response before the delay (KIP-219)
    5  leader epochs (KIP-320)
    6  flexible
    7  only stable offsets, on request: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447)
    8  several groups in one request (KIP-709)
    9  members of KIP-848's groups, by id and epoch
    10 topics by id; UNKNOWN_TOPIC_ID is a possible error
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        stable = bool(getattr(request, "require_stable", False))
        if call.header.api_version >= FIRST_OF_MANY:
            found = [self._of_group(item, stable) for item in paced(request.groups)]
            if call.header.api_version >= FIRST_WITH_TOPIC_IDS:
                found = [self._with_ids(item) for item in paced(found)]
            self._answer(call, groups=found)
            return
        topics = self._topics(request)
        answer = self._committed(str(request.group_id), topics, stable)
        error = answer["error_code"]
        if call.header.api_version < FIRST_WITH_ERROR and error is not ErrorCode.NONE:
            answer["topics"] = by_topic((name, _no_offset(name.partition, error)) for name in _wanted(topics) or ())
        self._answer(call, error_code=error, topics=answer["topics"])

    def _of_group(self, asked: Entity, stable: bool) -> Values:
        member_id, epoch = getattr(asked, "member_id", None), int(getattr(asked, "member_epoch", NO_GENERATION))
        return self._committed(str(asked.group_id), self._topics(asked), stable, member_id, epoch)

    def _topics(self, asked: Entity) -> RequestedTopics | None:
        """Return the requested topics, None if all of the group's topics are requested."""
        return None if asked.topics is None else RequestedTopics(asked.topics, self._cache)

    def _with_ids(self, group: Values) -> Values:
        """Return a group's entry of the response with topic ids added and deleted topics dropped."""
        found, known = group["topics"], self._cache.image.topics
        assert isinstance(found, list), "the topics are not a list"
        there = (item for item in found if "topic_id" in item or item["name"] in known)
        named = [item if "topic_id" in item else {**item, "topic_id": known[item["name"]].topic_id} for item in there]
        return {**group, "topics": named}

    def _committed(
        self,
        group_id: str,
        topics: RequestedTopics | None,
        stable: bool,
        member_id: str | None = None,
        member_epoch: int = NO_GENERATION,
    ) -> Values:
        """Return the response's entry of a group, with its committed offsets or an error.

        Args:
            topics: None for all topics with commits.
            stable: True to answer UNSTABLE_OFFSET_COMMIT for offsets in open transactions.

        Source: fetchOffsets, fetchAllOffsets
        """
        try:
            found = self._broker.groups.coordinator.offsets(
                group_id, _wanted(topics), stable=stable, member_id=member_id, member_epoch=member_epoch
            )
        except KafkaError as refusal:
            return {"group_id": group_id, "error_code": refusal.code, "topics": []}
        ids = NO_IDS if topics is None else topics.ids
        answers = by_topic(
            ((name, _offset_fields(name.partition, value, ids.get(name.topic))) for name, value in found.items()), ids
        )
        unknown = (
            {
                "topic_id": topic.topic_id,
                "partitions": [
                    _no_offset(int(partition_index), ErrorCode.UNKNOWN_TOPIC_ID)
                    for partition_index in topic.partition_indexes
                ],
            }
            for topic in (() if topics is None else topics.unknown)
        )
        return {"group_id": group_id, "error_code": ErrorCode.NONE, "topics": [*answers, *unknown]}


def _wanted(topics: RequestedTopics | None) -> list[TopicPartition] | None:
    """Return the requested partitions, None if all of the group's partitions are requested."""
    if topics is None:
        return None
    return [TopicPartition(name, int(number)) for name, topic in topics.known for number in topic.partition_indexes]


def _offset_fields(partition: int, value: OffsetAndMetadata | ErrorCode | None, topic_id: UUID | None) -> Values:
    """Return the response's entry of a partition.

    Args:
        value: commit or error of the partition, None if it has no commit.
        topic_id: id in the request; a commit with another topic id, of a deleted topic of that name, is ignored.

    Source: OffsetMetadataManager.isMismatchedTopicId
    """
    if not isinstance(value, OffsetAndMetadata):
        return _no_offset(partition, value)
    if None not in (topic_id, value.topic_id) and topic_id != value.topic_id:
        return _no_offset(partition, None)
    return {
        "partition_index": partition,
        "committed_offset": value.offset,
        "committed_leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "error_code": ErrorCode.NONE,
    }


def _no_offset(partition: int, error: object) -> Values:
    """Return the response's entry of a partition without an offset; `error` is None if it has no commit."""
    return {
        "partition_index": partition,
        "committed_offset": UNKNOWN_OFFSET,
        "committed_leader_epoch": UNDEFINED_EPOCH,
        "metadata": "",
        "error_code": error or ErrorCode.NONE,
    }


class OffsetDeleteHandler(ApiHandler):
    """OffsetDelete (47): delete a group's offsets of some partitions (KIP-496).

         0  the only version

    Source: KafkaApis.handleOffsetDeleteRequest
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        names = [
            TopicPartition(str(topic.name), int(partition.partition_index))
            for topic in request.topics
            for partition in topic.partitions
        ]
        known = tuple(name for name in paced(names) if exists(self._cache, name))

        def answer(result: Result) -> None:
            assert isinstance(result, DeleteOffsetsResult)
            topics = error_of_each(names, result.errors) if result.error is ErrorCode.NONE else ()
            self._answer(call, error_code=result.error, topics=topics)

        def make_input(number: int) -> DeleteOffsets:
            return DeleteOffsets(now_us=call.now_us, request=number, group_id=str(request.group_id), partitions=known)

        self._broker.groups.submit(call.connection, make_input, answer, call.now_us)


FIRST_WITH_LOAD_IN_PROGRESS = 2
FIRST_IN_TRANSACTION_WITH_MEMBER_EPOCHS = 6


class TxnOffsetCommitHandler(ApiHandler):
    """TxnOffsetCommit (28): store a group's offsets in a transaction; they take effect when it commits (KIP-98).
    Source: KafkaApis.handleTxnOffsetCommitRequest

    0  first version
    1  a throttled client gets its response before the delay (KIP-219)
    2  leader epochs (KIP-320); COORDINATOR_LOAD_IN_PROGRESS is a possible error (KAFKA-7296)
    3  flexible; the committing member of the group (KIP-447)
    4  TRANSACTION_ABORTABLE is a possible error (KIP-890)
    5  the group need not be added to the transaction first (KIP-890)
    6  topics by id; UNKNOWN_TOPIC_ID, GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH are possible errors (KIP-1319)
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        group_id, producer_id, epoch = str(request.group_id), int(request.producer_id), int(request.producer_epoch)
        now_ms = self._broker.base.clock.at(call.now_us) // 1000
        commits = RequestedCommits(request, self._cache, now_ms, NO_EXPIRY)

        def respond(errors: dict[TopicPartition, ErrorCode]) -> None:
            error_codes = {name: _error_in(call.header.api_version, error) for name, error in errors.items()}
            self._answer(call, topics=commits.answers(error_codes))

        if not commits.offsets:
            respond({})
            return

        # Without a producer id it is not a transactional commit (GroupMetadataManager.storeOffsets).
        is_transactional = producer_id != NO_PRODUCER_ID

        def commit(guard: int, error: ErrorCode, at_us: int) -> None:
            if error is not ErrorCode.NONE:
                respond(dict.fromkeys(commits.offsets, error))
                return

            def make_input(number: int) -> CommitOffsets:
                return CommitOffsets(
                    now_us=at_us,
                    request=number,
                    group_id=group_id,
                    generation=int(getattr(request, "generation_id", NO_GENERATION)),
                    member_id=str(getattr(request, "member_id", NO_MEMBER_ID)),
                    instance_id=instance_id_of(request),
                    offsets=commits.offsets,
                    knows_epochs=call.header.api_version >= FIRST_IN_TRANSACTION_WITH_MEMBER_EPOCHS,
                    transaction=InTransaction(producer_id, epoch, guard) if is_transactional else None,
                )

            def answer(result: Result) -> None:
                assert isinstance(result, CommitResult)
                respond(result.errors)

            self._broker.groups.submit(call.connection, make_input, answer, at_us)

        if not is_transactional:
            commit(NOT_ASKED_FOR, ErrorCode.NONE, call.now_us)
            return
        self._broker.groups.ask_transaction(
            group_id, str(request.transactional_id), producer_id, epoch, call.header.api_version, commit, call.now_us
        )


def _error_in(version: int, error: ErrorCode) -> ErrorCode:
    """Return the error that stands for `error` in this version of TxnOffsetCommit."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_WITH_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


APIS: Final[Mapping[int, Serve]] = {
    OFFSET_COMMIT: OffsetCommitHandler,
    OFFSET_FETCH: OffsetFetchHandler,
    OFFSET_DELETE: OffsetDeleteHandler,
    TXN_OFFSET_COMMIT: TxnOffsetCommitHandler,
}
