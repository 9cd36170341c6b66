"""Clients of other projects over TLS: records there and back, large ones too; and clients that do not trust it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer
from serving import Served, serving
from verdicts import expect_nothing_broken

from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.versions import API_VERSIONS
from replica.trace.events import ConnectionClosed, ConnectionLost
from scenarios.observe.trace_writer import read_rows

pytestmark = pytest.mark.live

LARGE = os.urandom(600_000)


def authority(served: Served) -> str:
    (line,) = [line for line in served.ready if "ssl.ca.location=" in line]
    return line.partition("=")[2]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, "--tls", "--topic", "t:1:2", brokers=2) as cluster:
        yield cluster


def address(served: Served) -> tuple[str, int]:
    host, port = served.bootstrap.split(",")[0].split(":")
    return host, int(port)


def test_records_go_there_and_back_and_strangers_are_turned_away_with_a_reason(served: Served) -> None:
    librdkafka(served)
    kafka_python(served)
    assert aio(served) == LARGE
    not_trusting(served)
    without_tls(served)
    garbage(served)
    served.stop()
    expect_nothing_broken(served.summary)
    assert served.summary["bytes"]["fetch_payload_through_python"] > 2 * len(LARGE)
    rows = list(read_rows(served.record / (served.record / "last").read_text().strip() / "trace"))
    reasons = " ".join(row.event.sentence() for row in rows if isinstance(row.event, ConnectionClosed | ConnectionLost))
    assert "TLS failed (WRONG_VERSION_NUMBER); the peer may be a client without TLS" in reasons


def librdkafka(served: Served) -> None:
    tls: dict[str, Any] = {
        "bootstrap.servers": served.bootstrap, "security.protocol": "SSL", "ssl.ca.location": authority(served)
    }  # fmt: skip
    producer = Producer(tls)
    producer.produce("t", LARGE)
    for number in range(200):
        producer.produce("t", f"small-{number}".encode())
    assert producer.flush(30) == 0
    consumer = Consumer({**tls, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    values: list[Any] = []
    while len(values) < 201:
        message = consumer.poll(10)
        assert message is not None and message.error() is None
        values.append(message.value())
    consumer.close()
    assert values == [LARGE, *(f"small-{number}".encode() for number in range(200))]


def kafka_python(served: Served) -> None:
    consumer = kafka.KafkaConsumer(
        "t", bootstrap_servers=served.bootstrap, security_protocol="SSL", ssl_cafile=authority(served),
        auto_offset_reset="earliest", consumer_timeout_ms=10_000,
    )  # fmt: skip
    assert next(consumer).value == LARGE
    consumer.close()


def aio(served: Served) -> Any:
    async def read() -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            "t", bootstrap_servers=served.bootstrap, security_protocol="SSL", auto_offset_reset="earliest",
            ssl_context=create_ssl_context(cafile=authority(served)),
        )  # fmt: skip
        await consumer.start()
        try:
            return (await consumer.getone()).value
        finally:
            await consumer.stop()

    return asyncio.run(read())


def not_trusting(served: Served) -> None:
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection(address(served), 20) as sock:
        ssl.create_default_context().wrap_socket(sock, server_hostname="localhost")
    with socket.create_connection(address(served), 20) as sock:
        context = ssl.create_default_context(cafile=authority(served))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert context.wrap_socket(sock, server_hostname="localhost").version() == "TLSv1.2"


def without_tls(served: Served) -> None:
    with socket.create_connection(address(served), 20) as sock:
        sock.sendall(encode_request(API_VERSIONS, 0, 1, "plain", request(API_VERSIONS, 0)))
        try:
            alert = sock.recv(100)
        except ConnectionResetError:
            return
        assert alert == b"" or alert[:1] == b"\x15"  # TLS's own way to say so


def garbage(served: Served) -> None:
    """Bytes one by one, in many records of TLS, and more of them than are a request."""
    context = ssl.create_default_context(cafile=authority(served))
    with context.wrap_socket(socket.create_connection(address(served), 20), server_hostname="127.0.0.1") as tls:
        for byte in encode_request(API_VERSIONS, 0, 7, "slow", request(API_VERSIONS, 0)):
            tls.sendall(bytes([byte]))
        (size,) = struct.unpack(">i", tls.recv(4))
        answer = b""
        while len(answer) < size:
            answer += tls.recv(size - len(answer))
        assert decode_response(API_VERSIONS, 0, answer).api_keys
        tls.sendall(struct.pack(">i", -5))
        assert tls.recv(1) == b""
