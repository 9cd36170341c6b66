"""A live cluster under attack over TCP: a client that sends nonsense loses its connection, and no other notices."""

from __future__ import annotations

import contextlib
import re
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_frames import HostileFrames
from kafka import KafkaProducer
from serving import Served, serving

from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.versions import METADATA

PATIENCE_S = 30


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, "--topic", "honest:1:1", "--topic", "t:1:1", brokers=1) as cluster:
        yield cluster


def connect(served: Served) -> socket.socket:
    host, port = served.bootstrap.split(",")[0].split(":")
    sock = socket.create_connection((host, int(port)), PATIENCE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def received(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        assert chunk, "the broker has closed it"
        data += chunk
    return data


class Honest:
    """A connection that is held all the time, with repeated requests."""

    def __init__(self, served: Served) -> None:
        self.sock = connect(served)
        self.asked = 0

    def asks(self) -> list[str]:
        """The topics there are."""
        self.asked += 1
        self.sock.sendall(encode_request(METADATA, 9, self.asked, "honest", request(METADATA, 9, topics=None)))
        (size,) = struct.unpack(">i", received(self.sock, 4))
        answer = decode_response(METADATA, 9, received(self.sock, size))
        return [topic.name for topic in answer.topics]


def was_closed(sock: socket.socket) -> bool:
    sock.settimeout(PATIENCE_S)
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def throw(served: Served, frame: bytes) -> None:
    """Send it over a new connection, look whether something comes back, and go."""
    with contextlib.suppress(ConnectionError), connect(served) as sock:
        sock.sendall(framed(frame))
        sock.settimeout(0.002)
        with contextlib.suppress(TimeoutError):
            sock.recv(1 << 16)


def memory_kib(served: Served) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{served.process.pid}/status").read_text())
    assert found is not None
    return int(found[1])


def attack(served: Served, frames: int, seed: int) -> None:
    honest, hostile = Honest(served), HostileFrames(seed)
    for number in range(frames):
        throw(served, hostile.frame())
        if number % 100 == 0:
            assert "honest" in honest.asks()
    assert served.process.poll() is None


def closing_reasons(served: Served) -> list[str]:
    from scenarios.observe.trace_writer import read_rows

    last = (served.record / "last").read_text().strip()
    rows = read_rows(served.record / last / "trace")
    events: list[Any] = [row.event for row in rows]
    return [event.sentence() for event in events if type(event).__name__ in ("ConnectionClosed", "ConnectionLost")]


@pytest.mark.soak
def test_every_kind_of_nonsense_ends_its_own_connection_with_a_reason(served):
    honest = Honest(served)
    too_large, negative = connect(served), connect(served)
    too_large.sendall(struct.pack(">i", 2**31 - 1) + b"xxxx")
    negative.sendall(struct.pack(">i", -1))
    noise, unknown_api = connect(served), connect(served)
    noise.sendall(framed(b"\x00\x03\x00\x09" + b"\xff" * 20))
    unknown_api.sendall(framed(struct.pack(">hhih", 999, 0, 1, -1)))
    for sock in (too_large, negative, noise, unknown_api):
        assert was_closed(sock)
    http = connect(served)
    http.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert was_closed(http)
    dripping = connect(served)
    dripping.sendall(struct.pack(">i", 1000) + b"\x00\x03\x00\x09")  # the rest never comes
    attack(served, 150, seed=1)
    assert "honest" in honest.asks()
    producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all", enable_idempotence=False)
    assert producer.send("honest", b"still here").get(PATIENCE_S).offset == 0
    producer.close()
    served.stop()
    assert not served.summary["our_bug"]
    reasons = "\n".join(closing_reasons(served))
    for why in ("2147483647 bytes", "-1 bytes", "api 999", "1195725856 bytes"):
        assert why in reasons, why
    assert "a frame claims 2147483647 bytes" in served.errors
    assert all(character.isprintable() or character == "\n" for character in reasons)


@pytest.mark.soak
def test_limits_of_the_cluster_hold_for_whoever_connects(tmp_path):
    keys = {"connections.max.idle.ms": 500, "socket.request.max.bytes": 2000, "max.connections.per.ip": 4}
    changes = [word for key, value in keys.items() for word in ("--set", f"cluster.config.{key}={value}")]
    with serving(tmp_path, "--topic", "honest:1:1", *changes, brokers=1) as served:
        crowd = [connect(served) for _ in range(5)]
        assert was_closed(crowd.pop())
        crowd[0].sendall(struct.pack(">i", 2001))
        assert was_closed(crowd[0])
        crowd[1].sendall(struct.pack(">i", 1000) + b"\x00\x03")  # and nothing else
        for silent in crowd[1:]:
            assert was_closed(silent)
        assert "honest" in Honest(served).asks()
        served.stop()
    reasons = "\n".join(closing_reasons(served))
    for key in ("connections.max.idle.ms", "socket.request.max.bytes", "as many as max.connections.per.ip"):
        assert key in reasons, key


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [20_000, pytest.param(98_000, marks=pytest.mark.night)])
def test_thousands_of_frames_over_tcp(served, count):
    throw(served, b"")
    attack(served, 2000, seed=7)
    before_kib = memory_kib(served)
    attack(served, count, seed=8)
    assert memory_kib(served) - before_kib < 150_000
    served.stop()
    assert not served.summary["our_bug"]


@pytest.mark.soak
def test_five_thousand_connections_that_say_nothing_or_not_enough(served):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 11_000:
        pytest.skip(f"this machine lets a process have {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 8000), hard))
    honest, before_kib = Honest(served), memory_kib(served)
    crowd = []
    for number in range(5000):
        sock = connect(served)
        if number % 2:
            sock.sendall(struct.pack(">i", 100_000_000) + b"\x00\x00\x00\x09")
        crowd.append(sock)
        if number % 500 == 0:
            assert "honest" in honest.asks()
    assert "honest" in honest.asks()
    per_connection_kib = (memory_kib(served) - before_kib) / len(crowd)
    assert per_connection_kib < 64
    print(f"{per_connection_kib:.1f} KiB per connection")
    for sock in crowd:
        sock.close()
    assert "honest" in honest.asks()


@pytest.mark.soak
def test_connections_beyond_the_limit_wait_at_the_door_and_come_in_when_others_go(tmp_path):
    with serving(tmp_path, "--topic", "honest:1:1", "--set", "cluster.config.max.connections=3", brokers=1) as served:
        inside = [Honest(served)]
        while len(inside) < 3:
            inside.append(Honest(served))
            assert "honest" in inside[-1].asks()
        outside = Honest(served)
        outside.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            outside.asks()
        inside.pop().sock.close()
        outside.sock.settimeout(PATIENCE_S)
        (size,) = struct.unpack(">i", received(outside.sock, 4))
        assert size > 0
        served.stop()


@pytest.mark.soak
def test_hundreds_of_large_requests_that_never_end_do_not_fill_the_memory(served):
    honest, before_kib = Honest(served), memory_kib(served)
    crowd, part = [], bytes(4_000_000)
    for _ in range(300):  # 1.2 GB in all
        sock = connect(served)
        with contextlib.suppress(ConnectionError, TimeoutError):
            sock.sendall(struct.pack(">i", 100_000_000) + part)
        crowd.append(sock)
        assert "honest" in honest.asks()
    assert memory_kib(served) - before_kib < 1_200_000
    for sock in crowd:
        sock.close()
    served.stop()
    assert "had stalled for the longest time" in "\n".join(closing_reasons(served))
