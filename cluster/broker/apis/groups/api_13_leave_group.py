"""LeaveGroup (13): members leave a group, or are removed from it. source: KafkaApis.handleLeaveGroupRequest

0  first version
1  throttle time
2  a throttled client is answered first and held back then (KIP-219)
3  several members at once, static ones by group.instance.id (KIP-345)
4  flexible
5  the request says why (KIP-800)
"""

from __future__ import annotations

from functools import partial

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.groups.partition_answers import instance_id_of
from cluster.groups import inputs
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode

FIRST_OF_MANY = 3


class LeaveGroupHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        if header.api_version < FIRST_OF_MANY:
            members: tuple[inputs.Leaving, ...] = (inputs.Leaving(str(request.member_id)),)
        else:
            members = tuple(_leaving(one) for one in request.members)

        def make_input(number: int) -> inputs.LeaveGroup:
            return inputs.LeaveGroup(now_us=now_us, request=number, group_id=str(request.group_id), members=members)

        self._service.submit(connection, make_input, partial(self._respond, connection, header), now_us)

    def _respond(self, connection: ConnectionId, header: RequestHeader, result: inputs.Result) -> None:
        assert isinstance(result, inputs.LeaveResult)
        error = result.error
        if header.api_version < FIRST_OF_MANY and error is ErrorCode.NONE:
            error = result.members[0][1]
        members = [
            {"member_id": one.member_id, "group_instance_id": one.instance_id, "error_code": refusal}
            for one, refusal in result.members
        ]
        self._answer(connection, header, error_code=error, members=members)


def _leaving(one: Entity) -> inputs.Leaving:
    return inputs.Leaving(str(one.member_id), instance_id_of(one), getattr(one, "reason", None) or "")


API = LeaveGroupHandler
