"""Other projects' admin clients at a live cluster: their requests are carried out, and they can read the answers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import IncompatibleBrokerVersion, KafkaTimeoutError
from serving import serving
from verdicts import expect_nothing_broken

from replica.rules import PROFILES
from tests.soak import one_in
from tests.waiting import wait_for


@pytest.mark.soak
def test_kafka_python(tmp_path: Path) -> None:
    from kafka.admin import ConfigResource

    with serving(tmp_path, "--topic", "orders:1:3") as served:
        admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
        admin.create_topics({"t": {"num_partitions": 2, "replication_factor": 3}})
        admin.create_partitions({"t": 3})
        wait_for(lambda: len(admin.describe_topics(["t"])[0]["partitions"]) == 3)
        assert [one["broker_id"] for one in admin.describe_cluster()["brokers"]] == [1, 2, 3]
        admin.alter_configs([ConfigResource("TOPIC", "t", configs={"retention.ms": "5"})])
        configs = admin.describe_configs([ConfigResource("TOPIC", "t")])["topic"]["t"]
        assert configs["retention.ms"]["value"] == "5"
        t0 = TopicPartition("t", 0)
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        for number in range(20):
            producer.send("t", value=f"x{number}".encode(), partition=0)
        producer.flush(10)
        producer.close()
        assert admin.delete_records({t0: 5})[t0]["low_watermark"] == 5
        consumer = KafkaConsumer(bootstrap_servers=served.bootstrap)
        assert (consumer.beginning_offsets([t0]), consumer.end_offsets([t0])) == ({t0: 5}, {t0: 20})
        consumer.close()
        assert len(admin.describe_producers([t0])[t0].active_producers) == 1
        (quorum,) = admin.describe_metadata_quorum()["topics"][0]["partitions"]
        assert [one["replica_id"] for one in quorum["observers"]] == [1, 2, 3]
        assert len(admin.describe_log_dirs()) == 3
        admin.delete_topics(["t"])
        wait_for(lambda: "t" not in admin.list_topics())
        admin.close()
        served.stop()
    expect_nothing_broken(served.summary)
    assert served.summary["records"]["lost"] == []


@pytest.mark.soak
def test_the_zookeeper_era(tmp_path: Path) -> None:
    """The broker that is the controller creates topics, and every broker those that a metadata request names."""
    with serving(tmp_path, "--topic", "orders:1:3", "--profile", "kafka-2.0") as served:
        admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
        (made,) = admin.create_topics({"t": {"num_partitions": 2, "replication_factor": 3}})["topics"]
        assert made["error_code"] == 0
        wait_for(lambda: len(admin.describe_topics(["t"])[0]["partitions"]) == 2)
        # A broker of 2.0 has no defaults for a new topic to ask for (KIP-464, 2.4), and the client knows it.
        with pytest.raises(IncompatibleBrokerVersion, match=r"\(2, 0\)"):
            admin.create_topics({"t": {}}, raise_errors=False)
        (again,) = admin.create_topics({"t": {"num_partitions": 1, "replication_factor": 1}}, raise_errors=False)[
            "topics"
        ]
        assert again["error_code"] == 36
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        assert producer.send("made-by-asking", b"x").get(20).offset == 0
        producer.close()
        admin.close()
        served.stop()
    expect_nothing_broken(served.summary)


def test_librdkafka(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    from confluent_kafka import ElectionType, Producer
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
        NewTopic,
        OffsetSpec,
    )

    def results(futures: dict[Any, Any]) -> dict[Any, Any]:
        return {key: future.exception(20) or future.result() for key, future in futures.items()}

    with serving(tmp_path, "--topic", "orders:1:3") as served:
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        made = results(admin.create_topics([NewTopic("t", 2, 3), NewTopic("a/b", 1, 1), NewTopic("u", 1, 9)]))
        errors = {name: error and error.args[0].name() for name, error in made.items()}
        assert errors == {"t": None, "a/b": "TOPIC_EXCEPTION", "u": "INVALID_REPLICATION_FACTOR"}
        assert results(admin.create_partitions([NewPartitions("t", 3)])) == {"t": None}
        resource = ConfigResource("topic", "t")
        resource.add_incremental_config(
            ConfigEntry("segment.bytes", "4096", incremental_operation=AlterConfigOpType.SET)
        )
        results(admin.incremental_alter_configs([resource]))
        (told,) = results(admin.describe_configs([ConfigResource("topic", "t")])).values()
        assert (told["segment.bytes"].value, told["segment.bytes"].source) == ("4096", 1)
        producer = Producer({"bootstrap.servers": served.bootstrap, "enable.idempotence": True})
        for number in range(20):
            producer.produce("t", f"x{number}".encode(), partition=0)
        assert producer.flush(20) == 0
        deleted = results(admin.delete_records([Place("t", 0, 5), Place("t", 1, 5)]))
        assert [getattr(one, "low_watermark", None) for one in deleted.values()] == [5, None]
        offsets = results(admin.list_offsets({Place("t", 0): OffsetSpec.earliest()}))
        assert [one.offset for one in offsets.values()] == [5]
        assert admin.elect_leaders(ElectionType.PREFERRED).result() == {}
        assert len(admin.describe_cluster().result().nodes) == 3
        assert results(admin.delete_topics(["t"])) == {"t": None}
        lone = Producer({"bootstrap.servers": served.bootstrap})
        lone.produce("made-by-asking", b"x")
        assert lone.flush(20) == 0
        served.stop()
    expect_nothing_broken(served.summary)


@pytest.mark.soak
def test_times_of_records(tmp_path: Path) -> None:
    """A topic whose records have the leader's time; and one that takes none from far ahead (KIP-1030)."""
    pytest.importorskip("confluent_kafka")
    from confluent_kafka import Consumer, Producer
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient, NewTopic

    with serving(tmp_path, "--brokers", "1") as served:
        settings: dict[str, str | int | float | bool] = {"bootstrap.servers": served.bootstrap}
        by_leader = NewTopic("stamped", 1, 1, config={"message.timestamp.type": "LogAppendTime"})
        admin = AdminClient(settings)
        for future in admin.create_topics([by_leader, NewTopic("plain", 1, 1)]).values():
            future.result(20)
        told: list[tuple[Any, Any]] = []
        producer, long_ago = Producer({**settings, "compression.type": "gzip"}), 1_000_000_000_000
        ahead = int(time.time() * 1000) + 7_200_000
        for topic, at_ms in (("stamped", long_ago), ("plain", long_ago), ("plain", ahead)):
            producer.produce(
                topic, b"x", timestamp=at_ms, on_delivery=lambda error, message: told.append((error, message.offset()))
            )
            producer.flush(20)
        assert [error and error.name() for error, _ in told] == [None, None, "INVALID_TIMESTAMP"]
        consumer = Consumer({**settings, "group.id": "g"})
        consumer.assign([Place("stamped", 0, 0)])
        kind, at_ms = consumer.poll(20).timestamp()
        assert (kind, abs(at_ms - time.time() * 1000) < 300_000) == (2, True)
        consumer.assign([Place("plain", 0, 0)])
        assert consumer.poll(20).timestamp() == (1, long_ago)
        consumer.close()
        served.stop()
    expect_nothing_broken(served.summary)


