"""The SASL authentication of one connection, as a state machine that turns frames into outcomes.

A client may request ApiVersions. It then names its mechanism (SaslHandshake), and exchanges tokens with the broker: in
SaslAuthenticate requests (KIP-152) or, after a handshake of version 0, in frames without a header.

Source: SaslServerAuthenticator (KIP-43, KIP-84, KIP-368)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from cluster.authentication.mechanisms import SaslError, SaslRefusal, SaslServer
from cluster.protocol import cold, versions
from cluster.protocol.versions import RequestHeader, api_name, read_request_header
from replica.errors import ErrorCode, PeerViolation

NO_LIFETIME = 0
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE
_SIZE_BYTES = 4


class SaslState(Enum):
    """The state of an authentication, with Kafka's names."""

    INITIAL_REQUEST = auto()
    HANDSHAKE_OR_VERSIONS_REQUEST = auto()
    HANDSHAKE_REQUEST = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()
    FAILED = auto()
    REAUTH_BAD_MECHANISM = auto()


@dataclass(frozen=True, slots=True)
class Replied:
    """A response, as a whole frame with its size. The exchange continues, or is complete."""

    frame: bytes
    api: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed authentication.

    The client gets the response, if there is one, after a delay. Then the connection is closed.
    """

    reason: str
    frame: bytes | None
    api: int
    error: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED


@dataclass(frozen=True, slots=True)
class GivenUp:
    """An invalid exchange. The connection is closed immediately."""

    reason: str


Outcome = Replied | Failed | GivenUp


@dataclass(frozen=True, slots=True)
class Earlier:
    """The previous authentication on the same connection."""

    mechanism: str
    user: str


class SaslAuthenticator:
    """The authentication of one connection.

    Args:
        mechanisms: creates the broker's side of an exchange, by mechanism name.
        api_versions: returns a whole ApiVersions response, and True if the broker knows that version.
        max_reauth_ms: connections.max.reauth.ms.
        earlier: previous authentication, if the client authenticates again.
    """

    def __init__(
        self,
        mechanisms: Mapping[str, Callable[[], SaslServer]],
        api_versions: Callable[[RequestHeader], tuple[bytes, bool]],
        max_reauth_ms: int,
        earlier: Earlier | None = None,
    ) -> None:
        self._mechanisms = mechanisms
        self._api_versions = api_versions
        self._max_reauth_ms = max_reauth_ms
        self._earlier = earlier
        self._mechanism = ""
        self._server: SaslServer | None = None
        self._in_requests = False
        """True if tokens arrive in SaslAuthenticate requests."""
        self.state = SaslState.INITIAL_REQUEST if earlier is None else SaslState.HANDSHAKE_REQUEST
        self.expires_us: int | None = None
        """When the session of an authenticated client expires, in microseconds; None for never."""

    @property
    def authenticated(self) -> Earlier | None:
        """The mechanism and user of the completed exchange; None until it is complete."""
        if self.state is not SaslState.COMPLETE or self._server is None or self._server.user is None:
            return None
        return Earlier(self._mechanism, self._server.user)

    def received(self, frame: bytearray, now_us: int) -> Outcome:
        """Handle the next frame of a client that is not authenticated yet."""
        try:
            match self.state:
                case SaslState.AUTHENTICATE:
                    outcome = self._token(frame, now_us)
                case SaslState.REAUTH_BAD_MECHANISM:
                    outcome = Failed(self._bad_mechanism(self._mechanism), None, versions.SASL_AUTHENTICATE)
                case _:
                    outcome = self._request(frame)
        except PeerViolation as violation:
            outcome = GivenUp(str(violation))
        if not isinstance(outcome, Replied):
            self.state = SaslState.FAILED
        return outcome

    # ------------------------------------------------------------------------------------------- before the mechanism

    def _request(self, frame: bytearray) -> Outcome:
        """Handle a request before the token exchange.

        Raises:
            PeerViolation: if the request is malformed.
        """
        is_first = self.state is SaslState.INITIAL_REQUEST
        try:
            header = read_request_header(frame)
        except PeerViolation as violation:
            if is_first:  # Kafka would try the frame as a GSSAPI token; GSSAPI is not supported here.
                return Failed(f"the first packet is not a Kafka request: {violation}", None, versions.SASL_HANDSHAKE)
            raise
        if is_first:
            self.state = SaslState.HANDSHAKE_OR_VERSIONS_REQUEST
        if header.api_key == versions.API_VERSIONS:
            return self._versions(header)
        if header.api_key == versions.SASL_HANDSHAKE:
            return self._handshake(header, str(cold.decode_request(header, frame).mechanism))
        # The body is not decoded: unauthenticated clients must not reach the decoders.
        return Failed(
            f"Unexpected Kafka request of type {api_name(header.api_key)} during SASL handshake.", None, 0, ILLEGAL
        )

    def _versions(self, header: RequestHeader) -> Outcome:
        if self.state is not SaslState.HANDSHAKE_OR_VERSIONS_REQUEST:
            return GivenUp(f"Unexpected ApiVersions request received during SASL authentication state {self._at}")
        answer, is_known = self._api_versions(header)
        if is_known:
            self.state = SaslState.HANDSHAKE_REQUEST
        return Replied(answer, versions.API_VERSIONS)

    def _handshake(self, header: RequestHeader, mechanism: str) -> Outcome:
        self._in_requests = header.api_version >= 1
        make = self._mechanisms.get(mechanism)
        error = ErrorCode.NONE if make is not None else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        frame = self._encoded(header, error_code=error, mechanisms=list(self._mechanisms))
        if make is None:
            return Failed(f"Unsupported SASL mechanism {mechanism[:80]!r}", frame, versions.SASL_HANDSHAKE, error)
        self._mechanism = mechanism
        if self._earlier is not None and self._earlier.mechanism != mechanism:
            self.state = SaslState.REAUTH_BAD_MECHANISM
        else:
            self._server = make()
            self.state = SaslState.AUTHENTICATE
        return Replied(frame, versions.SASL_HANDSHAKE)

    def _bad_mechanism(self, mechanism: str) -> str:
        was = "" if self._earlier is None else self._earlier.mechanism
        return f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of '{was}'"

    # ------------------------------------------------------------------------------------------------------- tokens

    def _token(self, frame: bytearray, now_us: int) -> Outcome:
        if not self._in_requests:
            return self._bare_token(bytes(frame), now_us)
        header = read_request_header(frame)
        if header.api_key != versions.SASL_AUTHENTICATE:
            reason = f"Unexpected Kafka request of type {api_name(header.api_key)} during SASL authentication."
            return Failed(reason, _illegal_state(header, reason), header.api_key, ILLEGAL)
        try:
            answer = self._evaluate(bytes(cold.decode_request(header, frame).auth_bytes))
        except SaslError as error:
            public_reason = str(error) if isinstance(error, SaslRefusal) else self._vague
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return Failed(
                str(error),
                self._encoded(header, error_code=code, error_message=public_reason),
                versions.SASL_AUTHENTICATE,
            )
        lifetime_ms = self._maybe_complete(now_us)
        frame_out = self._encoded(header, error_code=ErrorCode.NONE, auth_bytes=answer, session_lifetime=lifetime_ms)
        return Replied(frame_out, versions.SASL_AUTHENTICATE)

    def _bare_token(self, token: bytes, now_us: int) -> Outcome:
        try:
            answer = self._evaluate(token)
        except SaslRefusal as refusal:
            return Failed(str(refusal), None, versions.SASL_AUTHENTICATE)
        except SaslError as error:
            return GivenUp(str(error))
        self._maybe_complete(now_us)
        return Replied(len(answer).to_bytes(_SIZE_BYTES, "big") + answer, versions.SASL_AUTHENTICATE)

    def _evaluate(self, token: bytes) -> bytes:
        """Return the mechanism's response to a client's token.

        Raises:
            SaslError: if the client is refused.
        """
        assert self._server is not None, "a SASL token arrived before the handshake"
        answer = self._server.evaluate(token)
        user, earlier = self._server.user, self._earlier
        if user is not None and earlier is not None and user != earlier.user:
            raise SaslRefusal(
                f"Cannot change principals during re-authentication from User.{earlier.user}: User.{user}"
            )
        return answer

    def _maybe_complete(self, now_us: int) -> int:
        """Complete the authentication if the user is known. Return the lifetime of the session in milliseconds.

        NO_LIFETIME means that the lifetime is unlimited, or that the authentication is not complete.
        """
        assert self._server is not None, "a SASL token arrived before the handshake"
        if self._server.user is None:
            return NO_LIFETIME
        self.state = SaslState.COMPLETE
        if self._max_reauth_ms > 0:
            self.expires_us = now_us + self._max_reauth_ms * 1000
        return self._max_reauth_ms

    @property
    def _at(self) -> str:
        return self.state.name

    @property
    def _vague(self) -> str:
        what = "authentication" if self._earlier is None else "re-authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._mechanism}"

    def _encoded(self, header: RequestHeader, **values: object) -> bytes:
        entity = cold.response(header.api_key, header.api_version, **values)
        return cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)


def _illegal_state(header: RequestHeader, reason: str) -> bytes | None:
    """Return a response with ILLEGAL_SASL_STATE; None if the API has no top-level error.

    Simplified: such APIs (Produce, Metadata) get no response.
    """
    entity_type = cold.response_class(header.api_key, header.api_version)
    if "error_code" not in cold.field_names(entity_type):
        return None
    values: dict[str, object] = {"error_code": ErrorCode.ILLEGAL_SASL_STATE}
    if "error_message" in cold.field_names(entity_type):
        values["error_message"] = reason
    entity = cold.make(entity_type, **values)
    return cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)
