"""DeleteGroups (42): forget groups that have no members, and their offsets (KIP-229).

     0  first version
     1  a throttled client is answered first and held back then (KIP-219)
     2  flexible

source: KafkaApis.handleDeleteGroupsRequest
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.groups import inputs
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from cluster.slices import paced
from replica.errors import ErrorCode

DELETED_AT_ONCE = 500
"""So many groups are one decision of the coordinator."""


class DeleteGroupsHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        group_ids = tuple(dict.fromkeys(str(group_id) for group_id in request.groups_names))
        errors: dict[str, ErrorCode] = {}

        def answer(result: inputs.Result) -> None:
            assert isinstance(result, inputs.DeleteGroupsResult)
            errors.update(result.errors)
            if len(errors) == len(group_ids):
                told = ({"group_id": group_id, "error_code": errors[group_id]} for group_id in group_ids)
                self._answer(connection, header, results=told)

        def delete(some: tuple[str, ...]) -> None:
            def make_input(number: int) -> inputs.DeleteGroups:
                return inputs.DeleteGroups(now_us=now_us, request=number, group_ids=some)

            self._service.submit(connection, make_input, answer, now_us)

        for first in paced(range(0, max(len(group_ids), 1), DELETED_AT_ONCE)):
            delete(group_ids[first : first + DELETED_AT_ONCE])


API = DeleteGroupsHandler
