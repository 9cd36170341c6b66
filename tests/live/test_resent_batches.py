"""Clients that send a batch again, or the same bytes to many partitions: nothing is lost, so nothing is called lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from clients import CLIENTS
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from raw_client import RawClient, sequenced
from serving import Served, serving
from test_fault import fault
from verdicts import expect_nothing_broken

from replica.log.batches.records import build_batch
from tests.soak import one_in
from tests.waiting import wait_for

WORLDS = pytest.mark.parametrize("world", one_in(2, [(), ("--processes",)]), ids=["tasks", "processes"])


def nothing_is_wrong(served: Served) -> dict[str, list[str]]:
    """Stops the cluster. Returns the logs."""
    served.stop()
    summary = served.summary
    expect_nothing_broken(summary)
    assert summary["records"]["lost"] == [] and summary["records"]["duplicated"] == []
    logs: dict[str, list[str]] = summary["logs"]
    return logs


@WORLDS
def test_a_batch_is_sent_again_after_its_ack(tmp_path: Path, world: tuple[str, ...]) -> None:
    """On its own connection, on others of the same name, of another name and of none, and with later ones between."""
    with serving(tmp_path, "--topic", "t:2:1", *world, brokers=1) as served:
        with RawClient.at(served.bootstrap) as client:
            producer = client.producer_id()
            first = {0: sequenced(producer, 0, "hello-1", "hello-2"), 1: sequenced(producer, 0, "hello-1", "hello-2")}
            for _ in range(3):
                assert client.produce("t", dict(first)) == [(0, "NONE"), (0, "NONE")]
            for number in range(2, 6):
                assert client.produce("t", {0: sequenced(producer, number, "hello-1")}) == [(number, "NONE")]
            for name in ("raw", "other", None):
                with RawClient.at(served.bootstrap, client_id=name) as other:
                    assert other.produce("t", dict(first)) == [(0, "NONE"), (0, "NONE")]
            assert client.produce("t", {0: sequenced(producer, 6, "the-last")}) == [(6, "NONE")]
        logs = nothing_is_wrong(served)
    # Names that came twice are numbered: the words are those of different records.
    assert logs["t-0"] == ["hello-1", "hello-2", "hello-1~3", "hello-1~4", "hello-1~5", "hello-1~6", "the-last"]
    assert logs["t-1"] == ["hello-1~2", "hello-2~2"]
    assert len(served.summary["records"]["acked"]) == 9


NAMES = ("alpha", "beta", "gamma")
FAILOVER = """
schema: 1
id: other-names
title: A cluster whose nodes have other names
seed: 1
duration: 10s
cluster:
  controllers: [quorum]
  brokers: {alpha: {}, beta: {}, gamma: {}}
  config: {broker.session.timeout.ms: 1500, broker.heartbeat.interval.ms: 200}
topics:
  t: {partitions: {0: [gamma, beta, alpha]}, config: {min.insync.replicas: 2}}
