"""The requests about committed offsets, and those that only look at groups.

source: KafkaApis.handleOffsetCommitRequest, handleOffsetFetchRequest, handleOffsetDeleteRequest,
handleDescribeGroupsRequest, handleListGroupsRequest; GroupCoordinatorAdapter.scala
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from cluster.broker.metadata.follower import MetadataCache
from cluster.groups.events import CommitOffsets, CommitResult, DeleteOffsets, DeleteOffsetsResult, Result
from cluster.groups.group import Group, State
from cluster.groups.member import Member
from cluster.groups.offsets import NO_EXPIRY, OffsetAndMetadata
from cluster.groups.service import GroupService
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.headers import RequestHeader
from cluster.protocol.versions import DESCRIBE_GROUPS, LIST_GROUPS, OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from cluster.server.responder import Handler, Responder
from cluster.wall_clock import WallClock
from replica.errors import ErrorCode, KafkaError
from replica.ids import UNDEFINED_EPOCH, UNKNOWN_OFFSET, TopicPartition

FIRST_FETCH_WITH_ERROR = 2
FIRST_FETCH_OF_MANY = 8
FIRST_DESCRIBE_THAT_MISSES = 6
"""KIP-1043: a group that is not there is an error; before, it was one in the state Dead."""
ALL_OF_GROUP = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""AclOperation: read, delete, describe, describe configs, alter configs."""
CLASSIC = "classic"
DEFAULT_RETENTION = -1

TopicAnswers = list[dict[str, object]]


