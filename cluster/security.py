"""The security that servers require of outside clients: none, unless options of `highwater serve` set it.

Nodes of a cluster and clients of a scenario identify themselves by the secret of the run (cluster/live/peers.py). In
Kafka each listener has a security protocol, and the nodes of a cluster use a separate listener.
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
"""Numbers of SecurityProtocol by name."""
PROTOCOL_OF: Final = {code: name for name, code in PROTOCOLS.items()}


def new_nonce() -> str:
    """Return a nonce for one SCRAM exchange. It is unique and unpredictable."""
    return secrets.token_hex(SALT_BYTES)


Addresses = Mapping[str, tuple[str, int]]
"""Host and port by name of the broker."""


class ServerListener(NamedTuple):
    """An additional listener of each broker.

    Simplified: it is less secure than the first listener, which brokers use among themselves, and is on the same host.

    Attributes:
        ports: port on each broker, by the broker's name.
        advertised: addresses for clients; None to advertise those at which it listens.
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
    """PEM files of a certificate, with any intermediate certificates, and of its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, repr=False)
class ListenerSecurity:
    """The security of all listeners.

    Attributes:
        passwords: password of each user, for SASL/PLAIN. Without users no authentication is required.
        scram: initial credentials of a new cluster.
        tls: None for unencrypted connections.
        super_users: users that may do everything, as `User:name`; None if there is no authorizer.
        listeners: additional listeners of brokers, which may be less secure.
        advertised: addresses of the first listener for clients; None to advertise those at which it listens.
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
        """Return the security for these users and options. Each user gets SCRAM credentials, too."""
        scram = [
            credential
            for user, password in passwords.items()
            for credential in credentials_of(user, password, [secrets.token_bytes(SALT_BYTES) for _ in MECHANISMS])
        ]
        return cls(dict(passwords), tuple(scram), tls=tls, super_users=super_users)

    @property
    def is_on(self) -> bool:
        """True if clients have to authenticate, at least on the first listener."""
        return bool(self.passwords)

    @property
    def clients_first(self) -> str:
        """The name of the listener through which outside clients reach the first port.

        The name is "" unless other addresses are advertised. Brokers continue to use "" and the addresses at which they
        listen.

        Differs from Kafka: there it would be two listeners, on two ports (inter.broker.listener.name).
        """
        return self.protocol if self.advertised else ""

    def bound(self, broker: str, host: str, port: int) -> tuple[Endpoint, ...]:
        """Return a broker's endpoints for clients, except the listener at `host` and `port`, which brokers use."""
        first = [Endpoint(self.clients_first, host, port, self.protocol)] if self.advertised else []
        return *first, *(
            Endpoint(listener.name, host, listener.ports[broker], listener.protocol) for listener in self.listeners
        )

    def endpoints(self, broker: str, host: str, port: int) -> tuple[Endpoint, ...]:
        """Return the endpoints that a broker advertises to clients. Source: advertised.listeners"""
        addresses = {
            self.clients_first: self.advertised,
            **{listener.name: listener.advertised for listener in self.listeners},
        }
        return tuple(
            Endpoint(item.name, *(addresses[item.name] or {broker: (item.host, item.port)})[broker], item.protocol)
            for item in self.bound(broker, host, port)
        )

    def lets_in(self, listener: str) -> bool:
        """Return True if clients of a listener need not authenticate. The first listener has the name ""."""
        other = next((item for item in self.listeners if item.name == listener), None)
        return not self.is_on if other is None else not other.has_sasl

    @property
    def protocol(self) -> str:
        """The security.protocol of clients on the first listener."""
        return {
            (False, False): "PLAINTEXT",
            (False, True): "SSL",
            (True, False): "SASL_PLAINTEXT",
            (True, True): "SASL_SSL",
        }[self.is_on, self.tls is not None]


OPEN: Final = ListenerSecurity({}, ())
"""No security: outside clients may do everything."""
