"""The broker's side of the SASL mechanisms PLAIN (RFC 4616) and SCRAM (RFC 5802), and their errors.

Source: PlainSaslServer, PlainServerCallbackHandler, ScramSaslServer
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from cluster.security import ListenerSecurity
from controller.metadata import UserScramCredentialRecord
from controller.scram import MECHANISMS, MIN_ITERATIONS, ScramMechanism


class SaslError(Exception):
    """A refusal whose text is not sent to the client, because it may reveal that a user exists (SaslException)."""


class SaslRefusal(SaslError):
    """A refusal whose text is sent to the client (SaslAuthenticationException)."""


class SaslServer(Protocol):
    """The broker's side of one authentication with one mechanism."""

    @property
    def user(self) -> str | None:
        """The authenticated user; None until the exchange is complete."""

    def evaluate(self, token: bytes) -> bytes:
        """Return the response to the client's next token.

        Raises:
            SaslError: if the client is refused.
        """


PLAIN = "PLAIN"


class PlainServer:
    """The broker's side of SASL/PLAIN, which sends passwords in plain text. `passwords` maps users to passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        parts = token.decode("utf-8", errors="replace").split("\0", 3)
        if len(parts) != 3:
            raise SaslRefusal(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise SaslRefusal("Authentication failed: username not specified")
        if not password:
            raise SaslRefusal("Authentication failed: password not specified")
        if not self._is_right(user, password):
            raise SaslRefusal("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise SaslRefusal(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""

    def _is_right(self, user: str, password: str) -> bool:
        expected = self._passwords.get(user)
        return expected is not None and hmac.compare_digest(expected.encode(), password.encode())


Credential = Callable[[str, int], UserScramCredentialRecord | None]
"""Returns a user's credential for a mechanism type; None if there is none."""


def mechanisms(security: ListenerSecurity, credential: Credential) -> Mapping[str, Callable[[], SaslServer]]:
    """Return, for each enabled mechanism, a function that creates the broker's side of an authentication.

    Users of PLAIN are fixed at the broker's start; SCRAM credentials can be changed while it runs.
    """

    def plain() -> SaslServer:
        return PlainServer(security.passwords)

    def scram(mechanism: ScramMechanism) -> SaslServer:
        return ScramServer(mechanism, lambda user: credential(user, mechanism.type), security.new_nonce())

    return {PLAIN: plain, **{item.name: partial(scram, item) for item in MECHANISMS.values()}}


_NAME: Final = r"(?:[^=,\x00\x80-\U0010ffff]|=2C|=3D)+"
_VALUE: Final = r"[^,\x00\x80-\U0010ffff]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"{_EXTENSIONS})"
)
CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class _Exchange(NamedTuple):
    """The state of a SCRAM exchange after its first two messages."""

    user: str
    credential: UserScramCredentialRecord
    nonce: str
    messages: str


class ScramServer:
    """The broker's side of SASL/SCRAM. Differs from Kafka: delegation tokens are not supported.

    Args:
        credential: returns a user's credential for this mechanism.
        server_nonce: nonce of the server; each authentication needs a new one.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential: Callable[[str], UserScramCredentialRecord | None],
        server_nonce: str,
    ) -> None:
        self._mechanism = mechanism
        self._credential = credential
        self._server_nonce = server_nonce
        self._exchange: _Exchange | None = None
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        message = token.decode("utf-8", errors="replace")
        if self._exchange is None:
            return self._first(message)
        exchange, self._exchange = self._exchange, None
        return self._final(message, exchange)

    def _first(self, message: str) -> bytes:
        match = CLIENT_FIRST.fullmatch(message)
        if match is None:
            raise SaslError("the client's first SCRAM message is malformed")
        user = match["name"].replace("=2C", ",").replace("=3D", "=")
        credential = self._credential(user)
        if credential is None:
            raise SaslError(f"the user has no {self._mechanism.name} credential")
        if match["authzid"] not in (None, user):
            raise SaslRefusal(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if credential.iterations < MIN_ITERATIONS:
            raise SaslError(
                f"the user's credential has {credential.iterations} iterations; at least {MIN_ITERATIONS} are required"
            )
        nonce = match["nonce"] + self._server_nonce
        salt = b64encode(bytes.fromhex(credential.salt)).decode()
        answer = f"r={nonce},s={salt},i={credential.iterations}"
        self._exchange = _Exchange(user, credential, nonce, f"{match['bare']},{answer}")
        return answer.encode()

    def _final(self, message: str, exchange: _Exchange) -> bytes:
        match = CLIENT_FINAL.fullmatch(message)
        if match is None or not match["nonce"].endswith(exchange.nonce):
            raise SaslError("the client's final SCRAM message is malformed or has a wrong nonce")
        hashing, stored_key = self._mechanism, bytes.fromhex(exchange.credential.stored_key)
        messages = f"{exchange.messages},{match['bare']}".encode()
        client_signature = hashing.hmac(stored_key, messages)
        proof = b64decode(match["proof"])
        if len(proof) != len(client_signature):
            raise SaslError(f"the client's SCRAM proof has {len(proof)} bytes, not {len(client_signature)}")
        client_key = bytes(item ^ other for item, other in zip(client_signature, proof, strict=True))
        if not hmac.compare_digest(hashing.hash(client_key), stored_key):
            raise SaslError("the client's SCRAM proof does not match the user's password")
        self.user = exchange.user
        signature = hashing.hmac(bytes.fromhex(exchange.credential.server_key), messages)
        return b"v=" + b64encode(signature)
