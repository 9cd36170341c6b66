"""State that the fetchers of a broker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.broker.replicas.blocking_logs import PartitionLocks
from cluster.broker.replicas.manager import ReplicaManager
from cluster.broker.replicas.replication_quotas import ReplicationQuotas
from cluster.channel import Channels
from cluster.clocks import WallClock
from cluster.config import BrokerConfig
from cluster.dynamic_settings import RunningConfig
from cluster.outbox import Outbox
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, Names
from replica.log.broker_logs import BrokerLogs
from replica.rules import Rules
from replica.trace.events import Recorder

FIRST_FETCH_WITH_SESSIONS = 7
FIRST_FETCH_WITH_LEADER_EPOCH = 9
FIRST_FETCH_WITH_DIVERGENCE = 12
FIRST_FETCH_WITH_BROKER_EPOCH = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherContext:
    """Handed to each of them.

    era_fetch_version: the newest that brokers of the era offer     replicated_us: see CpuTimes
    """

    identity: BrokerIdentity
    running: RunningConfig
    rules: Rules
    names: Names
    outbox: Outbox
    channels: Channels
    locks: PartitionLocks
    cache: MetadataCache
    replicas: ReplicaManager
    logs: BrokerLogs
    quotas: ReplicationQuotas
    recorder: Recorder
    clock: WallClock
    replicated_us: int
    era_fetch_version: int
    broker_epoch: Callable[[], BrokerEpoch]
    halt: Callable[[str], None]

    @property
    def config(self) -> BrokerConfig:
        """As it is now."""
        return self.running.current

    @property
    def stated_broker_epoch(self) -> BrokerEpoch:
        """The follower's part of `isr-eligibility`: fetches say in which life of their broker they were made (KIP-903).

        Without it the leader knows no broker epochs, so none of its checks of them has anything to compare.
        """
        return self.broker_epoch() if self.rules.isr_eligibility == "broker-epoch" else NO_BROKER_EPOCH

    @property
    def fetch_version(self) -> int:
        """The era's version, or a later one if a newer rule needs it. source: MetadataVersion.fetchRequestVersion

        Simplified: at least 4, the oldest that is spoken here; the followers' other questions have today's versions.
        """
        needed = {
            FIRST_FETCH_WITH_SESSIONS: self.uses_fetch_sessions,
            FIRST_FETCH_WITH_LEADER_EPOCH: self.rules.fetch_fencing == "leader-epoch",
            FIRST_FETCH_WITH_DIVERGENCE: self.rules.truncation == "on-fetch",
            FIRST_FETCH_WITH_BROKER_EPOCH: self.rules.isr_eligibility == "broker-epoch",
        }
        used = [version for version, is_used in needed.items() if is_used]
        return max([self.era_fetch_version, *used])

    @property
    def uses_fetch_sessions(self) -> bool:
        """KIP-227 came with 1.1, between two of the eras there are.

        Simplified: it changes no outcome, so it is no switch of its own; `truncation` distinguishes the eras.
        """
        return self.rules.truncation not in ("high-watermark", "leader-epoch")
