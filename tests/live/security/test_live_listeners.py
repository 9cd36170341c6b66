"""Clients of two listeners at once: each finds the brokers by its own, and reads what came by the other."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from serving import Served, fault, free_ports, serving
from verdicts import expect_nothing_broken

from tests.soak import one_in

pytestmark = pytest.mark.live


@pytest.mark.soak
@pytest.mark.parametrize("processes", one_in(2, [(), ("--processes",)]))
def test_each_client_finds_the_brokers_by_its_listener_also_after_a_failover(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    (tmp_path / "password").write_text("secret")
    (tmp_path / "password").chmod(0o600)
    port = free_ports(3)
    words = ("--tls", "--user", f"alice:{tmp_path / 'password'}", "--listener", f"PLAINTEXT:{port}")
    with serving(tmp_path, *words, "--topic", "t:3:3", *processes) as served:
        plain = {"bootstrap.servers": ",".join(f"127.0.0.1:{port + place}" for place in range(3))}
        secure = {"bootstrap.servers": served.bootstrap, **settings(served)}
        assert ports(plain) == [port, port + 1, port + 2]
        assert ports(secure) == [int(one.rpartition(":")[2]) for one in served.bootstrap.split(",")]
        write(secure, "before")
        readers = {"plain": reader(plain, "plain"), "secure": reader(secure, "secure")}
        for one in readers.values():
            assert read(one, 30) == {f"before-{number}" for number in range(30)}
        fault(tmp_path, "kill", "b1")
        write(plain, "after")
        for one in readers.values():
            assert read(one, 30) == {f"after-{number}" for number in range(30)}
            one.close()
        theirs = KafkaConsumer("t", bootstrap_servers=[f"127.0.0.1:{port + 1}"], auto_offset_reset="earliest")
        values: list[bytes] = []
        until = time.monotonic() + 30
        while len(values) < 60 and time.monotonic() < until:
            values += [record.value for records in theirs.poll(1000).values() for record in records]
        theirs.close()
        assert len(values) == 60
        served.stop()
        expect_nothing_broken(served.summary)


def settings(served: Served) -> dict[str, Any]:
    (line,) = [line for line in served.ready if "ssl.ca.location=" in line]
    return {
        "security.protocol": "SASL_SSL", "ssl.ca.location": line.partition("=")[2], "sasl.mechanism": "PLAIN",
        "sasl.username": "alice", "sasl.password": "secret",
    }  # fmt: skip


def ports(client: dict[str, Any]) -> list[int]:
    return sorted(broker.port for broker in AdminClient(client).list_topics(timeout=30).brokers.values())


def write(client: dict[str, Any], name: str) -> None:
    producer = Producer({**client, "acks": "all"})
    for number in range(30):
        producer.produce("t", f"{name}-{number}".encode())
    assert producer.flush(60) == 0


def reader(client: dict[str, Any], group: str) -> Consumer:
    consumer = Consumer({**client, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    return consumer


def read(consumer: Consumer, count: int) -> set[str]:
    values: set[str] = set()
    until = time.monotonic() + 60
    while len(values) < count and time.monotonic() < until:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.add((message.value() or b"").decode())
    return values
