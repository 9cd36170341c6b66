"""Members of groups: JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14), ConsumerGroupHeartbeat (68)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Final

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values
from cluster.broker.apis.group_offsets import instance_id_of
from cluster.broker.apis.refusals import ABSENT, Refused, always
from cluster.groups import inputs
from cluster.groups.inputs import ConsumerHeartbeat, ConsumerHeartbeatResult, CoordinatorInput, Result
from cluster.groups.state.assignors import Partitions, TopicIdPartition
from cluster.protocol import cold, versions
from cluster.protocol.entities import NO_ID, Entity
from cluster.server.responder import Call, Handler
from controller.features import GROUP_VERSION, level_of
from replica.errors import ErrorCode

FIRST_WITH_REBALANCE_TIMEOUT = 1
FIRST_THAT_TAKES_AN_ID = 4
FIRST_WITH_NO_PROTOCOL = 7
FIRST_THAT_SKIPS = 9


class JoinGroupHandler(ApiHandler):
    """JoinGroup (11): a consumer joins a group, or joins it again. Source: KafkaApis.handleJoinGroupRequest

    0  first version
    1  a rebalance timeout beside the session timeout (KIP-62)
    2  throttle time
    3  a throttled client gets its response before the delay (KIP-219)
    4  a new member first gets an id, and joins again with it (KIP-394)
    5  group.instance.id: a static member (KIP-345)
    6  flexible
    7  the response names the protocol type, and may name no protocol (KIP-559)
    8  the request has a reason (KIP-800)
    9  the leader may skip the assignment (KIP-814)
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        session_timeout_ms = cold.milliseconds(request.session_timeout)
        version, instance_id = call.header.api_version, instance_id_of(request)

        def make_input(number: int) -> inputs.JoinGroup:
            return inputs.JoinGroup(
                now_us=call.now_us,
                request=number,
                group_id=str(request.group_id),
                member_id=str(request.member_id),
                instance_id=instance_id,
                client_id=call.header.client_id or "",
                client_host=f"/{self._broker.connections.address(call.connection)}",
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=cold.milliseconds(request.rebalance_timeout)
                if version >= FIRST_WITH_REBALANCE_TIMEOUT
                else session_timeout_ms,
                protocol_type=str(request.protocol_type),
                protocols=tuple((str(protocol.name), bytes(protocol.metadata)) for protocol in request.protocols),
                requires_member_id=version >= FIRST_THAT_TAKES_AN_ID and instance_id is None,
                may_skip_assignment=version >= FIRST_THAT_SKIPS,
                reason=getattr(request, "reason", None) or "",
            )

        self._broker.groups.submit(call.connection, make_input, partial(self._respond, call), call.now_us)

    def _respond(self, call: Call, result: inputs.Result) -> None:
        assert isinstance(result, inputs.JoinResult)
        nameless = None if call.header.api_version >= FIRST_WITH_NO_PROTOCOL else ""
        self._answer(
            call,
            error_code=result.error,
            generation_id=result.generation,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol or nameless,
            leader=result.leader_id,
            skip_assignment=result.skip_assignment,
            member_id=result.member_id,
            members=[
                {"member_id": member.member_id, "group_instance_id": member.instance_id, "metadata": member.metadata}
                for member in result.members
            ],
        )


