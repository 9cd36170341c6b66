"""Apache Kafka 4.1 starts on a log directory that one of Highwater's brokers has left: it reads every record, appends,
starts again, and reads all of it again.

`tests/live/kafka_tools/install.sh DIR` fetches it; KAFKA_TOOLS_LIB names DIR.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from broker_directories import read_all
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from replica.config import TopicConfig
from replica.ids import CLUSTER_ID
from replica.ids import TopicPartition as Name
from replica.log.files.disk import Disk
from replica.log.log import Log
from scenarios.language.parse.loading import load_text
from scenarios.logdirs.replica_log import StoredReplica
from scenarios.run.runner import run_scenario
from tests.waiting import wait_for

LIB = os.environ.get("KAFKA_TOOLS_LIB", "")
pytestmark = [
    pytest.mark.night,
    pytest.mark.skipif(
        not LIB or shutil.which("java") is None,
        reason="Kafka is not installed here: tests/live/kafka_tools/install.sh DIR, KAFKA_TOOLS_LIB=DIR",
    ),
]
APPENDED = 20
START_S = 120
T = Name("t", 0)

SCENARIO = """
schema: 1
id: left-behind
title: Two leaders, small segments, an idempotent producer and one that compresses
duration: 40s
cluster: {brokers: {b1: {}, b2: {}}}
topics: {t: {partitions: {0: [b1, b2]}, config: {segment.bytes: 2000}}}
workloads:
  p1: {kind: producer, topic: t, rate: 5/s, config: {acks: all, enable.idempotence: true}}
  p2: {kind: producer, topic: t, rate: 5/s, config: {acks: 1, compression.type: gzip}}
timeline:
  - {at: 10s, kill: b1}
  - {at: 25s, start: b1}
expect: {}
"""


class Kafka:
    """One broker, its own controller, on a log directory; the controller's log lies elsewhere."""

    def __init__(
        self, folder: Path, log_dir: Path, classpath: str = f"{LIB}/*", more: Mapping[str, object] | None = None
    ) -> None:
        self.log_dir = log_dir
        self._folder = folder
        self._properties = folder / "server.properties"
        self._java = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", classpath)
        broker, controller = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{broker}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": log_dir,
            "metadata.log.dir": folder / "metadata",
            "offsets.topic.replication.factor": 1,
            **(more or {}),
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def format(self) -> None:
        """Kafka's own tool; what has a meta.properties already must be of the same cluster, and stays."""
        command = ("kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", CLUSTER_ID, "-c", self._properties)
        done = subprocess.run([*self._java, *map(str, command)], capture_output=True, text=True, timeout=START_S)
        assert done.returncode == 0, done.stdout + done.stderr

    @contextmanager
    def running(self, *, kill: bool = False) -> Iterator[AdminClient]:
        """kill: with SIGKILL in the end"""
        with (self._folder / "kafka.log").open("ab") as log:
            process = subprocess.Popen([*self._java, "kafka.Kafka", str(self._properties)], stdout=log, stderr=log)
        try:
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            wait_for(lambda: self._brokers(admin, process), START_S)
            yield admin
        finally:
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            process.wait(START_S)

    def _brokers(self, admin: AdminClient, process: subprocess.Popen[bytes]) -> int:
        assert process.poll() is None, (self._folder / "kafka.log").read_text(errors="replace")[-4000:]
        try:
            return len(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return 0

    def values(self, count: int) -> list[bytes]:
        """So many records from the first on."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "none", "log_level": 0})
        consumer.assign([TopicPartition("t", 0, 0)])
        found: list[bytes] = []

        def read_on() -> int:
            for message in consumer.consume(count, timeout=1):
                if message.error() is None:
                    found.append(message.value() or b"")
            return len(found)

        wait_for(read_on, START_S, holds=lambda read: read >= count)
        consumer.close()
        return found

    def append(self, first_offset: int) -> None:
        answers: list[object] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, "enable.idempotence": True})
        for number in range(APPENDED):
            producer.produce(
                "t",
                f"new{number}".encode(),
                partition=0,
                on_delivery=lambda error, message: answers.append(error or message.offset()),
            )
        assert producer.flush(START_S) == 0
        assert answers == list(range(first_offset, first_offset + APPENDED))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def create_topic(kafka: Kafka, admin: AdminClient) -> None:
    # Records of a simulated run are from 1970, and would be deleted within minutes.
    topic = NewTopic("t", num_partitions=1, replication_factor=1, config={"retention.ms": "-1"})
    admin.create_topics([topic])["t"].result(START_S)
    wait_for(lambda: (kafka.log_dir / str(T) / "partition.metadata").is_file(), START_S)


def put_in_place(ours: Path, kafka: Kafka) -> None:
    """All of our files but the topic's id, which Kafka's controller has drawn."""
    topic_id = (kafka.log_dir / str(T) / "partition.metadata").read_text()
    shutil.rmtree(kafka.log_dir)
    shutil.copytree(ours, kafka.log_dir)
    (kafka.log_dir / str(T) / "partition.metadata").write_text(topic_id)


@pytest.mark.parametrize("how", ["stopped cleanly", "killed", "killed, its last batch torn"])
def test_kafka_goes_on_where_our_broker_stopped(how: str, tmp_path: Path) -> None:
    run = run_scenario(load_text(SCENARIO, "left-behind.yaml").scenario, runs_dir=tmp_path / "runs")
    assert run.run_dir is not None
    ours = run.run_dir / "logs" / "b1"
    if how == "stopped cleanly":
        (ours / ".kafka_cleanshutdown").write_text('{"version": 0, "brokerEpoch": 1}')
    if "torn" in how:
        last = max((ours / str(T)).glob("*.log"))
        os.truncate(last, last.stat().st_size - 5)
    log = replica_of_t(ours)
    assert log.records > 100 and len(log.segments) > 2 and len(log.epochs_on_start) > 1
    assert log.damage_count == ("torn" in how)
    written = values_in(ours, tmp_path / "copy")
    assert len(written) == log.log_end_on_start

    log_dir = tmp_path / "kafka"
    log_dir.mkdir()
    shutil.copy(ours / "meta.properties", log_dir)
    kafka = Kafka(tmp_path, log_dir)
    kafka.format()
    with kafka.running() as admin:
        create_topic(kafka, admin)
    put_in_place(ours, kafka)
    with kafka.running(kill=True):
        assert kafka.values(len(written)) == written
        kafka.append(log.log_end_on_start)
    with kafka.running():
        after = kafka.values(len(written) + APPENDED)
    assert after == [*written, *(f"new{number}".encode() for number in range(APPENDED))]
    assert values_in(log_dir, tmp_path / "back") == after
    back = replica_of_t(log_dir)
    assert (back.log_end_offset, back.damages, back.directory.was_clean) == (len(after), (), True)


def replica_of_t(directory: Path) -> StoredReplica:
    partitions = read_all(directory).partitions
    return next(one for part in partitions for one in part.replicas if one.place.topic_partition == T)


def values_in(directory: Path, copy: Path) -> list[bytes | None]:
    """As Highwater's own log reads them after a kill."""
    shutil.copytree(directory / str(T), copy / str(T))
    log, _ = Log.open(copy / str(T), T, TopicConfig(), Disk(copy, sync=False), clean=False)
    return [record.value for _, record in log.records()]
