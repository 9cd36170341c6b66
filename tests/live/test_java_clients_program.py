"""The program of the Java clients, with the jars of every version that is installed, against live brokers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from serving import Served, serving
from verdicts import expect_nothing_broken

from cluster.client.producer.batch import ProducerRecord
from cluster.config import ConsumerConfig, ProducerConfig
from cluster.kafka.clients.consumer import JavaConsumer
from cluster.kafka.clients.helper import MAIN, ClientsJvm, compiled
from cluster.kafka.clients.producer import JavaProducer
from cluster.kafka.home import KafkaHome, find_home, installed
from cluster.operated import ClientOrder
from replica.ids import TopicPartition
from replica.trace.events import TraceLog, TraceRow

VERSIONS = [jars.version for jars in installed(os.environ)]
SILENT_S = 60
T0 = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """At the end no record that the Java producers got an ack for may be missing."""
    with serving(tmp_path_factory.mktemp("serve"), "--topic", "t:1:3", "--topic", "u:1:3") as cluster:
        yield cluster
        cluster.stop()
        expect_nothing_broken(cluster.summary)


class Application:
    """Two producers and a consumer of both topics in one JVM, and their events."""

    def __init__(self, home: KafkaHome, bootstrap: str, folder: Path) -> None:
        self.rows: list[TraceRow] = []
        classes = compiled(home.java.needed_compiler(), home.jars.classpath, folder)
        classpath = f"{home.jars.classpath}{os.pathsep}{classes}"
        command = [str(home.java.executable), "-Xmx128m", "-XX:+UseSerialGC", "-cp", classpath, MAIN]
        self.jvm = ClientsJvm(command, folder / "console", self._heard)
        trace = TraceLog([self.rows.append])
        value = b"r0 ".ljust(100, b"x")
        producing = ClientOrder(
            topics=("t",), partitions=1, config=ProducerConfig(), largest_batch=((None, value),) * 3
        )
        reading = ClientOrder(topics=("t", "u"), config=ConsumerConfig(auto_offset_reset="earliest"))
        self.producer = JavaProducer("p1", producing, trace, self.jvm.tell, lambda: bootstrap)
        of_other = replace(producing, topics=("u",))
        self.other = JavaProducer("p2", of_other, trace, self.jvm.tell, lambda: bootstrap)
        self.consumer = JavaConsumer("c1r", reading, trace, self.jvm.tell, lambda: bootstrap)

    def _heard(self, event: dict[str, Any]) -> None:
        clients: dict[str, JavaProducer | JavaConsumer]
        clients = {"p1": self.producer, "p2": self.other, "c1r": self.consumer}
        clients[event["client"]].heard(event)

    def send(self, *names: str) -> None:
        values = [f"{name} ".encode().ljust(100, b"x") for name in names]
        records = [ProducerRecord("t", 0, None, value, name) for name, value in zip(names, values, strict=True)]
        self.producer.send_batch(records, 0)

    def told(self, kind: str) -> list[Any]:
        return [row.event for row in self.rows if type(row.event).__name__ == kind]

    async def until(self, holds: Callable[[], object]) -> None:
        with trio.fail_after(SILENT_S):
            while not holds():
                assert self.jvm.died_of is None, self.jvm.died_of
                await trio.sleep(0.01)


@pytest.mark.kafka
@pytest.mark.parametrize("version", VERSIONS or [pytest.param("none", marks=pytest.mark.skip("no Kafka is installed"))])
def test_records_are_sent_acked_read_and_read_again(version: str, served: Served, tmp_path: Path) -> None:
    application = Application(find_home(version, None, os.environ), served.bootstrap, tmp_path)

    async def play() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(application.jvm.run)
            await converse(application, version)
            application.jvm.tell({"do": "close", "client": "p1"})
            nursery.cancel_scope.cancel()

    try:
        trio.run(play)
    finally:
        application.jvm.end_at_once()


async def converse(application: Application, version: str) -> None:
    await application.until(lambda: application.jvm.is_ready)
    application.producer.launch()
    application.consumer.launch()
    names = [f"{version}-{number}" for number in range(6)]
    for first in (0, 3):
        application.send(*names[first : first + 3])
    await application.until(lambda: len(application.told("RecordAcked")) == len(names))
    acked = {event.record: event.offset for event in application.told("RecordAcked")}
    assert sorted(acked) == names and not application.told("RecordFailed")
    await application.until(lambda: set(names) <= {event.record for event in application.told("RecordRead")})
    read = {event.record: event.offset for event in application.told("RecordRead")}
    assert {name: read[name] for name in names} == acked
    assert application.told("PositionReset")[0].previous_offset == -1

    application.other.launch()
    application.other.send(ProducerRecord("u", 0, None, f"{version}-other ".encode(), f"{version}-other"), 0)
    await application.until(lambda: f"{version}-other" in {event.record for event in application.told("RecordRead")})
    topics = {event.record: event.topic for event in application.told("RecordRead")}
    assert topics[f"{version}-other"] == "u" and {topics[name] for name in names} == {"t"}

    application.consumer.ask_end_offset(T0, 0)
    await application.until(lambda: application.told("EndOffsetSeen"))
    (end,) = application.told("EndOffsetSeen")
    assert (end.offset, end.error) == (max(acked.values()) + 1, None)

    read_before = len(application.told("RecordRead"))
    application.consumer.seek(T0, acked[names[0]], 0)
    await application.until(lambda: len(application.told("RecordRead")) == read_before + len(names))
    assert application.told("PositionReset")[-1].offset == acked[names[0]]
