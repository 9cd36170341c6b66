"""Produce (0): append records to partitions that this broker leads. Source: KafkaApis.handleProduceRequest

 3  transactional id, record batches of format 2: the oldest version that Kafka 4 accepts
 4  KAFKA_STORAGE_ERROR is a possible error
 5  the response has the log start offset
 7  zstd batches (KIP-110)
 8  the response lists refused records with the reasons (KIP-467)
 9  flexible
10  the response has the new leader and its address (KIP-951)
11  TRANSACTION_ABORTABLE is a possible error (KIP-890)
12  a transactional producer need not add its partitions first (KIP-890)
13  topics by id (KIP-516)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from cluster.broker.apis.api import BrokerParts, Serve
from cluster.broker.apis.cluster_view import LeaderHints
from cluster.broker.replicas.delayed import ProduceParams, ProduceResults
from cluster.node import ConnectionId
from cluster.protocol.api_00_produce import ProducePartitionResponse, decode_produce_request, encode_produce_response
from cluster.protocol.primitives import Topic
from cluster.protocol.versions import PRODUCE, RequestHeader
from cluster.server.responder import Call
from cluster.slices import array_type, paced
from controller.access import Operation, ResourceType
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.validation import is_transactional

FIRST_WITH_LEADER_HINTS = 10


Refused = dict[Topic, list[ProducePartitionResponse]]


Entries = list[tuple[TopicPartition, memoryview | None]]


class ProduceHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._outbox = broker.base.outbox
        self._connections = broker.connections
        self._cache = broker.base.cache
        self._replicas = broker.replicas
        self._logs = broker.logs
        self._handler_time = broker.handler_time
        self._quotas = broker.client_quotas
        self._access = broker.access
        self._injections = broker.injections
        self._slices = broker.responder.slices

    def __call__(self, call: Call) -> None:
        request = decode_produce_request(call.header, call.frame)
        entries: Entries = []
        refused: Refused = {}
        ids: dict[str, UUID] = {}
        for topic, partitions in paced(request.topics):
            name = self._cache.topic_name(topic)
            if isinstance(topic, UUID) and name is not None:
                ids[name] = topic
            for number, records in paced(partitions):
                wanted = None if name is None else TopicPartition(name, number)
                if wanted is None or self._is_another_topic(topic, wanted):
                    unknown = ProducePartitionResponse(number, ErrorCode.UNKNOWN_TOPIC_ID)
                    refused.setdefault(topic, []).append(unknown)
                else:
                    entries.append((wanted, None if records is None else memoryview(records)))
        injection = None
        if self._injections.concern(PRODUCE):
            injection = self._injections.meet(call.connection, call.peer, PRODUCE, [item for item, _ in entries])
        if injection is not None and injection.refuses:
            for item in [item for item, _ in entries if injection.rule.hits(item)]:
                refusal = ProducePartitionResponse(item.partition, injection.error)
                refused.setdefault(ids.get(item.topic, item.topic), []).append(refusal)
            entries = [entry for entry in entries if not injection.rule.hits(entry[0])]
        size_bytes = len(call.frame) if self._quotas.is_enabled else 0
        answer = partial(self._respond, call.connection, call.header, size_bytes, request.acks, ids, refused)

        def respond(results: ProduceResults, cause: int | None) -> None:
            if injection is not None:
                results, cause = self._injections.produced(injection, results, cause)
            self._slices.answer(len(results) + len(refused), partial(answer, results, cause))

        if not self._may_use(call.connection, request.transactional_id) and any(
            is_transactional(it) for _, it in paced(entries)
        ):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            respond({name: ProducePartitionResponse(name.partition, error) for name, _ in entries}, None)
            return
        if self._access.is_on:
            entries = self._only_allowed(call.connection, entries, ids, refused)
        self._handler_time.produced([records for _, records in entries])
        produce = ProduceParams(
            acks=request.acks,
            timeout_us=request.timeout_ms * 1000,
            entries=array_type()(entries),
            peer=call.peer,
            api_version=call.header.api_version,
            respond=respond,
            transactional_id=request.transactional_id,
        )
        self._logs.append_records(produce, call.now_us)

    def _may_use(self, connection: ConnectionId, transactional_id: str | None) -> bool:
        if transactional_id is None or not self._access.is_on:
            return transactional_id is not None
        return self._access.allows(connection, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)

    def _only_allowed(
        self, connection: ConnectionId, entries: Entries, ids: Mapping[str, UUID], refused: Refused
    ) -> Entries:
        """Return the entries whose topics the client may write to, and add errors for the others to `refused`."""
        topics = dict.fromkeys(name.topic for name, _ in entries)
        denied = {name for name in paced(topics) if not self._access.allows_topic(connection, Operation.WRITE, name)}
        for name, _ in paced(entries):
            if name.topic in denied:
                refusal = ProducePartitionResponse(name.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                refused.setdefault(ids.get(name.topic, name.topic), []).append(refusal)
        return [entry for entry in entries if entry[0].topic not in denied]

    def _is_another_topic(self, topic: Topic, name: TopicPartition) -> bool:
        """Return True if this broker's replica `name` has another id than `topic`. Source: getPartitionOrException"""
        partition = self._replicas.partitions.get(name)
        return isinstance(topic, UUID) and partition is not None and partition.topic_id != topic

    def _respond(
        self,
        connection: ConnectionId,
        header: RequestHeader,
        size_bytes: int,
        acks: int,
        ids: Mapping[str, UUID],
        refused: Refused,
        results: ProduceResults,
        cause: int | None,
    ) -> None:
        """Send the response, unless the client has disconnected or `acks` is 0.

        Args:
            size_bytes: size of the request, 0 if quotas are disabled.
            ids: ids of topics by name, for topics that the request names by id.
            refused: errors of partitions that were refused before the append.
        """
        if connection not in self._connections:
            return  # The client has disconnected; the appended records remain.
        throttle_ms = self._quotas.produced(connection, header, size_bytes, acks) if self._quotas.is_enabled else 0
        if acks == 0:
            # The client waits for no response. After an error the connection is closed, so that the client looks for
            # the leader again (KafkaApis.handleProduceRequest).
            if refused or any(result.error is not ErrorCode.NONE for result in results.values()):
                self._connections.close(connection)
            else:
                self._outbox.resume(connection)
            return
        topics: Refused = {}
        hints: LeaderHints | None = None
        for name, result in paced(results.items()):
            if result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and header.api_version >= FIRST_WITH_LEADER_HINTS:
                hints = hints or LeaderHints(self._cache, self._connections.listener(connection))
                result = replace(result, current_leader=hints.leader_of(name))
            topics.setdefault(ids.get(name.topic, name.topic), []).append(result)
        for topic, parts in refused.items():
            topics.setdefault(topic, []).extend(parts)
        frame = encode_produce_response(
            header.api_version,
            header.correlation_id,
            list(topics.items()),
            throttle_ms,
            endpoints=() if hints is None else hints.endpoints,
        )
        self._outbox.respond(connection, (frame,), PRODUCE, cause)


APIS: Final[Mapping[int, Serve]] = {PRODUCE: ProduceHandler}
