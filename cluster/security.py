"""What the servers of a world ask of clients from outside: nothing, unless options of `highwater serve` say so.

Connections between the nodes of a cluster, and of a scenario's own clients, are known by the secret of the run
(cluster/live/peers.py).
In Kafka a listener has a protocol, and the nodes of a cluster have one of their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from controller.metadata import Endpoint, UserScramCredentialRecord
from controller.scram import MECHANISMS, credentials_of

SALT_BYTES: Final = 16
PROTOCOLS: Final[Mapping[str, int]] = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""SecurityProtocol, by name."""
PROTOCOL_OF: Final = {code: name for name, code in PROTOCOLS.items()}


def new_nonce() -> str:
    """Of the broker, for one SCRAM exchange: it may never come again, and no one may guess it."""
    return secrets.token_hex(SALT_BYTES)


Addresses = Mapping[str, tuple[str, int]]
"""Host and port, by name of the broker."""


class ServerListener(NamedTuple):
    """One beside the first of each broker.     ports: by name of the broker

    advertised: where clients are sent; None: where it listens

    Simplified: it has less protection than the first, which is that between brokers, and listens on the same host.
    """

    name: str
    protocol: str
    ports: Mapping[str, int]
    advertised: Addresses | None = None

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")


class TlsFiles(NamedTuple):
    """In PEM. certificate: with those between it and the authority, if there are any"""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, repr=False)
class ListenerSecurity:
    """passwords: of users, for SASL/PLAIN     scram: the credentials that a new cluster begins with

    Without users, no one has to authenticate.     tls: None: connections are not encrypted
    super_users: who may do everything, as `User:name`, where rules say who may do what; None: all users may
    listeners: of brokers beside the first, which has all of the above; these may have less
    advertised: where clients of the first are sent; None: where it listens
    """

    passwords: Mapping[str, str]
    scram: tuple[UserScramCredentialRecord, ...]
    new_nonce: Callable[[], str] = new_nonce
    tls: TlsFiles | None = None
    super_users: tuple[str, ...] | None = None
    listeners: tuple[ServerListener, ...] = ()
    advertised: Addresses | None = None

    @classmethod
    def of(
        cls, passwords: Mapping[str, str], tls: TlsFiles | None = None, super_users: tuple[str, ...] | None = None
    ) -> ListenerSecurity:
        """passwords: by name of the user"""
        scram = [
            credential
            for user, password in passwords.items()
            for credential in credentials_of(user, password, [secrets.token_bytes(SALT_BYTES) for _ in MECHANISMS])
        ]
        return cls(dict(passwords), tuple(scram), tls=tls, super_users=super_users)

    @property
    def is_on(self) -> bool:
        """Clients have to authenticate, by the first listener at least."""
        return bool(self.passwords)

    @property
    def clients_first(self) -> str:
        """Name of the listener by which clients from outside come to the first port: "", as brokers do, unless other
        addresses are advertised there. Brokers go on to use those on which they listen.

        # Differs from Kafka: there it would be two listeners, on two ports (inter.broker.listener.name).
        """
        return self.protocol if self.advertised else ""

    def bound(self, broker: str, host: str, port: int) -> tuple[Endpoint, ...]:
        """Where a broker listens, beside the listener at `host` and `port`, by which brokers speak to each other."""
        first = [Endpoint(self.clients_first, host, port, self.protocol)] if self.advertised else []
        return *first, *(Endpoint(one.name, host, one.ports[broker], one.protocol) for one in self.listeners)

    def endpoints(self, broker: str, host: str, port: int) -> tuple[Endpoint, ...]:
        """Where clients are sent by these listeners. source: advertised.listeners"""
        told = {self.clients_first: self.advertised, **{one.name: one.advertised for one in self.listeners}}
        return tuple(
            Endpoint(one.name, *(told[one.name] or {broker: (one.host, one.port)})[broker], one.protocol)
            for one in self.bound(broker, host, port)
        )

    def lets_in(self, listener: str) -> bool:
        """Clients of a listener need not authenticate. listener: its name, "" for the first"""
        other = next((one for one in self.listeners if one.name == listener), None)
        return not self.is_on if other is None else not other.has_sasl

    @property
    def protocol(self) -> str:
        """security.protocol of clients"""
        return {
            (False, False): "PLAINTEXT",
            (False, True): "SSL",
            (True, False): "SASL_PLAINTEXT",
            (True, True): "SASL_SSL",
        }[self.is_on, self.tls is not None]


OPEN: Final = ListenerSecurity({}, ())
"""Clients from outside may do everything, unasked."""
