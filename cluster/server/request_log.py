"""Writes trace events with the outcome of each request and the time of each stage, as in Kafka's request metrics.

A connection has one request in progress at a time, so its number identifies the request. This module only observes.

Source: RequestChannel.Request.updateRequestMetrics, SocketServer.Processor
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.node import Action, Close, ConnectionId, ResumeReading, Send, Sent
from cluster.protocol.api_01_fetch import size_of
from cluster.protocol.versions import FETCH, RequestHeader, api_name
from cluster.server.accepted_connections import EventLimit
from replica.causes import LeftOut
from replica.ids import OUTSIDE
from replica.log.files.open_files import FileSlice
from replica.trace.events import Recorder, RequestCompleted

REQUESTS_AT_ONCE, REQUESTS_PER_SECOND = 100_000, 500
"""The event limits for the requests of one outside client."""


class RequestInProgress:
    """One request in progress. Times are in microseconds, -1 until they are known.

    Attributes:
        cause: number of the trace event that caused the request's arrival.
        outcome: number of the latest trace event at the time when the handler had finished.
        processor, connected_us: network thread of the connection, and the time when it was accepted.
        throttle_us: time for which the client is throttled afterwards.
    """

    __slots__ = (
        "cause",
        "connected_us",
        "dequeued_us",
        "header",
        "local_complete_us",
        "outcome",
        "peer",
        "processor",
        "received_us",
        "response_complete_us",
        "size_bytes",
        "throttle_us",
    )

    def __init__(self, processor: int, connected_us: int, size_bytes: int, cause: int | None, received_us: int) -> None:
        self.processor = processor
        self.connected_us = connected_us
        self.size_bytes = size_bytes
        self.cause = cause
        self.received_us = received_us
        self.dequeued_us = self.local_complete_us = self.response_complete_us = -1
        self.throttle_us = 0
        self.outcome: int | None = None
        self.header: RequestHeader | None = None
        self.peer = ""


class RequestLog:
    """Records the requests of one node.

    Args:
        stopwatch: returns microseconds on the scale of the trace, and advances while a request is handled.
    """

    def __init__(self, node: str, recorder: Recorder, stopwatch: Callable[[], int]) -> None:
        self._node = node
        self._recorder = recorder
        self._stopwatch = stopwatch
        self._in_progress: dict[ConnectionId, RequestInProgress] = {}
        self._connections: dict[ConnectionId, tuple[int, int]] = {}
        self._just_handled: list[RequestInProgress] = []
        self._limit = EventLimit(REQUESTS_AT_ONCE, REQUESTS_PER_SECOND)

    def accepted(self, connection: ConnectionId, processor: int, now_us: int) -> None:
        self._connections[connection] = (processor, now_us)

    def gone(self, connection: ConnectionId) -> None:
        self._connections.pop(connection, None)
        self._in_progress.pop(connection, None)

    def received(self, connection: ConnectionId, size_bytes: int, now_us: int) -> None:
        """Record the arrival of a whole request."""
        known = self._connections.get(connection)
        if known is not None:
            self._in_progress[connection] = RequestInProgress(*known, size_bytes, self._recorder.cause, now_us)

    def dequeued(self, connection: ConnectionId) -> None:
        """Record that a handler has taken the request."""
        request = self._in_progress.get(connection)
        if request is not None:
            request.dequeued_us = self._stopwatch()

    def decoded(self, connection: ConnectionId, peer: str, header: RequestHeader) -> None:
        """Store the decoded header of the request."""
        request = self._in_progress.get(connection)
        if request is not None:
            request.peer, request.header = peer, header

    def handled(self, connection: ConnectionId) -> None:
        """Record that the request's handler is free again."""
        request = self._in_progress.get(connection)
        if request is not None:
            request.local_complete_us = self._stopwatch()
            request.outcome = self._recorder.cause
            self._just_handled.append(request)

    def throttled(self, connection: ConnectionId, throttle_us: int) -> None:
        """Record the throttle time of a request whose response has not left yet."""
        request = self._in_progress.get(connection)
        if request is not None:
            request.throttle_us = throttle_us

    def outgoing(self, actions: list[Action]) -> list[Action]:
        """Return the actions. Responses get a callback that records when they have left."""
        if self._in_progress:
            actions = [self._answered(action) for action in actions]
        self._just_handled.clear()
        return actions

    def _answered(self, action: Action) -> Action:
        if not isinstance(action, Send | ResumeReading | Close):
            return action
        request = self._in_progress.pop(action.connection, None)
        if request is None or request.header is None:
            return action
        request.response_complete_us = self._stopwatch()
        # A response sent by the handler ends the local time; there is no remote time (RequestChannel.sendResponse).
        if request.local_complete_us < 0 or request in self._just_handled:
            request.local_complete_us = request.response_complete_us
        if not isinstance(action, Send):
            self._state(action.connection, request, 0, Sent(self._stopwatch(), self._stopwatch(), 0, 0), None)
            return action
        size_bytes, from_files = 0, False
        for segment in action.segments:
            size_bytes += size_of(segment)
            from_files = from_files or isinstance(segment, FileSlice)
        if request.header.api_key == FETCH and not from_files:
            return action
        connection, cause = action.connection, self._recorder.cause if action.cause is None else action.cause

        def on_sent(sent: Sent) -> None:
            if action.on_sent is not None:
                action.on_sent(sent)
            self._state(connection, request, size_bytes, sent, cause)

        return Send(connection, action.segments, action.api, action.part, action.cause, on_sent)

    def _state(
        self,
        connection: ConnectionId,
        request: RequestInProgress,
        response_bytes: int,
        sent: Sent,
        cause: int | None,
    ) -> None:
        header = request.header
        assert header is not None, "the request has no header"
        dequeued_us = request.dequeued_us if request.dequeued_us >= 0 else request.local_complete_us
        if request.peer.startswith(OUTSIDE) and not self._may_state(request.peer, sent.ended_us):
            return
        causes = [seq for seq in (request.cause, request.outcome, cause) if seq is not None]
        self._recorder.aside(
            RequestCompleted(
                node=self._node,
                peer=request.peer,
                api=api_name(header.api_key),
                api_version=header.api_version,
                correlation_id=header.correlation_id,
                connection=-connection,
                processor=request.processor,
                connected_us=request.connected_us,
                received_us=request.received_us,
                request_bytes=request.size_bytes,
                response_bytes=response_bytes,
                request_queue_time_us=max(0, dequeued_us - request.received_us),
                local_time_us=max(0, request.local_complete_us - dequeued_us),
                remote_time_us=max(0, request.response_complete_us - request.local_complete_us),
                throttle_time_us=request.throttle_us,
                response_queue_time_us=max(0, sent.began_us - request.response_complete_us),
                response_send_time_us=max(0, sent.ended_us - sent.began_us),
                total_time_us=max(0, sent.ended_us - request.received_us),
                sendfile_calls=sent.sendfile_calls,
                sendfile_bytes=sent.sendfile_bytes,
            ),
            *dict.fromkeys(causes),
        )

    def _may_state(self, client: str, now_us: int) -> bool:
        return self._limit.may_emit(self._recorder, self._node, client, now_us, LeftOut.REQUESTS)
