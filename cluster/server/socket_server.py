"""The server side of a broker, built as in Kafka: acceptor, network threads, request queue, handlers.

An accepted connection is assigned to the next network thread in turn. It executes one request at a time: it stays mute
from a complete request until its response has left. The thread puts the request into the request queue, and waits while
the queue is full; a handler takes it from there. This module makes all decisions and has no sockets: the shell has
them.

Source: SocketServer.scala, RequestChannel.scala, KafkaRequestHandlerPool
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from cluster.config import BrokerConfig
from cluster.node import Action, ConnectionId, Outbox, ResumeReading, Send
from cluster.protocol.versions import FETCH, PRODUCE, RequestHeader
from cluster.server.accepted_connections import AcceptedConnections
from cluster.server.late_answers import LateAnswers
from cluster.server.network_thread import Acceptor, NetworkThread, ThreadTimes, ThrottledChannels
from cluster.server.request_handlers import CpuTimes, HandlerTime, RequestHandlers, Work
from cluster.server.request_log import RequestLog
from cluster.slices import Slices
from replica.causes import CloseCause
from replica.errors import PeerViolation
from replica.trace.events import Recorder

SHORT_BYTES: Final = 8 * 1024


class Gate(Protocol):
    """Authenticates outside clients before their requests are handled."""

    def accepted(self, connection: ConnectionId, peer: str, listener: str) -> None: ...

    def gone(self, connection: ConnectionId) -> None: ...

    def takes(self, connection: ConnectionId, frame: bytearray, now_us: int) -> bool:
        """Handle a frame and return True. Return False if it is a request that the broker may handle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """How much time requests take, and how that is measured.

    Attributes:
        cpu: times that the threads need.
        slices: scheduler of the slices in which long requests of clients are handled.
        log: records every finished request; None for no log.
        clock: returns the microseconds by which handlers are timed.
    """

    cpu: CpuTimes
    slices: Slices
    log: RequestLog | None
    clock: Callable[[], int]


