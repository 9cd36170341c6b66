"""DescribeGroups (15): the state and the members of groups. source: KafkaApis.handleDescribeGroupsRequest

0  first version
1  throttle time
2  a throttled client is answered first and held back then (KIP-219)
3  operations that the client may do, on request (KIP-430)
4  group.instance.id of members (KIP-345)
5  flexible
6  a group that does not exist is GROUP_ID_NOT_FOUND, with a message; before, its state was Dead (KIP-1043)
"""

from __future__ import annotations

from functools import partial

from cluster.broker.apis.api import BrokerParts, Values
from cluster.groups.state.group import State
from cluster.groups.state.member import Member
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode
from replica.rules import WITH_ONE_GROUP_COORDINATOR

FIRST_THAT_MISSES = 6
ALL_OF_GROUP = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""AclOperation: read, delete, describe, describe configs, alter configs."""


class DescribeGroupsHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._groups = broker.groups.coordinator
        self._tells_assignments = broker.rules.release in WITH_ONE_GROUP_COORDINATOR
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        describe = partial(self._description, misses=header.api_version >= FIRST_THAT_MISSES)
        groups = [describe(str(group_id)) for group_id in request.groups]
        if getattr(request, "include_authorized_operations", False):
            for group in groups:
                if group["error_code"] is ErrorCode.NONE:
                    group["authorized_operations"] = ALL_OF_GROUP
        self._answer(connection, header, groups=groups)

    def _description(self, group_id: str, *, misses: bool) -> Values:
        error = self._groups.index.status(group_id, unnamed=True)
        if error is not ErrorCode.NONE:
            return {"error_code": error, "group_id": group_id}
        group = self._groups.index.groups.get(group_id)
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND if misses else ErrorCode.NONE
            of_consumers = group_id in self._groups.index.consumer_groups
            what = "is not a classic group" if of_consumers else "not found"
            message = f"Group {group_id} {what}." if misses else None
            state = State.DEAD.value
            return {"error_code": error, "error_message": message, "group_id": group_id, "group_state": state}
        protocol = group.protocol if group.state is State.STABLE else None
        tells_assignments = protocol is not None or self._tells_assignments
        return {
            "error_code": ErrorCode.NONE,
            "group_id": group_id,
            "group_state": group.state.value,
            "protocol_type": group.protocol_type or "",
            "protocol_data": protocol or "",
            "members": [_described(member, protocol, tells_assignments) for member in group.members.values()],
        }


def _described(member: Member, protocol: str | None, tells_assignment: bool) -> Values:
    """Only a stable group is described with metadata and, before 4.0, assignments."""
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": b"" if protocol is None else member.metadata(protocol),
        "member_assignment": member.assignment if tells_assignment else b"",
    }


API = DescribeGroupsHandler
