"""Share group APIs (KIP-932) of members and operators: ShareGroupHeartbeat (76), ShareGroupDescribe (77),
DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92).

Simplified: the lag of a group is always unknown (-1), and a description includes uncommitted state of the coordinator.
Source: KafkaApis.scala, GroupCoordinatorService.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values
from cluster.broker.apis.group_members import MemberHeartbeatHandler, where_it_is_on
from cluster.broker.apis.groups_described import DescribesGroups, named_assignment
from cluster.broker.apis.refusals import WITHOUT_SHARES
from cluster.groups.inputs import (
    AlterShareOffsets,
    AlterShareOffsetsResult,
    DeleteShareOffsets,
    DeleteShareOffsetsResult,
    Result,
    ShareHeartbeat,
    ShareRefusal,
)
from cluster.groups.share_membership import SIMPLE
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.share_group import ShareGroup
from cluster.protocol import versions
from cluster.protocol.entities import Entity
from cluster.server.responder import Call, Handler
from cluster.share.persister import StateRequest
from cluster.share.state import NO_LEADER_EPOCH, ShareKey
from controller.features import SHARE_VERSION
from replica.errors import ErrorCode


def where_shares_are_on(handlers: Mapping[int, Callable[[BrokerParts], Handler]]) -> dict[int, Serve]:
    """Return functions that create the handlers of APIs, by key; they refuse requests while share.version is 0."""

    def serve_of(key: int, make: Callable[[BrokerParts], Handler]) -> Serve:
        return lambda broker: where_it_is_on(broker, make(broker), WITHOUT_SHARES[key](broker), SHARE_VERSION)

    return {key: serve_of(key, make) for key, make in handlers.items()}


def by_topic(topics: Mapping[object, list[Values]]) -> list[Values]:
    """Return the response's entries of topics; `topics` has the entries of their partitions by topic id."""
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]


class ShareGroupHeartbeatHandler(MemberHeartbeatHandler):
    """ShareGroupHeartbeat (76): a member of a share group joins, learns its partitions, and leaves.

    1  the first version that Kafka keeps: version 0 was for early access in 4.0
    """

    def _heartbeat(self, request: Entity, version: int) -> Callable[..., ShareHeartbeat]:
        topics = request.subscribed_topic_names
        return partial(ShareHeartbeat, topics=None if topics is None else tuple(map(str, topics)))


class ShareGroupDescribeHandler(DescribesGroups):
    """ShareGroupDescribe (77): return share groups, their members, and the partitions assigned to each member.

    1  the first version that Kafka keeps: version 0 was for early access in 4.0
    """

    TYPE = ShareGroup.TYPE

    def _fields(self, group: ConsumerGroup) -> Values:
        members = [
            {
                "member_id": member.member_id,
                "rack_id": member.rack_id,
                "member_epoch": member.epoch,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "subscribed_topic_names": list(member.topics),
                "assignment": named_assignment(member.assigned, self._cache),
            }
            for member in group.members.values()
        ]
        return {
            "error_code": ErrorCode.NONE,
            "group_id": group.group_id,
            "group_state": group.state.value,
            "group_epoch": group.epoch,
            "assignment_epoch": group.target_epoch,
            "assignor_name": SIMPLE,
            "members": members,
        }


