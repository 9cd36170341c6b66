"""Heartbeat (12): a member of a group is alive; the answer says whether the group rebalances.

     0  first version
     1  throttle time
     2  a throttled client is answered first and held back then (KIP-219)
     3  group.instance.id: a static member (KIP-345)
     4  flexible

source: KafkaApis.handleHeartbeatRequest
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.groups.partition_answers import instance_id_of
from cluster.groups import inputs
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader


class HeartbeatHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)

        def make_input(number: int) -> inputs.Heartbeat:
            return inputs.Heartbeat(
                now_us=now_us,
                request=number,
                group_id=str(request.group_id),
                generation=int(request.generation_id),
                member_id=str(request.member_id),
                instance_id=instance_id_of(request),
            )

        def answer(result: inputs.Result) -> None:
            assert isinstance(result, inputs.HeartbeatResult)
            self._answer(connection, header, error_code=result.error)

        self._service.submit(connection, make_input, answer, now_us)


API = HeartbeatHandler
