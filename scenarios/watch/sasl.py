"""SASL as Kafka does it (KIP-152): messages in SaslAuthenticate, after a SaslHandshake. No sockets here."""

from __future__ import annotations

from collections.abc import Generator

from scramp import ScramClient, ScramException

from scenarios.watch.client_properties import SaslSettings


class ServerNotProven(Exception):
    """The broker does not know the password either: it is not the one that it says it is."""


def exchange(settings: SaslSettings) -> Generator[bytes, bytes, None]:
    """Yields messages to the broker, and is sent its answers. raises: ServerNotProven"""
    if settings.mechanism == "PLAIN":
        yield f"\0{settings.username}\0{settings.password}".encode()
        return
    try:
        client = ScramClient([settings.mechanism], settings.username, settings.password)
        answer = yield client.get_client_first().encode()
        client.set_server_first(answer.decode())
        answer = yield client.get_client_final().encode()
        client.set_server_final(answer.decode())
    except (ScramException, ValueError) as error:
        raise ServerNotProven("its SCRAM messages are not those of a broker that knows this user") from error
