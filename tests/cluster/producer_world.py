"""A producer among scripted brokers, and the records that it sends."""

from __future__ import annotations

from typing import Any

from fake_cluster import (
    SECOND,
    TOPIC,
    FakeBroker,
    FakeCluster,
    Harness,
    client_base,
)

from cluster.client.producer.producer import ProducerCore, ProducerRecord, producer_config_from
from replica.rules import DEFAULT_PROFILE, PROFILES, Rules


def cluster_of(brokers: int = 2, leaders: dict[int, tuple[int, int]] | None = None) -> FakeCluster:
    cluster = FakeCluster(leaders or {0: (1, 0)})
    for node_id in range(1, brokers + 1):
        cluster.broker(node_id)
    return cluster


def producer(
    cluster: FakeCluster, seed: int = 1, bootstrap: int = 1, rules: Rules = PROFILES[DEFAULT_PROFILE], **config: Any
) -> Harness:
    keys = {name.replace("_", "."): value for name, value in config.items()}

    def make(trace: Any) -> ProducerCore:
        hosts = [(f"b{node_id}", 9092) for node_id in range(1, bootstrap + 1)]
        settings = producer_config_from(keys)
        return ProducerCore(client_base("p1", trace, seed, bootstrap=hosts), settings, TOPIC, rules)

    return Harness(make, cluster)


def record(number: int, *, partition: int | None = 0, key: bytes | None = None, size: int = 0) -> ProducerRecord:
    value = f"r{number} ".encode().ljust(size, b"x")
    return ProducerRecord(TOPIC, partition, key, value, f"r{number}")


def send(harness: Harness, *numbers: int, size: int = 0, **kwargs: Any) -> None:
    for number in numbers:
        harness.call(lambda now_us, n=number: harness.core.send(record(n, size=size), now_us, **kwargs))


def warm_up(harness: Harness) -> None:
    """A connection to every leader, and the brokers know the producer: r900, r901, ... one per partition."""
    for partition in harness.cluster.leaders:
        harness.call(lambda now_us, p=partition: harness.core.send(record(900 + p, partition=p), now_us))
    harness.run_until(1 * SECOND)
    harness.rows.clear()
    harness.actions.clear()


def stored(broker: FakeBroker, partition: int = 0) -> list[str]:
    """The log without the warm-up."""
    return [name for name in broker.names(partition) if not name.startswith("r90")]


def names_of(events: list[Any]) -> list[str]:
    return [event.record for event in events]