class SocketServer:
    """The socket server of one broker.

    Args:
        listens_early: True if the port is open before requests are processed (before 3.5, KAFKA-14658).
        on_gone: called for every ended connection, no matter which end closed it.
    """

    def __init__(
        self,
        *,
        node: str,
        config: BrokerConfig,
        outbox: Outbox,
        recorder: Recorder,
        times: RequestTimes,
        listens_early: bool,
        on_gone: Callable[[ConnectionId], None] = lambda connection: None,
    ) -> None:
        self.connections = AcceptedConnections(node, config, outbox, recorder, self._gone)
        self.late = LateAnswers(outbox, self.connections)
        self.handlers = RequestHandlers(config.num_io_threads, config.queued_max_requests, on_room=self._unblock)
        self.handler_time = HandlerTime(times.cpu, self.handlers, outbox)
        self.thread_times = ThreadTimes(times.clock, self.handler_time)
        self.times_threads = False
        """True if a request quota is set. Only then is handler time measured."""
        self._throttled = ThrottledChannels(outbox)
        self._outbox = outbox
        self._listens_early = listens_early
        self.handle: Callable[[ConnectionId, str, bytearray, int], RequestHeader]
        """Handles a request from a peer and returns its header. A PeerViolation closes the connection."""
        self._on_gone = on_gone
        self.gate: Gate | None = None
        """The authentication of clients; None if they need none."""
        self._requests = times.log
        self._slices = times.slices
        self._max_request_bytes = config.socket_request_max_bytes
        self._max_connections = config.max_connections
        self._acceptor = Acceptor(
            config.max_connection_creation_rate,
            outbox,
            self._assign,
            self._has_no_place,
            samples=config.quota_window_num,
            window_us=config.quota_window_size_seconds * 1_000_000,
        )
        self._new_thread: Callable[[int], NetworkThread] = lambda number: NetworkThread(
            number, times.cpu, outbox, self._deliver
        )
        self._threads = [self._new_thread(number) for number in range(config.num_network_threads)]
        self._in_use = config.num_network_threads
        self._blocked: deque[NetworkThread] = deque()
        """Network threads that wait for room in the request queue, in order."""
        self._paused: dict[ConnectionId, None] = {}
        """Connections whose request is handled in slices and waits for the slices of others; a set."""
        self._thread_of: dict[ConnectionId, NetworkThread] = {}
        self._assigned = 0
        self._unassigned: dict[ConnectionId, bytearray] = {}
        """Requests on connections that have no network thread yet."""
        self.is_place_free = False
        """True if a waiting connection may now be accepted. `settle` must then be called at the end of the step."""
        self._is_open = False
        self._too_early: dict[ConnectionId, bytearray] = {}
        """Requests that arrived when the port was open but requests were not processed yet.

        Requests on connections that have closed are dropped.
        """
        self._threads_hold_back = times.cpu.connection_us > 0
        """True if a network thread may be busy when a response is to leave."""

    def reconfigure(self, config: BrokerConfig, now_us: int) -> None:
        """Change the number of threads and the limits of connections.

        Source: BrokerDynamicThreadPool, DynamicListenerConfig

        Simplified: a removed network thread takes no new connections; Kafka closes those that it has.
        """
        self.connections.reconfigure(config)
        self.handlers.resize(config.num_io_threads, now_us)
        self._max_connections = config.max_connections
        self._acceptor.limit = config.max_connection_creation_rate
        self._in_use = config.num_network_threads
        self._threads += [self._new_thread(number) for number in range(len(self._threads), self._in_use)]
        self.is_place_free = True

    # ------------------------------------------------------------------------------------------------- connections

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> None:
        if self.connections.accepted(connection, peer, listener, now_us):
            if self.gate is not None:
                self.gate.accepted(connection, peer, listener)
            self._acceptor.offer(connection, now_us)

    @property
    def is_full(self) -> bool:
        """True if there are max.connections, including those that have no network thread yet."""
        return len(self.connections) >= self._max_connections

    def _has_no_place(self) -> bool:
        return len(self._thread_of) >= self._max_connections

    def _assign(self, connection: ConnectionId, now_us: int) -> None:
        """Assign a connection to the next network thread in turn."""
        thread = self._threads[self._assigned % self._in_use]
        self._assigned += 1
        thread.accepted(connection, now_us)
        if connection not in self.connections:
            thread.gone(connection)
            return
        self._thread_of[connection] = thread
        if self._requests is not None:
            self._requests.accepted(connection, thread.number, now_us)
        frame = self._unassigned.pop(connection, None)
        if frame is not None:
            thread.received(connection, frame, now_us)

    def _gone(self, connection: ConnectionId) -> None:
        self._unassigned.pop(connection, None)
        self._too_early.pop(connection, None)
        self._paused.pop(connection, None)
        thread = self._thread_of.pop(connection, None)
        if thread is not None:
            thread.gone(connection)
            self.is_place_free = True
        if self._requests is not None:
            self._requests.gone(connection)
        if self.gate is not None:
            self.gate.gone(connection)
        if self.times_threads:
            self.thread_times.gone(connection)
        self._throttled.gone(connection)
        self.late.gone(connection)
        self._on_gone(connection)

    # ---------------------------------------------------------------------------------------------------- requests

    def start(self) -> None:
        """Open the port, if this release opens it before the broker has joined the cluster."""
        if self._listens_early:
            self._outbox.listen()

    def open(self, now_us: int) -> None:
        """Process requests of clients and followers from now on, beginning with those that have waited.

        Source: SocketServer.enableRequestProcessing, Acceptor.start
        """
        # Simplified: with KRaft before 3.5, requests are processed once the broker has caught up with the metadata and
        # before it asks to be unfenced; here once it is unfenced.
        # Simplified: up to 0.11 the handlers start before the broker is in ZooKeeper; here after that, as from 2.0 on.
        if not self._listens_early:
            self._outbox.listen()
        self._is_open = True
        waiting, self._too_early = self._too_early, {}
        for connection, frame in waiting.items():
            self._submit(connection, frame, now_us)

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> None:
        self.connections.active(connection, now_us)
        if len(frame) > self._max_request_bytes:
            self.connections.close(
                connection, CloseCause.REQUEST_TOO_LARGE, amount=len(frame), limit=self._max_request_bytes
            )
            return
        if self._requests is not None:
            self._requests.received(connection, len(frame), now_us)
        thread = self._thread_of.get(connection)
        if thread is not None:
            thread.received(connection, frame, now_us)
        elif connection in self.connections:
            self._unassigned[connection] = frame

    def _deliver(self, thread: NetworkThread, connection: ConnectionId, frame: bytearray, now_us: int) -> bool:
        """Put a network thread's request into the request queue. Return False if the queue is full."""
        if self.handlers.is_full:
            self._threads_hold_back = True
            self._blocked.append(thread)
            return False
        if self._is_open:
            self._submit(connection, frame, now_us)
        else:
            self._too_early[connection] = frame
        return True

    def _submit(self, connection: ConnectionId, frame: bytearray, now_us: int) -> None:
        if self.gate is not None and self.gate.takes(connection, frame, now_us):
            return
        work: Work = partial(self._execute, connection, frame)
        if self.handler_time.takes_any:
            work = self.handler_time.taken_by(work)
        if self._requests is None and not self.times_threads:
            self.handlers.submit(work, now_us)
        else:
            self.handlers.submit(work, now_us, partial(self._handled, connection))

    def _execute(self, connection: ConnectionId, frame: bytearray, now_us: int) -> None:
        peer = self.connections.peer(connection)
        if peer is None:
            return  # Differs from Kafka: its handlers execute a request even if the client has gone.
        if self._requests is not None:
            self._requests.dequeued(connection)
        if self.times_threads:
            self.thread_times.began(connection)
        if not self._slices.are_on or self.connections.is_of_node(connection) or _is_short(frame):
            self._serve(connection, peer, frame, now_us)
        elif not self._slices.begin(partial(self._serve, connection, peer, frame, now_us)):
            self._paused[connection] = None
        if self.times_threads:
            self.thread_times.worked(connection)

    def _serve(self, connection: ConnectionId, peer: str, frame: bytearray, now_us: int) -> None:
        try:
            header = self.handle(connection, peer, frame, now_us)
            if self._requests is not None:
                self._requests.decoded(connection, peer, header)
        except PeerViolation as violation:
            self.connections.close(connection, CloseCause.VIOLATION, str(violation))
        except Exception:  # A bug in Highwater: the client must not wait for an answer that never comes.
            self.connections.close(connection, CloseCause.BUG)
            raise
        if connection in self._paused:
            del self._paused[connection]
            self._handled(connection, now_us)

    def _handled(self, connection: ConnectionId, now_us: int) -> None:
        if connection in self._paused:
            return
        if self._requests is not None:
            self._requests.handled(connection)
        if self.times_threads:
            self.thread_times.ended(connection)

    def _unblock(self, now_us: int) -> None:
        while self._blocked and not self.handlers.is_full:
            self._blocked.popleft().unblock(now_us)

    # ----------------------------------------------------------------------------------------------------- answers

    def throttle(self, connection: ConnectionId, throttle_ms: int, now_us: int) -> None:
        """Throttle a connection's client. Called before the response leaves."""
        self._throttled.throttle(connection, throttle_ms, now_us)
        if self._requests is not None:
            self._requests.throttled(connection, throttle_ms * 1000)

    def settle(self, now_us: int) -> None:
        """Accept waiting connections. Call this at the end of a step."""
        self.is_place_free = False
        self._acceptor.go_on(now_us)

    def outgoing(self, actions: list[Action], now_us: int) -> list[Action]:
        """Return the actions that can be performed now.

        Responses wait for busy network threads and injected delays. Throttled connections stay mute after their
        response.
        """
        if self._threads_hold_back:
            actions = self._through_threads(actions)
        if self.late.expected:
            actions = self.late.outgoing(actions, now_us)
        if self._requests is not None:
            actions = self._requests.outgoing(actions)
        if self._throttled.until_us:
            actions = self._throttled.outgoing(actions, now_us)
        return self.connections.answered(actions, now_us) if actions else actions

    def _through_threads(self, actions: list[Action]) -> list[Action]:
        out = [action for thread in self._threads for action in thread.take_ready()]
        for action in actions:
            thread = self._thread_of.get(action.connection) if isinstance(action, Send | ResumeReading) else None
            if thread is None or not thread.hold(action):
                out.append(action)
        return out


def _is_short(frame: bytearray) -> bool:
    """Return True for a Produce or Fetch request that is too short to be handled in slices."""
    return len(frame) < SHORT_BYTES and frame[:2] in (_PRODUCE, _FETCH)


_PRODUCE, _FETCH = PRODUCE.to_bytes(2), FETCH.to_bytes(2)
