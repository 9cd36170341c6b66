"""Requests that a broker forwards to the active controller: those of clients, in envelopes, and its own.

One queue and one connection, one request in flight, tried again with every new controller for a minute.
source: ForwardingManager.scala, NodeToControllerChannelManagerImpl("forwarding")
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from cluster.channel import ControllerRequests
from cluster.messages.envelopes import NODE, answer_inside, enclose
from cluster.messages.refusals import refusal
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.headers import RequestHeader
from cluster.protocol.versions import ENVELOPE
from cluster.server.responder import Responder
from replica.errors import ErrorCode

RETRY_US = 60_000_000
"""BrokerServer: retryTimeoutMs of the forwarding channel"""
OnForwarded = Callable[[bytes | ErrorCode], None]
"""The response without its size, or why there is none."""


OnAsked = Callable[[bytearray | None, int], None]
"""(the controller's answer or None, now_us)"""


class _Waiting(NamedTuple):
    api: int
    encode: Callable[[int], bytes]
    on_answer: OnAsked
    since_us: int


class Forwarding:
    """channel: tries for RETRY_US     `forward` is the handler of every API that the controller answers"""

    def __init__(
        self,
        *,
        node: str,
        channel: ControllerRequests,
        responder: Responder,
        request_timeout_us: int,
    ) -> None:
        self._node = node
        self._channel = channel
        self._responder = responder
        self._request_timeout_us = request_timeout_us
        self._queue: deque[_Waiting] = deque()

    def forward(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        """raises: PeerViolation"""
        cold.decode_request(header, frame)  # What cannot be read is the client's fault, and not passed on.

        def respond(response: bytes | ErrorCode) -> None:
            if isinstance(response, ErrorCode):
                answer = refusal(header, frame, response)
            else:
                answer = len(response).to_bytes(4, "big") + response
            self._responder.pass_on(connection, header, answer)

        self._send(frame, respond, now_us, self._responder.principal(connection), self._responder.host(connection))

    def send(self, frame: bytes | bytearray, on_answer: OnForwarded, now_us: int) -> None:
        """A request of the broker itself.     frame: whole, of a forwarded API, without its size"""
        self._send(frame, on_answer, now_us, NODE + self._node, self._node)

    def _send(self, frame: bytes | bytearray, on_answer: OnForwarded, now_us: int, principal: str, host: str) -> None:
        def encode(correlation_id: int) -> bytes:
            return enclose(correlation_id, self._node, frame, principal, host)

        def answered(answer: bytearray | None, now_us: int) -> None:
            on_answer(ErrorCode.REQUEST_TIMED_OUT if answer is None else answer_inside(answer))

        self.ask(ENVELOPE, encode, answered, now_us)

    def ask(self, api: int, encode: Callable[[int], bytes], on_answer: OnAsked, now_us: int) -> None:
        """A request of the broker itself; `encode` is given its correlation id."""
        self._queue.append(_Waiting(api, encode, on_answer, now_us))
        self._go_on(now_us)

    def _go_on(self, now_us: int) -> None:
        while self._queue and not self._channel.busy:
            waiting = self._queue.popleft()
            if now_us - waiting.since_us >= RETRY_US:
                waiting.on_answer(None, now_us)
                continue
            self._request(waiting, now_us)

    def _request(self, waiting: _Waiting, now_us: int) -> None:
        def answered(frame: bytearray | None, reason: str, now_us: int) -> None:
            waiting.on_answer(frame, now_us)
            self._go_on(now_us)

        self._channel.request(waiting.api, waiting.encode, answered, self._request_timeout_us, now_us)
