"""The network half of a client: one connection per broker, its requests in flight, and the metadata.

Each client owns one `ClientConnections`, which reports the outcome of each request to the request's callback: a
response, or why there is none. The first request on each new connection is ApiVersions (api_versions.py); each later
request has the highest version that both ends support.

Source: NetworkClient.java
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from cluster.client.api_versions import (
    UNDISCOVERED,
    Allowed,
    ApiVersions,
    NodeApiVersions,
    VersionExchange,
    VersionsRefused,
    is_throttled_by,
)
from cluster.client.connection_states import (
    NO_ANSWER_EXPECTED,
    ClientRequest,
    ClientResponse,
    ConnectionConfig,
    ConnectionState,
    Failure,
    InFlight,
    NodeConnection,
)
from cluster.client.metadata_cache import ClientMetadata, group_coordinator
from cluster.client.node import ClientBase, ExponentialBackoff
from cluster.clocks import Timer
from cluster.node import ConnectionId
from cluster.protocol.cold import decode_response, encode_request, milliseconds, request
from cluster.protocol.versions import API_VERSIONS, METADATA, api_name, response_correlation_id
from replica.causes import FailureCause
from replica.errors import ErrorCode, PeerViolation
from replica.ids import NO_BROKER
from replica.trace.events import ClientTimedOut

CONNECTION_SETUP_TIMEOUT_MAX_MS = 30_000
"""socket.connection.setup.timeout.max.ms: limit of the setup timeout, which doubles with each failed attempt."""


Answered = Callable[[Any, ErrorCode, int], None]
"""A callback with (response or None, its top-level error or the error of the failed request, now_us)."""


class ClientConnections:
    """The connections of one client, opened on demand. They carry its requests and refresh its metadata."""

    def __init__(
        self,
        base: ClientBase,
        config: ConnectionConfig,
        metadata: ClientMetadata,
        *,
        max_in_flight: int,
    ) -> None:
        rng = base.rng
        self.client_id = base.name
        self.metadata = metadata
        self.versions = ApiVersions()
        self._discovers_versions = base.discovers_versions
        self._names = base.names
        self._recorder = base.recorder
        self._max_in_flight = max_in_flight
        self._timers = base.outbox.timers
        self._rng = rng
        self._request_timeout_us = config.request_timeout_ms * 1000
        self._max_idle_us = config.connections_max_idle_ms * 1000
        self._reconnect = ExponentialBackoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, rng)
        self._setup = ExponentialBackoff(
            config.socket_connection_setup_timeout_ms, CONNECTION_SETUP_TIMEOUT_MAX_MS, rng
        )
        self._nodes: dict[int, NodeConnection] = {}
        self._by_connection: dict[ConnectionId, NodeConnection] = {}
        self._outbox = base.outbox
        self._correlation_id = 0
        self._metadata_in_progress = False
        self._answering: NodeConnection | None = None
        """The connection whose response is being handled."""

    def name(self, node_id: int) -> str:
        """Return a broker's name in traces: the host if the node is a bootstrap address."""
        if node_id in self.metadata.group_coordinators:
            return self._names(group_coordinator(node_id))
        state = self._nodes.get(node_id)
        return state.node.host if state is not None and node_id < NO_BROKER else self._names(node_id)

    # ---------------------------------------------------------------------------------------------------- requests

    def ready(self, node_id: int, now_us: int) -> bool:
        """Return True if a request can be sent to a node now; otherwise connect to the node if possible.

        While a metadata refresh is due, no node is ready, because the refresh comes first (NetworkClient.isReady).
        """
        state = self._state(node_id)
        if state is None:
            return False
        if state.connection is None and now_us >= state.retry_at_us:
            self._connect(state, now_us)
        return state.can_send(self._max_in_flight, now_us) and not self._metadata_due(now_us)

    def is_unavailable(self, node_id: int, now_us: int) -> bool:
        """Return True if the last attempt to connect failed and the backoff is not over.

        Source: NetworkClientUtils.isUnavailable
        """
        state = self._state(node_id)
        return state is not None and state.connection is None and now_us < state.retry_at_us

    def retry_at_us(self, node_id: int, now_us: int) -> int | None:
        """Return when to call `ready` again; None if its result cannot change before an event, such as a response."""
        state = self._state(node_id)
        if state is None:
            return None
        if state.connection is not None:
            return state.throttled_until_us if state.throttled_until_us > now_us else None
        return max(state.retry_at_us, now_us)

    def send(self, node_id: int, request: ClientRequest, now_us: int) -> None:
        """Send a request to a ready node; fail with UNSUPPORTED_VERSION if both ends share no version of the API."""
        state = self._nodes[node_id]
        assert state.is_ready, "the node is not ready for a request"
        api_key, on_answer = request.api_key, request.on_answer
        version = self.versions.of(node_id).usable(api_key, request.allowed)
        if version is None:
            failure = Failure(FailureCause.NO_VERSION, self.name(node_id), api_name(api_key))
            on_answer(ClientResponse(None, ErrorCode.UNSUPPORTED_VERSION, failure=failure), now_us)
            return
        correlation_id = self._dispatch(
            state, api_key, lambda number: request.encode(version, number), now_us, request.cause
        )
        if not request.expects_answer:
            on_answer(NO_ANSWER_EXPECTED, now_us)
            return
        timeout_us = self._request_timeout_us if request.timeout_us is None else request.timeout_us
        timer = self._answer_timer(state, api_key, timeout_us, now_us)
        state.in_flight.append(InFlight(correlation_id, version, on_answer, timer))

    def _dispatch(
        self, state: NodeConnection, api_key: int, encode: Callable[[int], bytes], now_us: int, cause: int | None = None
    ) -> int:
        assert state.connection is not None, "the node has no connection"
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFF_FFFF
        state.last_active_us = now_us
        self._outbox.request(state.connection, encode(correlation_id), api_key, cause)
        return correlation_id

    def _answer_timer(self, state: NodeConnection, api_key: int, timeout_us: int, now_us: int) -> Timer:
        def timed_out(now_us: int) -> None:
            # One late response closes the connection and fails all its requests (NetworkClient.handleTimedOutRequests).
            failure = Failure(FailureCause.REQUEST_TIMEOUT, self.name(state.node.node_id))
            self._state_timeout(failure, timeout_us, api_name(api_key))
            self._close(state, ErrorCode.REQUEST_TIMED_OUT, failure, now_us)

        return self._timers.at(now_us + timeout_us, timed_out)

    def _state_timeout(self, failure: Failure, waited_us: int, api: str | None = None) -> None:
        peer = failure.peer or ""
        self._recorder.aside(
            ClientTimedOut(client=self.client_id, peer=peer, cause=failure.cause, api=api, waited_us=waited_us)
        )

    def ask(
        self,
        node_id: int,
        api_key: int,
        values: Mapping[str, object],
        answered: Answered,
        now_us: int,
        *,
        timeout_us: int | None = None,
        allowed: Allowed | None = None,
    ) -> None:
        """Send one request of any API but Produce and Fetch.

        Args:
            values: fields of the request; those that its version lacks are left out.
        """

        def encode(version: int, correlation_id: int) -> bytes:
            entity = request(api_key, version, **values)
            return encode_request(api_key, version, correlation_id, self.client_id, entity)

        def on_answer(answer: ClientResponse, answered_us: int) -> None:
            if answer.frame is None:
                answered(None, answer.error, answered_us)
                return
            response = decode_response(api_key, answer.version, answer.frame)
            throttle_time = getattr(response, "throttle_time", None)
            if throttle_time:
                self.throttled(api_key, answer.version, milliseconds(throttle_time), answered_us)
            answered(response, getattr(response, "error_code", ErrorCode.NONE), answered_us)

        wanted = ClientRequest(api_key, encode, on_answer, timeout_us=timeout_us, allowed=allowed)
        self.send(node_id, wanted, now_us)

    def least_loaded(self, now_us: int) -> int | None:
        """Return a node for a request that any broker can answer, None if no node is usable. Open no connection.

        Ready connections with few requests in flight are preferred, then connections being set up, then the node whose
        last attempt to connect is longest ago.
        """
        nodes = list(self.metadata.nodes)
        start = self._rng.randrange(len(nodes)) if len(nodes) > 1 else 0
        best: tuple[int, int, int] | None = None
        for position in range(len(nodes)):
            state = self._state(nodes[(start + position) % len(nodes)])
            assert state is not None
            rank = state.rank(self._max_in_flight, now_us)
            if rank is not None and (best is None or (*rank, position) < best):
                best = (*rank, position)
        return None if best is None else nodes[(start + best[2]) % len(nodes)]

    def throttled(self, api_key: int, version: int, throttle_ms: int, now_us: int) -> None:
        """Send nothing to the broker for the throttle time in its current response.

        Source: NetworkClient.maybeThrottle
        """
        if not is_throttled_by(api_key, version):
            return
        state = self._answering
        assert state is not None, "no response is being handled"
        state.throttled_until_us = max(state.throttled_until_us, now_us + throttle_ms * 1000)

    def _state(self, node_id: int) -> NodeConnection | None:
        node = self.metadata.address(node_id)
        if node is None:
            return None
        state = self._nodes.get(node_id)
        if state is None:
            state = self._nodes[node_id] = NodeConnection(node)
        elif state.connection is None and state.node != node:  # The broker has a new address.
            state.node, state.retry_at_us, state.failures = node, 0, 0
        return state

    # ---------------------------------------------------------------------------------------------------- metadata

    def poll(self, now_us: int) -> bool:
        """Refresh the metadata if that is due; return True if a request was sent or a connection begun."""
        if not self._metadata_due(now_us):
            return False
        node_id = self.least_loaded(now_us)
        if node_id is None:
            # Differs from Kafka: from 4.0 on it goes back to bootstrap.servers (DefaultMetadataUpdater.rebootstrap).
            return False
        state = self._nodes[node_id]
        if state.can_send(self._max_in_flight, now_us):
            self._ask_metadata(node_id, now_us)
        elif state.connection is None:
            self._connect(state, now_us)
        else:
            return False
        return True

    def next_poll_us(self, now_us: int) -> int | None:
        """Return when to call `poll` again; None if there is nothing to do before an event, such as a response."""
        if self._metadata_in_progress:
            return None
        due_us = self.metadata.update_due_us
        if due_us > now_us:
            return due_us
        waiting = [
            state.retry_at_us if state.connection is None else state.throttled_until_us
            for state in self._known_nodes()
            if state.connection is None or state.throttled_until_us > now_us
        ]
        connecting = any(state.connection is not None and not state.is_ready for state in self._known_nodes())
        return None if connecting or not waiting else max(now_us, min(waiting))

    def _known_nodes(self) -> list[NodeConnection]:
        return [state for node_id in self.metadata.nodes if (state := self._state(node_id)) is not None]

    def _metadata_due(self, now_us: int) -> bool:
        return not self._metadata_in_progress and self.metadata.update_due_us <= now_us

    def _ask_metadata(self, node_id: int, now_us: int) -> None:
        """Send a Metadata request. Source: ConsumerMetadata.newMetadataRequestBuilder"""
        # Differs from Kafka: a producer there always lets a broker make the topic (ProducerMetadata), a consumer unless
        # allow.auto.create.topics is false.
        self._metadata_in_progress = True
        wanted: list[dict[str, object]] = [{"name": topic} for topic in self.metadata.topics]
        wanted += [{"topic_id": topic_id, "name": None} for topic_id in self.metadata.topic_ids]
        topics = None if self.metadata.wants_all else wanted
        values = {"topics": topics, "allow_auto_topic_creation": False}
        self.ask(node_id, METADATA, values, self._metadata_answered, now_us)

    def _metadata_answered(self, response: Any, error: ErrorCode, now_us: int) -> None:
        self._metadata_in_progress = False
        if response is None:
            self.metadata.update_failed(now_us)
        else:
            self.metadata.update(response, now_us)

    # ---------------------------------------------------------------------------------------------------- events

    def connected(self, connection: ConnectionId, now_us: int) -> None:
        state = self._by_connection.get(connection)
        if state is None:
            return
        state.last_active_us = now_us
        state.failed_attempts_to_connect = 0
        self._cancel(state.setup_timer)
        state.idle_timer = self._timers.at(now_us + self._max_idle_us, lambda now: self._idle_check(state, now))
        if self._discovers_versions:
            state.state = ConnectionState.CHECKING_API_VERSIONS
            self._ask_versions(state, VersionExchange(), now_us)
        else:
            self._became_ready(state, UNDISCOVERED)

    def _ask_versions(self, state: NodeConnection, exchange: VersionExchange, now_us: int) -> None:
        """Send an ApiVersions request. Source: handleInitiateApiVersionRequests, handleApiVersionsResponse"""
        version = exchange.version

        def on_answer(answer: ClientResponse, answered_us: int) -> None:
            if answer.frame is None:
                return
            found = exchange.answered(answer.frame)
            if exchange.throttle_ms:
                self.throttled(API_VERSIONS, version, exchange.throttle_ms, answered_us)
            if found is None:
                self._ask_versions(state, exchange, answered_us)
            else:
                self._became_ready(state, found)

        correlation_id = self._dispatch(
            state, API_VERSIONS, lambda number: exchange.request(number, self.client_id), now_us
        )
        timer = self._answer_timer(state, API_VERSIONS, self._request_timeout_us, now_us)
        state.in_flight.append(InFlight(correlation_id, version, on_answer, timer))

    def _became_ready(self, state: NodeConnection, versions: NodeApiVersions) -> None:
        state.state = ConnectionState.READY
        state.failures = 0
        self.versions.update(state.node.node_id, versions)

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> None:
        """Pass a response to the callback of its request; close the connection if the response is not expected."""
        state = self._by_connection.get(connection)
        if state is None:
            return
        state.last_active_us = now_us
        try:
            if not state.in_flight or response_correlation_id(frame) != state.in_flight[0].correlation_id:
                raise PeerViolation("a response does not have the correlation id of the oldest request in flight")
            oldest = state.in_flight[0]
            self._answering = state
            oldest.on_answer(ClientResponse(frame, ErrorCode.NONE, oldest.version), now_us)
        except VersionsRefused as refused:
            self._drop(state, str(refused), now_us)
            return
        except PeerViolation as violation:
            self._drop(state, str(violation), now_us)
            return
        # The callback may have sent further requests, but it cannot have closed the connection.
        state.in_flight.popleft()
        oldest.timer.cancel()

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> None:
        """Fail all requests in flight with NETWORK_EXCEPTION after the connection was lost."""
        state = self._by_connection.get(connection)
        if state is not None:
            failure = Failure(FailureCause.CONNECTION_LOST, message=reason)
            self._forget(state, ErrorCode.NETWORK_EXCEPTION, failure, now_us)

    def _drop(self, state: NodeConnection, message: str, now_us: int) -> None:
        """Close a connection after an invalid response; its requests fail as if the connection was lost."""
        failure = Failure(FailureCause.BAD_ANSWER, self.name(state.node.node_id), message=message)
        self._close(state, ErrorCode.NETWORK_EXCEPTION, failure, now_us)

    @property
    def has_in_flight(self) -> bool:
        """True if a request waits for its response. Source: NetworkClient.inFlightRequestCount"""
        return any(state.in_flight for state in self._nodes.values())

    def close(self) -> None:
        """Close all connections and drop the requests in flight, because the client exits."""
        for state in self._nodes.values():
            if state.connection is not None:
                self._outbox.close(state.connection)
            for in_flight in state.in_flight:
                in_flight.timer.cancel()
            self._cancel(state.setup_timer)
            self._cancel(state.idle_timer)
        self._nodes.clear()
        self._by_connection.clear()
        self._metadata_in_progress = True  # no node is left to ask

    # -------------------------------------------------------------------------------------------------- connections

    def _connect(self, state: NodeConnection, now_us: int) -> None:
        connection = self._outbox.connect(state.node.host, state.node.port)
        state.connection, state.state, state.last_attempt_us = connection, ConnectionState.CONNECTING, now_us
        self._by_connection[connection] = state
        timeout_us = self._setup.after_us(state.failed_attempts_to_connect)
        failure = Failure(FailureCause.SETUP_TIMEOUT, self.name(state.node.node_id))

        def timed_out(now_us: int) -> None:
            self._state_timeout(failure, timeout_us)
            self._close(state, ErrorCode.NETWORK_EXCEPTION, failure, now_us)

        state.setup_timer = self._timers.at(now_us + timeout_us, timed_out)

    def _idle_check(self, state: NodeConnection, now_us: int) -> None:
        idle_until_us = state.last_active_us + self._max_idle_us
        if now_us < idle_until_us:
            state.idle_timer = self._timers.at(idle_until_us, lambda now: self._idle_check(state, now))
            return
        self._close(state, ErrorCode.NETWORK_EXCEPTION, Failure(FailureCause.IDLE), now_us)

    def _close(self, state: NodeConnection, error: ErrorCode, failure: Failure, now_us: int) -> None:
        if state.connection is None:
            return
        self._outbox.close(state.connection)
        self._forget(state, error, failure, now_us)

    def _forget(self, state: NodeConnection, error: ErrorCode, failure: Failure, now_us: int) -> None:
        assert state.connection is not None
        del self._by_connection[state.connection]
        if state.state is ConnectionState.CONNECTING:
            state.failed_attempts_to_connect += 1
        self.versions.remove(state.node.node_id)
        state.connection, state.state, state.last_attempt_us = None, ConnectionState.DISCONNECTED, now_us
        state.retry_at_us = now_us + self._reconnect.after_us(state.failures)
        state.failures += 1
        self._cancel(state.setup_timer)
        self._cancel(state.idle_timer)
        lost, state.in_flight = state.in_flight, deque()
        for in_flight in lost:
            in_flight.timer.cancel()
            in_flight.on_answer(ClientResponse(None, error, failure=failure), now_us)
        # The broker may no longer lead or exist, so the metadata is refreshed; a refresh that was due has failed
        # (handleServerDisconnect).
        if self._metadata_due(now_us):
            self.metadata.update_failed(now_us)
        self.metadata.request_update()

    @staticmethod
    def _cancel(timer: Timer | None) -> None:
        if timer is not None:
            timer.cancel()
