"""Fetch (1): return records to consumers and followers. Source: KafkaApis.handleFetchRequest

 4  isolation level, record batches of format 2: the oldest version that Kafka 4 accepts
 5  log start offset, in request and response
 6  KAFKA_STORAGE_ERROR is a possible error
 7  fetch sessions: only changes are requested and returned (KIP-227)
 8  a throttled client gets its response before the delay (KIP-219)
 9  the client's leader epoch, for fencing (KIP-320)
10  zstd batches (KIP-110)
11  the client's rack; consumers may fetch from followers (KIP-392)
12  flexible; a diverging epoch in the response makes a follower truncate (KIP-595)
13  topics by id (KIP-516)
14  OFFSET_MOVED_TO_TIERED_STORAGE is a possible error (KIP-405)
15  a follower states its broker epoch (KIP-903)
16  the response has the new leader's address (KIP-951)
17  directory id of a replica of the metadata log (KIP-853)
18  a follower states the high watermark that it knows (KIP-1166)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from cluster.broker.apis.api import BrokerParts, Serve
from cluster.broker.apis.cluster_view import LeaderHints
from cluster.broker.replicas.delayed import FetchParams, FetchResults
from cluster.broker.replicas.fetch_sessions import Answered, FetchContext, Key, RequestedPartition
from cluster.broker.replicas.resting import RestingPartitions
from cluster.config import RACK_AWARE
from cluster.node import ConnectionId, OnSent, Sent
from cluster.protocol.api_01_fetch import READ_COMMITTED, FetchPartitionResponse, FetchRequest, size_of
from cluster.protocol.fetch_request_codec import decode_fetch_request
from cluster.protocol.fetch_response_codec import fetch_response_segments
from cluster.protocol.primitives import Topic
from cluster.protocol.versions import FETCH, RequestHeader
from cluster.server.responder import Call
from cluster.slices import MANY_PARTITIONS, paced
from controller.access import Operation
from replica.errors import ErrorCode
from replica.fetch_fencing import followers_serve_consumers
from replica.frozen import dataclass
from replica.ids import TopicPartition
from replica.trace.events import RecordsSent

FIRST_FROM_ANY_REPLICA = 11
FIRST_WITH_LEADER_HINTS = 16
_SIZE_AND_CORRELATION_BYTES = 8
MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@dataclass(frozen=True, slots=True)
class FetchInHand:
    """A decoded Fetch request without a response yet.

    Attributes:
        may_fetch: False if the request claims to be from a follower, but its connection is not authorized for that.
        resting: partitions of the fetch session that are skipped because nothing changed; None if none may be skipped.
    """

    connection: ConnectionId
    peer: str
    header: RequestHeader
    request: FetchRequest
    context: FetchContext
    may_fetch: bool
    resting: RestingPartitions | None


class FetchHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._identity = broker.base.identity
        self._fetch_max_bytes = broker.base.config.fetch_max_bytes
        selector = broker.base.config.replica_selector_class
        self._selects_replica = selector == RACK_AWARE and followers_serve_consumers(broker.base.rules)
        self._outbox = broker.base.outbox
        self._connections = broker.connections
        self._cache = broker.base.cache
        self._fetches = broker.replicas.fetches
        self._logs = broker.logs
        self._fetch_sessions = broker.fetch_sessions
        self._handler_time = broker.handler_time
        self._quotas = broker.client_quotas
        self._access = broker.access
        self._injections = broker.injections
        self._recorder = broker.base.recorder
        self._slices = broker.responder.slices

    def __call__(self, call: Call) -> None:
        request = decode_fetch_request(call.header, call.frame)
        context = self._fetch_sessions.context(request, call.header.api_version, call.now_us)
        may_fetch = request.replica_id < 0 or self._access.allows_on_cluster(call.connection, Operation.CLUSTER_ACTION)
        resting = context.resting if may_fetch else None
        fetch = FetchInHand(call.connection, call.peer, call.header, request, context, may_fetch, resting)
        if resting is not None:
            if request.replica_id < 0 and self._injections.concern(FETCH):
                resting.end_all()
            self._fetches.fetched_again(resting, request.replica_id, call.now_us)
        asked = context.asked()
        if len(asked) < MANY_PARTITIONS or self._connections.is_of_node(call.connection):
            self._fetch(fetch, asked, call.now_us)
        else:  # In a fetch session a short request may be for very many partitions.
            self._slices.go_on(partial(self._fetch, fetch, asked, call.now_us))

    def _fetch(self, fetch: FetchInHand, asked_for: list[RequestedPartition], now_us: int) -> None:
        connection, request, resting = fetch.connection, fetch.request, fetch.resting
        wanted: dict[TopicPartition, RequestedPartition] = {}
        refused: dict[Key, FetchPartitionResponse] = {}
        ends_wait = False
        injection = None
        if self._injections.concern(FETCH):
            names = [asked.name for asked in asked_for if asked.name is not None]
            injection = self._injections.meet(connection, fetch.peer, FETCH, names)
            if injection is not None:
                self._injections.carried_out(injection)  # A fetch changes nothing, so "after" is the same as "before".
        for asked in paced(asked_for):
            error = self._refusal(asked)
            if not fetch.may_fetch or (
                self._access.is_on
                and request.replica_id < 0
                and asked.name
                and not self._access.allows_topic(connection, Operation.READ, asked.name.topic)
            ):
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if (
                injection is not None
                and injection.error is not ErrorCode.NONE
                and asked.name is not None
                and injection.rule.hits(asked.name)
            ):
                error = injection.error
                ends_wait = True
            if error is ErrorCode.NONE and asked.name is not None:
                wanted[asked.name] = asked
                continue
            ends_wait |= error is ErrorCode.INCONSISTENT_TOPIC_ID
            refused[asked.topic, asked.entry.partition] = FetchPartitionResponse(asked.entry.partition, error)
        max_bytes = min(request.max_bytes, self._fetch_max_bytes)
        if self._quotas.is_enabled and request.replica_id < 0:
            max_bytes = min(max_bytes, self._quotas.most_to_fetch(connection, fetch.header))
        params = FetchParams(
            replica_id=request.replica_id,
            replica_epoch=request.replica_epoch,
            peer=fetch.peer,
            connection=connection,
            # As in Kafka, INCONSISTENT_TOPIC_ID ends the wait, but unknown topics and partitions do not.
            max_wait_us=0 if ends_wait else request.max_wait_ms * 1000,
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            leader_only=fetch.header.api_version < FIRST_FROM_ANY_REPLICA,
            # -2 is a debugging consumer (FetchRequest.isValidBrokerId).
            from_follower=fetch.may_fetch and request.replica_id >= 0,
            resting=resting,
            read_committed=request.isolation == READ_COMMITTED and request.replica_id < 0,
            rack=request.rack if self._selects_replica and request.replica_id < 0 else "",
        )
        if resting:
            resting.listeners = [lambda asked: _note(wanted, asked)]

        def respond(results: FetchResults, now_us: int) -> None:
            answer = partial(self._respond, fetch, params, wanted, refused, results, now_us)
            self._slices.answer(len(results) + len(refused), answer)

        # Partitions unknown to the metadata get their errors in the same response, and do not shorten its wait.
        self._logs.fetch_records(params, [(name, asked.entry) for name, asked in wanted.items()], respond, now_us)

    def _refusal(self, asked: RequestedPartition) -> ErrorCode:
        """Return the error of a requested partition that cannot be read, NONE if it can be."""
        if asked.name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if self._cache.image.partition(asked.name.topic, asked.name.partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # A session keeps the name that it resolved a topic id to, also after that topic was deleted.
        is_another = isinstance(asked.topic, UUID) and self._cache.topic_name(asked.topic) != asked.name.topic
        return ErrorCode.INCONSISTENT_TOPIC_ID if is_another else ErrorCode.NONE

    def _respond(
        self,
        fetch: FetchInHand,
        params: FetchParams,
        wanted: Mapping[TopicPartition, RequestedPartition],
        refused: Mapping[Key, FetchPartitionResponse],
        results: FetchResults,
        now_us: int,
    ) -> None:
        connection, peer, header, context = fetch.connection, fetch.peer, fetch.header, fetch.context
        if connection not in self._connections:
            return
        hints: LeaderHints | None = None
        by_key: dict[Key, FetchPartitionResponse] = {}
        for name, result in paced(results):
            if result.error in MOVED and header.api_version >= FIRST_WITH_LEADER_HINTS:
                hints = hints or LeaderHints(self._cache, self._connections.listener(connection))
                result = replace(result, current_leader=hints.leader_of(name))
            by_key[wanted[name].topic, name.partition] = result
        by_key |= refused
        counts = self._quotas.is_enabled and not params.from_follower
        if counts:
            for _, result in results:
                self._handler_time.found(result.slice)
            throttle_ms = self._throttle_ms(connection, header, by_key)
            if throttle_ms:
                self._respond_empty(connection, header, context.throttled(), throttle_ms)
                return
        answered = context.answer(by_key, now_us)
        # With an authorizer, clients' partitions cannot be skipped: each request checks permissions again.
        may_rest = context.may_rest and (params.from_follower or not self._access.is_on)
        if may_rest and answered.error is ErrorCode.NONE:
            sent_back = answered.partitions
            unchanged = [
                (wanted[name], result.high_watermark)
                for name, result in results
                if (wanted[name].topic, name.partition) not in sent_back
            ]
            self._fetches.rest(params, unchanged)
        sent: list[RecordsSent] = []
        for name, result in results:
            found = size_of(result.slice)
            if found and (wanted[name].topic, name.partition) in answered.partitions:
                if not counts:
                    self._handler_time.found(result.slice)
                fetch_offset = wanted[name].entry.fetch_offset
                identity = (self._identity.name, *name)
                sent.append(RecordsSent(*identity, peer=peer, fetch_offset=fetch_offset, size_bytes=found))
        topics: dict[Topic, list[FetchPartitionResponse]] = {}
        for (topic, _), result in paced(answered.partitions.items()):
            topics.setdefault(topic, []).append(result)
        segments = fetch_response_segments(
            header.api_version,
            header.correlation_id,
            list(topics.items()),
            answered.error,
            answered.session_id,
            endpoints=() if hints is None else hints.endpoints,
        )
        self._outbox.respond(connection, segments, FETCH, on_sent=self._stated_when_sent(sent) if sent else None)

    def _throttle_ms(
        self, connection: ConnectionId, header: RequestHeader, results: Mapping[Key, FetchPartitionResponse]
    ) -> int:
        """Charge the size of a response with these results to the client's quotas. Return its throttle time."""
        # Simplified: in a fetch session Kafka counts only the partitions that changed.
        topics: dict[Topic, list[FetchPartitionResponse]] = {}
        for (topic, _), result in results.items():
            topics.setdefault(topic, []).append(result)
        segments = fetch_response_segments(header.api_version, header.correlation_id, list(topics.items()))
        # source: FetchResponse.sizeOf: the body and four bytes
        size_bytes = sum(map(size_of, segments)) - _SIZE_AND_CORRELATION_BYTES + 4
        return self._quotas.fetched(connection, header, size_bytes)

    def _respond_empty(
        self, connection: ConnectionId, header: RequestHeader, answered: Answered, throttle_ms: int
    ) -> None:
        """Respond without records. Source: FetchContext.getThrottledResponse"""
        segments = fetch_response_segments(
            header.api_version, header.correlation_id, [], answered.error, answered.session_id, throttle_ms
        )
        self._outbox.respond(connection, segments, FETCH)

    def _stated_when_sent(self, events: Sequence[RecordsSent]) -> OnSent:
        """Return a callback that emits the events when the whole response has been sent."""
        cause = self._recorder.cause

        def state(_: Sent) -> None:
            causes = () if cause is None else (cause,)
            for event in events:
                causes = (self._recorder.emit(event, *causes),)

        return state


def _note(wanted: dict[TopicPartition, RequestedPartition], asked: RequestedPartition) -> None:
    if asked.name is not None:
        wanted[asked.name] = asked


APIS: Final[Mapping[int, Serve]] = {FETCH: FetchHandler}
