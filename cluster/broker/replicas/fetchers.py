"""Which broker each followed partition is fetched from: one fetcher per source broker, or num.replica.fetchers of them.

source: AbstractFetcherManager.scala, ReplicaFetcherManager.scala
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.blocking_logs import PartitionLocks
from cluster.broker.replicas.fetcher import ReplicaFetcher
from cluster.broker.replicas.manager import ReplicaManager
from cluster.broker.replicas.partition import Partition
from cluster.broker.replicas.replication_quotas import ReplicationQuotas
from cluster.config import BrokerConfig
from controller.image import PartitionRegistration
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicPartition
from replica.log.broker_logs import BrokerLogs

# ------------------------------------------------------------------------------------------------------ fetcher context
#
# State that the fetchers of a broker share.

FIRST_FETCH_WITH_SESSIONS = 7
FIRST_FETCH_WITH_LEADER_EPOCH = 9
FIRST_FETCH_WITH_DIVERGENCE = 12
FIRST_FETCH_WITH_BROKER_EPOCH = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherContext:
    """Handed to each of them.

    era_fetch_version: the newest that brokers of the era offer     replicated_us: see CpuTimes
    """

    base: BrokerBase
    locks: PartitionLocks
    replicas: ReplicaManager
    logs: BrokerLogs
    quotas: ReplicationQuotas
    replicated_us: int
    era_fetch_version: int
    broker_epoch: Callable[[], BrokerEpoch]

    @property
    def config(self) -> BrokerConfig:
        """As it is now."""
        return self.base.running.current

    @property
    def stated_broker_epoch(self) -> BrokerEpoch:
        """The follower's part of `isr-eligibility`: fetches say in which life of their broker they were made (KIP-903).

        Without it the leader knows no broker epochs, so none of its checks of them has anything to compare.
        """
        return self.broker_epoch() if self.base.rules.isr_eligibility == "broker-epoch" else NO_BROKER_EPOCH

    @property
    def fetch_version(self) -> int:
        """The era's version, or a later one if a newer rule needs it. source: MetadataVersion.fetchRequestVersion

        Simplified: at least 4, the oldest that is spoken here; the followers' other questions have today's versions.
        """
        needed = {
            FIRST_FETCH_WITH_SESSIONS: self.uses_fetch_sessions,
            FIRST_FETCH_WITH_LEADER_EPOCH: self.base.rules.fetch_fencing == "leader-epoch",
            FIRST_FETCH_WITH_DIVERGENCE: self.base.rules.truncation == "on-fetch",
            FIRST_FETCH_WITH_BROKER_EPOCH: self.base.rules.isr_eligibility == "broker-epoch",
        }
        used = [version for version, is_used in needed.items() if is_used]
        return max([self.era_fetch_version, *used])

    @property
    def uses_fetch_sessions(self) -> bool:
        """KIP-227 came with 1.1, between two of the eras there are.

        Simplified: it changes no outcome, so it is no switch of its own; `truncation` distinguishes the eras.
        """
        return self.base.rules.truncation not in ("high-watermark", "leader-epoch")


class ReplicaFetchers:
    """Partitions are added when a leader is known and removed when it changes."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._per_source = context.config.num_replica_fetchers
        self._fetchers: dict[tuple[BrokerId, int], ReplicaFetcher] = {}

    def add(self, partition: Partition, registration: PartitionRegistration, now_us: int) -> None:
        """Fetch `partition` from its new leader from now on, if the metadata says where that broker is."""
        source = self._context.base.cache.image.brokers.get(registration.leader)
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
