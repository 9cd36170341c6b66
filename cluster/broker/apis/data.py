"""The APIs a broker serves to clients and followers, one method each. source: KafkaApis.scala

A request is decoded, handed to the replica manager, and answered now or later through a closure. Errors of one
partition are answered in its place; a frame that cannot be read raises PeerViolation, and the connection is closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from uuid import UUID

from cluster.broker.apis.offsets import Answers, OffsetApis
from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.broker.replicas.blocking_logs import BlockingLogs
from cluster.broker.replicas.delayed import FetchParams, FetchResults, ProduceResults
from cluster.broker.replicas.fetch_sessions import Asked, FetchContext, FetchSessions, Key
from cluster.broker.replicas.manager import ReplicaManager, size_bytes
from cluster.config import BrokerConfig
from cluster.node import ConnectionId, OnSent, Sent
from cluster.outbox import Outbox
from cluster.protocol import cold
from cluster.protocol.api_00_produce import ProducePartitionResponse, decode_produce_request, encode_produce_response
from cluster.protocol.api_01_fetch import FetchPartitionResponse
from cluster.protocol.api_18_api_versions import encode_api_versions_response
from cluster.protocol.by_topic import Topic
from cluster.protocol.eras import features, offered
from cluster.protocol.fetch_request_codec import decode_fetch_request
from cluster.protocol.fetch_response_codec import fetch_response_segments
from cluster.protocol.headers import RequestHeader, read_request_header
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from cluster.protocol.versions import (
    API_VERSIONS,
    FETCH,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from cluster.server.accepted_connections import AcceptedConnections
from cluster.server.cpu import HandlerTime
from cluster.server.responder import Handler, Responder
from replica.errors import ErrorCode, PeerViolation
from replica.ids import BrokerId, Offset, TopicPartition
from replica.log.validation import is_transactional
from replica.rules import Rules
from replica.trace.events import Recorder, RecordsSent

FIRST_VERSION_FOR_ANY_REPLICA = 11
"""KIP-392: from this Fetch version on, followers answer consumers too."""
FIRST_PRODUCE_WITH_HINTS, FIRST_FETCH_WITH_HINTS = 10, 16
"""KIP-951: from these versions on, an answer names the new leader."""
Refused = dict[Topic, list[ProducePartitionResponse]]
MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Apis:
    """Dispatches requests by API key, and offers those that clients of the era may send.

    others: handlers of further APIs, each family in a module of its own
    """

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        config: BrokerConfig,
        rules: Rules,
        outbox: Outbox,
        connections: AcceptedConnections,
        cache: MetadataCache,
        replicas: ReplicaManager,
        logs: BlockingLogs,
        offsets: OffsetApis,
        fetch_sessions: FetchSessions,
        handler_time: HandlerTime,
        recorder: Recorder,
        responder: Responder,
        others: Mapping[int, Handler],
    ) -> None:
        self._identity = identity
        self._fetch_max_bytes = config.fetch_max_bytes
        self._outbox = outbox
        self._connections = connections
        self._cache = cache
        self._replicas = replicas
        self._logs = logs
        self._fetch_sessions = fetch_sessions
        self._handler_time = handler_time
        self._recorder = recorder
        self._offsets = offsets
        self._answer = responder.answer
        self._handlers: dict[int, Handler] = {
            PRODUCE: self._produce,
            FETCH: self._fetch,
            LIST_OFFSETS: self._list_offsets,
            API_VERSIONS: self._api_versions,
            OFFSET_FOR_LEADER_EPOCH: self._offset_for_leader_epoch,
            **others,
        }
        offer = offered(rules.release)
        self._offered = {key: offer[key] for key in sorted(self._handlers) if key in offer}
        self._features = features(rules.release, elr=rules.elr)

    def handle(self, connection: ConnectionId, peer: str, frame: bytearray, now_us: int) -> RequestHeader:
        """One request of `peer`; returns what it was. raises: PeerViolation"""
        header = read_request_header(frame)
        handler = self._handlers.get(header.api_key)
        if handler is None:
            raise PeerViolation(f"api {header.api_key} is not served here")
        handler(connection, peer, header, frame, now_us)
        return header

    # ------------------------------------------------------------------------------------------------------ produce

    def _produce(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = decode_produce_request(header, frame)
        entries: list[tuple[TopicPartition, memoryview | None]] = []
        refused: Refused = {}
        ids: dict[str, UUID] = {}
        for topic, partitions in request.topics:
            name = self._cache.topic_name(topic)
            if isinstance(topic, UUID) and name is not None:
                ids[name] = topic
            for number, records in partitions:
                if name is None or self._is_another_topic(topic, TopicPartition(name, number)):
                    unknown = ProducePartitionResponse(number, ErrorCode.UNKNOWN_TOPIC_ID)
                    refused.setdefault(topic, []).append(unknown)
                else:
                    entries.append((TopicPartition(name, number), None if records is None else memoryview(records)))
        respond = partial(self._produced, connection, header, request.acks, ids, refused)
        if request.transactional_id is None and any(is_transactional(records) for _, records in entries):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            respond({name: ProducePartitionResponse(name.partition, error) for name, _ in entries}, None)
            return
        self._handler_time.produced([records for _, records in entries])
        self._logs.append_records(
            request.acks,
            request.timeout_ms * 1000,
            entries,
            peer,
            header.api_version,
            respond,
            now_us,
        )

    def _is_another_topic(self, topic: Topic, name: TopicPartition) -> bool:
        """The replica here is still that of a topic which had this name before. source: getPartitionOrException"""
        partition = self._replicas.partitions.get(name)
        return isinstance(topic, UUID) and partition is not None and partition.topic_id != topic

    def _produced(
        self,
        connection: ConnectionId,
        header: RequestHeader,
        acks: int,
        ids: Mapping[str, UUID],
        refused: Refused,
        results: ProduceResults,
        cause: int | None,
    ) -> None:
        """ids: of topics that the request names by id     refused: without asking the replica manager"""
        if connection not in self._connections:
            return  # Nobody is left to tell; what was appended stays.
        if acks == 0:
            # Nobody waits for an answer; on an error the connection is closed, so that the client looks for the
            # leader again (KafkaApis.handleProduceRequest).
            if refused or any(result.error is not ErrorCode.NONE for result in results.values()):
                self._connections.close(connection)
            else:
                self._outbox.resume(connection)
            return
        topics: Refused = {}
        endpoints: dict[BrokerId, NodeEndpoint] = {}
        for name, result in results.items():
            if result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and header.api_version >= FIRST_PRODUCE_WITH_HINTS:
                result = result._replace(current_leader=self._current_leader(name, endpoints))
            topics.setdefault(ids.get(name.topic, name.topic), []).append(result)
        for topic, parts in refused.items():
            topics.setdefault(topic, []).extend(parts)
        frame = encode_produce_response(
            header.api_version, header.correlation_id, list(topics.items()), endpoints=list(endpoints.values())
        )
        self._outbox.respond(connection, (frame,), PRODUCE, cause)

    def _current_leader(self, name: TopicPartition, endpoints: dict[BrokerId, NodeEndpoint]) -> LeaderIdAndEpoch:
        """Who leads as far as we know; where it is reached goes into `endpoints`, if it is alive (KIP-951)."""
        registration = self._cache.image.partition(name.topic, name.partition)
        if registration is None:
            return LeaderIdAndEpoch()
        broker = self._cache.image.brokers.get(registration.leader)
        if broker is not None and not broker.fenced:
            endpoints[broker.broker_id] = NodeEndpoint(broker.broker_id, broker.host, broker.port, broker.rack)
        return LeaderIdAndEpoch(registration.leader, registration.leader_epoch)

    # -------------------------------------------------------------------------------------------------------- fetch

    def _fetch(self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        request = decode_fetch_request(header, frame)
        context = self._fetch_sessions.context(request, header.api_version, now_us)
        if context.resting is not None:
            self._replicas.fetched_again(context.resting, request.replica_id, now_us)
        wanted: dict[TopicPartition, Asked] = {}
        refused: dict[Key, FetchPartitionResponse] = {}
        is_inconsistent = False
        for asked in context.asked():
            error = self._refusal(asked)
            if error is ErrorCode.NONE and asked.name is not None:
                wanted[asked.name] = asked
                continue
            is_inconsistent |= error is ErrorCode.INCONSISTENT_TOPIC_ID
            refused[asked.topic, asked.entry.partition] = FetchPartitionResponse(asked.entry.partition, error)
        max_bytes = min(request.max_bytes, self._fetch_max_bytes)
        params = FetchParams(
            replica_id=request.replica_id,
            replica_epoch=request.replica_epoch,
            peer=peer,
            connection=connection,
            # The error of an old id is found by the read, which ends the wait; the other two are found before it.
            max_wait_us=0 if is_inconsistent else request.max_wait_ms * 1000,
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            leader_only=header.api_version < FIRST_VERSION_FOR_ANY_REPLICA,
            resting=context.resting,
        )
        if params.resting is not None:
            params.resting.listeners = [lambda asked: _note(wanted, asked)]

        def respond(results: FetchResults, now_us: int) -> None:
            self._fetched(params, header, context, wanted, refused, results, now_us)

        # What the metadata does not know is answered beside the rest, and ends no waiting for it.
        self._logs.fetch_records(params, [(name, asked.entry) for name, asked in wanted.items()], respond, now_us)

    def _refusal(self, asked: Asked) -> ErrorCode:
        """Why a partition is not even looked for, NONE if it is."""
        if asked.name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if self._cache.image.partition(*asked.name) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # A session goes on asking for the topic that had this name when its id was resolved.
        is_another = isinstance(asked.topic, UUID) and self._cache.topic_name(asked.topic) != asked.name.topic
        return ErrorCode.INCONSISTENT_TOPIC_ID if is_another else ErrorCode.NONE

    def _fetched(
        self,
        params: FetchParams,
        header: RequestHeader,
        context: FetchContext,
        wanted: Mapping[TopicPartition, Asked],
        refused: Mapping[Key, FetchPartitionResponse],
        results: FetchResults,
        now_us: int,
    ) -> None:
        connection, peer = params.connection, params.peer
        if connection not in self._connections:
            return
        endpoints: dict[BrokerId, NodeEndpoint] = {}
        by_key: dict[Key, FetchPartitionResponse] = {}
        for name, result in results:
            if result.error in MOVED and header.api_version >= FIRST_FETCH_WITH_HINTS:
                result = result._replace(current_leader=self._current_leader(name, endpoints))
            by_key[wanted[name].topic, name.partition] = result
        answered = context.answer({**by_key, **refused}, now_us)
        if context.may_rest and answered.error is ErrorCode.NONE:
            told = answered.partitions
            unchanged = [wanted[name] for name, _ in results if (wanted[name].topic, name.partition) not in told]
            self._replicas.rest(params, unchanged)
        sent: list[RecordsSent] = []
        for name, result in results:
            found = size_bytes(result)
            if found and (wanted[name].topic, name.partition) in answered.partitions:
                self._handler_time.found(result.slice)
                sent.append(self._records_sent(peer, name, wanted[name].entry.fetch_offset, found))
        topics: dict[Topic, list[FetchPartitionResponse]] = {}
        for (topic, _), result in answered.partitions.items():
            topics.setdefault(topic, []).append(result)
        segments = fetch_response_segments(
            header.api_version,
            header.correlation_id,
            list(topics.items()),
            answered.error,
            answered.session_id,
            endpoints=list(endpoints.values()),
        )
        self._outbox.respond(connection, segments, FETCH, on_sent=self._stated_when_sent(sent) if sent else None)

    def _records_sent(self, peer: str, name: TopicPartition, fetch_offset: Offset, size_bytes: int) -> RecordsSent:
        return RecordsSent(
            node=self._identity.name,
            peer=peer,
            topic=name.topic,
            partition=name.partition,
            fetch_offset=fetch_offset,
            size_bytes=size_bytes,
        )

    def _stated_when_sent(self, facts: Sequence[RecordsSent]) -> OnSent:
        """The broker or the connection may end between the answer and its last byte: then nothing was sent."""
        cause = self._recorder.cause

        def state(_: Sent) -> None:
            causes = () if cause is None else (cause,)
            for fact in facts:
                causes = (self._recorder.emit(fact, *causes),)

        return state

    # ------------------------------------------------------------------------------------------------------ offsets

    def _list_offsets(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)

        def respond(topics: Answers) -> None:
            self._answer(connection, header, topics=topics)

        self._offsets.list_offsets(request, header.api_version, respond, now_us)

    def _offset_for_leader_epoch(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        self._answer(connection, header, topics=self._offsets.offset_for_leader_epoch(request))

    def _api_versions(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        answer = encode_api_versions_response(
            header.api_version, header.correlation_id, self._offered, self._features, self._cache.image.offset
        )
        self._outbox.respond(connection, (answer,), API_VERSIONS)


def _note(wanted: dict[TopicPartition, Asked], asked: Asked) -> None:
    if asked.name is not None:
        wanted[asked.name] = asked
