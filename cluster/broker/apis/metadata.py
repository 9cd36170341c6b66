"""The brokers and topics of the cluster: Metadata (3), DescribeCluster (60), DescribeTopicPartitions (75)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values
from cluster.broker.apis.cluster_view import (
    ALL_OF_CLUSTER,
    ALL_OF_TOPIC,
    NOT_ASKED,
    DescribedCluster,
    failed,
    why_missing,
)
from cluster.broker.apis.coordinators import wanted_topic
from cluster.protocol.entities import Entity
from cluster.protocol.versions import DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS, METADATA
from cluster.server.responder import Call
from cluster.slices import paced
from controller.image import PartitionRegistration, TopicImage
from controller.topics import is_internal
from replica.errors import ErrorCode
from replica.ids import CLUSTER_ID, NO_BROKER

FIRST_BY_TOPIC_ID = 12
MADE_AT_ONCE = 1_000
"""Maximum number of topics that one request creates. Differs from Kafka, which has no limit."""


class MetadataHandler(ApiHandler):
    """Metadata (3): return the brokers, and the topics with their partitions.

    Source: KafkaApis.handleTopicMetadataRequest

     0  an empty list of topics requests all
     1  null requests all; racks, the controller, and which topics are internal
     2  cluster id
     3  throttle time
     4  the request states whether topics may be created
     5  offline replicas
     6  a throttled client gets its response before the delay (KIP-219)
     7  leader epochs (KIP-320)
     8  the client's authorized operations, on request (KIP-430)
     9  flexible
    10  topic ids in the response (KIP-516)
    11  authorized operations on the cluster moved to DescribeCluster (KIP-700)
    12  topics by id, in the request
    13  a top-level error (KIP-1102)
    """

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._view = DescribedCluster(broker)
        self._config = broker.base.config

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        version = call.header.api_version
        image = self._cache.image
        if version < FIRST_BY_TOPIC_ID and any(map(_is_by_id, request.topics or ())):
            refused = [failed(ErrorCode.INVALID_REQUEST, topic.name or "") for topic in request.topics]
            self._answer(call, topics=refused, controller_id=NO_BROKER)
            return
        if request.topics is None or (version == 0 and not request.topics):
            topics = [self._topic(name, topic, version) for name, topic in paced(sorted(image.topics.items()))]
        else:
            topics = [self._asked_topic(topic, version) for topic in paced(dict.fromkeys(request.topics))]
            self._create_missing(request, topics, call.now_us)
        if getattr(request, "include_topic_authorized_operations", False):
            for topic in topics:
                topic["topic_authorized_operations"] = ALL_OF_TOPIC
        of_cluster = getattr(request, "include_cluster_authorized_operations", False)
        self._answer(
            call,
            brokers=[
                {"node_id": broker.broker_id, "host": host, "port": port, "rack": broker.rack}
                for broker, (host, port) in self._view.reached(call.connection, self._view.live())
            ],
            cluster_id=CLUSTER_ID,
            controller_id=self._view.controller_id(),
            topics=topics,
            cluster_authorized_operations=ALL_OF_CLUSTER if of_cluster else NOT_ASKED,
        )

    def _asked_topic(self, asked: Entity, version: int) -> Values:
        """Return the response's entry of a topic that is requested by name or, from version 12 on, by id (KIP-516)."""
        topic_id = getattr(asked, "topic_id", None)
        if topic_id is None:
            name = str(asked.name or "")
            return self._topic(name, self._cache.image.topics.get(name), version)
        known = self._cache.topic_name(topic_id)
        if known is None:
            return failed(ErrorCode.UNKNOWN_TOPIC_ID, None) | {"topic_id": topic_id}
        return self._topic(known, self._cache.image.topics[known], version)

    def _create_missing(self, request: Entity, topics: Sequence[Values], now_us: int) -> None:
        """Ask the controller to create the missing topics, at most MADE_AT_ONCE; clients retry and create the rest."""
        if not self._config.auto_create_topics_enable or not getattr(request, "allow_auto_topic_creation", True):
            return
        missing = [topic["name"] for topic in topics if topic["error_code"] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        if missing:
            names = islice(dict.fromkeys(map(str, missing)), MADE_AT_ONCE)
            self._broker.plane.create_topics([wanted_topic(name, self._config) for name in names], now_us)

    def _topic(self, name: str, topic: TopicImage | None, version: int) -> Values:
        if topic is None:
            return failed(why_missing(name), name)
        return {
            "error_code": ErrorCode.NONE,
            "name": name,
            "topic_id": topic.topic_id,
            "is_internal": is_internal(name),
            "partitions": [
                self._partition(name, number, registration, version)
                for number, registration in sorted(topic.partitions.items())
            ],
        }

    def _partition(self, name: str, number: int, registration: PartitionRegistration, version: int) -> Values:
        replicas, isr = list(registration.replicas), list(registration.in_sync_replicas)
        leader = self._view.known_leader(registration)
        error = ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_BROKER else ErrorCode.NONE
        if version == 0:
            live = [broker_id for broker_id in replicas if not self._view.is_offline(broker_id)]
            if leader != NO_BROKER and live != replicas:
                error = ErrorCode.REPLICA_NOT_AVAILABLE
            replicas, isr = live, [broker_id for broker_id in isr if broker_id in live]
        return {
            "error_code": error,
            "partition_index": number,
            "leader_id": leader,
            "leader_epoch": registration.leader_epoch,
            "replica_nodes": replicas,
            "isr_nodes": isr,
            "offline_replicas": self._view.offline_replicas(name, number, registration),
        }


def _is_by_id(asked: Entity) -> bool:
    return asked.name is None or getattr(asked, "topic_id", None) is not None


BROKERS, CONTROLLERS = 1, 2
"""Values of EndpointType."""


class DescribeClusterHandler(ApiHandler):
    """DescribeCluster (60): return the brokers of the cluster (KIP-700). Source: KafkaApis.handleDescribeCluster

    0  first version
    1  the request states whether it is for a broker or a controller (KIP-919)
    2  fenced brokers, on request (KIP-1073)
    """

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._view = DescribedCluster(broker)

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        endpoint = int(getattr(request, "endpoint_type", BROKERS))
        if endpoint != BROKERS:
            known = endpoint == CONTROLLERS
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            wanted = "a controller" if known else f"endpoint type {endpoint}"
            message = f"the request is for {wanted}, but this node is a broker"
            self._answer(call, error_code=error, error_message=message, endpoint_type=BROKERS)
            return
        brokers = self._view.live()
        if getattr(request, "include_fenced_brokers", False):
            brokers = [broker for _, broker in sorted(self._cache.image.brokers.items())]
        of_cluster = request.include_cluster_authorized_operations
        self._answer(
            call,
            error_code=ErrorCode.NONE,
            endpoint_type=BROKERS,
            cluster_id=CLUSTER_ID,
            controller_id=self._view.controller_id(),
            brokers=[
                {
                    "broker_id": broker.broker_id,
                    "host": host,
                    "port": port,
                    "rack": broker.rack,
                    "is_fenced": broker.fenced,
                }
                for broker, (host, port) in self._view.reached(call.connection, brokers)
            ],
            cluster_authorized_operations=ALL_OF_CLUSTER if of_cluster else NOT_ASKED,
        )


class DescribeTopicPartitionsHandler(ApiHandler):
    """DescribeTopicPartitions (75): return partitions with their eligible leaders, page by page (KIP-966).

         0  the only version

    Source: DescribeTopicPartitionsRequestHandler
    """

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._view = DescribedCluster(broker)

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        image = self._cache.image
        asked = [str(topic.name) for topic in request.topics]
        first, start = "", 0
        if request.cursor is not None:
            first, start = str(request.cursor.topic_name), int(request.cursor.partition_index)
        if start < 0 or (first and asked and first not in asked):
            # The response has no error of its own, so each topic gets the error of the cursor (getErrorResponse).
            answer = [failed(ErrorCode.INVALID_REQUEST, name) for name in asked]
            self._answer(call, topics=answer, next_cursor=None)
            return
        most = self._broker.base.config.max_request_partition_size_limit
        limit = max(1, min(most, int(request.response_partition_limit)))
        names = sorted(name for name in paced(dict.fromkeys(asked or image.topics)) if name >= first)
        topics, cursor = self._page(names, start if first else 0, first, limit)
        self._answer(call, topics=topics, next_cursor=cursor)

    def _page(self, names: Sequence[str], start: int, first: str, limit: int) -> tuple[list[Values], Values | None]:
        topics: list[Values] = []
        for name in paced(names):
            topic = self._cache.image.topics.get(name)
            if limit == 0:
                return topics, {"topic_name": name, "partition_index": 0}
            if topic is None:
                topics.append(failed(why_missing(name), name))
                continue
            numbers = sorted(topic.partitions)[start if name == first else 0 :]
            topics.append(self._described(name, topic, numbers[:limit]))
            if len(numbers) > limit:
                return topics, {"topic_name": name, "partition_index": numbers[limit]}
            limit -= len(numbers)
        return topics, None

    def _described(self, name: str, topic: TopicImage, numbers: Sequence[int]) -> Values:
        partitions = []
        for number in numbers:
            registration = topic.partitions[number]
            partitions.append(
                {
                    # As in Kafka, also without a leader.
                    "error_code": ErrorCode.NONE,
                    "partition_index": number,
                    "leader_id": self._view.known_leader(registration),
                    "leader_epoch": registration.leader_epoch,
                    "replica_nodes": registration.replicas,
                    "isr_nodes": registration.in_sync_replicas,
                    "eligible_leader_replicas": registration.elr,
                    "last_known_elr": registration.last_known_elr,
                    "offline_replicas": self._view.offline_replicas(name, number, registration),
                }
            )
        return {
            "error_code": ErrorCode.NONE,
            "name": name,
            "topic_id": topic.topic_id,
            "is_internal": is_internal(name),
            "partitions": partitions,
            "topic_authorized_operations": ALL_OF_TOPIC,
        }


APIS: Final[Mapping[int, Serve]] = {
    METADATA: MetadataHandler,
    DESCRIBE_CLUSTER: DescribeClusterHandler,
    DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsHandler,
}
