"""Groups as an operator or a client looks for them: FindCoordinator (10), DescribeGroups (15), ListGroups (16),
DeleteGroups (42), ConsumerGroupDescribe (69).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values
from cluster.broker.apis.group_members import where_it_is_on
from cluster.broker.apis.refusals import ABSENT, Refused, each
from cluster.groups import inputs
from cluster.groups.assignors.specification import Partitions
from cluster.groups.consumer_steps import DEFAULT_ASSIGNOR
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_member import ConsumerMember
from cluster.groups.state.group import Group, State
from cluster.groups.state.member import Member
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.consumer_protocol import CONSUMER
from cluster.protocol.versions import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    RequestHeader,
)
from cluster.server.responder import Handler
from cluster.slices import paced
from replica.errors import ErrorCode
from replica.ids import NO_BROKER
from replica.rules import WITH_ONE_GROUP_COORDINATOR

FIRST_OF_MANY = 4


GROUP, TRANSACTION, SHARE = range(3)
"""FindCoordinatorRequest.CoordinatorType"""
MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}
"""Error messages up to version 3. source: Errors.message"""
NOT_COORDINATED = {SHARE: "share groups are not implemented here"}
"""Key types without a coordinator, and why. Differs from Kafka, which has them."""


class FindCoordinatorHandler:
    """FindCoordinator (10): which broker coordinates a group or a transactional.id.
    source: KafkaApis.handleFindCoordinatorRequest

    0  first version
    1  type of the key, throttle time, error message
    2  a throttled client is answered first and held back then (KIP-219)
    3  flexible
    4  several keys at once (KIP-699)
    5  TRANSACTION_ABORTABLE may be the answer (KIP-890)
    6  share groups have coordinators, too (KIP-932)
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._topics = {GROUP: broker.coordinators.offsets_topic}
        if broker.base.rules.transactions != "none":
            self._topics[TRANSACTION] = broker.coordinators.transactions_topic
        self._answer = broker.responder.answer
        self._connections = broker.connections

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        key_type = int(getattr(request, "key_type", GROUP))
        listener = self._connections.listener(connection)
        if header.api_version < FIRST_OF_MANY:
            error, message, where = self._coordinator(str(request.key), key_type, listener, now_us)
            message = message or MESSAGES[error]
            self._answer(connection, header, error_code=error, error_message=message, **where)
            return
        found = []
        for key in request.coordinator_keys:
            # Kafka fills the message of an entry only where it refuses the whole request.
            error, message, where = self._coordinator(str(key), key_type, listener, now_us)
            found.append({"key": key, "error_code": error, "error_message": message, **where})
        self._answer(connection, header, coordinators=found)

    def _coordinator(self, key: str, key_type: int, listener: str, now_us: int) -> tuple[ErrorCode, str, Values]:
        """Why there can be none, and its address if there is one."""
        no_node: Values = {"node_id": NO_BROKER, "host": "", "port": NO_BROKER}
        topic = self._topics.get(key_type)
        if topic is None:
            unknown = f"there are no coordinators of type {key_type}"
            return ErrorCode.INVALID_REQUEST, NOT_COORDINATED.get(key_type, unknown), no_node
        broker = topic.coordinator(key, now_us)
        address = None if broker is None else broker.address_by(listener)
        if broker is None or address is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, "", no_node
        host, port = address
        return ErrorCode.NONE, "", {"node_id": broker.broker_id, "host": host, "port": port}


FIRST_THAT_MISSES = 6
ALL_OF_GROUP = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""AclOperation: read, delete, describe, describe configs, alter configs."""


class DescribeGroupsHandler:
    """DescribeGroups (15): the state and the members of groups. source: KafkaApis.handleDescribeGroupsRequest

    0  first version
    1  throttle time
    2  a throttled client is answered first and held back then (KIP-219)
    3  operations that the client may do, on request (KIP-430)
    4  group.instance.id of members (KIP-345)
    5  flexible
    6  a group that does not exist is GROUP_ID_NOT_FOUND, with a message; before, its state was Dead (KIP-1043)
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._groups = broker.groups.coordinator
        self._tells_assignments = broker.base.rules.release in WITH_ONE_GROUP_COORDINATOR
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


