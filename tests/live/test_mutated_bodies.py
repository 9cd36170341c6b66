"""Requests with a good header and a bad body, of every API that a node has, beside an honest producer and consumer.

`pytest -m soak tests/live/test_mutated_bodies.py` throws 30,000; HIGHWATER_SOAK=1000000 says how many, SEED which.
HIGHWATER_SOAK_S=3600 ends it after that time, with fewer.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest
from honest_pair import honest_pair
from mutated_bodies import MutatedBodies
from seen_answers import SeenAnswers
from serving import Served, serving
from test_hostile import framed, memory_kib, received

from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.versions import API_VERSIONS, VERSIONS
from replica.causes import FencingCause
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from scenarios.observe.trace_writer import read_rows

SOAK_FRAMES = int(os.environ.get("HIGHWATER_SOAK", "30000"))
SOAK_S = float(os.environ.get("HIGHWATER_SOAK_S", "inf"))
SEED = int(os.environ.get("SEED", "1"))
NAMES = [
    "t",
    "u",
    "g",
    "h",
    "hostile",
    "",
    "consumer",
    "range",
    "compression.type",
    "0",
    "1",
    "127.0.0.1",
    "tx",
    "uniform",
]
NAMES += ["user", "client-id", "producer_byte_rate", "request_percentage"]
NAMES += ["User:hostile", "kafka-cluster", "*", "__transaction_state", "__consumer_offsets"]
NAMES += ["consumer.session.timeout.ms", "45000", "transaction.version", "group.version"]
OF_TRANSACTIONS = {22, 24, 25, 26, 27, 28, 61, 65, 66}
OF_NEW_GROUPS = {68, 69}
OF_QUOTAS = {48, 49}
OF_SECURITY = {29, 30, 31, 50, 51}
OF_SETTINGS = {32, 33, 44, 57, 74}
NEW = OF_TRANSACTIONS | OF_NEW_GROUPS | OF_QUOTAS | OF_SECURITY | OF_SETTINGS
AUTHORIZING = ("--authorize", "--super-user", "User:ANONYMOUS")
"""Brokers that keep rules (ACLs)."""
OPEN_AT_ONCE = 48
ENOUGH_FOR_EACH = 10_000
ROUND = 200
"""After so many frames a request to every node checks that it still answers."""

EVERYTHING = [(key, version) for key, (low, high) in sorted(VERSIONS.items()) for version in range(low, high + 1)]
Address = tuple[str, int]


def dial(address: Address) -> socket.socket:
    """Closed with a reset: the machine would run out of ports otherwise."""
    sock = socket.create_connection(address, 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return sock


class Node:
    """One listener, and, of a broker, a connection to it that is never abused."""

    def __init__(self, address: Address, seed: int, answers: SeenAnswers, *, is_broker: bool) -> None:
        self.address = address
        self._honest = dial(address) if is_broker else None
        self.bodies = MutatedBodies(seed, self.advertised() or EVERYTHING, NAMES)
        self._answers = answers
        self._open: deque[socket.socket] = deque()

    def advertised(self) -> list[tuple[int, int]]:
        """A controller closes the connections of all strangers; it gets the requests of any node all the same."""
        if self._honest is None:
            return []
        self._honest.sendall(encode_request(API_VERSIONS, 0, 1, "honest", request(API_VERSIONS, 0)))
        (size,) = struct.unpack(">i", received(self._honest, 4))
        answer = decode_response(API_VERSIONS, 0, received(self._honest, size))
        ranges = [(api.api_key, range(api.min_version, api.max_version + 1)) for api in answer.api_keys]
        return [api for key, versions in ranges for version in versions if (api := (key, version)) in EVERYTHING]

    def attack(self) -> int:
        """One frame, or two, over a connection of their own."""
        frames = [self.bodies.frame() for _ in range(self.bodies.rng.choice((1, 1, 2)))]
        self._answers.look()
        sock = dial(self.address)
        self._answers.expect(sock, frames[0])
        with contextlib.suppress(ConnectionError):
            sock.sendall(b"".join(map(framed, frames)))
        self._open.append(sock)
        if len(self._open) > OPEN_AT_ONCE:
            self._close_first()
        return len(frames)

    def go(self) -> None:
        while self._open:
            self._close_first()

    def _close_first(self) -> None:
        sock = self._open.popleft()
        self._answers.forget(sock)
        sock.close()


def descriptors(served: Served) -> int:
    return len(list(Path(f"/proc/{served.process.pid}/fd").iterdir()))


def listeners(served: Served) -> list[Address]:
    """Brokers' and controllers'. source: proc(5), /proc/net/tcp"""
    inodes = set()
    for entry in Path(f"/proc/{served.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
            inodes.update(found.groups() if found else ())
    ports = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            ports.append(int(fields[1].split(":")[1], 16))
    return [("127.0.0.1", port) for port in sorted(ports)]


def storm(served: Served, frames: int, seed: int) -> None:
    brokers, answers = served.bootstrap.split(","), SeenAnswers()
    nodes = [
        Node((host, port), seed + place, answers, is_broker=f"{host}:{port}" in brokers)
        for place, (host, port) in enumerate(listeners(served))
    ]
    assert len(nodes) == 4, "three brokers and a controller"
    assert all(node.bodies.keys >= NEW for node in nodes), "all of them are thrown at each"
    begun, thrown, limit = time.monotonic(), 0, ROUND
    before = memory_kib(served), descriptors(served)
    with honest_pair(served.bootstrap, "honest") as seen:
        while thrown < frames and time.monotonic() - begun < SOAK_S:
            thrown += nodes[thrown % len(nodes)].attack()
            if thrown >= limit:
                limit += ROUND
                for node in nodes:
                    node.advertised()
                if limit % (100 * ROUND) == 0:
                    took = time.monotonic() - begun
                    print(f"{thrown:,} frames, {thrown / took:,.0f}/s, {memory_kib(served) >> 10} MiB", flush=True)
        took = time.monotonic() - begun
        for node in nodes:
            node.go()
        time.sleep(1)  # until the brokers know
    say(served, thrown, took, before, seen)
    print("\n".join(answers.lines()))
    if frames >= ENOUGH_FOR_EACH:
        assert min(answers.answered[key] for key in NEW) > 0, "a body of each of them was valid"
    assert seen["failures"] == []


def say(served: Served, thrown: int, took_s: float, before: Sequence[int], seen: dict[str, object]) -> None:
    memory, open_now = memory_kib(served), descriptors(served)
    print(f"{thrown:,} frames in {took_s:,.0f} s, {thrown / took_s:,.0f}/s, load {os.getloadavg()}")
    print(f"memory {before[0] >> 10} to {memory >> 10} MiB, descriptors {before[1]} to {open_now}")
    print(f"the honest pair: {seen}")


def events(served: Served) -> list[TraceEvent]:
    last = (served.record / "last").read_text().strip()
    return [row.event for row in read_rows(served.record / last / "trace")]


def unregistered(told: Sequence[TraceEvent]) -> list[str]:
    """Brokers that a client had unregistered, as any may without rules: they stay fenced until they start again."""
    fenced = [event for event in told if isinstance(event, trace.BrokerFenced)]
    return [event.broker for event in fenced if event.cause is FencingCause.UNREGISTERED]


def storm_on_a_cluster(record: Path, frames: int, *words: str) -> None:
    topics = [word for topic in ("honest:1:3", "t:2:3", "u:1:1") for word in ("--topic", topic)]
    with serving(record, *topics, *words) as served:
        storm(served, frames, SEED)
        served.end()
        told = events(served)
        assert [event.sentence() for event in told if isinstance(event, trace.RequestCrashed)] == [], served.errors[
            -2000:
        ]
    found = [anomaly["sentence"] for anomaly in served.summary["anomalies"]]
    if unregistered(told):
        assert [sentence for sentence in found if not sentence.startswith(("L1: ", "L2: "))] == []
    else:
        assert not served.summary["our_bug"], found
    assert served.summary["records"]["lost"] == []


@pytest.mark.soak
def test_bodies_that_are_wrong_cost_their_senders_alone(tmp_path: Path) -> None:
    storm_on_a_cluster(tmp_path, 600)


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("words", [(), AUTHORIZING], ids=["open", "authorizing"])
def test_as_many_as_are_asked_for(tmp_path: Path, words: Sequence[str]) -> None:
    storm_on_a_cluster(tmp_path, SOAK_FRAMES, "--no-client-records", *words)
