"""Features for unmodified clients: every acks with every compression, idempotence, groups; and brokers that die.

One cluster for all of them. librdkafka, kafka-python and aiokafka always run; kcat and KafkaJS where they are there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clients import CLIENTS, Reader
from serving import Served, serving
from verdicts import expect_nothing_broken

from replica.log.batches.records import batches
from scenarios.serve.control_place import ask, find_cluster
from tests.soak import one_in
from tests.waiting import wait_for as wait_at_most

wait_for = partial(wait_at_most, within_s=40)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "all")
SETTINGS = (
    "cluster.config.offsets.topic.num.partitions=4",
    "cluster.config.broker.session.timeout.ms=1000",
    "cluster.config.broker.heartbeat.interval.ms=100",
)
each_client = pytest.mark.parametrize("name", CLIENTS)
a_client = pytest.mark.parametrize("name", one_in(len(CLIENTS), CLIENTS))
"""The first in `make test`, the others as soaks."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """At the end no acked record of any client may be missing."""
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    with serving(tmp_path_factory.mktemp("serve"), "--topic", "t:1:3", *settings) as cluster:
        yield cluster
        cluster.stop()
        expect_nothing_broken(cluster.summary)


def order(served: Served, *words: str) -> dict[str, Any]:
    """As `highwater fault` gives it."""
    request = {"list": True} if words == ("list",) else {"words": list(words), "for": None, "as": None}
    answer = ask(find_cluster(served.record, served.record), request)
    assert answer["ok"], answer
    return answer


def make_topic(served: Served, topic: str, partitions: int = 1) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    config = {"min.insync.replicas": "2"}
    (made,) = admin.create_topics([NewTopic(topic, partitions, 3, config=config)]).values()
    made.result(20)
    wait_for(lambda: all_in_sync(served, topic))


def all_in_sync(served: Served, topic: str = "") -> bool:
    """Of a topic, or of all topics; and every broker knows its role in every partition."""
    told = order(served, "list")["state"]["partitions"]
    parts = [one for one in told if one["partition"].rpartition("-")[0] == topic or not topic]
    return bool(parts) and all(
        len(one["isr"]) == 3 and one["leader"] and all(replica["role"] for replica in one["replicas"]) for one in parts
    )


def read(reader: Reader, count: int) -> list[bytes]:
    values: list[bytes] = []

    def enough() -> bool:
        values.extend(reader.poll())
        return len(values) >= count

    wait_for(enough)
    return values


def codecs_in_logs(served: Served, topic: str) -> dict[str, list[str]]:
    """By broker: the compression of every batch of partition 0, as its files have it now."""
    return {
        broker: [
            header.codec
            for file in sorted(served.record.glob(f".run-*/logs/{broker}/{topic}-0/*.log"))
            for _, header in batches(file.read_bytes())
        ]
        for broker in ("b1", "b2", "b3")
    }


@pytest.mark.soak
@each_client
@pytest.mark.parametrize("codec", one_in(5, CODECS))
def test_every_acks_with_every_compression_which_is_stored_as_it_came(served: Served, name: str, codec: str) -> None:
    client, topic = CLIENTS[name], f"{name}-{codec}"
    make_topic(served, topic)
    sent = []
    for acks in ACKS:
        writer = client.writer(served.bootstrap, acks, codec)
        for number in range(20):
            sent.append(f"acks={acks} {number} {'x' * 100}".encode())
            writer.send(topic, sent[-1], 0)
        writer.close()
    reader = client.assigned(served.bootstrap, topic, [0])
    assert sorted(read(reader, len(sent))) == sorted(sent)
    reader.close()
    for broker, codecs in codecs_in_logs(served, topic).items():
        assert set(codecs) == {codec}, broker


@pytest.mark.soak
@each_client
def test_a_group_shares_goes_on_and_rebalances(served: Served, name: str) -> None:
    client, topic = CLIENTS[name], f"{name}-group"
    make_topic(served, topic, partitions=4)
    writer = client.writer(served.bootstrap, "all", "none", idempotent=True)
    for number in range(40):
        writer.send(topic, str(number).encode(), number % 4)
    writer.close()
    first = client.grouped(served.bootstrap, topic, name)
    seen = [int(value) for value in read(first, 40)]
    assert sorted(seen) == list(range(40)) and first.parts() == [0, 1, 2, 3]
    first.commit()
    # Both have to poll while they settle.
    second = client.grouped(served.bootstrap, topic, name)
    wait_for(lambda: not (first.poll() + second.poll()) and len(first.parts()) == len(second.parts()) == 2)
    assert sorted(first.parts() + second.parts()) == [0, 1, 2, 3]
    first.close()
    wait_for(lambda: not second.poll() and second.parts() == [0, 1, 2, 3])
    second.close()


@pytest.mark.soak
@a_client
def test_leader_and_coordinator_die_in_mid_stream(served: Served, name: str) -> None:
    """Nothing acked is lost, nothing is there twice; the group reads on."""
    client, topic, count = CLIENTS[name], f"{name}-failover", 400
    make_topic(served, topic)
    wait_for(lambda: all_in_sync(served))
    reader = client.grouped(served.bootstrap, topic, topic)
    writer = client.writer(served.bootstrap, "all", "none", idempotent=True)
    trouble: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(count):
                writer.send(topic, str(number).encode(), 0)
                time.sleep(0.005)
            writer.close()
        except BaseException as error:
            trouble.append(error)

    stream = threading.Thread(target=write)
    stream.start()
    seen = [int(value) for value in read(reader, count // 8)]
    reader.commit()
    state = order(served, "list")["state"]
    (leader,) = [one["leader"] for one in state["partitions"] if one["partition"] == f"{topic}-0"]
    order(served, "kill", leader)
    seen += [int(value) for value in read(reader, count // 4)]
    order(served, "start", leader)
    wait_for(lambda: all_in_sync(served))
    # One of the two is dead already if one broker was both.
    told = order(served, "kill", f"coordinator({topic})")
    coordinator = told["what"].split()[0]
    seen += [int(value) for value in read(reader, count - len(seen))]
    stream.join(60)
    assert not stream.is_alive() and not trouble, trouble
    order(served, "start", coordinator)
    wait_for(lambda: all_in_sync(served))
    assert set(seen) == set(range(count))
    wait_for(lambda: _commits(reader))
    reader.close()
    whole = client.assigned(served.bootstrap, topic, [0])
    assert [int(value) for value in read(whole, count)] == list(range(count))
    assert whole.poll() == []
    whole.close()


def _commits(reader: Reader) -> bool:
    """A client may get an error that makes it look for its coordinator a second time."""
    try:
        reader.commit()
    except Exception:
        return False
    return True


# ------------------------------------------------------------------------------------------- where they are installed


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed here (apt install kcat)")
@pytest.mark.parametrize("codec", one_in(5, CODECS))
def test_kcat(served: Served, codec: str) -> None:
    topic, at = f"kcat-{codec}", ["kcat", "-b", served.bootstrap]
    make_topic(served, topic)
    values = [f"{acks} {number} {'x' * 100}" for acks in ACKS for number in range(10)]
    for acks in ACKS:
        text = "\n".join(value for value in values if value.startswith(acks))
        words = ["-P", "-t", topic, "-z", codec, "-X", f"acks={acks}"]
        subprocess.run([*at, *words], input=text, text=True, check=True, timeout=60)
    wait_for(lambda: set(codecs_in_logs(served, topic)["b1"]) == {codec})
    words = ["-C", "-t", topic, "-o", "beginning", "-e", "-q"]
    done = subprocess.run([*at, *words], capture_output=True, text=True, check=True, timeout=60)
    assert sorted(done.stdout.split("\n")[:-1]) == sorted(values)


def kafkajs() -> Path | None:
    """The folder of node modules that has it: $NODE_PATH, else beside this repository."""
    places = [*os.environ.get("NODE_PATH", "").split(os.pathsep), str(Path(__file__).parents[2] / "node_modules")]
    found = [Path(place) for place in places if place and (Path(place) / "kafkajs").is_dir()]
    return found[0] if found and shutil.which("node") else None


@pytest.mark.soak
@pytest.mark.skipif(kafkajs() is None, reason="KafkaJS is not installed here (npm install kafkajs, NODE_PATH)")
def test_kafkajs(served: Served) -> None:
    make_topic(served, "js", partitions=2)
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("kafkajs_client.js")), served.bootstrap, "js"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "NODE_PATH": str(kafkajs())},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    sent = [f"{acks} {codec} {number}" for acks in (0, 1, -1) for codec in (0, 1) for number in range(10)]
    assert sorted(told["read"]) == sorted([*sent, *(f"idempotent {number}" for number in range(10))])
    assert told["committed"] == len(told["read"]) and told["deleted"]
    assert told["described"] == {"partitions": 3, "retention": "5000"}
