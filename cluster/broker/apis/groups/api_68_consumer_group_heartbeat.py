"""ConsumerGroupHeartbeat (68): a member of a consumer group joins, says what it reads, and leaves (KIP-848).

0  first version
1  topics by a regular expression, and ids that clients make (KIP-1082)

source: KafkaApis.handleConsumerGroupHeartbeat
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from cluster.broker.apis.api import BrokerParts, Values
from cluster.broker.apis.refusals import ABSENT, Refused, always
from cluster.groups.assignors.specification import Partitions, TopicIdPartition
from cluster.groups.inputs import ConsumerHeartbeat, ConsumerHeartbeatResult, Result
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import NO_ID, Entity
from cluster.protocol.versions import RequestHeader
from cluster.server.responder import Handler
from controller.features import GROUP_VERSION, level_of

FIRST_WITH_OWN_IDS = 1


class ConsumerGroupHeartbeatHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._connections = broker.connections
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)

        def make_input(number: int) -> ConsumerHeartbeat:
            topics = request.subscribed_topic_names
            return ConsumerHeartbeat(
                now_us=now_us,
                request=number,
                group_id=str(request.group_id),
                member_id=str(request.member_id),
                member_epoch=int(request.member_epoch),
                instance_id=request.instance_id,
                rack_id=request.rack_id,
                client_id=header.client_id or "",
                client_host=f"/{self._connections.address(connection)}",
                rebalance_timeout_ms=cold.milliseconds(request.rebalance_timeout),
                topics=None if topics is None else tuple(str(topic) for topic in topics),
                topic_regex=getattr(request, "subscribed_topic_regex", None),
                assignor=request.server_assignor,
                owned=_partitions(request.topic_partitions),
                makes_its_id=header.api_version >= FIRST_WITH_OWN_IDS,
            )

        def answer(result: Result) -> None:
            assert isinstance(result, ConsumerHeartbeatResult)
            self._answer(connection, header, **_fields(result))

        self._service.submit(connection, make_input, answer, now_us)


def _partitions(topics: Iterable[Entity] | None) -> Partitions | None:
    if topics is None:
        return None
    named = {TopicIdPartition(topic.topic_id or NO_ID, int(one)) for topic in topics for one in topic.partitions}
    return tuple(sorted(named))


def _fields(result: ConsumerHeartbeatResult) -> Values:
    assignment: Values | None = None
    if result.assigned is not None:
        topics = groupby(result.assigned, key=lambda one: one.topic_id)
        assignment = {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": [one.partition for one in of_topic]}
                for topic_id, of_topic in topics
            ]
        }
    return {
        "error_code": result.error,
        "error_message": result.message,
        "member_id": result.member_id,
        "member_epoch": result.member_epoch,
        "heartbeat_interval": result.heartbeat_interval_ms,
        "assignment": assignment,
    }


def where_it_is_on(broker: BrokerParts, granted: Handler, refused: Handler) -> Handler:
    """In 3.9 `group.coordinator.rebalance.protocols` does not name them, and with group.version 0 there are none: the
    answer is UNSUPPORTED_VERSION.     source: KafkaApis.isConsumerGroupProtocolEnabled
    """
    rules, cache = broker.rules, broker.cache

    def handle(connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        handler = granted if level_of(GROUP_VERSION, rules, cache.image.feature_levels) else refused
        handler(connection, peer, header, frame, now_us)

    return handle


def serve(broker: BrokerParts) -> Handler:
    refused = Refused(always({"error_code": ABSENT}))(broker)
    return where_it_is_on(broker, ConsumerGroupHeartbeatHandler(broker), refused)


API = serve
