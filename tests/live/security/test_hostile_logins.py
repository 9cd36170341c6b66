"""Who has not logged in cannot fill the memory or hold a place for ever, over TLS neither; all others are served."""

from __future__ import annotations

import os
import random
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from serving import Served, serving
from verdicts import expect_nothing_broken

from cluster.protocol.cold import encode_request, request
from cluster.protocol.versions import API_VERSIONS, SASL_HANDSHAKE

pytestmark = pytest.mark.live

PATIENCE_S = 60
RECEIVE_BYTES = 524_288
SOAK_STRANGERS = int(os.environ.get("HIGHWATER_SOAK", "2000"))


def connect(served: Served) -> socket.socket:
    host, port = served.bootstrap.split(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def is_closed(sock: socket.socket) -> bool:
    """Once everything that the broker still says was read."""
    try:
        while sock.recv(4096):
            pass
    except (ConnectionError, ssl.SSLError):
        pass
    except TimeoutError:
        return False
    return True


def logs_in(served: Served) -> bool:
    (authority,) = [line for line in served.ready if "ssl.ca.location=" in line]
    producer = Producer(
        {
            "bootstrap.servers": served.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": authority.partition("=")[2],
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "wonderland",
        }
    )
    producer.produce("t", b"honest")
    return producer.flush(PATIENCE_S) == 0


def strangers(served: Served, count: int, seed: int) -> None:
    """Each a connection with something else on it."""
    draw = random.Random(f"strangers/{seed}")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    handshake = encode_request(SASL_HANDSHAKE, 1, 1, "x", request(SASL_HANDSHAKE, 1, mechanism="PLAIN"))
    versions = encode_request(API_VERSIONS, 3, 1, "x", request(API_VERSIONS, 3))
    for _ in range(count):
        with connect(served) as plain:
            if draw.random() < 0.3:
                plain.sendall(draw.randbytes(draw.choice([1, 5, 500])))
                continue
            with context.wrap_socket(plain) as sock:
                for _ in range(draw.randrange(3)):
                    sock.sendall(draw.choice([handshake, versions]))
                    sock.recv(4096)
                size = draw.choice([-1, 0, 3, 60, RECEIVE_BYTES + 1, 1 << 30])
                sock.sendall(struct.pack(">i", size) + draw.randbytes(min(max(size, 0), 60)))
                if size < 0 or size > RECEIVE_BYTES:
                    assert is_closed(sock), size


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    file = tmp_path / "password"
    file.touch(mode=0o600)
    file.write_text("wonderland")
    words = ("--tls", "--topic", "t:1:1", "--user", f"alice:{file}")
    idle = ("--set", "cluster.config.connections.max.idle.ms=2000")
    with serving(tmp_path, *words, *idle, brokers=1) as cluster:
        yield cluster


@pytest.mark.soak
def test_strangers_are_bounded_in_size_and_time_and_harm_no_one(served: Served) -> None:
    with connect(served) as silent, connect(served) as slow:
        slow.sendall(b"\x16\x03\x01")  # the begin of TLS, and no more
        strangers(served, 40, 1)
        assert logs_in(served)
        assert is_closed(silent) and is_closed(slow)
    assert logs_in(served)
    served.stop()
    expect_nothing_broken(served.summary)
    assert len(served.summary["records"]["acked"]) == 2


@pytest.mark.soak
def test_thousands_of_strangers(served: Served) -> None:
    strangers(served, SOAK_STRANGERS, 2)
    assert logs_in(served)
    served.stop()
    expect_nothing_broken(served.summary)
