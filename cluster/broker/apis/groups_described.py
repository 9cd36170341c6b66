"""Find coordinators; describe, list and delete groups: FindCoordinator (10), DescribeGroups (15), ListGroups (16),
DeleteGroups (42), ConsumerGroupDescribe (69).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from itertools import groupby
from typing import ClassVar, Final

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values
from cluster.broker.apis.group_members import where_it_is_on
from cluster.broker.apis.refusals import ABSENT, Refused, each
from cluster.broker.metadata.follower import MetadataCache
from cluster.groups import inputs
from cluster.groups.consumer_steps import DEFAULT_ASSIGNOR
from cluster.groups.state.assignors import Partitions
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_member import ConsumerMember
from cluster.groups.state.group import Group, Member, State
from cluster.protocol import versions
from cluster.server.responder import Call, Handler
from cluster.slices import paced
from replica.errors import ErrorCode
from replica.ids import NO_BROKER
from replica.rules import NEXT_COORDINATOR_SINCE, KafkaRelease

FIRST_OF_MANY = 4


GROUP, TRANSACTION, SHARE = range(3)
"""Values of FindCoordinatorRequest.CoordinatorType."""
MESSAGES = {ErrorCode.NONE: "NONE", ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available."}
"""Error messages in responses up to version 3. Source: Errors.message"""
SHARES_SINCE = KafkaRelease(4, 2)
"""The release from which share partitions have coordinators (FindCoordinator 6)."""


class FindCoordinatorHandler(ApiHandler):
    """FindCoordinator (10): return the broker that coordinates a group or a transactional.id.
    Source: KafkaApis.handleFindCoordinatorRequest

    0  first version
    1  type of the key, throttle time, error message
    2  a throttled client gets its response before the delay (KIP-219)
    3  flexible
    4  several keys in one request (KIP-699)
    5  TRANSACTION_ABORTABLE is a possible error (KIP-890)
    6  share groups have coordinators as well (KIP-932)
    """

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._topics = {GROUP: broker.coordinators.offsets_topic}
        if broker.base.rules.transactions != "none":
            self._topics[TRANSACTION] = broker.coordinators.transactions_topic
        if broker.base.rules.release >= SHARES_SINCE:
            self._topics[SHARE] = broker.coordinators.share_state_topic

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        key_type = int(getattr(request, "key_type", GROUP))
        listener = self._broker.connections.listener(call.connection)
        if call.header.api_version < FIRST_OF_MANY:
            error, message, where = self._coordinator(str(request.key), key_type, listener, call.now_us)
            message = message or MESSAGES[error]
            self._answer(call, error_code=error, error_message=message, **where)
            return
        found = []
        for key in request.coordinator_keys:
            # Kafka fills the message of an entry only where it refuses the whole request.
            error, message, where = self._coordinator(str(key), key_type, listener, call.now_us)
            found.append({"key": key, "error_code": error, "error_message": message, **where})
        self._answer(call, coordinators=found)

    def _coordinator(self, key: str, key_type: int, listener: str, now_us: int) -> tuple[ErrorCode, str, Values]:
        """Return the error, its message, and the response's fields of the coordinator's id and address."""
        no_node: Values = {"node_id": NO_BROKER, "host": "", "port": NO_BROKER}
        topic = self._topics.get(key_type)
        if topic is None:
            unknown = f"coordinator type {key_type} is not supported"
            return ErrorCode.INVALID_REQUEST, unknown, no_node
        broker = topic.coordinator(key, now_us)
        address = None if broker is None else broker.address_by(listener)
        if broker is None or address is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, "", no_node
        host, port = address
        return ErrorCode.NONE, "", {"node_id": broker.broker_id, "host": host, "port": port}


FIRST_THAT_MISSES = 6
ALL_OF_GROUP = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Bits of AclOperation: read, delete, describe, describe configs, alter configs."""


class DescribeGroupsHandler(ApiHandler):
    """DescribeGroups (15): return the state and the members of groups. Source: KafkaApis.handleDescribeGroupsRequest

    0  first version
    1  throttle time
    2  a throttled client gets its response before the delay (KIP-219)
    3  the client's authorized operations, on request (KIP-430)
    4  group.instance.id of members (KIP-345)
    5  flexible
    6  a group that does not exist is GROUP_ID_NOT_FOUND, with a message; before, its state was Dead (KIP-1043)
    """

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._groups = broker.groups.coordinator
        self._tells_assignments = broker.base.rules.release >= NEXT_COORDINATOR_SINCE

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        describe = partial(self._description, misses=call.header.api_version >= FIRST_THAT_MISSES)
        groups = [describe(str(group_id)) for group_id in request.groups]
        if getattr(request, "include_authorized_operations", False):
            for group in groups:
                if group["error_code"] is ErrorCode.NONE:
                    group["authorized_operations"] = ALL_OF_GROUP
        self._answer(call, groups=groups)

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
    """Return the response's entry of a member, without its metadata if `protocol` is None."""
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": b"" if protocol is None else member.metadata(protocol),
        "member_assignment": member.assignment if tells_assignment else b"",
    }


