"""Encodes and sends the responses of a broker's API handlers, unless the client has disconnected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from cluster.node import ConnectionId, Outbox
from cluster.protocol import cold, versions
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader, api_name
from cluster.quotas.client_quotas import ClientQuotas
from cluster.server.accepted_connections import AcceptedConnections, EventLimit, outsider
from cluster.slices import Slices, paced
from replica.causes import CloseCause, LeftOut
from replica.errors import RETRIABLE, ErrorCode
from replica.frozen import dataclass
from replica.trace.events import OffsetCommitRefused, Recorder, RequestRefused
from replica.wording import shown

SIZE_BYTES = 4
_BY_COORDINATOR: Final = frozenset(ErrorCode) - {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The errors that a transaction coordinator decides, and reports in an event of its own."""
_STEPS: Final[Mapping[int, frozenset[ErrorCode]]] = {
    versions.JOIN_GROUP: frozenset({ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS}),
    versions.SYNC_GROUP: frozenset({ErrorCode.REBALANCE_IN_PROGRESS}),
    versions.HEARTBEAT: frozenset({ErrorCode.REBALANCE_IN_PROGRESS}),
    versions.CONSUMER_GROUP_HEARTBEAT: frozenset(),
    versions.OFFSET_COMMIT: frozenset(),
    versions.TXN_OFFSET_COMMIT: frozenset({ErrorCode.CONCURRENT_TRANSACTIONS}),
    versions.OFFSET_FETCH: frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT}),
    versions.INIT_PRODUCER_ID: frozenset({ErrorCode.CONCURRENT_TRANSACTIONS}),
    versions.ADD_PARTITIONS_TO_TXN: _BY_COORDINATOR,
    versions.ADD_OFFSETS_TO_TXN: _BY_COORDINATOR,
    versions.END_TXN: _BY_COORDINATOR,
    versions.METADATA: RETRIABLE,
    versions.FIND_COORDINATOR: RETRIABLE,
    versions.LIST_OFFSETS: RETRIABLE,
}
"""For each API that clients cannot do without: the errors that are normal and that every client handles."""
DEPTH_OF_PARTITIONS = 3
"""The depth of the nested lists of an OffsetFetch response: groups, topics, partitions."""
_REFUSALS_AT_ONCE, _REFUSALS_PER_SECOND = 10_000, 50
"""The event limits for the refusals of one outside client, which may repeat its request without end."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that an API handles. `peer` is the node or client that sent it."""

    connection: ConnectionId
    peer: str
    header: RequestHeader
    frame: bytearray
    now_us: int

    def decoded(self) -> Entity:
        """Return the decoded request.

        Raises:
            PeerViolation: if it is malformed.
        """
        return cold.decode_request(self.header, self.frame)

    def of(self, request: Entity) -> Call:
        """Return the same call with another request as its body."""
        frame = self.frame[: self.header.body_position] + cold.encode_body(request)
        return Call(self.connection, self.peer, self.header, frame, self.now_us)


Handler = Callable[[Call], None]
"""Handles one request. It responds during the call, or later through a closure.

Raises:
    PeerViolation: if the request is invalid.
"""


class Refusals:
    """Reports refused requests that a client needs to go on."""

    __slots__ = ("_connections", "_frames", "_limit", "_node", "_recorder")

    def __init__(self, node: str, connections: AcceptedConnections, recorder: Recorder) -> None:
        self._node = node
        self._connections = connections
        self._recorder = recorder
        self._frames: dict[ConnectionId, bytearray] = {}
        """The frame of the request in progress on each connection, for the APIs in `_STEPS`."""
        self._limit = EventLimit(_REFUSALS_AT_ONCE, _REFUSALS_PER_SECOND)

    def asked(self, call: Call) -> None:
        if call.header.api_key in _STEPS:
            self._frames[call.connection] = call.frame

    def gone(self, connection: ConnectionId) -> None:
        self._frames.pop(connection, None)

    def answered(self, connection: ConnectionId, header: RequestHeader, values: Mapping[str, object]) -> None:
        """Report the first error in a response that is not a normal step of the protocol.

        Args:
            values: fields of the response.
        """
        steps = _STEPS.get(header.api_key)
        frame = self._frames.pop(connection, None)
        if steps is None or frame is None:
            return
        # A Metadata response may have thousands of partitions, but only topics are refused.
        for error, of in _errors(values, 1 if header.api_key == versions.METADATA else DEPTH_OF_PARTITIONS):
            if error not in steps:
                request = cold.decode_request(header, frame)
                self.state(
                    connection,
                    header.api_key,
                    error,
                    of=of,
                    group=_text_of(request, "group_id"),
                    member=_text_of(request, "member_id"),
                    transactional_id=_text_of(request, "transactional_id")
                    or _text_of(request, "v3_and_below_transactional_id"),
                    message=str(values.get("error_message") or ""),
                )
                return

    def state(
        self,
        connection: ConnectionId,
        api_key: int,
        error: ErrorCode,
        *,
        of: str = "",
        group: str | None = None,
        member: str | None = None,
        transactional_id: str | None = None,
        message: str = "",
    ) -> None:
        """Report that a request was refused.

        Args:
            of: topic that the error concerns.
            message: error message of the response.
        """
        client = self._connections.peer(connection)
        if client is None:
            return
        outside, api, node = outsider(client), api_name(api_key), self._node
        client = outside or client
        if outside is not None and not self._limit.may_emit(
            self._recorder, node, client, self._recorder.at_us, LeftOut.REFUSALS
        ):
            return
        event = (
            OffsetCommitRefused if api_key in (versions.OFFSET_COMMIT, versions.TXN_OFFSET_COMMIT) else RequestRefused
        )
        self._recorder.emit(
            event(
                node=node,
                client=client,
                api=api,
                error=error.name,
                group=None if group is None else shown(group),
                member=None if not member else shown(member),
                transactional_id=None if transactional_id is None else shown(transactional_id),
                topic=shown(of) if of else None,
                message=shown(message) if message else None,
            )
        )


