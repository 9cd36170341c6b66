"""How the handlers of a broker's APIs answer: plain values in, one framed response out (if still connected)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from cluster.node import ConnectionId, Outbox
from cluster.protocol import cold
from cluster.protocol.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    CONSUMER_GROUP_HEARTBEAT,
    END_TXN,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    RequestHeader,
    api_name,
)
from cluster.quotas.client_quotas import ClientQuotas
from cluster.server.accepted_connections import AcceptedConnections, EventLimit, outsider
from cluster.slices import Slices, paced
from replica.causes import CloseCause, LeftOut
from replica.errors import RETRIABLE, ErrorCode
from replica.trace.events import OffsetCommitRefused, Recorder, RequestRefused
from replica.wording import shown

SIZE_BYTES = 4
_BY_COORDINATOR: Final = frozenset(ErrorCode) - {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""What a coordinator of transactions decides, it states itself."""
_STEPS: Final[Mapping[int, frozenset[ErrorCode]]] = {
    JOIN_GROUP: frozenset({ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS}),
    SYNC_GROUP: frozenset({ErrorCode.REBALANCE_IN_PROGRESS}),
    HEARTBEAT: frozenset({ErrorCode.REBALANCE_IN_PROGRESS}),
    CONSUMER_GROUP_HEARTBEAT: frozenset(),
    OFFSET_COMMIT: frozenset(),
    TXN_OFFSET_COMMIT: frozenset({ErrorCode.CONCURRENT_TRANSACTIONS}),
    OFFSET_FETCH: frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT}),
    INIT_PRODUCER_ID: frozenset({ErrorCode.CONCURRENT_TRANSACTIONS}),
    ADD_PARTITIONS_TO_TXN: _BY_COORDINATOR,
    ADD_OFFSETS_TO_TXN: _BY_COORDINATOR,
    END_TXN: _BY_COORDINATOR,
    METADATA: RETRIABLE,
    FIND_COORDINATOR: RETRIABLE,
    LIST_OFFSETS: RETRIABLE,
}
"""By API that a client cannot work without: errors that are steps of its protocol, by which every client goes on."""
DEPTH_OF_PARTITIONS = 3
"""OffsetFetch: groups, topics, partitions."""
_REFUSALS_AT_ONCE, _REFUSALS_PER_SECOND = 10_000, 50
"""Of one client from outside; it may ask again without end."""
Handler = Callable[[ConnectionId, str, RequestHeader, bytearray, int], None]
"""Handles one request: (connection, peer, header, frame, now_us). It answers in its call or later, through a closure.

raises: PeerViolation
"""


class Refusals:
    """States each request that one broker refuses a client, if the client cannot work without it."""

    __slots__ = ("_connections", "_frames", "_limit", "_node", "_recorder")

    def __init__(self, node: str, connections: AcceptedConnections, recorder: Recorder) -> None:
        self._node = node
        self._connections = connections
        self._recorder = recorder
        self._frames: dict[ConnectionId, bytearray] = {}
        """The request in progress on each connection, of the APIs of `_STEPS`."""
        self._limit = EventLimit(_REFUSALS_AT_ONCE, _REFUSALS_PER_SECOND)

    def asked(self, connection: ConnectionId, header: RequestHeader, frame: bytearray) -> None:
        if header.api_key in _STEPS:
            self._frames[connection] = frame

    def gone(self, connection: ConnectionId) -> None:
        self._frames.pop(connection, None)

    def answered(self, connection: ConnectionId, header: RequestHeader, values: Mapping[str, object]) -> None:
        """values: fields of the answer; its first error that is no step of the protocol is stated"""
        steps = _STEPS.get(header.api_key)
        frame = self._frames.pop(connection, None)
        if steps is None or frame is None:
            return
        # A Metadata answer may have thousands of partitions; it is its topics that are refused.
        for error, of in _errors(values, 1 if header.api_key == METADATA else DEPTH_OF_PARTITIONS):
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
                    told=str(values.get("error_message") or ""),
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
        told: str = "",
    ) -> None:
        """of: the topic that the error is about     told: the message of the answer"""
        client = self._connections.peer(connection)
        if client is None:
            return
        outside, api, node = outsider(client), api_name(api_key), self._node
        client = outside or client
        if outside is not None and not self._limit.may_emit(
            self._recorder, node, client, self._recorder.at_us, LeftOut.REFUSALS
        ):
            return
        event = OffsetCommitRefused if api_key in (OFFSET_COMMIT, TXN_OFFSET_COMMIT) else RequestRefused
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
                message=shown(told) if told else None,
            )
        )


