"""The controller: registration, sessions, elections and the ISR, as one event loop over a totally ordered log.

Source: QuorumController, ReplicationControlManager, ClusterControlManager.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.events import Action, Event
from controller.image import MetadataImage
from controller.metadata import MetadataRecord
from replica.config import TopicConfig
from replica.ids import BrokerId, Names, Offset

UNCLEAN_ELECTION_INTERVAL_US = 300_000_000
"""unclean.leader.election.interval.ms, an internal key of Kafka: 5 minutes."""


class ControllerState:
    """Give it events, perform its actions in order; call `tick` when `next_deadline_us` has come."""

    def __init__(
        self,
        *,
        names: Names,
        controller_id: BrokerId,
        default_config: TopicConfig | None = None,
        session_timeout_us: int = 9_000_000,
        rebalance_interval_us: int | None = 300_000_000,
        unclean_election_interval_us: int = UNCLEAN_ELECTION_INTERVAL_US,
        num_partitions: int = 1,
        default_replication_factor: int = 1,
    ) -> None:
        self.image = MetadataImage()

    @property
    def next_offset(self) -> Offset:
        """Offset of the next record of the metadata log; the broker epoch of a broker that registers now."""
        return self.image.offset + 1

    @property
    def next_deadline_us(self) -> int | None:
        """Earliest session end, preferred rebalance or unclean sweep; None: nothing is due, ever."""
        return None

    def load(self, records: Iterable[MetadataRecord], now_us: int) -> None:
        """Take over a metadata log, as a controller that (re)starts; every unfenced broker gets a fresh session."""

    def step(self, event: Event) -> list[Action]:
        raise NotImplementedError

    def tick(self, now_us: int) -> list[Action]:
        """Everything that is due at `now_us`, one event after the other."""
        return []
