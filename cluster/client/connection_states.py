"""What a client knows of each broker: its connection, and the requests that wait for their answers there.

source: ClusterConnectionStates.java, InFlightRequests.java
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
    """The keys that producer and consumer share."""

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
    """Why a request, a record or a transaction has failed, as the client's events have it (ClientFailure)."""

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
    """How a request ended: `frame` is its response, or None with the error that stands for the missing one.

    version: of the request, and so of its response     failure: why there is none
    """

    frame: bytearray | None
    error: ErrorCode
    version: int = -1
    failure: Failure | None = None


class ConnectionState(Enum):
    """source: ConnectionState.java"""

    DISCONNECTED = auto()
    CONNECTING = auto()
    CHECKING_API_VERSIONS = auto()
    READY = auto()


OnAnswer = Callable[[ClientResponse, int], None]
NO_ANSWER_EXPECTED = ClientResponse(None, ErrorCode.NONE)


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One request, before it is known who gets it in which version.

    encode: makes the frame, of a version and a correlation id
    on_answer: without an expected answer (acks=0) it is called as soon as the frame is handed over
    timeout_us: how long its answer is waited for; None: request.timeout.ms
    allowed: the versions that it can be built in; None: all that are spoken
    source: ClientRequest.java, AbstractRequest.Builder
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
    """One broker as seen from here. `connection` is None while disconnected; other requests wait until it is ready.

    throttled_until_us: until then a quota of the broker keeps this client silent (KIP-219)
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
        """The lowest is the least loaded; None: it cannot be used now. source: NetworkClient.leastLoadedNode"""
        if self.can_send(max_in_flight, now_us):
            return (0, len(self.in_flight))
        if self.connection is not None and not self.is_ready:
            return (1, 0)
        if self.connection is None and now_us >= self.retry_at_us:
            return (2, self.last_attempt_us)
        return None
