"""JoinGroup (11): a consumer joins a group, or says again what it can. source: KafkaApis.handleJoinGroupRequest

0  first version
1  a rebalance timeout beside the session timeout (KIP-62)
2  throttle time
3  a throttled client is answered first and held back then (KIP-219)
4  a new member is first given an id, and joins again with it (KIP-394)
5  group.instance.id: a static member (KIP-345)
6  flexible
7  the answer names the protocol type, and may name no protocol (KIP-559)
8  the request says why (KIP-800)
9  the leader may leave the assignment as it was (KIP-814)
"""

from __future__ import annotations

from functools import partial

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.groups.partition_answers import instance_id_of
from cluster.groups import inputs
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader

FIRST_WITH_REBALANCE_TIMEOUT = 1
FIRST_THAT_TAKES_AN_ID = 4
FIRST_WITH_NO_PROTOCOL = 7
FIRST_THAT_SKIPS = 9


class JoinGroupHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._connections = broker.connections
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        session_timeout_ms = cold.milliseconds(request.session_timeout)
        version, instance_id = header.api_version, instance_id_of(request)

        def make_input(number: int) -> inputs.JoinGroup:
            return inputs.JoinGroup(
                now_us=now_us,
                request=number,
                group_id=str(request.group_id),
                member_id=str(request.member_id),
                instance_id=instance_id,
                client_id=header.client_id or "",
                client_host=f"/{self._connections.address(connection)}",
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=cold.milliseconds(request.rebalance_timeout)
                if version >= FIRST_WITH_REBALANCE_TIMEOUT
                else session_timeout_ms,
                protocol_type=str(request.protocol_type),
                protocols=tuple((str(one.name), bytes(one.metadata)) for one in request.protocols),
                requires_member_id=version >= FIRST_THAT_TAKES_AN_ID and instance_id is None,
                may_skip_assignment=version >= FIRST_THAT_SKIPS,
                reason=getattr(request, "reason", None) or "",
            )

        self._service.submit(connection, make_input, partial(self._respond, connection, header), now_us)

    def _respond(self, connection: ConnectionId, header: RequestHeader, result: inputs.Result) -> None:
        assert isinstance(result, inputs.JoinResult)
        nameless = None if header.api_version >= FIRST_WITH_NO_PROTOCOL else ""
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


API = JoinGroupHandler
