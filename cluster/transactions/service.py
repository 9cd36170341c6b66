"""The transaction coordinator as part of a broker: its log, its producer ids, and the sending of markers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.manager import ReplicaManager
from cluster.config import BrokerConfig
from cluster.coordinators.core import Load
from cluster.coordinators.service import CoordinatorService
from cluster.coordinators.topic_log import replay_batch
from cluster.transactions.coordinator import TransactionCoordinator
from cluster.transactions.desk import TransactionSettings
from cluster.transactions.inputs import (
    AskProducerId,
    PartitionLoaded,
    ProducerIdGiven,
    SendMarkers,
    TransactionAction,
    TransactionInput,
    TransactionResult,
)
from cluster.transactions.marker_channel import MarkerChannels
from cluster.transactions.records import TransactionReplay
from controller.features import TRANSACTION_VERSION, level_of
from replica.ids import TRANSACTIONS_TOPIC
from replica.rules import Rules

GiveProducerId = Callable[[Callable[[int | None], None], int], None]
"""A function of (callback, now_us) that calls back, now or later, with a new producer id or None."""


def transaction_settings(config: BrokerConfig, rules: Rules) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config.transaction_max_timeout_ms,
        expiration_ms=config.transactional_id_expiration_ms,
        abort_check_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiration_check_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
        version=level_of(TRANSACTION_VERSION, rules, {}),
        knows_v2=rules.transactions == "v2",
    )


class TransactionService(CoordinatorService[TransactionInput, TransactionAction, TransactionResult]):
    """The transaction coordinator service; `coordinator` gives read access to transactional ids."""

    def __init__(
        self,
        base: BrokerBase,
        *,
        replicas: ReplicaManager,
        partition_of: Callable[[str], int],
        new_producer_id: GiveProducerId,
    ) -> None:
        self.coordinator = TransactionCoordinator(
            node=base.node,
            settings=transaction_settings(base.config, base.rules),
            clock=base.clock,
            partition_of=partition_of,
        )
        super().__init__(TRANSACTIONS_TOPIC, base, replicas, self.coordinator)
        self._markers = MarkerChannels(
            node=base.node,
            outbox=base.outbox,
            cache=base.cache,
            request_timeout_us=base.config.request_timeout_ms * 1000,
            says_version=base.rules.marker_epoch == "newer",
        )
        self._markers.on_answer = lambda value: self._step(value, value.now_us)
        self._new_producer_id = new_producer_id
        self._given: deque[tuple[int, int | None]] = deque()

    @property
    def version(self) -> int:
        return self.coordinator.version

    def settle(self, now_us: int) -> None:
        """Pass new producer ids and finished writes to the coordinator."""
        while self._given:
            ticket, producer_id = self._given.popleft()
            self._step(ProducerIdGiven(now_us=now_us, ticket=ticket, producer_id=producer_id), now_us)
        if self._log.written:  # Called at the end of each step, when writes have seldom finished.
            super().settle(now_us)

    def _do(self, action: TransactionAction, now_us: int) -> None:
        match action:
            case AskProducerId(ticket):
                self._new_producer_id(lambda producer_id: self._given.append((ticket, producer_id)), now_us)
            case SendMarkers():
                self._markers.send(action, now_us)

    def _load(self, wanted: Load, now_us: int) -> None:
        replay = TransactionReplay()

        def done(done_us: int) -> None:
            loaded = PartitionLoaded(
                now_us=done_us,
                partition=wanted.partition,
                leader_epoch=wanted.leader_epoch,
                transactions=tuple(replay.transactions.values()),
                unreadable=replay.unreadable,
            )
            self._step(loaded, done_us)

        is_wanted = partial(self.coordinator.is_loading, wanted.partition, wanted.leader_epoch)
        self._log.load(wanted.partition, partial(replay_batch, replay), is_wanted, done, now_us)
