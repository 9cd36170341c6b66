"""SyncGroup (14): the leader of a group hands out its assignment, the others wait for theirs.

     0  first version
     1  throttle time
     2  a throttled client is answered first and held back then (KIP-219)
     3  group.instance.id: a static member (KIP-345)
     4  flexible
     5  protocol type and name, in request and answer; they have to match the group's (KIP-559)

source: KafkaApis.handleSyncGroupRequest
"""

from __future__ import annotations

from functools import partial

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.groups.partition_answers import instance_id_of
from cluster.groups import inputs
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode

FIRST_WITH_PROTOCOL = 5


class SyncGroupHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        protocol_type = getattr(request, "protocol_type", None)
        protocol = getattr(request, "protocol_name", None)
        if header.api_version >= FIRST_WITH_PROTOCOL and (protocol_type is None or protocol is None):
            self._answer(connection, header, error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return

        def make_input(number: int) -> inputs.SyncGroup:
            return inputs.SyncGroup(
                now_us=now_us,
                request=number,
                group_id=str(request.group_id),
                generation=int(request.generation_id),
                member_id=str(request.member_id),
                instance_id=instance_id_of(request),
                protocol_type=protocol_type,
                protocol=protocol,
                assignments={str(one.member_id): bytes(one.assignment) for one in request.assignments},
            )

        self._service.submit(connection, make_input, partial(self._respond, connection, header), now_us)

    def _respond(self, connection: ConnectionId, header: RequestHeader, result: inputs.Result) -> None:
        assert isinstance(result, inputs.SyncResult)
        self._answer(
            connection,
            header,
            error_code=result.error,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol,
            assignment=result.assignment,
        )


API = SyncGroupHandler