def _errors(values: Mapping[str, object], depth: int, of: str = "") -> Iterator[tuple[ErrorCode, str]]:
    """Each error in an answer, with the topic that it is about. depth: how deep its lists are searched"""
    error = values.get("error_code", values.get("partition_error_code"))
    of = str(values.get("name") or of)
    if isinstance(error, ErrorCode) and error is not ErrorCode.NONE:
        yield error, of
    for value in values.values() if depth else ():
        if isinstance(value, (list, tuple)):
            for one in paced(value):
                if isinstance(one, Mapping):
                    yield from _errors(one, depth - 1, of)


def _text_of(request: object, field: str) -> str | None:
    value = getattr(request, field, None)
    return None if value is None else str(value)


class Responder:
    """Answers of every API but Produce, Fetch and ApiVersions, which encode their own.

    slices: in which long answers are made     refusals: states those that say no
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
        """Who asks on it, as `User:name`."""
        return self._connections.principal(connection)

    def host(self, connection: ConnectionId) -> str:
        """From where."""
        return self._connections.address(connection)

    def amend(self, connection: ConnectionId, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
        """change: of the fields of the next answer on it, which is that to the request in progress"""
        self._amends[connection] = change

    def gone(self, connection: ConnectionId) -> None:
        self._amends.pop(connection, None)
        self.refusals.gone(connection)

    def answer(self, connection: ConnectionId, header: RequestHeader, **values: object) -> None:
        """values: fields of the response, as `cold.response` takes them. Nothing, if the connection is gone."""
        if self._connections.is_of_node(connection):
            self._answer(connection, header, values)
        else:
            self.slices.begin(partial(self._answer, connection, header, values))

    def _answer(self, connection: ConnectionId, header: RequestHeader, values: dict[str, object]) -> None:
        if connection in self._connections:
            if self._amends and connection in self._amends:
                values = self._amends.pop(connection)(values)
            # Such an array can be read once, and is read twice: for refusals, and into the frame.
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
            except Exception as bug:  # The client does not wait for an answer that does not come.
                self._connections.close(connection, CloseCause.ANSWER_NOT_WRITTEN)
                self._outbox.raise_soon(bug)
                return
            self._outbox.respond(connection, (frame,), header.api_key)

    def pass_on(self, connection: ConnectionId, header: RequestHeader, frame: bytes) -> None:
        """frame: a whole response of the controller, already encoded, with its size"""
        if connection in self._connections:
            if self._quotas.is_enabled:
                frame = self._throttled(connection, header, frame)
            self._outbox.respond(connection, (frame,), header.api_key)

    def _throttled(self, connection: ConnectionId, header: RequestHeader, frame: bytes) -> bytes:
        """The longer wait of both counts. source: RequestHandlerHelper.sendForwardedResponse"""
        if not _tells_throttle(header):
            return frame
        key, version = header.api_key, header.api_version
        answer = cold.decode_response(key, version, bytearray(frame[SIZE_BYTES:]))
        told_ms = cold.milliseconds(answer.throttle_time)
        throttle_ms = self._quotas.answered(connection, header, told_ms)
        if throttle_ms == told_ms:
            return frame
        longer = replace(answer, throttle_time=timedelta(milliseconds=throttle_ms))
        return cold.encode_response(key, version, header.correlation_id, longer)


def _tells_throttle(header: RequestHeader) -> bool:
    """Whether the answer has a place for the time."""
    return "throttle_time" in cold.field_names(cold.response_class(header.api_key, header.api_version))
