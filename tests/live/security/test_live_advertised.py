"""Clients that reach brokers by other addresses than those on which they listen, through a forwarder: as behind NAT."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from serving import Served, fault, free_ports, serving
from verdicts import expect_nothing_broken

from tests.soak import one_in

pytestmark = pytest.mark.live
BROKERS, RECORDS = 3, 30
NAME, NOWHERE = "localhost", "kafka.invalid"
CHUNK_BYTES = 1 << 16


class Forwarder:
    """Passes connections on from ports in a row. ways: the port that each connection came by, in their order"""

    def __init__(self, first: int, targets: list[int]) -> None:
        self.ways: list[int] = []
        self._servers = {port: socket.create_server(("127.0.0.1", port)) for port in range(first, first + len(targets))}
        self._sockets: list[socket.socket] = [*self._servers.values()]
        for (port, server), target in zip(self._servers.items(), targets, strict=True):
            threading.Thread(target=self._accept, args=(port, server, target), daemon=True).start()

    def _accept(self, port: int, server: socket.socket, target: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                self.ways.append(port)
                try:
                    far = socket.create_connection(("127.0.0.1", target))
                except OSError:  # The broker is down.
                    near.close()
                    continue
                self._sockets += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(CHUNK_BYTES):
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


@contextmanager
def forwarding(first: int, served: Served) -> Iterator[Forwarder]:
    forwarder = Forwarder(first, [int(one.rpartition(":")[2]) for one in served.bootstrap.split(",")])
    try:
        yield forwarder
    finally:
        forwarder.close()


@pytest.mark.soak
@pytest.mark.parametrize("words", one_in(3, [(), ("--processes",), ("--host", "0.0.0.0")]))
def test_clients_are_sent_by_the_advertised_addresses_also_after_a_failover(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    first = free_ports(BROKERS)
    told = ("--advertise", f"{NAME}:{first}", "--topic", "t:3:3")
    with serving(tmp_path, *told, *words, brokers=BROKERS) as served, forwarding(first, served) as forwarder:
        client: dict[str, Any] = {"bootstrap.servers": f"{NAME}:{first + 1}", "broker.address.family": "v4"}
        found = AdminClient(client).list_topics(timeout=30).brokers.values()
        assert sorted((one.host, one.port) for one in found) == [(NAME, first + place) for place in range(BROKERS)]
        write(client, "before")
        consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        assert read(consumer) == {f"before-{number}" for number in range(RECORDS)}
        assert {first, first + 1, first + 2} == set(forwarder.ways), "leaders on all brokers, found by the forwarder"
        fault(tmp_path, "kill", "b1")
        write(client, "after")
        assert read(consumer) == {f"after-{number}" for number in range(RECORDS)}
        consumer.close()
        fault(tmp_path, "start", "b1")
        served.stop()
    expect_nothing_broken(served.summary)


@pytest.mark.soak
def test_brokers_find_each_other_where_nobody_finds_what_they_advertise(tmp_path: Path) -> None:
    """They replicate by the addresses on which they listen; what they tell clients is told as it is."""
    with serving(tmp_path, "--advertise", NOWHERE, "--topic", "t:1:3", brokers=BROKERS) as served:
        bootstrap: dict[str, Any] = {"bootstrap.servers": served.bootstrap}
        ports = [int(one.rpartition(":")[2]) for one in served.bootstrap.split(",")]
        admin = AdminClient(bootstrap)
        cluster = admin.list_topics(timeout=30)
        assert [(one.host, one.port) for _, one in sorted(cluster.brokers.items())] == [
            (NOWHERE, port) for port in ports
        ]
        assert sorted(cluster.topics["t"].partitions[0].isrs) == [1, 2, 3]
        assert any(
            line.strip() == f"brokers advertise {','.join(f'{NOWHERE}:{port}' for port in ports)}"
            for line in served.ready
        )
        served.stop()
    expect_nothing_broken(served.summary)


def write(client: dict[str, Any], name: str) -> None:
    producer = Producer({**client, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("t", f"{name}-{number}".encode(), partition=number % 3)
    assert producer.flush(60) == 0


def read(consumer: Consumer) -> set[str]:
    values: set[str] = set()
    until = time.monotonic() + 60
    while len(values) < RECORDS and time.monotonic() < until:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.add((message.value() or b"").decode())
    return values