class ListGroupsHandler:
    """ListGroups (16): the groups that this broker coordinates; a client asks all brokers.

         0  first version
         1  throttle time
         2  a throttled client is answered first and held back then (KIP-219)
         3  flexible
         4  by state, with the state (KIP-518)
         5  by type, with the type (KIP-848)

    source: KafkaApis.handleListGroupsRequest
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._groups = broker.groups.coordinator
        self._is_all_or_none = broker.base.rules.release in WITH_ONE_GROUP_COORDINATOR
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
    return {
        "group_id": group.group_id,
        "protocol_type": CONSUMER if isinstance(group, ConsumerGroup) else group.protocol_type or "",
        "group_state": group.state.value,
        "group_type": group.TYPE,
    }


DELETED_AT_ONCE = 500
"""So many groups are one decision of the coordinator."""


class DeleteGroupsHandler:
    """DeleteGroups (42): forget groups that have no members, and their offsets (KIP-229).

         0  first version
         1  a throttled client is answered first and held back then (KIP-219)
         2  flexible

    source: KafkaApis.handleDeleteGroupsRequest
    """

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


# ConsumerGroupDescribe (69): a consumer group of KIP-848, its members, what each has and is to have.
#   0  first version
#   1  the type of each member (KIP-1099)
# source: GroupMetadataManager.consumerGroupDescribe, ConsumerGroup.asDescribedGroup
CLASSIC_PROTOCOL, CONSUMER_PROTOCOL = 0, 1
"""Types of members. source: ConsumerGroupDescribeResponse.json"""


class ConsumerGroupDescribeHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._groups = broker.groups.coordinator
        self._cache = broker.base.cache
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        groups = [self._description(str(group_id)) for group_id in request.group_ids]
        if request.include_authorized_operations:
            for group in groups:
                if group["error_code"] is ErrorCode.NONE:
                    group["authorized_operations"] = ALL_OF_GROUP
        self._answer(connection, header, groups=groups)

    def _description(self, group_id: str) -> Values:
        # Differs from Kafka: there it is what is on all in-sync replicas.
        error = self._groups.index.status(group_id)
        if error is not ErrorCode.NONE:
            return {"error_code": error, "group_id": group_id}
        group = self._groups.index.consumer_groups.get(group_id)
        if group is None:
            other = group_id in self._groups.index.groups
            message = f"Group {group_id} is not a consumer group." if other else f"Group {group_id} not found."
            return {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": message, "group_id": group_id}
        return {
            "error_code": ErrorCode.NONE,
            "group_id": group_id,
            "group_state": group.state.value,
            "group_epoch": group.epoch,
            "assignment_epoch": group.target_epoch,
            "assignor_name": group.preferred_assignor() or DEFAULT_ASSIGNOR,
            "members": [self._member(group, member) for member in group.members.values()],
        }

    def _member(self, group: ConsumerGroup, member: ConsumerMember) -> Values:
        return {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "member_epoch": member.epoch,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "subscribed_topic_names": list(member.topics),
            "subscribed_topic_regex": member.topic_regex,
            "assignment": self._named(member.assigned),
            "target_assignment": self._named(group.targets.get(member.member_id, ())),
            "member_type": CONSUMER_PROTOCOL if member.classic is None else CLASSIC_PROTOCOL,
        }

    def _named(self, partitions: Partitions) -> Values:
        found = []
        for topic_id, of_topic in groupby(partitions, key=lambda one: one.topic_id):
            name = self._cache.topic_name(topic_id)
            if name is not None:
                numbers = [one.partition for one in of_topic]
                found.append({"topic_id": topic_id, "topic_name": name, "partitions": numbers})
        return {"topic_partitions": found}


def serve(broker: BrokerParts) -> Handler:
    refused = Refused(each("groups", "group_ids", {"error_code": ABSENT}, group_id=""))(broker)
    return where_it_is_on(broker, ConsumerGroupDescribeHandler(broker), refused)


APIS: Final[Mapping[int, Serve]] = {
    FIND_COORDINATOR: FindCoordinatorHandler,
    DESCRIBE_GROUPS: DescribeGroupsHandler,
    LIST_GROUPS: ListGroupsHandler,
    DELETE_GROUPS: DeleteGroupsHandler,
    CONSUMER_GROUP_DESCRIBE: serve,
}
