"""Producers that share a client.id are told apart, by hand and with librdkafka, whose default they all have."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from serving import serving
from verdicts import expect_nothing_broken

from cluster.live.client_tap import ProducerNames
from replica.ids import client_of
from tests.soak import one_in

pytestmark = pytest.mark.live

CLIENT = "client/rdkafka"


def test_an_idempotent_producer_is_known_by_its_id_at_every_broker() -> None:
    names = ProducerNames()
    one, other = names.enter(CLIENT, "b1", 7), names.enter(CLIENT, "b1", 8)
    again = names.enter(CLIENT, "b2", 8)
    assert [names.name(CLIENT, key) for key in (one, other, again)] == [CLIENT, f"{CLIENT}#2", f"{CLIENT}#2"]
    names.leave(CLIENT, "b1", other)
    assert names.name(CLIENT, names.enter(CLIENT, "b3", 9)) == f"{CLIENT}#3", "producer 8 is still at b2"
    names.leave(CLIENT, "b2", again)
    assert names.name(CLIENT, names.enter(CLIENT, "b3", 10)) == f"{CLIENT}#2"
    assert client_of(f"{CLIENT}#2") == CLIENT and client_of("p#1") == "p#1"


def test_without_an_id_two_open_connections_to_one_broker_are_two_producers() -> None:
    names = ProducerNames()
    first = [names.enter(CLIENT, node, -1) for node in ("b1", "b2")]
    assert {names.name(CLIENT, key) for key in first} == {CLIENT}
    second = names.enter(CLIENT, "b1", -1)
    assert names.name(CLIENT, second) == f"{CLIENT}#2"
    assert names.name(CLIENT, names.enter(CLIENT, "b1", 5)) == f"{CLIENT}#3"
    names.leave(CLIENT, "b1", first[0])
    assert names.name(CLIENT, names.enter(CLIENT, "b1", -1)) == CLIENT, "it has opened another connection"


@pytest.mark.soak
@pytest.mark.parametrize("idempotent", one_in(2, [False, True]))
def test_what_several_applications_send_is_not_out_of_order(tmp_path: Path, idempotent: bool) -> None:
    with serving(tmp_path, "--topic", "t:1:3") as served:
        settings = {"bootstrap.servers": served.bootstrap, "enable.idempotence": idempotent, "linger.ms": 1}
        producers = [Producer(settings) for _ in range(4)]
        for number in range(300):
            for place, producer in enumerate(producers):
                producer.produce("t", value=f"a{place}-{number}".encode(), partition=0)
                producer.poll(0)
            if number % 50 == 0:
                producers[number // 50 % 4].flush(20)
        assert [producer.flush(20) for producer in producers] == [0] * 4
        served.stop()
    expect_nothing_broken(served.summary)
    told = served.summary["producers"]
    assert set(told) == {CLIENT, *(f"{CLIENT}#{number}" for number in (2, 3, 4))}
    assert {one["sent"] for one in told.values()} == {300}