class HeartbeatHandler(ApiHandler):
    """Heartbeat (12): a group member reports that it is alive, and learns of a rebalance.

         0  first version
         1  throttle time
         2  a throttled client gets its response before the delay (KIP-219)
         3  group.instance.id: a static member (KIP-345)
         4  flexible

    Source: KafkaApis.handleHeartbeatRequest
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()

        def make_input(number: int) -> inputs.Heartbeat:
            return inputs.Heartbeat(
                now_us=call.now_us,
                request=number,
                group_id=str(request.group_id),
                generation=int(request.generation_id),
                member_id=str(request.member_id),
                instance_id=instance_id_of(request),
            )

        def answer(result: inputs.Result) -> None:
            assert isinstance(result, inputs.HeartbeatResult)
            self._answer(call, error_code=result.error)

        self._broker.groups.submit(call.connection, make_input, answer, call.now_us)


FIRST_OF_MANY = 3


class LeaveGroupHandler(ApiHandler):
    """LeaveGroup (13): members leave a group, or are removed from it. Source: KafkaApis.handleLeaveGroupRequest

    0  first version
    1  throttle time
    2  a throttled client gets its response before the delay (KIP-219)
    3  several members in one request, static ones by group.instance.id (KIP-345)
    4  flexible
    5  the request has a reason (KIP-800)
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        if call.header.api_version < FIRST_OF_MANY:
            members: tuple[inputs.Leaving, ...] = (inputs.Leaving(str(request.member_id)),)
        else:
            members = tuple(_leaving(member) for member in request.members)

        def make_input(number: int) -> inputs.LeaveGroup:
            return inputs.LeaveGroup(
                now_us=call.now_us, request=number, group_id=str(request.group_id), members=members
            )

        self._broker.groups.submit(call.connection, make_input, partial(self._respond, call), call.now_us)

    def _respond(self, call: Call, result: inputs.Result) -> None:
        assert isinstance(result, inputs.LeaveResult)
        error = result.error
        if call.header.api_version < FIRST_OF_MANY and error is ErrorCode.NONE:
            error = result.members[0][1]
        members = [
            {"member_id": item.member_id, "group_instance_id": item.instance_id, "error_code": refusal}
            for item, refusal in result.members
        ]
        self._answer(call, error_code=error, members=members)


def _leaving(entity: Entity) -> inputs.Leaving:
    return inputs.Leaving(str(entity.member_id), instance_id_of(entity), getattr(entity, "reason", None) or "")


FIRST_WITH_PROTOCOL = 5


class SyncGroupHandler(ApiHandler):
    """SyncGroup (14): the leader of a group sends its assignment, the other members wait for theirs.

         0  first version
         1  throttle time
         2  a throttled client gets its response before the delay (KIP-219)
         3  group.instance.id: a static member (KIP-345)
         4  flexible
         5  protocol type and name, in request and response; they have to match the group's (KIP-559)

    Source: KafkaApis.handleSyncGroupRequest
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        protocol_type = getattr(request, "protocol_type", None)
        protocol = getattr(request, "protocol_name", None)
        if call.header.api_version >= FIRST_WITH_PROTOCOL and (protocol_type is None or protocol is None):
            self._answer(call, error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return

        def make_input(number: int) -> inputs.SyncGroup:
            return inputs.SyncGroup(
                now_us=call.now_us,
                request=number,
                group_id=str(request.group_id),
                generation=int(request.generation_id),
                member_id=str(request.member_id),
                instance_id=instance_id_of(request),
                protocol_type=protocol_type,
                protocol=protocol,
                assignments={
                    str(assignment.member_id): bytes(assignment.assignment) for assignment in request.assignments
                },
            )

        self._broker.groups.submit(call.connection, make_input, partial(self._respond, call), call.now_us)

    def _respond(self, call: Call, result: inputs.Result) -> None:
        assert isinstance(result, inputs.SyncResult)
        self._answer(
            call,
            error_code=result.error,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol,
            assignment=result.assignment,
        )


class MemberHeartbeatHandler(ApiHandler, ABC):
    """Base class of the handlers of ConsumerGroupHeartbeat, ShareGroupHeartbeat and StreamsGroupHeartbeat."""

    def __call__(self, call: Call) -> None:
        request = call.decoded()

        def make_input(number: int) -> CoordinatorInput:
            return self._heartbeat(request, call.header.api_version)(
                now_us=call.now_us,
                request=number,
                group_id=str(request.group_id),
                member_id=str(request.member_id),
                member_epoch=int(request.member_epoch),
                rack_id=request.rack_id,
                client_id=call.header.client_id or "",
                client_host=f"/{self._broker.connections.address(call.connection)}",
            )

        def answer(result: Result) -> None:
            assert isinstance(result, ConsumerHeartbeatResult)
            self._answer(call, **self._fields(result))

        self._broker.groups.submit(call.connection, make_input, answer, call.now_us)

    @abstractmethod
    def _heartbeat(self, request: Entity, version: int) -> Callable[..., CoordinatorInput]:
        """Return a function that creates the coordinator's input from the fields of MemberHeartbeat."""

    def _fields(self, result: ConsumerHeartbeatResult) -> Values:
        assignment: Values | None = None
        if result.assigned is not None:
            topics = groupby(result.assigned, key=lambda item: item.topic_id)
            assignment = {
                "topic_partitions": [
                    {"topic_id": topic_id, "partitions": [item.partition for item in of_topic]}
                    for topic_id, of_topic in topics
                ]
            }
        return {
            "error_code": result.error,
            "error_message": result.message,
            "member_id": result.member_id,
            "member_epoch": result.member_epoch,
            "heartbeat_interval": result.heartbeat_interval_ms,
            "assignment": assignment,
        }


