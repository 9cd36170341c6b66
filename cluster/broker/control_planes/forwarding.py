"""Requests that a broker forwards to the active controller: those of clients, in envelopes, and its own.

They share a queue and a connection, with one request in flight. Each is retried for a minute, also at a new controller.
Source: ForwardingManager.scala, NodeToControllerChannelManagerImpl("forwarding")
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from cluster.channel import ControllerRequests
from cluster.messages.envelopes import NODE, answer_inside, enclose
from cluster.protocol import cold
from cluster.protocol.versions import CREATE_TOPICS, ENVELOPE
from cluster.server.responder import Call, Responder
from replica.errors import ErrorCode

RETRY_US = 60_000_000
"""Time for which requests are retried: retryTimeoutMs of the forwarding channel in BrokerServer."""
OnForwarded = Callable[[bytes | ErrorCode], None]
"""Called with the enclosed response, without its size in front, or with an error."""


OnAsked = Callable[[bytearray | None, int], None]
"""Called with (the controller's response, None if it did not come in time; now_us)."""


class _Waiting(NamedTuple):
    api: int
    encode: Callable[[int], bytes]
    on_answer: OnAsked
    since_us: int


class Forwarding:
    """Forwards requests of one broker to the controller. `forward` handles each API that the controller answers.

    Args:
        channel: sends requests to the controller, and retries each for RETRY_US.
    """

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

    def forward(self, call: Call) -> None:
        """Forward a client's request to the controller, and its response to the client.

        Raises:
            PeerViolation: if the request is malformed.
        """
        call.decoded()  # Raises an error if the request is malformed, instead of forwarding it.

        def respond(response: bytes | ErrorCode) -> None:
            if isinstance(response, ErrorCode):
                from cluster.messages.refusals import refusal

                answer = refusal(call.header, call.frame, response)
            else:
                answer = len(response).to_bytes(4, "big") + response
            self._responder.pass_on(call, answer)

        self._send(
            call.frame,
            respond,
            call.now_us,
            self._responder.principal(call.connection),
            self._responder.host(call.connection),
        )

    def send(self, frame: bytes | bytearray, on_answer: OnForwarded, now_us: int) -> None:
        """Send a request of the broker itself in an envelope.

        Args:
            frame: encoded request, without its size in front.
        """
        self._send(frame, on_answer, now_us, NODE + self._node, self._node)

    def _send(self, frame: bytes | bytearray, on_answer: OnForwarded, now_us: int, principal: str, host: str) -> None:
        def encode(correlation_id: int) -> bytes:
            return enclose(correlation_id, self._node, frame, principal, host)

        def answered(answer: bytearray | None, now_us: int) -> None:
            on_answer(ErrorCode.REQUEST_TIMED_OUT if answer is None else answer_inside(answer))

        self.ask(ENVELOPE, encode, answered, now_us)

    def ask(self, api: int, encode: Callable[[int], bytes], on_answer: OnAsked, now_us: int) -> None:
        """Send a request of the broker itself without an envelope.

        Args:
            encode: returns the encoded request, given a correlation id.
        """
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
        def answered(frame: bytearray | None, now_us: int) -> None:
            waiting.on_answer(frame, now_us)
            self._go_on(now_us)

        self._channel.request(waiting.api, waiting.encode, answered, self._request_timeout_us, now_us)


# ---------------------------------------------------------------------------------------------------------- auto topics
#
# Topics that are created because a client requested their metadata, or because brokers need them.
# source: AutoTopicCreationManager.scala

CREATE_TOPICS_VERSION = 7
_SIZE_BYTES = 4


class WantedTopic(NamedTuple):
    """A topic to create."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str] = MappingProxyType({})


class AutoTopics:
    """Creates topics through the controller, with at most one request in flight per topic.

    Responses are ignored. If the creation failed, the next request of a client that needs the topic tries again.
    """

    def __init__(self, forwarding: Forwarding, node: str, request_timeout_ms: int) -> None:
        self._forwarding = forwarding
        self._node = node
        self._request_timeout_ms = request_timeout_ms
        self._in_flight: dict[str, None] = {}

    def create(self, topics: Sequence[WantedTopic], now_us: int) -> None:
        wanted = [topic for topic in topics if topic.name not in self._in_flight]
        if not wanted:
            return
        self._in_flight.update(dict.fromkeys(topic.name for topic in wanted))

        def answered(response: bytes | ErrorCode) -> None:
            for topic in wanted:
                self._in_flight.pop(topic.name, None)

        entity = cold.request(
            CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            topics=[
                {
                    "name": topic.name,
                    "num_partitions": topic.partitions,
                    "replication_factor": topic.replication_factor,
                    "configs": [{"name": name, "value": value} for name, value in topic.config.items()],
                }
                for topic in wanted
            ],
            timeout=self._request_timeout_ms,
        )
        frame = cold.encode_request(CREATE_TOPICS, CREATE_TOPICS_VERSION, 0, self._node, entity)
        self._forwarding.send(frame[_SIZE_BYTES:], answered, now_us)
