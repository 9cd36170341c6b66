"""The replica fetchers of a broker: num.replica.fetchers for each broker from which it fetches.

Source: AbstractFetcherManager.scala, ReplicaFetcherManager.scala
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

FIRST_FETCH_WITH_SESSIONS = 7
FIRST_FETCH_WITH_LEADER_EPOCH = 9
FIRST_FETCH_WITH_DIVERGENCE = 12
FIRST_FETCH_WITH_BROKER_EPOCH = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherContext:
    """What the fetchers of a broker share.

    Attributes:
        era_fetch_version: highest version of Fetch that brokers of the simulated release offer.
        replicated_us: CPU time of replicating, see CpuTimes.
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
        """The broker's current configuration."""
        return self.base.running.current

    @property
    def stated_broker_epoch(self) -> BrokerEpoch:
        """The broker epoch in fetches, -1 if leaders do not check it (KIP-903, rule `isr-eligibility`)."""
        return self.broker_epoch() if self.base.rules.isr_eligibility == "broker-epoch" else NO_BROKER_EPOCH

    @property
    def fetch_version(self) -> int:
        """The version of Fetch requests: that of the release, or a later one if a newer rule needs it.

        Simplified: at least 4, the oldest supported here. Other requests of followers have current versions.
        Source: MetadataVersion.fetchRequestVersion
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
        """True for releases with fetch sessions (KIP-227, since 1.1).

        Simplified: they have no rule of their own, as they change no outcome; the rule `truncation` shows the release.
        """
        return self.base.rules.truncation not in ("high-watermark", "leader-epoch")


class ReplicaFetchers:
    """The replica fetchers of one broker. Each followed partition is assigned to one of those for its leader."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._per_source = context.config.num_replica_fetchers
        self._fetchers: dict[tuple[BrokerId, int], ReplicaFetcher] = {}

    def add(self, partition: Partition, registration: PartitionRegistration, now_us: int) -> None:
        """Begin to fetch a partition from its leader, if that is registered."""
        source = self._context.base.cache.image.brokers.get(registration.leader)
        if source is None:
            return
        key = (source.broker_id, fetcher_number(partition.topic_partition, self._per_source))
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = ReplicaFetcher(self._context, source)
        fetcher.add(partition, registration, now_us)

    def follow_on(self, name: TopicPartition, registration: PartitionRegistration, now_us: int) -> None:
        """Continue to fetch a partition from the same leader, perhaps in a new leader epoch."""
        for (source, _), fetcher in self._fetchers.items():
            if source == registration.leader:
                fetcher.follow_on(name, registration, now_us)

    def remove(self, name: TopicPartition) -> None:
        """Stop fetching a partition, without closing its fetcher, even if that was the last one.

        The same metadata change may add the partition again, while a request of the fetcher is in flight.
        """
        for fetcher in self._fetchers.values():
            fetcher.remove(name)

    def resize(self, per_source: int, now_us: int) -> None:
        """Distribute the partitions over `per_source` fetchers for each source broker, if that number has changed.

        Source: AbstractFetcherManager.resizeThreadPool
        """
        if per_source == self._per_source:
            return
        self._per_source = per_source
        followed = [item.partition for fetcher in self._fetchers.values() for item in fetcher.partitions.values()]
        for partition in followed:
            self.remove(partition.topic_partition)
        for partition in followed:
            if partition.registration is not None:
                self.add(partition, partition.registration, now_us)
        self.close_idle()

    def close_idle(self) -> None:
        """Close the connections of fetchers without partitions. Source: shutdownIdleFetcherThreads"""
        for key, fetcher in list(self._fetchers.items()):
            if fetcher.is_idle:
                fetcher.close()
                del self._fetchers[key]

    def sources(self, among: Sequence[TopicPartition] | None = None) -> Iterator[tuple[TopicPartition, BrokerId]]:
        """Yield (followed partition, broker that it is fetched from), of the partitions `among` unless that is None."""
        for (source, _), fetcher in self._fetchers.items():
            for name in fetcher.partitions if among is None else among:
                if name in fetcher.partitions:
                    yield name, source


def fetcher_number(name: TopicPartition, fetchers_per_source: int) -> int:
    """Return the index of the fetcher of a partition, below `fetchers_per_source`.

    Source: AbstractFetcherManager.getFetcherId
    """
    if fetchers_per_source == 1:
        return 0
    java_hash = 0
    for unit in memoryview(name.topic.encode("utf-16-le")).cast("H"):
        java_hash = 31 * java_hash + unit
    signed = (31 * java_hash + name.partition + 2**31) % 2**32 - 2**31
    return 0 if signed == -(2**31) else abs(signed) % fetchers_per_source