def _errors(values: Mapping[str, object], depth: int, of: str = "") -> Iterator[tuple[ErrorCode, str]]:
    """Yield each error in a response with its topic, searching lists down to `depth`."""
    error = values.get("error_code", values.get("partition_error_code"))
    of = str(values.get("name") or of)
    if isinstance(error, ErrorCode) and error is not ErrorCode.NONE:
        yield error, of
    for value in values.values() if depth else ():
        if isinstance(value, (list, tuple)):
            for item in paced(value):
                if isinstance(item, Mapping):
                    yield from _errors(item, depth - 1, of)


def _text_of(request: object, field: str) -> str | None:
    value = getattr(request, field, None)
    return None if value is None else str(value)


class Responder:
    """Sends the responses of all APIs except Produce, Fetch and ApiVersions, which encode their own.

    Args:
        slices: scheduler of the slices in which long responses are encoded.
        refusals: reports responses that refuse a request.
    """

    __slots__ = ("_amends", "_connections", "_outbox", "_quotas", "refusals", "slices")

    def __init__(
        self,
        outbox: Outbox,
        connections: AcceptedConnections,
        quotas: ClientQuotas,
        slices: Slices,
        refusals: Refusals,
    ) -> None:
        self.slices = slices
        self._outbox = outbox
        self._connections = connections
        self._quotas = quotas
        self.refusals = refusals
        self._amends: dict[ConnectionId, Callable[[dict[str, object]], dict[str, object]]] = {}

    def principal(self, connection: ConnectionId) -> str:
        """Return the principal of a connection as `User:name`."""
        return self._connections.principal(connection)

    def host(self, connection: ConnectionId) -> str:
        """Return the address of a connection's peer."""
        return self._connections.address(connection)

    def amend(self, connection: ConnectionId, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
        """Apply `change` to the fields of the response to a connection's request in progress.

        Changes of one response are applied in the order of the calls.
        """
        earlier = self._amends.get(connection)
        self._amends[connection] = change if earlier is None else lambda values: change(earlier(values))

    def gone(self, connection: ConnectionId) -> None:
        self._amends.pop(connection, None)
        self.refusals.gone(connection)

    def answer(self, call: Call, **values: object) -> None:
        """Send a response, unless the connection has ended. `values` are its fields, as `cold.response` takes them."""
        if self._connections.is_of_node(call.connection):
            self._answer(call.connection, call.header, values)
        else:
            self.slices.begin(partial(self._answer, call.connection, call.header, values))

    def _answer(self, connection: ConnectionId, header: RequestHeader, values: dict[str, object]) -> None:
        if connection in self._connections:
            if self._amends and connection in self._amends:
                values = self._amends.pop(connection)(values)
            # An iterator can be read once, but is needed twice: for refusals and for the frame.
            for name, value in values.items():
                if isinstance(value, Iterator):
                    values = {**values, name: list(paced(value))}
            self.refusals.answered(connection, header, values)
            if self._quotas.is_enabled:
                throttle_ms = self._quotas.answered(connection, header)
                if throttle_ms and _tells_throttle(header):
                    values = {**values, "throttle_time": throttle_ms}
            try:
                frame = cold.encode_answer(header.api_key, header.api_version, header.correlation_id, values)
            except Exception as bug:  # The client must not wait for a response that never comes.
                self._connections.close(connection, CloseCause.ANSWER_NOT_WRITTEN)
                self._outbox.raise_soon(bug)
                return
            self._outbox.respond(connection, (frame,), header.api_key)

    def pass_on(self, call: Call, frame: bytes) -> None:
        """Send a controller's response, already encoded and with its size."""
        if call.connection in self._connections:
            if self._quotas.is_enabled:
                frame = self._throttled(call.connection, call.header, frame)
            self._outbox.respond(call.connection, (frame,), call.header.api_key)

    def _throttled(self, connection: ConnectionId, header: RequestHeader, frame: bytes) -> bytes:
        """Return the forwarded response, with the longer of the controller's and this broker's throttle times.

        Source: RequestHandlerHelper.sendForwardedResponse
        """
        if not _tells_throttle(header):
            return frame
        key, version = header.api_key, header.api_version
        answer = cold.decode_response(key, version, bytearray(frame[SIZE_BYTES:]))
        answered_ms = cold.milliseconds(answer.throttle_time)
        throttle_ms = self._quotas.answered(connection, header, answered_ms)
        if throttle_ms == answered_ms:
            return frame
        longer = replace(answer, throttle_time=timedelta(milliseconds=throttle_ms))
        return cold.encode_response(key, version, header.correlation_id, longer)


def _tells_throttle(header: RequestHeader) -> bool:
    """Return True if the response to this request has a throttle time field."""
    return "throttle_time" in cold.field_names(cold.response_class(header.api_key, header.api_version))
