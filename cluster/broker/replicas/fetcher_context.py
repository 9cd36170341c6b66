"""What the fetchers of a broker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.broker.replicas.manager import ReplicaManager
from cluster.broker.replicas.partition_locks import PartitionLocks
from cluster.broker.replicas.replication_quotas import ReplicationQuota
from cluster.channel import Channels
from cluster.config import BrokerConfig
from cluster.outbox import Outbox
from cluster.wall_clock import WallClock
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, Names
from replica.log.broker_logs import BrokerLogs
from replica.rules import Rules
from replica.trace.events import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherContext:
    """Handed to each of them. replicated_us: see CpuTimes"""

    identity: BrokerIdentity
    config: BrokerConfig
    rules: Rules
    names: Names
    outbox: Outbox
    channels: Channels
    locks: PartitionLocks
    cache: MetadataCache
    replicas: ReplicaManager
    logs: BrokerLogs
    quota: Callable[[], ReplicationQuota]
    recorder: Recorder
    clock: WallClock
    replicated_us: int
    broker_epoch: Callable[[], BrokerEpoch]
    halt: Callable[[str], None]

    @property
    def stated_broker_epoch(self) -> BrokerEpoch:
        """The follower's part of `isr-eligibility`: fetches say in which life of their broker they were made (KIP-903).

        Without it the leader knows no broker epochs, so none of its checks of them has anything to compare.
        Simplified: the fetch has today's version and says -1; before 3.5 there was no such field.
        """
        return self.broker_epoch() if self.rules.isr_eligibility == "broker-epoch" else NO_BROKER_EPOCH

    @property
    def uses_fetch_sessions(self) -> bool:
        """KIP-227 came with 1.1, between two of the eras there are.

        Simplified: it changes no outcome, so it is no switch of its own; `truncation` tells the one era from the other.
        """
        return self.rules.truncation not in ("high-watermark", "leader-epoch")
