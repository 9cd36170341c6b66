"""The broker's side of the SASL mechanisms that it offers, PLAIN (RFC 4616) and SCRAM (RFC 5802), and how they fail.

source: PlainSaslServer, PlainServerCallbackHandler, ScramSaslServer
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
    """The client is refused. The text may say whether a user exists, so the client does not get it (SaslException)."""


class SaslRefusal(SaslError):
    """The text is for the client (SaslAuthenticationException)."""


class SaslServer(Protocol):
    """One exchange of one mechanism."""

    @property
    def user(self) -> str | None:
        """Who has authenticated; None while the exchange goes on."""

    def evaluate(self, token: bytes) -> bytes:
        """The answer to the client's next token. raises: SaslError"""


PLAIN = "PLAIN"


class PlainServer:
    """SASL/PLAIN: user and password as they are. passwords: by user"""

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
"""Of a user, with a mechanism by its type."""


def mechanisms(security: ListenerSecurity, credential: Credential) -> Mapping[str, Callable[[], SaslServer]]:
    """By name, as sasl.enabled.mechanisms would list them: what makes the broker's side of one exchange.

    Users of PLAIN are those that the broker was started with; SCRAM credentials can be changed while it runs.
    """

    def plain() -> SaslServer:
        return PlainServer(security.passwords)

    def scram(mechanism: ScramMechanism) -> SaslServer:
        return ScramServer(mechanism, lambda user: credential(user, mechanism.type), security.new_nonce())

    return {PLAIN: plain, **{one.name: partial(scram, one) for one in MECHANISMS.values()}}


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
    """What the first two messages have settled."""

    user: str
    credential: UserScramCredentialRecord
    nonce: str
    messages: str


class ScramServer:
    """credential: of a user with this mechanism     server_nonce: made for this exchange

    Differs from Kafka: there are no delegation tokens to log in with.
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
        found = CLIENT_FIRST.fullmatch(message)
        if found is None:
            raise SaslError("not a first message of SCRAM")
        user = found["name"].replace("=2C", ",").replace("=3D", "=")
        credential = self._credential(user)
        if credential is None:
            raise SaslError(f"that user has no {self._mechanism.name} credential")
        if found["authzid"] not in (None, user):
            raise SaslRefusal(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if credential.iterations < MIN_ITERATIONS:
            raise SaslError(f"{credential.iterations} iterations are fewer than {MIN_ITERATIONS}")
        nonce = found["nonce"] + self._server_nonce
        salt = b64encode(bytes.fromhex(credential.salt)).decode()
        answer = f"r={nonce},s={salt},i={credential.iterations}"
        self._exchange = _Exchange(user, credential, nonce, f"{found['bare']},{answer}")
        return answer.encode()

    def _final(self, message: str, exchange: _Exchange) -> bytes:
        found = CLIENT_FINAL.fullmatch(message)
        if found is None or not found["nonce"].endswith(exchange.nonce):
            raise SaslError("not the final message to the first")
        hashing, stored_key = self._mechanism, bytes.fromhex(exchange.credential.stored_key)
        messages = f"{exchange.messages},{found['bare']}".encode()
        client_signature = hashing.hmac(stored_key, messages)
        proof = b64decode(found["proof"])
        if len(proof) != len(client_signature):
            raise SaslError("a proof of another length")
        client_key = bytes(one ^ other for one, other in zip(client_signature, proof, strict=True))
        if not hmac.compare_digest(hashing.hash(client_key), stored_key):
            raise SaslError("the password is another one")
        self.user = exchange.user
        signature = hashing.hmac(bytes.fromhex(exchange.credential.server_key), messages)
        return b"v=" + b64encode(signature)
