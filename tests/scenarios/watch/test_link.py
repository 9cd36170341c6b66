"""How `highwater watch` gets in: SASL, and peers that are no brokers, against a peer of a few lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from scramp import ScramException, ScramMechanism

from cluster.protocol.api_18_api_versions import encode_api_versions_response
from cluster.protocol.cold import decode_request, encode_response, response
from cluster.protocol.framing import FrameReader
from cluster.protocol.versions import API_VERSIONS, SASL_HANDSHAKE, VERSIONS, read_request_header
from replica.errors import ErrorCode
from replica.rules import PROFILES
from scenarios.watch.client_properties import Security, security_of
from scenarios.watch.link import BrokerLink, LinkFailed, RequestPace

PASSWORD = 'p"a\\ss, w;ord'
Serve = Callable[[trio.SocketStream], Awaitable[None]]


def open_link(serve: Serve, security: Security) -> BrokerLink | LinkFailed:
    """What comes of opening a link to a peer that does this."""

    async def run() -> BrokerLink | LinkFailed:
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(trio.serve_tcp, serve, 0)
            port = listeners[0].socket.getsockname()[1]
            try:
                return await BrokerLink.open("127.0.0.1", port, security, RequestPace(1_000))
            except LinkFailed as failed:
                return failed
            finally:
                nursery.cancel_scope.cancel()

    return trio.run(run)


class SaslBroker:
    """Knows one user; offers one mechanism."""

    def __init__(self, mechanism: str) -> None:
        self._mechanism = mechanism
        self._scram = None if mechanism == "PLAIN" else ScramMechanism(mechanism)

    async def __call__(self, stream: trio.SocketStream) -> None:
        frames, answer = FrameReader(1 << 20), self._authenticator()
        async for chunk in stream:
            for frame in frames.feed(chunk):
                header = read_request_header(frame)
                asked = decode_request(header, frame)
                key, version = header.api_key, header.api_version
                if key == API_VERSIONS:
                    await stream.send_all(encode_api_versions_response(version, header.correlation_id, VERSIONS))
                    continue
                if key == SASL_HANDSHAKE:
                    known = asked.mechanism == self._mechanism
                    error = ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST
                    body = response(key, version, error_code=error, mechanisms=[self._mechanism])
                else:
                    body = response(key, version, **answer(bytes(asked.auth_bytes)))
                await stream.send_all(encode_response(key, version, header.correlation_id, body))

    def _authenticator(self) -> Callable[[bytes], dict[str, object]]:
        refused: dict[str, object] = {"error_code": ErrorCode.UNKNOWN_SERVER_ERROR, "error_message": "no \x1b[31m"}
        if self._scram is None:

            def plain(message: bytes) -> dict[str, object]:
                right = message == f"\0alice\0{PASSWORD}".encode()
                return {"error_code": ErrorCode.NONE, "auth_bytes": b""} if right else refused

            return plain
        server = self._scram.make_server(lambda user: self._scram.make_auth_info(PASSWORD, 4096))
        steps = iter(
            [(server.set_client_first, server.get_server_first), (server.set_client_final, server.get_server_final)]
        )

        def scram(message: bytes) -> dict[str, object]:
            take, give = next(steps)
            try:
                take(message.decode())
            except ScramException:
                return refused
            return {"error_code": ErrorCode.NONE, "auth_bytes": give().encode()}

        return scram


def security(mechanism: str, password: str) -> Security:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    jaas = f'a.b.LoginModule required username="alice" password="{quoted}";'
    return security_of({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_with_the_right_password_gets_in_and_no_other(mechanism: str) -> None:
    let_in = open_link(SaslBroker(mechanism), security(mechanism, PASSWORD))
    assert isinstance(let_in, BrokerLink)
    assert let_in.speaks.era == list(PROFILES)[-1]
    refused = open_link(SaslBroker(mechanism), security(mechanism, "no" + PASSWORD))
    assert isinstance(refused, LinkFailed)
    assert "refused the user alice (no \\x1b[31m)" in str(refused)
    assert PASSWORD not in f"{refused} {refused.fix}"


def test_the_mechanisms_of_the_broker_are_named() -> None:
    failed = open_link(SaslBroker("SCRAM-SHA-512"), security("PLAIN", PASSWORD))
    assert isinstance(failed, LinkFailed) and "SCRAM-SHA-512" in failed.fix


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "expects TLS"),
        (b"", "closed the connection without an answer"),
        (b"\0\0\0\4\0\0\0\x63", "does not speak Kafka's protocol"),
        (b"\0\0\0\4\0\0\0\1" * 2, "does not speak Kafka's protocol"),
    ],
)
def test_a_peer_that_is_no_broker(sent: bytes, said: str) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(sent)

    failed = open_link(serve, Security())
    assert isinstance(failed, LinkFailed) and said in str(failed)
