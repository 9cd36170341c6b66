"""What a broker tells of the cluster: Metadata, DescribeCluster and DescribeTopicPartitions.

source: KafkaApis.handleTopicMetadataRequest, .handleDescribeCluster, DescribeTopicPartitionsRequestHandler,
KRaftMetadataCache
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cluster.broker.apis.offsets_topic import wanted_topic
from cluster.broker.control_planes.auto_topics import WantedTopic
from cluster.broker.metadata.follower import MetadataCache
from cluster.config import BrokerConfig
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.headers import RequestHeader
from cluster.protocol.versions import DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS, METADATA
from cluster.server.responder import Handler, Responder
from controller.image import BrokerRegistration, PartitionRegistration, TopicImage
from controller.topics import check_legal, is_internal
from replica.errors import ErrorCode, KafkaError
from replica.ids import CLUSTER_ID, NO_BROKER, BrokerId, TopicPartition

FIRST_WITH_TOPIC_IDS = 12
"""Metadata 10 and 11 tell ids; only from 12 on may one ask by id."""
NOT_ASKED = -(2**31)
ALL_OF_TOPIC = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""AclOperation: read, write, create, delete, alter, describe, describe configs, alter configs. Nobody is authorized by
rules here, so everybody may do everything (AuthHelper.authorizedOperations without an authorizer)."""
ALL_OF_CLUSTER = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
BROKERS, CONTROLLERS = 1, 2
"""EndpointType"""
Values = dict[str, object]


