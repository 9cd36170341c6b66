"""Which broker each followed partition is fetched from: one fetcher per source broker, or num.replica.fetchers of them.

source: AbstractFetcherManager.scala, ReplicaFetcherManager.scala
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cluster.broker.replicas.fetcher import ReplicaFetcher
from cluster.broker.replicas.fetcher_context import FetcherContext
from cluster.broker.replicas.partition import Partition
from controller.image import PartitionRegistration
from replica.ids import BrokerId, TopicPartition


class ReplicaFetchers:
    """Partitions are added when a leader is known and removed when it changes."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._per_source = context.config.num_replica_fetchers
        self._fetchers: dict[tuple[BrokerId, int], ReplicaFetcher] = {}

    def add(self, partition: Partition, registration: PartitionRegistration, now_us: int) -> None:
        """Fetch `partition` from its new leader from now on, if the metadata says where that broker is."""
        source = self._context.cache.image.brokers.get(registration.leader)
        if source is None:
            return
        key = (source.broker_id, fetcher_number(partition.topic_partition, self._per_source))
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = ReplicaFetcher(self._context, source)
        fetcher.add(partition, registration, now_us)

    def follow_on(self, name: TopicPartition, registration: PartitionRegistration, now_us: int) -> None:
        """The leader stays, perhaps in a new epoch, and the fetcher of `name` goes on as it is."""
        for (source, _), fetcher in self._fetchers.items():
            if source == registration.leader:
                fetcher.follow_on(name, registration, now_us)

    def remove(self, name: TopicPartition) -> None:
        """Stop fetching `name`. The fetcher stays: the partition may come back to it in the same change of metadata,
        and then its request in flight has to be answered first, as any other."""
        for fetcher in self._fetchers.values():
            fetcher.remove(name)

    def resize(self, per_source: int, now_us: int) -> None:
        """per_source: num.replica.fetchers; if it has changed, each partition moves to its new fetcher.

        source: AbstractFetcherManager.resizeThreadPool
        """
        if per_source == self._per_source:
            return
        self._per_source = per_source
        followed = [one.partition for fetcher in self._fetchers.values() for one in fetcher.partitions.values()]
        for partition in followed:
            self.remove(partition.topic_partition)
        for partition in followed:
            if partition.registration is not None:
                self.add(partition, partition.registration, now_us)
        self.close_idle()

    def close_idle(self) -> None:
        """A fetcher without partitions closes its connection. source: shutdownIdleFetcherThreads"""
        for key, fetcher in list(self._fetchers.items()):
            if fetcher.is_idle:
                fetcher.close()
                del self._fetchers[key]

    def sources(self, among: Sequence[TopicPartition] | None = None) -> Iterator[tuple[TopicPartition, BrokerId]]:
        """(partition, broker it is fetched from)     among: None for all"""
        for (source, _), fetcher in self._fetchers.items():
            for name in fetcher.partitions if among is None else among:
                if name in fetcher.partitions:
                    yield name, source


def fetcher_number(name: TopicPartition, fetchers_per_source: int) -> int:
    """Which of the fetchers of one source gets this partition. source: AbstractFetcherManager.getFetcherId"""
    if fetchers_per_source == 1:
        return 0
    java_hash = 0
    for unit in memoryview(name.topic.encode("utf-16-le")).cast("H"):
        java_hash = 31 * java_hash + unit
    signed = (31 * java_hash + name.partition + 2**31) % 2**32 - 2**31
    return 0 if signed == -(2**31) else abs(signed) % fetchers_per_source
