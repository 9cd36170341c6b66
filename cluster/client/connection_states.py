"""A client's state for each broker: its connection, and the requests in flight.

Source: ClusterConnectionStates.java, InFlightRequests.java
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import field
from enum import Enum, auto
from typing import NamedTuple, Protocol

from cluster.client.api_versions import Allowed
from cluster.client.metadata_cache import BrokerAddress
from cluster.clocks import Timer
from cluster.node import ConnectionId
from replica.causes import FailureCause
from replica.errors import ErrorCode
from replica.frozen import dataclass


class ConnectionConfig(Protocol):
    """The configuration keys that producer and consumer share."""

    @property
    def request_timeout_ms(self) -> int: ...
    @property
    def retry_backoff_ms(self) -> int: ...
    @property
    def retry_backoff_max_ms(self) -> int: ...
    @property
    def metadata_max_age_ms(self) -> int: ...
    @property
    def reconnect_backoff_ms(self) -> int: ...
    @property
    def reconnect_backoff_max_ms(self) -> int: ...
    @property
    def socket_connection_setup_timeout_ms(self) -> int: ...
    @property
    def connections_max_idle_ms(self) -> int: ...


class Failure(NamedTuple):
    """The cause of a failed request, record or transaction, with the fields of the event ClientFailure."""

    cause: FailureCause
    peer: str | None = None
    api: str | None = None
    answered: str | None = None
    message: str | None = None
    coordinator_key: str | None = None
    timeout_ms: int | None = None
    size_bytes: int | None = None
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ClientResponse:
    """The outcome of a request: a response frame, or None with an error and its cause.

    Attributes:
        version: version of the request and the response.
        failure: why there is no response; None if there is one.
    """

    frame: bytearray | None
    error: ErrorCode
    version: int = -1
    failure: Failure | None = None


class ConnectionState(Enum):
    """The state of a connection to a broker. Source: ConnectionState.java"""

    DISCONNECTED = auto()
    CONNECTING = auto()
    CHECKING_API_VERSIONS = auto()
    READY = auto()


OnAnswer = Callable[[ClientResponse, int], None]
NO_ANSWER_EXPECTED = ClientResponse(None, ErrorCode.NONE)


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One request, before its broker and version are chosen.

    Attributes:
        encode: returns the frame for a version and a correlation id.
        on_answer: called with the outcome; with acks=0 as soon as the frame is sent.
        cause: number of the event that caused the request.
        timeout_us: how long to wait for the response; None for request.timeout.ms.
        allowed: versions in which the request can be built; None for all that this client supports.

    Source: ClientRequest.java, AbstractRequest.Builder
    """

    api_key: int
    encode: Callable[[int, int], bytes]
    on_answer: OnAnswer
    expects_answer: bool = True
    cause: int | None = None
    timeout_us: int | None = None
    allowed: Allowed | None = None


@dataclass(slots=True)
class InFlight:
    """A request that waits for its response."""

    correlation_id: int
    version: int
    on_answer: OnAnswer
    timer: Timer


@dataclass(slots=True)
class NodeConnection:
    """A client's connection to one broker; `connection` is None while disconnected.

    Attributes:
        throttled_until_us: time until which the client may not send, because of a quota of the broker (KIP-219).
    """

    node: BrokerAddress
    connection: ConnectionId | None = None
    state: ConnectionState = ConnectionState.DISCONNECTED
    in_flight: deque[InFlight] = field(default_factory=deque)
    last_attempt_us: int = -1
    retry_at_us: int = 0
    failures: int = 0
    failed_attempts_to_connect: int = 0
    last_active_us: int = 0
    throttled_until_us: int = 0
    setup_timer: Timer | None = None
    idle_timer: Timer | None = None

    @property
    def is_ready(self) -> bool:
        return self.state is ConnectionState.READY

    def can_send(self, max_in_flight: int, now_us: int) -> bool:
        return self.is_ready and len(self.in_flight) < max_in_flight and self.throttled_until_us <= now_us

    def rank(self, max_in_flight: int, now_us: int) -> tuple[int, int] | None:
        """Return a sort key, lowest for the best node; None if the node cannot be used now.

        Source: NetworkClient.leastLoadedNode
        """
        if self.can_send(max_in_flight, now_us):
            return (0, len(self.in_flight))
        if self.connection is not None and not self.is_ready:
            return (1, 0)
        if self.connection is None and now_us >= self.retry_at_us:
            return (2, self.last_attempt_us)
        return None