class ListGroupsHandler(ApiHandler):
    """ListGroups (16): return the groups that this broker coordinates; a client asks all brokers.

         0  first version
         1  throttle time
         2  a throttled client gets its response before the delay (KIP-219)
         3  flexible
         4  a filter by state; the response has the state (KIP-518)
         5  a filter by type; the response has the type (KIP-848)

    Source: KafkaApis.handleListGroupsRequest
    """

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._groups = broker.groups.coordinator
        self._is_all_or_none = broker.base.rules.release >= NEXT_COORDINATOR_SINCE
        """True to list no groups while those of any partition load. source: GroupCoordinatorService.listGroups"""

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        states = [str(state).strip().lower() for state in getattr(request, "states_filter", ())]
        types = [str(kind).lower() for kind in getattr(request, "types_filter", ())]
        every: list[Group | ConsumerGroup] = [
            *self._groups.index.groups.values(),
            *self._groups.index.consumer_groups.values(),
            *self._groups.index.share_groups.values(),
        ]
        listed = [
            found
            for found in map(_listed, every)
            if (not states or found["group_state"].lower() in states) and (not types or found["group_type"] in types)
        ]
        error = ErrorCode.NONE
        if self._groups.index.loading:
            error, listed = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [] if self._is_all_or_none else listed
        self._answer(call, error_code=error, groups=listed)


def _listed(group: Group | ConsumerGroup) -> dict[str, str]:
    return {
        "group_id": group.group_id,
        "protocol_type": group.TYPE if isinstance(group, ConsumerGroup) else group.protocol_type or "",
        "group_state": group.state.value,
        "group_type": group.TYPE,
    }


DELETED_AT_ONCE = 500
"""Maximum number of groups that the coordinator deletes in one step."""


class DeleteGroupsHandler(ApiHandler):
    """DeleteGroups (42): delete groups without members, and their offsets (KIP-229).

         0  first version
         1  a throttled client gets its response before the delay (KIP-219)
         2  flexible
         3  an error message, which only groups of Kafka Streams have (KIP-1331)

    Source: KafkaApis.handleDeleteGroupsRequest
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        group_ids = tuple(dict.fromkeys(str(group_id) for group_id in request.groups_names))
        errors: dict[str, ErrorCode] = {}

        def answer(result: inputs.Result) -> None:
            assert isinstance(result, inputs.DeleteGroupsResult)
            errors.update(result.errors)
            if len(errors) == len(group_ids):
                results = ({"group_id": group_id, "error_code": errors[group_id]} for group_id in group_ids)
                self._answer(call, results=results)

        def delete(some: tuple[str, ...]) -> None:
            def make_input(number: int) -> inputs.DeleteGroups:
                return inputs.DeleteGroups(now_us=call.now_us, request=number, group_ids=some)

            self._broker.groups.submit(call.connection, make_input, answer, call.now_us)

        for first in paced(range(0, max(len(group_ids), 1), DELETED_AT_ONCE)):
            delete(group_ids[first : first + DELETED_AT_ONCE])


# ConsumerGroupDescribe (69): a consumer group of KIP-848, its members, their current and target assignments.
#   0  first version
#   1  the type of each member (KIP-1099)
# source: GroupMetadataManager.consumerGroupDescribe, ConsumerGroup.asDescribedGroup
CLASSIC_PROTOCOL, CONSUMER_PROTOCOL = 0, 1
"""Values of the field MemberType. Source: ConsumerGroupDescribeResponse.json"""


class DescribesGroups(ApiHandler, ABC):
    """Base class of the handlers that describe groups of the type `TYPE`."""

    TYPE: ClassVar[str]

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._groups = broker.groups.coordinator

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        groups = [self._description(str(group_id)) for group_id in request.group_ids]
        if request.include_authorized_operations:
            for group in groups:
                if group["error_code"] is ErrorCode.NONE:
                    group["authorized_operations"] = ALL_OF_GROUP
        self._answer(call, groups=groups)

    def _description(self, group_id: str) -> Values:
        # Differs from Kafka: there the description is of the committed state, which all in-sync replicas have.
        error = self._groups.index.status(group_id)
        if error is not ErrorCode.NONE:
            return {"error_code": error, "group_id": group_id}
        group = self._groups.index.find(group_id)
        if not isinstance(group, ConsumerGroup) or group.TYPE != self.TYPE:
            message = (
                f"Group {group_id} not found." if group is None else f"Group {group_id} is not a {self.TYPE} group."
            )
            return {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": message, "group_id": group_id}
        return self._fields(group)

    @abstractmethod
    def _fields(self, group: ConsumerGroup) -> Values: ...


class ConsumerGroupDescribeHandler(DescribesGroups):
    TYPE = ConsumerGroup.TYPE

    def _fields(self, group: ConsumerGroup) -> Values:
        return {
            "error_code": ErrorCode.NONE,
            "group_id": group.group_id,
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
        return named_assignment(partitions, self._cache)


def named_assignment(partitions: Partitions, cache: MetadataCache) -> Values:
    """Return the response's structure of an assignment, without partitions of deleted topics."""
    found = []
    for topic_id, of_topic in groupby(partitions, key=lambda partition: partition.topic_id):
        name = cache.topic_name(topic_id)
        if name is not None:
            numbers = [item.partition for item in of_topic]
            found.append({"topic_id": topic_id, "topic_name": name, "partitions": numbers})
    return {"topic_partitions": found}


def serve(broker: BrokerParts) -> Handler:
    refused = Refused(each("groups", "group_ids", {"error_code": ABSENT}, group_id=""))(broker)
    return where_it_is_on(broker, ConsumerGroupDescribeHandler(broker), refused)


APIS: Final[Mapping[int, Serve]] = {
    versions.FIND_COORDINATOR: FindCoordinatorHandler,
    versions.DESCRIBE_GROUPS: DescribeGroupsHandler,
    versions.LIST_GROUPS: ListGroupsHandler,
    versions.DELETE_GROUPS: DeleteGroupsHandler,
    versions.CONSUMER_GROUP_DESCRIBE: serve,
}
