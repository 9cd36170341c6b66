"""What the servers of a world ask of clients from outside: nothing, unless `highwater serve` was told to.

Connections between the nodes of a cluster, and of a scenario's own clients, are known by where they come from.
# Differs from Kafka: there a listener has a protocol, and the nodes of the cluster have one of their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from controller.metadata import UserScramCredentialRecord
from controller.scram import MECHANISMS, credentials_of

SALT_BYTES: Final = 16


def new_nonce() -> str:
    """Of the broker, for one SCRAM exchange: it may never come again, and no one may guess it."""
    return secrets.token_hex(SALT_BYTES)


@dataclass(frozen=True, slots=True, repr=False)
class Security:
    """passwords: of users, for SASL/PLAIN     scram: the credentials that a new cluster begins with

    Without users, no one has to authenticate.
    """

    passwords: Mapping[str, str]
    scram: tuple[UserScramCredentialRecord, ...]
    new_nonce: Callable[[], str] = new_nonce

    @classmethod
    def of(cls, passwords: Mapping[str, str]) -> Security:
        """passwords: by name of the user"""
        scram = [
            credential
            for user, password in passwords.items()
            for credential in credentials_of(user, password, [secrets.token_bytes(SALT_BYTES) for _ in MECHANISMS])
        ]
        return cls(dict(passwords), tuple(scram))

    @property
    def is_on(self) -> bool:
        return bool(self.passwords)


OPEN: Final = Security({}, ())
"""Clients from outside may do everything, unasked."""