workloads: {}
timeline: []
expect: {}
"""


@pytest.mark.soak
@WORLDS
def test_a_batch_is_sent_again_to_the_next_leader(tmp_path: Path, world: tuple[str, ...]) -> None:
    file = tmp_path / "failover.yaml"
    file.write_text(FAILOVER)
    with serving(tmp_path, "--scenario", str(file), *world) as served:
        admin = AdminClient({"bootstrap.servers": served.bootstrap})

        def leader() -> int:
            return int(admin.list_topics("t").topics["t"].partitions[0].leader)

        def is_written(batch: bytearray, offset: int) -> bool:
            """By the leader of this moment: on a slow machine brokers are given up that were not killed."""
            number = leader()
            if number in (-1, dead):
                return False
            with RawClient.at(served.bootstrap, number - 1) as client:
                return client.produce("t", {0: batch}) == [(offset, "NONE")]

        dead = -1
        with RawClient.at(served.bootstrap) as client:
            producer = client.producer_id()
        wait_for(lambda: is_written(sequenced(producer, 0, "a", "b"), 0))
        dead = leader()
        fault(tmp_path, "kill", NAMES[dead - 1])
        wait_for(lambda: leader() not in (dead, -1))
        wait_for(lambda: is_written(sequenced(producer, 0, "a", "b"), 0))
        wait_for(lambda: is_written(sequenced(producer, 2, "c"), 2))
        logs = nothing_is_wrong(served)
    assert logs == {"t-0": ["a", "b", "c"]} and served.summary["records"]["acked"] == ["a", "b", "c"]


@pytest.mark.soak
def test_whoever_loses_the_producers_epoch_and_numbers_anew(tmp_path: Path) -> None:
    """After a refusal the records come under other numbers (KIP-360): they are the same records."""
    with serving(tmp_path, "--topic", "t:1:1", brokers=1) as served:
        with RawClient.at(served.bootstrap) as client:
            number, epoch = client.producer_id()
            assert client.produce("t", {0: sequenced((number, epoch), 0, "a")}) == [(0, "NONE")]
            ((_, error),) = client.produce("t", {0: sequenced((number, epoch), 5, "b", "c")})
            assert error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
            assert client.produce("t", {0: sequenced((number, epoch + 1), 0, "b", "c")}) == [(1, "NONE")]
        logs = nothing_is_wrong(served)
    assert logs == {"t-0": ["a", "b", "c"]}
    assert served.summary["records"]["acked"] == ["a", "b", "c"] and served.summary["records"]["sent"] == 3


@pytest.mark.soak
def test_without_idempotence_it_is_stored_twice(tmp_path: Path) -> None:
    """The client leaves before its answer and comes again: stored twice, and said so."""
    with serving(tmp_path, "--topic", "t:1:1", brokers=1) as served:
        batch = build_batch([(None, b"a")], timestamp_ms=5)
        for place in range(2):
            with RawClient.at(served.bootstrap) as client:
                assert client.produce("t", {0: bytearray(batch)}, acks=1) == [(place, "NONE")]
        with RawClient.at(served.bootstrap) as one, RawClient.at(served.bootstrap) as other:
            for place, client in ((2, one), (3, other)):  # Side by side, and answered: two clients of one name.
                client.producer_id()
                assert client.produce("t", {0: build_batch([(None, b"b")], timestamp_ms=6)}) == [(place, "NONE")]
        served.stop()
    assert served.summary["records"]["duplicated"] == ["a"] and served.summary["records"]["lost"] == []
    assert served.summary["logs"] == {"t-0": ["a", "a", "b", "b~2"]}
    assert not served.summary["our_bug"]


@pytest.mark.soak
@WORLDS
def test_clients_of_one_name_that_say_the_same_are_several(tmp_path: Path, world: tuple[str, ...]) -> None:
    with serving(tmp_path, "--topic", "t:1:1", *world, brokers=1) as served:
        settings = {"bootstrap.servers": served.bootstrap, "client.id": "twin", "linger.ms": 0}
        producers = [Producer({**settings, "enable.idempotence": number % 2 == 0}) for number in range(4)]
        for number, producer in enumerate(producers):
            producer.produce("t", f"here-{number}".encode())
            assert producer.flush(20) == 0
        for number in range(300):
            for producer in producers:
                producer.produce("t", b"same", timestamp=1_700_000_000_000 + number // 5)
                producer.poll(0)
        assert sum(producer.flush(20) for producer in producers) == 0
        logs = nothing_is_wrong(served)
    assert len(logs["t-0"]) == len(served.summary["records"]["acked"]) == 4 + 4 * 300


@pytest.mark.soak
@WORLDS
def test_the_same_bytes_to_many_partitions_and_then_they_are_deleted(tmp_path: Path, world: tuple[str, ...]) -> None:
    """The shape of confluent-kafka's test_delete_records_multiple_topics_and_partitions."""
    with serving(tmp_path, "--topic", "kept:1:1", *world, brokers=1) as served:
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        topics = ("x", "y")
        for made in admin.create_topics([NewTopic(name, 3, 1) for name in topics]).values():
            made.result(20)
        producer = Producer({"bootstrap.servers": served.bootstrap})
        with RawClient.at(served.bootstrap) as client:
            same = build_batch([(None, b"same"), (None, b"again")], timestamp_ms=5)
            for name in topics:
                wait_for(lambda name=name: len(admin.list_topics(name).topics[name].partitions) == 3)
                for number in range(3):
                    wait_for(
                        lambda name=name, number=number: client.produce(name, {number: bytearray(same)})[0][1] == "NONE"
                    )
                    producer.produce(name, b"sample", partition=number)
        assert producer.flush(20) == 0
        places = [Place(name, number, 2) for name in topics for number in (0, 2)]
        assert {done.result(20).low_watermark for done in admin.delete_records(places).values()} == {2}
        ends = admin.list_offsets({Place("x", 1): OffsetSpec.earliest()})
        assert [found.result(20).offset for found in ends.values()] == [0]
        admin.delete_topics(["y"])["y"].result(20)
        logs = nothing_is_wrong(served)
    assert {name: len(log) for name, log in logs.items()} == {"kept-0": 0, "x-0": 1, "x-1": 3, "x-2": 1}