class DescribeShareGroupOffsetsHandler(ApiHandler):
    """DescribeShareGroupOffsets (90): return the start offsets of share groups, read from their share coordinators.

    0  first version
    1  the lag (KIP-1226)
    """

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._groups = broker.groups.coordinator

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        described: list[Values] = []
        wanted: list[tuple[ShareKey, Values]] = []
        for asked in request.groups:
            group_id = str(asked.group_id)
            error = self._groups.index.status(group_id)
            topics: list[Values] = []
            described.append({"group_id": group_id, "error_code": error, "topics": topics})
            if error is ErrorCode.NONE:
                for name, numbers in self._partitions(group_id, asked).items():
                    topics.append(self._topic(group_id, name, numbers, wanted))

        def answered(values: Values, error: ErrorCode, result: Entity | None, key: ShareKey) -> None:
            if error is ErrorCode.NONE and result is not None:
                values |= {"start_offset": result.start_offset, "leader_epoch": result.leader_epoch}
            values["error_code"] = error
            waiting.remove(key)
            if not waiting:
                self._answer(call, groups=described)

        waiting = [key for key, _ in wanted]
        if not waiting:
            self._answer(call, groups=described)
        for key, values in wanted:
            self._ask(key, values, answered, call.now_us)

    def _ask(
        self,
        key: ShareKey,
        values: Values,
        answered: Callable[[Values, ErrorCode, Entity | None, ShareKey], None],
        now_us: int,
    ) -> None:
        request = StateRequest(
            api=versions.READ_SHARE_GROUP_STATE_SUMMARY,
            key=key,
            fields={"leader_epoch": NO_LEADER_EPOCH},
            answered=lambda error, message, result, at_us: answered(values, error, result, key),
        )
        self._broker.coordinators.persister.ask(request, now_us)

    def _partitions(self, group_id: str, asked: Entity) -> dict[str, list[int]]:
        if asked.topics is not None:
            return {str(topic.topic_name): list(topic.partitions) for topic in asked.topics}
        group = self._groups.index.share_groups.get(group_id, ShareGroup(group_id))
        found: dict[str, list[int]] = {}
        for item in group.shares.initialized:
            name = self._cache.topic_name(item.topic_id)
            if name is not None:
                found.setdefault(name, []).append(item.partition)
        return found

    def _topic(self, group_id: str, name: str, numbers: list[int], wanted: list[tuple[ShareKey, Values]]) -> Values:
        topic = self._cache.image.topics.get(name)
        unknown = {"start_offset": -1, "leader_epoch": 0, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        partitions: list[Values] = [{"partition_index": number, **unknown} for number in numbers]
        if topic is not None:
            for number, values in zip(numbers, partitions, strict=True):
                wanted.append((ShareKey(group_id, topic.topic_id, number), values))
        return {"topic_name": name, "topic_id": None if topic is None else topic.topic_id, "partitions": partitions}


class AlterShareGroupOffsetsHandler(ApiHandler):
    """AlterShareGroupOffsets (91): set the start offsets of a share group without members.

    0  the only version

    Source: KafkaApis.handleAlterShareGroupOffsetsRequest
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        offsets = {
            str(topic.topic_name): {
                int(partition.partition_index): int(partition.start_offset) for partition in topic.partitions
            }
            for topic in request.topics
        }

        def answer(result: Result) -> None:
            assert isinstance(result, AlterShareOffsetsResult)
            topics: dict[str, list[Values]] = {}
            for name, refusal in result.partitions.items():
                values: Values = {"partition_index": name.partition, **_refusal(refusal)}
                topics.setdefault(name.topic, []).append(values)
            responses = [{**self._named(topic), "partitions": partitions} for topic, partitions in topics.items()]
            self._answer(call, **_refusal(result.refusal), responses=responses)

        def make_input(number: int) -> AlterShareOffsets:
            return AlterShareOffsets(
                now_us=call.now_us, request=number, group_id=str(request.group_id), offsets=offsets
            )

        self._broker.groups.submit(call.connection, make_input, answer, call.now_us)

    def _named(self, topic: str) -> Values:
        known = self._cache.image.topics.get(topic)
        return {"topic_name": topic, "topic_id": None if known is None else known.topic_id}


class DeleteShareGroupOffsetsHandler(ApiHandler):
    """DeleteShareGroupOffsets (92): delete the start offsets of some topics of a share group without members.

    0  the only version

    Source: KafkaApis.handleDeleteShareGroupOffsetsRequest
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        topics = tuple(str(topic.topic_name) for topic in request.topics)

        def answer(result: Result) -> None:
            assert isinstance(result, DeleteShareOffsetsResult)
            responses: list[Values] = [
                {"topic_name": name, "topic_id": topic_id, **_refusal(refusal)}
                for name, (topic_id, refusal) in result.topics.items()
            ]
            self._answer(call, **_refusal(result.refusal), responses=responses)

        def make_input(number: int) -> DeleteShareOffsets:
            return DeleteShareOffsets(now_us=call.now_us, request=number, group_id=str(request.group_id), topics=topics)

        self._broker.groups.submit(call.connection, make_input, answer, call.now_us)


def _refusal(refusal: ShareRefusal) -> Values:
    return {"error_code": refusal.error, "error_message": refusal.message}


APIS: Final[Mapping[int, Serve]] = where_shares_are_on(
    {
        versions.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatHandler,
        versions.SHARE_GROUP_DESCRIBE: ShareGroupDescribeHandler,
        versions.DESCRIBE_SHARE_GROUP_OFFSETS: DescribeShareGroupOffsetsHandler,
        versions.ALTER_SHARE_GROUP_OFFSETS: AlterShareGroupOffsetsHandler,
        versions.DELETE_SHARE_GROUP_OFFSETS: DeleteShareGroupOffsetsHandler,
    }
)
