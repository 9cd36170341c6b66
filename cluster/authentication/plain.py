"""SASL/PLAIN (RFC 4616): user and password as they are. source: PlainSaslServer, PlainServerCallbackHandler"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from cluster.authentication.mechanisms import SaslRefusal

PLAIN = "PLAIN"


class PlainServer:
    """passwords: by user"""

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
