"""The two fixtures of the shop's tests, with librdkafka's mock cluster in the place of Highwater.

It stands in the shop's folder of tests. What the mock cluster does not have is missing here, too.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer


class MockCluster:
    def __init__(self, number: int = 0) -> None:
        self._client = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0})
        brokers = self._client.list_topics(timeout=10).brokers.values()
        self.bootstrap_servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        self._number = number

    def name(self, name: str) -> str:
        return f"{name}-t{self._number}"

    def topic(self, name: str = "orders", partitions: int = 1) -> str:
        """A topic, which the first client that asks for it makes; the number of its partitions is always four."""
        return self.name(name)


@pytest.fixture
def kafka() -> Iterator[MockCluster]:
    yield MockCluster()


@pytest.fixture
def kafka_cluster() -> Iterator[MockCluster]:
    yield MockCluster()
