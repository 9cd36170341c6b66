"""The share coordinator's connection to its broker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn
from uuid import UUID

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.manager import ReplicaManager
from cluster.coordinators.core import Load
from cluster.coordinators.service import CoordinatorService
from cluster.coordinators.topic_log import replay_batch
from cluster.share.coordinator import (
    ShareCoordinator,
    ShareInput,
    ShareResult,
    ShareSettings,
    StatesLoaded,
    TopicsDeleted,
)
from cluster.share.state import ShareReplay
from replica.ids import SHARE_STATE_TOPIC


class ShareService(CoordinatorService[ShareInput, NoReturn, ShareResult]):
    """Runs the share coordinator in a broker."""

    def __init__(self, base: BrokerBase, *, replicas: ReplicaManager, partition_of: Callable[[str], int]) -> None:
        cache, config = base.cache, base.config

        def partition_count(topic_id: UUID) -> int | None:
            name = cache.topic_name(topic_id)
            return None if name is None else len(cache.image.topics[name].partitions)

        self._coordinator = ShareCoordinator(
            node=base.node,
            settings=ShareSettings(
                updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
                write_timeout_ms=config.share_coordinator_write_timeout_ms,
            ),
            clock=base.clock,
            partition_of=partition_of,
            partition_count=partition_count,
            topic_name=cache.topic_name,
        )
        super().__init__(SHARE_STATE_TOPIC, base, replicas, self._coordinator)

    def deleted(self, now_us: int) -> None:
        """Delete the states of deleted topics."""
        self._step(TopicsDeleted(now_us=now_us), now_us)

    def _load(self, wanted: Load, now_us: int) -> None:
        replay = ShareReplay()

        def done(done_us: int) -> None:
            loaded = StatesLoaded(
                now_us=done_us,
                partition=wanted.partition,
                leader_epoch=wanted.leader_epoch,
                states=replay.states,
                unreadable=replay.unreadable,
            )
            self._step(loaded, done_us)

        is_wanted = partial(self._coordinator.led.is_loading, wanted.partition, wanted.leader_epoch)
        self._log.load(wanted.partition, partial(replay_batch, replay), is_wanted, done, now_us)
