"""ConsumerGroupDescribe (69): a consumer group of KIP-848, its members, what each has and is to have.

0  first version
1  the type of each member (KIP-1099)

source: GroupMetadataManager.consumerGroupDescribe, ConsumerGroup.asDescribedGroup
"""

from __future__ import annotations

from itertools import groupby

from cluster.broker.apis.api import BrokerParts, Values
from cluster.broker.apis.groups.api_15_describe_groups import ALL_OF_GROUP
from cluster.broker.apis.groups.api_68_consumer_group_heartbeat import where_it_is_on
from cluster.broker.apis.refusals import ABSENT, Refused, each
from cluster.groups.assignors.specification import Partitions
from cluster.groups.consumer_steps import DEFAULT_ASSIGNOR
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_member import ConsumerMember
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from cluster.server.responder import Handler
from replica.errors import ErrorCode

CLASSIC_PROTOCOL, CONSUMER_PROTOCOL = 0, 1
"""Types of members. source: ConsumerGroupDescribeResponse.json"""


class ConsumerGroupDescribeHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._groups = broker.groups.coordinator
        self._cache = broker.cache
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


API = serve