# ConsumerGroupHeartbeat (68): a member of a consumer group joins, reports its partitions, and leaves (KIP-848).
#   0  first version
#   1  topics by a regular expression, and ids that clients make (KIP-1082)
# source: KafkaApis.handleConsumerGroupHeartbeat
FIRST_WITH_OWN_IDS = 1


class ConsumerGroupHeartbeatHandler(MemberHeartbeatHandler):
    def _heartbeat(self, request: Entity, version: int) -> Callable[..., ConsumerHeartbeat]:
        topics = request.subscribed_topic_names
        return partial(
            ConsumerHeartbeat,
            instance_id=request.instance_id,
            rebalance_timeout_ms=cold.milliseconds(request.rebalance_timeout),
            topics=None if topics is None else tuple(str(topic) for topic in topics),
            topic_regex=getattr(request, "subscribed_topic_regex", None),
            assignor=request.server_assignor,
            owned=_partitions(request.topic_partitions),
            makes_its_id=version >= FIRST_WITH_OWN_IDS,
        )


def _partitions(topics: Iterable[Entity] | None) -> Partitions | None:
    if topics is None:
        return None
    named = {
        TopicIdPartition(topic.topic_id or NO_ID, int(partition)) for topic in topics for partition in topic.partitions
    }
    return tuple(sorted(named))


def where_it_is_on(broker: BrokerParts, granted: Handler, refused: Handler, feature: str = GROUP_VERSION) -> Handler:
    """Return a handler that calls `granted` while a feature is enabled, and `refused` otherwise.

    Consumer groups (KIP-848) are disabled in 3.9, whose `group.coordinator.rebalance.protocols` does not name them by
    default, and with group.version 0. Share groups are disabled with share.version 0, as before 4.2.

    Source: KafkaApis.isConsumerGroupProtocolEnabled, isShareGroupProtocolEnabled
    """
    rules, cache = broker.base.rules, broker.base.cache

    def handle(call: Call) -> None:
        handler = granted if level_of(feature, rules, cache.image.feature_levels) else refused
        handler(call)

    return handle


def serve(broker: BrokerParts) -> Handler:
    refused = Refused(always({"error_code": ABSENT}))(broker)
    return where_it_is_on(broker, ConsumerGroupHeartbeatHandler(broker), refused)


APIS: Final[Mapping[int, Serve]] = {
    versions.JOIN_GROUP: JoinGroupHandler,
    versions.HEARTBEAT: HeartbeatHandler,
    versions.LEAVE_GROUP: LeaveGroupHandler,
    versions.SYNC_GROUP: SyncGroupHandler,
    versions.CONSUMER_GROUP_HEARTBEAT: serve,
}