class MetadataApis:
    """controller_id: of the ZooKeeper era's controller; None where clients may not talk to it (KRaft)
    create_topics: asks for topics that are not there, again and again if need be
    """

    def __init__(
        self,
        *,
        cache: MetadataCache,
        config: BrokerConfig,
        responder: Responder,
        create_topics: Callable[[Sequence[WantedTopic], int], None],
        controller_id: Callable[[], BrokerId] | None,
    ) -> None:
        self._cache = cache
        self._config = config
        self._answer = responder.answer
        self._create_topics = create_topics
        self._controller_id = controller_id
        self.handlers: Mapping[int, Handler] = {
            METADATA: self._metadata,
            DESCRIBE_CLUSTER: self._describe_cluster,
            DESCRIBE_TOPIC_PARTITIONS: self._describe_topic_partitions,
        }

    # ----------------------------------------------------------------------------------------------------- metadata

    def _metadata(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        version = header.api_version
        image = self._cache.image
        if version < FIRST_WITH_TOPIC_IDS and any(map(_is_by_id, request.topics or ())):
            refused = [_failed(ErrorCode.INVALID_REQUEST, topic.name or "") for topic in request.topics]
            self._answer(connection, header, topics=refused, controller_id=NO_BROKER)
            return
        if request.topics is None or (version == 0 and not request.topics):
            topics = [self._topic(name, topic, version) for name, topic in sorted(image.topics.items())]
        else:
            topics = [self._asked_topic(topic, version) for topic in request.topics]
            self._create_missing(request, topics, now_us)
        if getattr(request, "include_topic_authorized_operations", False):
            for topic in topics:
                topic["topic_authorized_operations"] = ALL_OF_TOPIC
        live = self._live()
        of_cluster = getattr(request, "include_cluster_authorized_operations", False)
        self._answer(
            connection,
            header,
            brokers=[
                {"node_id": broker.broker_id, "host": broker.host, "port": broker.port, "rack": broker.rack}
                for broker in live
            ],
            cluster_id=CLUSTER_ID,
            controller_id=self._named_controller(live),
            topics=topics,
            cluster_authorized_operations=ALL_OF_CLUSTER if of_cluster else NOT_ASKED,
        )

    def _live(self) -> list[BrokerRegistration]:
        return [broker for _, broker in sorted(self._cache.image.brokers.items()) if not broker.fenced]

    def _named_controller(self, live: Sequence[BrokerRegistration]) -> BrokerId:
        if self._controller_id is not None:
            return self._controller_id()
        # Differs from Kafka: clients may not talk to controllers, so it names a random live broker, we the first.
        return live[0].broker_id if live else NO_BROKER

    def _asked_topic(self, asked: Entity, version: int) -> Values:
        """By name, or from version 12 on by id (KIP-516)."""
        topic_id = getattr(asked, "topic_id", None)
        if topic_id is None:
            name = str(asked.name or "")
            return self._topic(name, self._cache.image.topics.get(name), version)
        known = self._cache.topic_name(topic_id)
        if known is None:
            return _failed(ErrorCode.UNKNOWN_TOPIC_ID, None) | {"topic_id": topic_id}
        return self._topic(known, self._cache.image.topics[known], version)

    def _create_missing(self, request: Entity, topics: Sequence[Values], now_us: int) -> None:
        """They are not there yet; the client asks again."""
        if not self._config.auto_create_topics_enable or not getattr(request, "allow_auto_topic_creation", True):
            return
        missing = [topic["name"] for topic in topics if topic["error_code"] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        if missing:
            self._create_topics([wanted_topic(str(name), self._config) for name in dict.fromkeys(missing)], now_us)

    def _topic(self, name: str, topic: TopicImage | None, version: int) -> Values:
        if topic is None:
            return _failed(_why_missing(name), name)
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
        leader = self._known_leader(registration)
        error = ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_BROKER else ErrorCode.NONE
        if version == 0:
            live = [broker_id for broker_id in replicas if not self._is_offline(broker_id)]
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
            "offline_replicas": self._offline(name, number, registration),
        }

    def _known_leader(self, registration: PartitionRegistration) -> BrokerId:
        """One that clients can be sent to: a ZooKeeper-era broker may hear of a death before it hears of the election.

        source: getAliveEndpoint of KRaftMetadataCache (where a fenced broker has an endpoint too) and ZkMetadataCache
        """
        return registration.leader if registration.leader in self._cache.image.brokers else NO_BROKER

    def _offline(self, topic: str, number: int, registration: PartitionRegistration) -> list[BrokerId]:
        """source: KRaftMetadataCache.isReplicaOffline"""
        name, image = TopicPartition(topic, number), self._cache.image
        return [
            broker_id
            for broker_id in registration.replicas
            if self._is_offline(broker_id) or not image.has_online_dir(broker_id, name)
        ]

    def _is_offline(self, broker_id: BrokerId) -> bool:
        broker = self._cache.image.brokers.get(broker_id)
        return broker is None or broker.fenced

    # ------------------------------------------------------------------------------------------------------ cluster

    def _describe_cluster(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        endpoint = int(getattr(request, "endpoint_type", BROKERS))
        if endpoint != BROKERS:
            known = endpoint == CONTROLLERS
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            message = f"this is a broker, and the request is for {'a controller' if known else f'type {endpoint}'}"
            self._answer(connection, header, error_code=error, error_message=message, endpoint_type=BROKERS)
            return
        live = self._live()
        told = live
        if getattr(request, "include_fenced_brokers", False):
            told = [broker for _, broker in sorted(self._cache.image.brokers.items())]
        of_cluster = request.include_cluster_authorized_operations
        self._answer(
            connection,
            header,
            error_code=ErrorCode.NONE,
            endpoint_type=BROKERS,
            cluster_id=CLUSTER_ID,
            controller_id=self._named_controller(live),
            brokers=[
                {
                    "broker_id": broker.broker_id,
                    "host": broker.host,
                    "port": broker.port,
                    "rack": broker.rack,
                    "is_fenced": broker.fenced,
                }
                for broker in told
            ],
            cluster_authorized_operations=ALL_OF_CLUSTER if of_cluster else NOT_ASKED,
        )

    # ------------------------------------------------------------------------------------------------------- topics

    def _describe_topic_partitions(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        """KIP-966: with eligible leaders, page by page."""
        request = cold.decode_request(header, frame)
        image = self._cache.image
        asked = [str(topic.name) for topic in request.topics]
        first, start = "", 0
        if request.cursor is not None:
            first, start = str(request.cursor.topic_name), int(request.cursor.partition_index)
        if start < 0 or (first and asked and first not in asked):
            # No field says what is wrong with a cursor, so the topics do (getErrorResponse).
            answer = [_failed(ErrorCode.INVALID_REQUEST, name) for name in asked]
            self._answer(connection, header, topics=answer, next_cursor=None)
            return
        limit = max(1, min(self._config.max_request_partition_size_limit, int(request.response_partition_limit)))
        names = sorted(name for name in dict.fromkeys(asked or image.topics) if name >= first)
        topics, cursor = self._page(names, start if first else 0, first, limit)
        self._answer(connection, header, topics=topics, next_cursor=cursor)

    def _page(self, names: Sequence[str], start: int, first: str, limit: int) -> tuple[list[Values], Values | None]:
        topics: list[Values] = []
        for name in names:
            topic = self._cache.image.topics.get(name)
            if limit == 0:
                return topics, {"topic_name": name, "partition_index": 0}
            if topic is None:
                topics.append(_failed(_why_missing(name), name))
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
                    # As Kafka, which names no error here even where nobody leads.
                    "error_code": ErrorCode.NONE,
                    "partition_index": number,
                    "leader_id": self._known_leader(registration),
                    "leader_epoch": registration.leader_epoch,
                    "replica_nodes": registration.replicas,
                    "isr_nodes": registration.in_sync_replicas,
                    "eligible_leader_replicas": registration.elr,
                    "last_known_elr": registration.last_known_elr,
                    "offline_replicas": self._offline(name, number, registration),
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


def _is_by_id(asked: Entity) -> bool:
    return asked.name is None or getattr(asked, "topic_id", None) is not None


def _failed(error: ErrorCode, name: str | None) -> Values:
    internal = name is not None and is_internal(name)
    return {"error_code": error, "name": name, "is_internal": internal, "partitions": []}


def _why_missing(name: str) -> ErrorCode:
    try:
        check_legal(name)
    except KafkaError as refusal:
        return refusal.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
