"""ListGroups (16): the groups that this broker coordinates; a client asks all brokers.

     0  first version
     1  throttle time
     2  a throttled client is answered first and held back then (KIP-219)
     3  flexible
     4  by state, with the state (KIP-518)
     5  by type, with the type (KIP-848)

source: KafkaApis.handleListGroupsRequest
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.group import Group
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode

CLASSIC, CONSUMER = "classic", "consumer"
OF_NEW_COORDINATORS = ("4.1",)
"""Releases whose coordinator is GroupCoordinatorService, not GroupCoordinator.scala."""


class ListGroupsHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._groups = broker.groups.coordinator
        self._is_all_or_none = broker.rules.release in OF_NEW_COORDINATORS
        """While a log of groups is being read. source: GroupCoordinatorService.listGroups"""
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        states = [str(state).strip().lower() for state in getattr(request, "states_filter", ())]
        types = [str(kind).lower() for kind in getattr(request, "types_filter", ())]
        every: list[Group | ConsumerGroup] = [
            *self._groups.index.groups.values(),
            *self._groups.index.consumer_groups.values(),
        ]
        listed = [
            found
            for found in map(_listed, every)
            if (not states or found["group_state"].lower() in states) and (not types or found["group_type"] in types)
        ]
        error = ErrorCode.NONE
        if self._groups.index.loading:
            error, listed = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [] if self._is_all_or_none else listed
        self._answer(connection, header, error_code=error, groups=listed)


def _listed(group: Group | ConsumerGroup) -> dict[str, str]:
    of_consumers = isinstance(group, ConsumerGroup)
    return {
        "group_id": group.group_id,
        "protocol_type": CONSUMER if isinstance(group, ConsumerGroup) else group.protocol_type or "",
        "group_state": group.state.value,
        "group_type": CONSUMER if of_consumers else CLASSIC,
    }


API = ListGroupsHandler