@pytest.mark.soak
@WORLDS
def test_topics_that_clients_make_are_in_the_log_too(tmp_path: Path, world: tuple[str, ...]) -> None:
    with serving(tmp_path, "--topic", "t:1:1", *world, brokers=2) as served:
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        admin.create_topics([NewTopic("made", 2, 2)])["made"].result(20)
        producer = Producer({"bootstrap.servers": served.bootstrap, "acks": "all"})
        for number in range(30):
            producer.produce(("made", "by-itself")[number % 2], f"r{number}".encode())
        assert producer.flush(20) == 0
        reader = Consumer(
            {"bootstrap.servers": served.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        reader.subscribe(["made", "by-itself"])
        assert len(reader.consume(30, 20)) == 30
        reader.close()
        logs = nothing_is_wrong(served)
    assert sorted(logs) == ["by-itself-0", "made-0", "made-1", "t-0"]
    assert sorted(name for log in logs.values() for name in log) == sorted(f"r{number}" for number in range(30))
    assert "The log says 30 readable 0 lost 0 duplicated" in " ".join(served.output.split())


@pytest.mark.soak
@pytest.mark.parametrize("name", one_in(3, CLIENTS))
def test_a_topic_is_deleted_and_made_again_under_clients_that_go_on(tmp_path: Path, name: str) -> None:
    """It is recreated as soon as one of them asks for it; records of the old topic are not missing in the new one."""
    with serving(tmp_path, "--topic", "t:1:1", brokers=3) as served:
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        reader = Consumer(
            {"bootstrap.servers": served.bootstrap, "group.id": "g", "auto.offset.reset": "earliest",
             "topic.metadata.refresh.interval.ms": 200}
        )  # fmt: skip
        reader.subscribe(["again"])
        over = threading.Event()
        reads = threading.Thread(target=lambda: [reader.poll(0.1) for _ in iter(over.is_set, True)])
        reads.start()
        for life in range(3):
            admin.create_topics([NewTopic("again", 1, 3)])["again"].result(20)
            wait_for(lambda: "again" in admin.list_topics().topics)
            writer = CLIENTS[name].writer(served.bootstrap, "all", "none", idempotent=True)
            for number in range(20):
                writer.send("again", f"life{life}-{number}".encode(), 0)
                time.sleep(0.005)
            writer.close()
            if life < 2:
                admin.delete_topics(["again"])["again"].result(20)
                wait_for(lambda: "again" not in admin.list_topics().topics)
        over.set()
        reads.join()
        reader.close()
        logs = nothing_is_wrong(served)
    assert logs["again-0"] == [f"life2-{number}" for number in range(20)]
    assert "does not have" not in served.errors


@pytest.mark.soak
def test_a_topic_that_its_producer_makes_again_by_asking_for_it(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "t:1:1", brokers=1) as served:
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        producer = Producer({"bootstrap.servers": served.bootstrap, "topic.metadata.refresh.interval.ms": 100})
        for life in range(3):
            for number in range(20):
                producer.produce("by-asking", f"life{life}-{number}".encode(), partition=0)
            assert producer.flush(30) == 0
            if life < 2:
                admin.delete_topics(["by-asking"])["by-asking"].result(20)
        logs = nothing_is_wrong(served)
    assert logs["by-asking-0"] == [f"life2-{number}" for number in range(20)]
    assert len(served.summary["records"]["acked"]) == 60
    assert "does not have" not in served.errors
