"""What an operator asks of a live cluster with `highwater fault`, and what real clients see of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Place
from kafka.errors import ProducerFencedError
from serving import fault, serving
from verdicts import expect_nothing_broken

from tests.soak import one_in
from tests.waiting import wait_for

WORLDS = pytest.mark.parametrize("world", one_in(2, [(), ("--processes",)]), ids=["tasks", "processes"])


def reader(bootstrap: str, **config: object) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **config
    )


def read(consumer: KafkaConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    for record in consumer:
        found.append(record.value)
        if len(found) == count:
            break
    return found


@pytest.mark.soak
@WORLDS
def test_a_group_reads_again_after_its_offsets_were_reset(tmp_path: Path, world: tuple[str, ...]) -> None:
    with serving(tmp_path, *world, "--topic", "orders:1:3") as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        for number in range(5):
            producer.send("orders", b"r%d" % number).get(30)
        first = reader(served.bootstrap, group_id="billing", enable_auto_commit=False)
        first.subscribe(["orders"])
        assert read(first, 5) == [b"r0", b"r1", b"r2", b"r3", b"r4"]
        first.commit()
        refused = fault(tmp_path, "reset_offsets", "billing", "orders", "earliest", code=1)
        assert "UNKNOWN_MEMBER_ID" in refused.stderr
        first.close()
        fault(tmp_path, "reset_offsets", "billing", "orders", "-2")
        second = reader(served.bootstrap, group_id="billing", enable_auto_commit=False)
        assert second.committed(Place("orders", 0)) == 3
        second.subscribe(["orders"])
        assert read(second, 2) == [b"r3", b"r4"]
        second.close()
        fault(tmp_path, "--yaml", "{delete_records: {partition: orders-0, offset: 2}}")
        fault(tmp_path, "reset_offsets", "billing", "orders", "0")
        third = reader(served.bootstrap, group_id="billing")
        assert third.committed(Place("orders", 0)) == 2
        third.close()
        producer.close()
        served.stop()
    expect_nothing_broken(served.summary)


@pytest.mark.soak
@WORLDS
def test_readers_go_on_when_an_open_transaction_is_aborted(tmp_path: Path, world: tuple[str, ...]) -> None:
    """Its producer is gone without a word, and the transaction would time out in 13 minutes."""
    with serving(tmp_path, *world, "--topic", "t:1:3") as served:
        gone = KafkaProducer(
            bootstrap_servers=served.bootstrap, transactional_id="gone", transaction_timeout_ms=800_000
        )
        gone.init_transactions()
        gone.begin_transaction()
        gone.send("t", b"never to be read").get(30)
        other = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        other.send("t", b"waits").get(30)
        consumer = reader(served.bootstrap, isolation_level="read_committed")
        consumer.assign([Place("t", 0)])
        assert consumer.poll(1500) == {}
        assert (
            "no open transaction that starts at offset 1"
            in fault(tmp_path, "abort_transaction", "t-0", "1", code=1).stderr
        )
        fault(tmp_path, "abort_transaction", "t-0")
        assert read(consumer, 1) == [b"waits"]
        fault(tmp_path, "fence_producer", "gone")
        with pytest.raises(ProducerFencedError):
            gone.commit_transaction()
        gone.close(timeout=0)
        consumer.close()
        other.close()
        served.stop()
    expect_nothing_broken(served.summary)


@pytest.mark.soak
def test_only_the_next_request_is_held(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "t:1:1", brokers=1) as served:
        one, two = (
            KafkaProducer(bootstrap_servers=served.bootstrap, client_id=name, acks="all", request_timeout_ms=60_000)
            for name in ("one", "two")
        )
        for producer in (one, two):
            producer.send("t", b"before").get(30)
        fault(tmp_path, "hold", "client/one,client/two", "b1", "Produce", "request", "1", "--as", "next")
        sent = [producer.send("t", b"one is held") for producer in (one, two)]
        assert wait_for(lambda: [future.is_done for future in sent], holds=any) in ([True, False], [False, True])
        fault(tmp_path, "release", "next")
        assert sorted(future.get(30).offset for future in sent) == [2, 3]
        for producer in (one, two):
            producer.close()
        served.stop()
    expect_nothing_broken(served.summary)
