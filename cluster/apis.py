"""The APIs a broker serves to clients and followers, one method each. source: KafkaApis.scala

A request is decoded, handed to the replica manager, and answered now or later through a closure. Errors of one
partition are answered in its place; a frame that cannot be read raises PeerViolation, and the connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from cluster.broker_lifecycle import BrokerIdentity
from cluster.delayed import FetchParams, FetchResults, ProduceResults
from cluster.metadata_follower import MetadataCache
from cluster.node import ConnectionId
from cluster.outbox import Outbox
from cluster.replica_manager import ReplicaManager, size_bytes
from cluster.wire import cold
from cluster.wire.api_00_produce import decode_produce_request, encode_produce_response
from cluster.wire.api_01_fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    Topic,
    decode_fetch_request,
    fetch_response_segments,
)
from cluster.wire.api_18_api_versions import encode_api_versions_response
from cluster.wire.headers import RequestHeader, read_request_header
from cluster.wire.versions import (
    ADVERTISED,
    API_VERSIONS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from controller.image import PartitionRegistration, TopicImage
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, UNKNOWN_OFFSET, BrokerEpoch, BrokerId, Names, TopicPartition
from replica.trace import Recorder, RecordsSent

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
FIRST_VERSION_FOR_ANY_REPLICA = 11
"""KIP-392: from this Fetch version on, followers answer consumers too."""
PRODUCER_IDS_PER_REGISTRATION = 1000
SERVED = (PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH)


class Apis:
    """Dispatches requests by API key."""

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        names: Names,
        outbox: Outbox,
        cache: MetadataCache,
        replicas: ReplicaManager,
        recorder: Recorder,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self._identity = identity
        self._names = names
        self._outbox = outbox
        self._cache = cache
        self._replicas = replicas
        self._recorder = recorder
        self._broker_epoch = broker_epoch
        self._producer_ids = 0
        self._handlers: dict[int, Callable[[ConnectionId, str, RequestHeader, bytearray, int], None]] = {
            PRODUCE: self._produce,
            FETCH: self._fetch,
            LIST_OFFSETS: self._list_offsets,
            METADATA: self._metadata,
            API_VERSIONS: self._api_versions,
            INIT_PRODUCER_ID: self._init_producer_id,
            OFFSET_FOR_LEADER_EPOCH: self._offset_for_leader_epoch,
        }

    def handle(self, connection: ConnectionId, peer: str, frame: bytearray, now_us: int) -> None:
        """One request of `peer`. raises: PeerViolation"""
        header = read_request_header(frame)
        handler = self._handlers.get(header.api_key)
        if handler is None:
            raise PeerViolation(f"api {header.api_key} is not served here")
        handler(connection, peer, header, frame, now_us)

    # ------------------------------------------------------------------------------------------------------ produce

    def _produce(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = decode_produce_request(header, frame)
        entries = [
            (TopicPartition(topic, number), None if records is None else memoryview(records))
            for topic, partitions in request.topics
            for number, records in partitions
        ]
        self._replicas.append_records(
            request.acks,
            request.timeout_ms * 1000,
            entries,
            peer,
            partial(self._produced, connection, header, request.acks),
            now_us,
        )

    def _produced(
        self, connection: ConnectionId, header: RequestHeader, acks: int, results: ProduceResults, cause: int | None
    ) -> None:
        if acks == 0:
            # Nobody waits for an answer; on an error the connection is closed, so that the client looks for the
            # leader again (KafkaApis.handleProduceRequest).
            if any(result.error is not ErrorCode.NONE for result in results.values()):
                self._outbox.close(connection)
            else:
                self._outbox.resume(connection)
            return
        topics: dict[str, list[object]] = {}
        for name, result in results.items():
            topics.setdefault(name.topic, []).append(result)
        frame = encode_produce_response(header.api_version, header.correlation_id, list(topics.items()))  # type: ignore[arg-type]
        self._outbox.respond(connection, (frame,), PRODUCE, cause)

    # -------------------------------------------------------------------------------------------------------- fetch

    def _fetch(self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        # Simplified: no fetch sessions (KIP-227); every answer has session id 0, which clients accept.
        request = decode_fetch_request(header, frame)
        params = FetchParams(
            replica_id=request.replica_id,
            replica_epoch=request.replica_epoch,
            peer=peer,
            max_wait_us=request.max_wait_ms * 1000,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            leader_only=header.api_version < FIRST_VERSION_FOR_ANY_REPLICA,
        )
        wanted: list[tuple[TopicPartition, FetchPartition]] = []
        unknown: list[tuple[Topic, list[FetchPartitionResponse]]] = []
        topics: dict[str, Topic] = {}
        for topic, partitions in request.topics:
            name = self._cache.topic_name(topic)
            if name is None:
                unknown.append(
                    (
                        topic,
                        [FetchPartitionResponse(entry.partition, ErrorCode.UNKNOWN_TOPIC_ID) for entry in partitions],
                    )
                )
                continue
            topics[name] = topic
            wanted += [(TopicPartition(name, entry.partition), entry) for entry in partitions]

        def respond(results: FetchResults) -> None:
            self._fetched(connection, peer, header, request, topics, unknown, results)

        if unknown:
            params = FetchParams(
                params.replica_id, params.replica_epoch, peer, 0, 0, params.max_bytes, params.leader_only
            )
        self._replicas.fetch_records(params, wanted, respond, now_us)

    def _fetched(
        self,
        connection: ConnectionId,
        peer: str,
        header: RequestHeader,
        request: FetchRequest,
        topics: dict[str, Topic],
        unknown: Sequence[tuple[Topic, list[FetchPartitionResponse]]],
        results: FetchResults,
    ) -> None:
        answers: dict[Topic, list[FetchPartitionResponse]] = {}
        for name, result in results:
            answers.setdefault(topics[name.topic], []).append(result)
            if size_bytes(result):
                self._state_records_sent(peer, name, request, topics[name.topic], result)
        segments = fetch_response_segments(
            header.api_version, header.correlation_id, [*answers.items(), *unknown], ErrorCode.NONE
        )
        self._outbox.respond(connection, segments, FETCH)

    def _state_records_sent(
        self, peer: str, name: TopicPartition, request: FetchRequest, topic: Topic, result: FetchPartitionResponse
    ) -> None:
        offset = next(
            entry.fetch_offset
            for asked, partitions in request.topics
            if asked == topic
            for entry in partitions
            if entry.partition == name.partition
        )
        self._recorder.emit(
            RecordsSent(
                node=self._identity.name,
                peer=peer,
                topic=name.topic,
                partition=name.partition,
                fetch_offset=offset,
                size_bytes=size_bytes(result),
            )
        )

    # ------------------------------------------------------------------------------------------------------ offsets

    def _list_offsets(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        from_follower = int(request.replica_id) != NO_BROKER
        topics = []
        for topic in request.topics:
            answers = []
            for entry in topic.partitions:
                name = TopicPartition(str(topic.name), int(entry.partition_index))
                current_leader_epoch = int(getattr(entry, "current_leader_epoch", UNDEFINED_EPOCH))
                try:
                    offset, timestamp = self._offset_for(
                        name, current_leader_epoch, int(entry.timestamp), from_follower=from_follower
                    )
                    error, leader_epoch = ErrorCode.NONE, self._replicas.partitions[name].leader_epoch
                except KafkaError as refusal:
                    error, offset, timestamp, leader_epoch = refusal.code, UNKNOWN_OFFSET, -1, UNDEFINED_EPOCH
                    if error is ErrorCode.OFFSET_NOT_AVAILABLE and header.api_version < 5:
                        error = ErrorCode.LEADER_NOT_AVAILABLE
                answers.append(
                    {
                        "partition_index": name.partition,
                        "error_code": error,
                        "timestamp": timestamp,
                        "offset": offset,
                        "leader_epoch": leader_epoch,
                    }
                )
            topics.append({"name": str(topic.name), "partitions": answers})
        self._answer(connection, header, topics=topics)

    def _offset_for(
        self, name: TopicPartition, current_leader_epoch: int, timestamp: int, *, from_follower: bool
    ) -> tuple[int, int]:
        """(offset, timestamp) for -2 earliest, -1 latest or a time in ms. source: Partition.fetchOffsetForTimestamp"""
        partition = self._replicas.partitions.get(name)
        if partition is None:
            raise KafkaError(self._cache.missing_partition_error(name))
        if timestamp == EARLIEST_TIMESTAMP:
            partition.check_leading(current_leader_epoch)
            return partition.log.log_start_offset, -1
        latest = partition.latest_offset(current_leader_epoch, from_follower=from_follower)
        if timestamp == LATEST_TIMESTAMP:
            return latest, -1
        found = partition.log.offset_for_timestamp(timestamp)
        return found if found is not None and found[0] < latest else (UNKNOWN_OFFSET, -1)

    def _offset_for_leader_epoch(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        topics = []
        for topic in request.topics:
            answers = []
            for entry in topic.partitions:
                name = TopicPartition(str(topic.topic), int(entry.partition))
                error, epoch, end_offset = ErrorCode.NONE, UNDEFINED_EPOCH, UNKNOWN_OFFSET
                try:
                    partition = self._replicas.partitions.get(name)
                    if partition is None:
                        raise KafkaError(self._cache.missing_partition_error(name))
                    epoch, end_offset = partition.offset_for_leader_epoch(
                        int(entry.current_leader_epoch), int(entry.leader_epoch)
                    )
                except KafkaError as refusal:
                    error = refusal.code
                answers.append(
                    {
                        "error_code": error,
                        "partition": name.partition,
                        "leader_epoch": epoch,
                        "end_offset": end_offset,
                    }
                )
            topics.append({"topic": str(topic.topic), "partitions": answers})
        self._answer(connection, header, topics=topics)

    # ----------------------------------------------------------------------------------------------------- metadata

    def _metadata(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        image = self._cache.image
        if request.topics is None or (header.api_version == 0 and not request.topics):
            asked = sorted(image.topics)
        else:
            asked = [str(topic.name) for topic in request.topics if topic.name is not None]
        live = [broker for _, broker in sorted(image.brokers.items()) if not broker.fenced]
        self._answer(
            connection,
            header,
            brokers=[
                {"node_id": broker.broker_id, "host": broker.host, "port": broker.port, "rack": broker.rack}
                for broker in live
            ],
            cluster_id="highwater",
            # KRaft answers with a random live broker here, since clients may not talk to controllers.
            controller_id=live[0].broker_id if live else NO_BROKER,
            topics=[self._topic_metadata(name, image.topics.get(name)) for name in asked],
        )

    def _topic_metadata(self, name: str, topic: TopicImage | None) -> dict[str, object]:
        # Simplified: topics are not created on request (auto.create.topics.enable=false).
        if topic is None:
            return {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "name": name, "partitions": []}
        return {
            "error_code": ErrorCode.NONE,
            "name": name,
            "topic_id": topic.topic_id,
            "is_internal": False,
            "partitions": [
                self._partition_metadata(number, registration)
                for number, registration in sorted(topic.partitions.items())
            ],
        }

    def _partition_metadata(self, number: int, registration: PartitionRegistration) -> dict[str, object]:
        def is_offline(broker_id: BrokerId) -> bool:
            broker = self._cache.image.brokers.get(broker_id)
            return broker is None or broker.fenced

        available = registration.has_leader
        return {
            "error_code": ErrorCode.NONE if available else ErrorCode.LEADER_NOT_AVAILABLE,
            "partition_index": number,
            "leader_id": registration.leader,
            "leader_epoch": registration.leader_epoch,
            "replica_nodes": list(registration.replicas),
            "isr_nodes": list(registration.in_sync_replicas),
            "offline_replicas": [broker_id for broker_id in registration.replicas if is_offline(broker_id)],
        }

    def _api_versions(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        answer = encode_api_versions_response(
            header.api_version, header.correlation_id, {key: ADVERTISED[key] for key in SERVED}
        )
        self._outbox.respond(connection, (answer,), API_VERSIONS)

    def _init_producer_id(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        # Simplified: Kafka's brokers get blocks of ids from the controller (KIP-730); here a block belongs to each
        # registration of a broker, which is just as unique. No transactional ids.
        producer_id = self._broker_epoch() * PRODUCER_IDS_PER_REGISTRATION + self._producer_ids
        self._producer_ids += 1
        self._answer(connection, header, error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)

    def _answer(self, connection: ConnectionId, header: RequestHeader, **values: object) -> None:
        entity = cold.response(header.api_key, header.api_version, **values)
        frame = cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)
        self._outbox.respond(connection, (frame,), header.api_key)