@pytest.mark.soak
def test_aiokafka(tmp_path: Path) -> None:
    aio = pytest.importorskip("aiokafka.admin")

    async def play(bootstrap: str) -> None:
        admin = aio.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        answer = await admin.create_topics([aio.NewTopic("t", 2, 3)])
        assert [error[1] for error in answer.topic_errors] == [0]
        answer = await admin.delete_topics(["t"])
        assert [error[1] for error in answer.topic_error_codes] == [0]
        await admin.close()

    with serving(tmp_path, "--topic", "orders:1:3") as served:
        asyncio.run(play(served.bootstrap))
        served.stop()
    expect_nothing_broken(served.summary)


@pytest.mark.soak
@pytest.mark.parametrize("profile", one_in(2, ["kafka-4.1", "kafka-2.7"]))
def test_no_more_partitions_than_max_partitions(tmp_path: Path, profile: str) -> None:
    """POLICY_VIOLATION, as from a CreateTopicPolicy, with the limit in its message; nothing is half-made."""
    words = ("--topic", "orders:2:3", "--profile", profile, "--max-partitions", "5")
    with serving(tmp_path, *words) as served:
        admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)

        def create(validate_only: bool = False, **partitions: int) -> dict[str, tuple[int, str]]:
            wishes = {name: {"num_partitions": count, "replication_factor": 3} for name, count in partitions.items()}
            answer = admin.create_topics(wishes, validate_only=validate_only, raise_errors=False)
            return {one["name"]: (one["error_code"], one["error_message"]) for one in answer["topics"]}

        refused = (44, "the cluster has 2 partitions, and 4 more would exceed max.partitions=5")
        assert create(large=4) == create(large=4, validate_only=True) == {"large": refused}
        made = create(t=2, u=2)
        assert sorted(code for code, _ in made.values()) == [0, 44]
        (name,) = (name for name, (code, _) in made.items() if code == 0)
        wait_for(lambda: name in admin.list_topics())
        if PROFILES[profile].membership == "registration":
            (grown,) = admin.create_partitions({name: 4}, raise_errors=False).results
            assert grown.error_code == 44 and "max.partitions=5" in grown.error_message
        assert [code for code, _ in create(last=1).values()] == [0]
        wait_for(lambda: "last" in admin.list_topics())
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, max_block_ms=2000)
        with pytest.raises(KafkaTimeoutError):
            producer.send("made-by-asking", b"x")
        producer.close()
        assert sorted(admin.list_topics()) == sorted(["orders", name, "last"])
        admin.close()
        served.stop()
    expect_nothing_broken(served.summary)
