"""The requests of consumer groups as events for the coordinator, and its results as responses.

source: KafkaApis.handleFindCoordinatorRequest, handleJoinGroupRequest, ...; GroupCoordinatorAdapter.scala
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cluster.broker.apis.offsets_topic import OffsetsTopic
from cluster.broker.control_planes.producer_ids import NO_TRANSACTIONS
from cluster.groups.events import (
    DeleteGroups,
    DeleteGroupsResult,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    Leaving,
    Result,
    SyncGroup,
    SyncResult,
)
from cluster.groups.service import GroupService
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.headers import RequestHeader
from cluster.protocol.versions import (
    DELETE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from cluster.server.accepted_connections import AcceptedConnections
from cluster.server.responder import Handler, Responder
from replica.errors import ErrorCode
from replica.ids import NO_BROKER

FIRST_JOIN_WITH_REBALANCE_TIMEOUT = 1
FIRST_JOIN_THAT_TAKES_AN_ID = 4
FIRST_JOIN_WITH_NO_PROTOCOL = 7
FIRST_JOIN_THAT_SKIPS = 9
FIRST_SYNC_WITH_PROTOCOL = 5
FIRST_LEAVE_OF_MANY = 3
FIRST_FIND_OF_MANY = 4
GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE, SHARE_KEY_TYPE = range(3)
"""FindCoordinatorRequest.CoordinatorType"""
FIND_MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}
"""What FindCoordinator says of groups up to version 3. source: Errors.message"""
NOT_COORDINATED = {
    TRANSACTION_KEY_TYPE: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NO_TRANSACTIONS),
    SHARE_KEY_TYPE: (ErrorCode.INVALID_REQUEST, "share groups are not implemented here"),
}
"""What has no coordinator, and why.