class GroupOffsetApis:
    """`handlers` of offsets and of what one may know of groups."""

    def __init__(self, *, service: GroupService, cache: MetadataCache, clock: WallClock, responder: Responder) -> None:
        self._service = service
        self._groups = service.coordinator
        self._cache = cache
        self._clock = clock
        self._answer = responder.answer
        self.handlers: Mapping[int, Handler] = {
            OFFSET_COMMIT: self._commit,
            OFFSET_FETCH: self._fetch,
            OFFSET_DELETE: self._delete,
            DESCRIBE_GROUPS: self._describe,
            LIST_GROUPS: self._list,
        }

    # --------------------------------------------------------------------------------------------------------- commit

    def _commit(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        now_ms = self._clock.at(now_us) // 1000
        retention = getattr(request, "retention_time", None)
        expires_ms = NO_EXPIRY
        if retention is not None and cold.milliseconds(retention) != DEFAULT_RETENTION:
            expires_ms = now_ms + cold.milliseconds(retention)
        asked = [
            (TopicPartition(str(topic.name), int(one.partition_index)), one)
            for topic in request.topics
            for one in topic.partitions
        ]
        offsets = {name: _commit_of(one, now_ms, expires_ms) for name, one in asked if self._exists(name)}
        names = [name for name, _ in asked]
        if not offsets:
            self._answer(connection, header, topics=self._errors(names, {}))
            return
        instance_id = getattr(request, "group_instance_id", None)

        def event(number: int) -> CommitOffsets:
            return CommitOffsets(
                now_us=now_us,
                request=number,
                group_id=str(request.group_id),
                generation=int(request.generation_id_or_member_epoch),
                member_id=str(request.member_id),
                instance_id=None if instance_id is None else str(instance_id),
                offsets=offsets,
            )

        def answer(result: Result) -> None:
            assert isinstance(result, CommitResult)
            self._answer(connection, header, topics=self._errors(names, result.errors))

        self._service.submit(connection, event, answer, now_us)

    def _exists(self, name: TopicPartition) -> bool:
        return self._cache.image.partition(name.topic, name.partition) is not None

    @staticmethod
    def _errors(names: Sequence[TopicPartition], errors: Mapping[TopicPartition, ErrorCode]) -> TopicAnswers:
        """Partitions that nobody was asked about do not exist."""
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _by_topic(
            (name, {"partition_index": name.partition, "error_code": errors.get(name, missing)}) for name in names
        )

    # ---------------------------------------------------------------------------------------------------------- fetch

    def _fetch(self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        request = cold.decode_request(header, frame)
        stable = bool(getattr(request, "require_stable", False))
        if header.api_version >= FIRST_FETCH_OF_MANY:
            found = [self._committed(str(one.group_id), _wanted(one.topics), stable) for one in request.groups]
            self._answer(connection, header, groups=found)
            return
        wanted = _wanted(request.topics)
        answer = self._committed(str(request.group_id), wanted, stable)
        error = answer["error_code"]
        if header.api_version < FIRST_FETCH_WITH_ERROR and error is not ErrorCode.NONE:
            answer["topics"] = _by_topic((name, _no_offset(name, error)) for name in wanted or ())
        self._answer(connection, header, error_code=error, topics=answer["topics"])

    def _committed(self, group_id: str, wanted: Sequence[TopicPartition] | None, stable: bool) -> dict[str, object]:
        """source: fetchOffsets, fetchAllOffsets"""
        try:
            found = self._groups.offsets(group_id, wanted, stable=stable)
        except KafkaError as refusal:
            return {"group_id": group_id, "error_code": refusal.code, "topics": []}
        topics = _by_topic(
            (name, _offset_fields(name, value) if isinstance(value, OffsetAndMetadata) else _no_offset(name, value))
            for name, value in found.items()
        )
        return {"group_id": group_id, "error_code": ErrorCode.NONE, "topics": topics}

    # --------------------------------------------------------------------------------------------------------- delete

    def _delete(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        names = [
            TopicPartition(str(topic.name), int(one.partition_index))
            for topic in request.topics
            for one in topic.partitions
        ]
        known = tuple(name for name in names if self._exists(name))

        def answer(result: Result) -> None:
            assert isinstance(result, DeleteOffsetsResult)
            topics = self._errors(names, result.errors) if result.error is ErrorCode.NONE else []
            self._answer(connection, header, error_code=result.error, topics=topics)

        def event(number: int) -> DeleteOffsets:
            return DeleteOffsets(now_us=now_us, request=number, group_id=str(request.group_id), partitions=known)

        self._service.submit(connection, event, answer, now_us)

    # ----------------------------------------------------------------------------------------------------------- look

    def _describe(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        describe = partial(self._description, misses=header.api_version >= FIRST_DESCRIBE_THAT_MISSES)
        groups = [describe(str(group_id)) for group_id in request.groups]
        if getattr(request, "include_authorized_operations", False):
            for group in groups:
                if group["error_code"] is ErrorCode.NONE:
                    group["authorized_operations"] = ALL_OF_GROUP
        self._answer(connection, header, groups=groups)

    def _description(self, group_id: str, *, misses: bool) -> dict[str, object]:
        error = self._groups.index.status(group_id, unnamed=True)
        if error is not ErrorCode.NONE:
            return {"error_code": error, "group_id": group_id}
        group = self._groups.index.groups.get(group_id)
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND if misses else ErrorCode.NONE
            message = f"Group {group_id} not found." if misses else None
            state = State.DEAD.value
            return {"error_code": error, "error_message": message, "group_id": group_id, "group_state": state}
        protocol = group.protocol if group.state is State.STABLE else None
        return {
            "error_code": ErrorCode.NONE,
            "group_id": group_id,
            "group_state": group.state.value,
            "protocol_type": group.protocol_type or "",
            "protocol_data": protocol or "",
            "members": [_described(member, protocol) for member in group.members.values()],
        }

    def _list(self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        """Of those that this broker coordinates; a client asks all brokers."""
        request = cold.decode_request(header, frame)
        states = [str(state).lower() for state in getattr(request, "states_filter", ())]
        types = [str(kind).lower() for kind in getattr(request, "types_filter", ())]
        groups: Iterable[Group] = self._groups.index.groups.values()
        listed = [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type or "",
                "group_state": group.state.value,
                "group_type": CLASSIC,
            }
            for group in groups
            if (not states or group.state.value.lower() in states) and (not types or CLASSIC in types)
        ]
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._groups.index.loading else ErrorCode.NONE
        self._answer(connection, header, error_code=error, groups=listed)


def _by_topic(partitions: Iterable[tuple[TopicPartition, dict[str, object]]]) -> TopicAnswers:
    """Answers about partitions, gathered by topic in the order in which topics first come."""
    topics: dict[str, list[dict[str, object]]] = {}
    for name, answer in partitions:
        topics.setdefault(name.topic, []).append(answer)
    return [{"name": topic, "partitions": answers} for topic, answers in topics.items()]


def _commit_of(one: Entity, now_ms: int, expires_ms: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset=int(one.committed_offset),
        leader_epoch=int(getattr(one, "committed_leader_epoch", UNDEFINED_EPOCH)),
        metadata="" if one.committed_metadata is None else str(one.committed_metadata),
        committed_ms=now_ms,
        expires_ms=expires_ms,
    )


def _wanted(topics: Iterable[Entity] | None) -> list[TopicPartition] | None:
    """None: all that the group has."""
    if topics is None:
        return None
    return [TopicPartition(str(topic.name), int(number)) for topic in topics for number in topic.partition_indexes]


def _offset_fields(name: TopicPartition, value: OffsetAndMetadata) -> dict[str, object]:
    return {
        "partition_index": name.partition,
        "committed_offset": value.offset,
        "committed_leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "error_code": ErrorCode.NONE,
    }


def _no_offset(name: TopicPartition, error: object) -> dict[str, object]:
    """error: None where there is no error, only no commit"""
    return {
        "partition_index": name.partition,
        "committed_offset": UNKNOWN_OFFSET,
        "committed_leader_epoch": UNDEFINED_EPOCH,
        "metadata": "",
        "error_code": error or ErrorCode.NONE,
    }


def _described(member: Member, protocol: str | None) -> dict[str, object]:
    """Metadata and assignment are told of a stable group alone."""
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": b"" if protocol is None else member.metadata(protocol),
        "member_assignment": b"" if protocol is None else member.assignment,
    }
