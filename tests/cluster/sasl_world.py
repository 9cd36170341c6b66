"""A broker whose clients have to log in: alice, with the password `secret`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from broker_world import BrokerWorld, Caller
from scramp import ScramClient

from cluster.authentication.mechanisms import PLAIN
from cluster.protocol import cold
from cluster.protocol.versions import METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from cluster.security import ListenerSecurity
from controller.scram import credentials_of
from replica.rules import PROFILES
from replica.trace.events import ConnectionClosed

ALICE, SECRET = "alice", "secret"
SALTS = (b"one salt of alice", b"another of alice")


def security() -> ListenerSecurity:
    numbers = itertools.count()
    return ListenerSecurity(
        {ALICE: SECRET}, tuple(credentials_of(ALICE, SECRET, SALTS)), lambda: f"nonce{next(numbers)}"
    )


class Client:
    """From outside; `answer` is the last frame that it got, without its size."""

    def __init__(self, world: SaslWorld, listener: str = "") -> None:
        self.world = world
        self.caller: Caller = world.call("127.0.0.1:5000", listener)
        self._correlation_id = 0

    @property
    def closed(self) -> bool:
        return self.caller.closed

    def frame(self, api: int, version: int, **values: Any) -> bytes:
        self._correlation_id += 1
        return cold.encode_request(api, version, self._correlation_id, "x", cold.request(api, version, **values))

    def send(self, api: int, version: int, **values: Any) -> None:
        self.caller.send(self.frame(api, version, **values))

    def ask(self, api: int, version: int, **values: Any) -> Any:
        """None: there was no answer in the next 100 ms."""
        before = len(self.caller.answers)
        self.send(api, version, **values)
        self.world.run(100)
        return cold.decode_response(api, version, self.caller.answers[-1]) if self.caller.answers[before:] else None

    def bare(self, token: bytes) -> bytes | None:
        """A token without a request around it."""
        before = len(self.caller.answers)
        self.caller.send(len(token).to_bytes(4, "big") + token)
        self.world.run(100)
        return bytes(self.caller.answers[-1]) if self.caller.answers[before:] else None

    def handshake(self, mechanism: str = PLAIN, version: int = 1) -> Any:
        return self.ask(SASL_HANDSHAKE, version, mechanism=mechanism)

    def token(self, token: bytes, version: int = 2) -> Any:
        return self.ask(SASL_AUTHENTICATE, version, auth_bytes=token)

    def plain(self, user: str = ALICE, password: str = SECRET, authorization_id: str = "") -> Any:
        """Logs in, and returns the last answer."""
        self.handshake()
        return self.token(f"{authorization_id}\0{user}\0{password}".encode())

    def scram(self, mechanism: str, user: str = ALICE, password: str = SECRET) -> Any:
        """Logs in with the client of another project, and returns the last answer. raises: ScramException"""
        scram = ScramClient([mechanism], user, password)
        self.handshake(mechanism)
        answer = self.token(scram.get_client_first().encode())
        if answer is None or answer.error_code:
            return answer
        scram.set_server_first(answer.auth_bytes.decode())
        answer = self.token(scram.get_client_final().encode())
        if not answer.error_code:
            scram.set_server_final(answer.auth_bytes.decode())
        return answer

    @property
    def is_served(self) -> bool:
        """A request that has nothing to do with logging in gets its answer."""
        return self.ask(METADATA, 12, topics=None) is not None

    @property
    def principal(self) -> str:
        return self.world.broker._server.connections.principal(self.caller._connection)


class SaslWorld(BrokerWorld):
    def __init__(self, root: Path, profile: str = "kafka-4.1", **config: str) -> None:
        self.security = self.make_security()
        super().__init__(root, PROFILES[profile], **config)
        self.start()
        self.run(200)

    def make_security(self) -> ListenerSecurity:
        return security()

    def client(self, listener: str = "") -> Client:
        """listener: by which it comes, "" for the first"""
        return Client(self, listener)

    @property
    def reasons(self) -> list[str]:
        """Why connections were closed."""
        return [event.sentence().partition(": ")[2] for event in self.events(ConnectionClosed)]
