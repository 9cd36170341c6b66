"""Authenticates outside clients by SASL before their requests, and again when a session expires.

Source: SocketServer.Processor.processCompletedReceives, KafkaChannel.maybeBeginServerReauthentication,
Selector.DelayedAuthenticationFailureClose
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cluster.authentication.mechanisms import SaslServer
from cluster.authentication.sasl import Earlier, Failed, GivenUp, Replied, SaslAuthenticator
from cluster.config import BrokerConfig
from cluster.node import ConnectionId, Outbox, is_outside
from cluster.protocol.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE, RequestHeader
from cluster.server.accepted_connections import AcceptedConnections
from cluster.server.responder import Refusals
from replica.causes import CloseCause
from replica.errors import ErrorCode

MIN_REAUTH_INTERVAL_US = 1_000_000
"""Minimum time between two authentications of a connection (KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS)."""


class SaslGate:
    """Intercepts the frames of a broker's outside clients until their SASL authentication has succeeded.

    Args:
        mechanisms, api_versions: as in SaslAuthenticator.
        lets_in: returns True if clients of a listener need not authenticate.
    """

    def __init__(
        self,
        *,
        config: BrokerConfig,
        outbox: Outbox,
        connections: AcceptedConnections,
        mechanisms: Mapping[str, Callable[[], SaslServer]],
        api_versions: Callable[[RequestHeader], tuple[bytes, bool]],
        lets_in: Callable[[str], bool],
        refusals: Refusals,
    ) -> None:
        self._outbox = outbox
        self._connections = connections
        self._mechanisms = mechanisms
        self._api_versions = api_versions
        self._lets_in = lets_in
        self._refusals = refusals
        self._max_reauth_ms = config.connections_max_reauth_ms
        self._delay_us = config.connection_failed_authentication_delay_ms * 1000
        self._max_receive_bytes = config.sasl_server_max_receive_size
        self._max_request_bytes = config.socket_request_max_bytes
        self._sasl: dict[ConnectionId, SaslAuthenticator] = {}
        """The authentication in progress or completed on each connection of an outside client."""
        self._began_again_us: dict[ConnectionId, int] = {}

    def accepted(self, connection: ConnectionId, peer: str, listener: str) -> None:
        """Start the authentication of a connection. `peer` and `listener` are as in `NodeCore.accepted`."""
        if is_outside(peer) and not self._lets_in(listener):
            self._sasl[connection] = self._authenticator(None)
            self._outbox.limit(connection, self._max_receive_bytes)

    def gone(self, connection: ConnectionId) -> None:
        self._sasl.pop(connection, None)
        self._began_again_us.pop(connection, None)

    def takes(self, connection: ConnectionId, frame: bytearray, now_us: int) -> bool:
        """Handle a frame and return True. Return False if it is a request that the broker may handle."""
        sasl = self._sasl.get(connection)
        if sasl is None:
            return False
        if sasl.authenticated is not None:
            if sasl.expires_us is None:
                return False
            if not self._begins_again(connection, sasl.authenticated, frame, now_us):
                return self._has_expired(connection, sasl.expires_us, now_us)
        self._goes_on(connection, self._sasl[connection], frame, now_us)
        return True

    def _begins_again(self, connection: ConnectionId, earlier: Earlier, frame: bytearray, now_us: int) -> bool:
        """Begin to renew a session if the frame is a SaslHandshake, at most once a second (KIP-368).

        Return True if begun.
        """
        last_us = self._began_again_us.get(connection)
        is_too_soon = last_us is not None and now_us - last_us < MIN_REAUTH_INTERVAL_US
        if int.from_bytes(frame[:2], "big", signed=True) != SASL_HANDSHAKE or is_too_soon:
            return False
        self._began_again_us[connection] = now_us
        self._sasl[connection] = self._authenticator(earlier)
        return True

    def _has_expired(self, connection: ConnectionId, expires_us: int, now_us: int) -> bool:
        if now_us <= expires_us:
            return False
        self._connections.close(connection, CloseCause.SESSION_OVER)
        return True

    def _goes_on(self, connection: ConnectionId, sasl: SaslAuthenticator, frame: bytearray, now_us: int) -> None:
        match sasl.received(frame, now_us):
            case Replied(answer, api):
                self._outbox.respond(connection, (answer,), api)
                if sasl.authenticated is not None:
                    self._connections.authenticated(connection, f"User:{sasl.authenticated.user}")
                    self._outbox.limit(connection, self._max_request_bytes)
            case Failed() as failed:
                # The delay slows down clients that guess passwords (KAFKA-6764).
                self._outbox.timers.at(now_us + self._delay_us, partial(self._fail, connection, failed))
            case GivenUp(reason):
                self._refusals.state(connection, SASL_AUTHENTICATE, ErrorCode.ILLEGAL_SASL_STATE, message=reason)
                self._connections.close(connection, CloseCause.AUTHENTICATION_FAILED, reason)

    def _fail(self, connection: ConnectionId, failed: Failed, now_us: int) -> None:
        if connection in self._sasl:
            self._refusals.state(connection, failed.api or SASL_AUTHENTICATE, failed.error, message=failed.reason)
            if failed.frame is not None:
                self._outbox.respond(connection, (failed.frame,), failed.api)
            self._connections.close(connection, CloseCause.AUTHENTICATION_FAILED, failed.reason)

    def _authenticator(self, earlier: Earlier | None) -> SaslAuthenticator:
        return SaslAuthenticator(self._mechanisms, self._api_versions, self._max_reauth_ms, earlier)
