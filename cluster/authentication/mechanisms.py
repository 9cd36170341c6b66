"""The broker's side of a SASL mechanism, and how it fails."""

from __future__ import annotations

from typing import Protocol


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