Differs from Kafka, which has them. At INVALID_REQUEST librdkafka would ask again for ever; with this code every client
of transactions gives up at once, and most show the message.
"""


class GroupApis:
    """`handlers` of membership: who is in a group, and who coordinates it."""

    def __init__(
        self, *, service: GroupService, topic: OffsetsTopic, connections: AcceptedConnections, responder: Responder
    ) -> None:
        self._service = service
        self._connections = connections
        self._topic = topic
        self._answer = responder.answer
        self.handlers: Mapping[int, Handler] = {
            FIND_COORDINATOR: self._find_coordinator,
            JOIN_GROUP: self._join,
            SYNC_GROUP: self._sync,
            HEARTBEAT: self._heartbeat,
            LEAVE_GROUP: self._leave,
            DELETE_GROUPS: self._delete,
        }

    # ---------------------------------------------------------------------------------------------------- coordinator

    def _find_coordinator(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        key_type = int(getattr(request, "key_type", GROUP_KEY_TYPE))
        if header.api_version < FIRST_FIND_OF_MANY:
            error, message, where = self._coordinator(str(request.key), key_type, now_us)
            message = message or FIND_MESSAGES[error]
            self._answer(connection, header, error_code=error, error_message=message, **where)
            return
        found = []
        for key in request.coordinator_keys:
            # Kafka fills the message of an entry only where it refuses the whole request.
            error, message, where = self._coordinator(str(key), key_type, now_us)
            found.append({"key": key, "error_code": error, "error_message": message, **where})
        self._answer(connection, header, coordinators=found)

    def _coordinator(self, key: str, key_type: int, now_us: int) -> tuple[ErrorCode, str, dict[str, object]]:
        """Why there can be none, and its address if there is one."""
        nobody: dict[str, object] = {"node_id": NO_BROKER, "host": "", "port": NO_BROKER}
        if key_type != GROUP_KEY_TYPE:
            unknown = (ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
            return *NOT_COORDINATED.get(key_type, unknown), nobody
        broker = self._topic.coordinator(key, now_us)
        if broker is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, "", nobody
        return ErrorCode.NONE, "", {"node_id": broker.broker_id, "host": broker.host, "port": broker.port}

    # -------------------------------------------------------------------------------------------------------- members

    def _join(self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        request = cold.decode_request(header, frame)
        session_timeout_ms = cold.milliseconds(request.session_timeout)
        version, instance_id = header.api_version, _instance_id(request)

        def event(number: int) -> JoinGroup:
            return JoinGroup(
                now_us=now_us,
                request=number,
                group_id=str(request.group_id),
                member_id=str(request.member_id),
                instance_id=instance_id,
                client_id=header.client_id or "",
                client_host=f"/{self._connections.address(connection)}",
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=cold.milliseconds(request.rebalance_timeout)
                if version >= FIRST_JOIN_WITH_REBALANCE_TIMEOUT
                else session_timeout_ms,
                protocol_type=str(request.protocol_type),
                protocols=tuple((str(one.name), bytes(one.metadata)) for one in request.protocols),
                requires_member_id=version >= FIRST_JOIN_THAT_TAKES_AN_ID and instance_id is None,
                may_skip_assignment=version >= FIRST_JOIN_THAT_SKIPS,
                reason=getattr(request, "reason", None) or "",
            )

        self._service.submit(connection, event, partial(self._joined, connection, header), now_us)

    def _joined(self, connection: ConnectionId, header: RequestHeader, result: Result) -> None:
        assert isinstance(result, JoinResult)
        nameless = None if header.api_version >= FIRST_JOIN_WITH_NO_PROTOCOL else ""
        self._answer(
            connection,
            header,
            error_code=result.error,
            generation_id=result.generation,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol or nameless,
            leader=result.leader_id,
            skip_assignment=result.skip_assignment,
            member_id=result.member_id,
            members=[
                {"member_id": one.member_id, "group_instance_id": one.instance_id, "metadata": one.metadata}
                for one in result.members
            ],
        )

    def _sync(self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        request = cold.decode_request(header, frame)
        protocol_type = getattr(request, "protocol_type", None)
        protocol = getattr(request, "protocol_name", None)
        if header.api_version >= FIRST_SYNC_WITH_PROTOCOL and (protocol_type is None or protocol is None):
            self._answer(connection, header, error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return

        def event(number: int) -> SyncGroup:
            return SyncGroup(
                now_us=now_us,
                request=number,
                group_id=str(request.group_id),
                generation=int(request.generation_id),
                member_id=str(request.member_id),
                instance_id=_instance_id(request),
                protocol_type=protocol_type,
                protocol=protocol,
                assignments={str(one.member_id): bytes(one.assignment) for one in request.assignments},
            )

        self._service.submit(connection, event, partial(self._synced, connection, header), now_us)

    def _synced(self, connection: ConnectionId, header: RequestHeader, result: Result) -> None:
        assert isinstance(result, SyncResult)
        self._answer(
            connection,
            header,
            error_code=result.error,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol,
            assignment=result.assignment,
        )

    def _heartbeat(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)

        def event(number: int) -> Heartbeat:
            return Heartbeat(
                now_us=now_us,
                request=number,
                group_id=str(request.group_id),
                generation=int(request.generation_id),
                member_id=str(request.member_id),
                instance_id=_instance_id(request),
            )

        def answer(result: Result) -> None:
            assert isinstance(result, HeartbeatResult)
            self._answer(connection, header, error_code=result.error)

        self._service.submit(connection, event, answer, now_us)

    def _leave(self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        request = cold.decode_request(header, frame)
        if header.api_version < FIRST_LEAVE_OF_MANY:
            members: tuple[Leaving, ...] = (Leaving(str(request.member_id)),)
        else:
            members = tuple(_leaving(one) for one in request.members)

        def event(number: int) -> LeaveGroup:
            return LeaveGroup(now_us=now_us, request=number, group_id=str(request.group_id), members=members)

        self._service.submit(connection, event, partial(self._left, connection, header), now_us)

    def _left(self, connection: ConnectionId, header: RequestHeader, result: Result) -> None:
        assert isinstance(result, LeaveResult)
        error = result.error
        if header.api_version < FIRST_LEAVE_OF_MANY and error is ErrorCode.NONE:
            error = result.members[0][1]
        members = [
            {"member_id": one.member_id, "group_instance_id": one.instance_id, "error_code": refusal}
            for one, refusal in result.members
        ]
        self._answer(connection, header, error_code=error, members=members)

    def _delete(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        group_ids = tuple(dict.fromkeys(str(group_id) for group_id in request.groups_names))

        def answer(result: Result) -> None:
            assert isinstance(result, DeleteGroupsResult)
            results = [{"group_id": group_id, "error_code": error} for group_id, error in result.errors.items()]
            self._answer(connection, header, results=results)

        def event(number: int) -> DeleteGroups:
            return DeleteGroups(now_us=now_us, request=number, group_ids=group_ids)

        self._service.submit(connection, event, answer, now_us)


def _instance_id(request: Entity) -> str | None:
    found: Any = getattr(request, "group_instance_id", None)
    return None if found is None else str(found)


def _leaving(one: Entity) -> Leaving:
    return Leaving(str(one.member_id), _instance_id(one), getattr(one, "reason", None) or "")
