"""The transaction coordinator as part of a broker: its inputs come from requests, elections and the leaders of the
partitions of its transactions, its actions are done here. source: TransactionStateManager.scala,
BrokerMetadataPublisher.scala
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.manager import ReplicaManager
from cluster.config import BrokerConfig
from cluster.coordinators.topic_log import TopicLog, readable_records
from cluster.coordinators.waiting import EarliestDeadline, RequestId, WaitingRequests
from cluster.node import ConnectionId
from cluster.slices import undivided
from cluster.transactions.coordinator import TransactionCoordinator
from cluster.transactions.desk import TransactionSettings
from cluster.transactions.inputs import (
    AnswerProducer,
    AskProducerId,
    CoordinatorElected,
    CoordinatorResigned,
    LoadPartition,
    MarkersAnswered,
    PartitionLoaded,
    ProducerIdGiven,
    RecordWritten,
    SendMarkers,
    TransactionAction,
    TransactionInput,
    TransactionResult,
    WriteRecord,
)
from cluster.transactions.loading import TransactionReplay
from cluster.transactions.marker_channel import MarkerChannels
from controller.features import TRANSACTION_VERSION, level_of
from replica.ids import TRANSACTIONS_TOPIC, LeaderEpoch, TopicPartition
from replica.log.batches.records import BatchHeader, build_batch
from replica.rules import Rules
from replica.trace.events import Emit

Respond = Callable[[TransactionResult], None]
GiveProducerId = Callable[[Callable[[int | None], None], int], None]
"""Hands a new producer id over, now or later; None: there is none"""


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


class TransactionService:
    """coordinator: what is known of transactions, to be asked; it is changed through `submit` and the broker's calls

    version: transaction.version of the cluster
    """

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
        self._markers = MarkerChannels(
            node=base.node,
            outbox=base.outbox,
            cache=base.cache,
            request_timeout_us=base.config.request_timeout_ms * 1000,
        )
        self._markers.on_answer = self._marked
        self._recorder = base.recorder
        self._new_producer_id = new_producer_id
        self._log = TopicLog(TRANSACTIONS_TOPIC, node=base.node, outbox=base.outbox, replicas=replicas)
        self._requests: WaitingRequests[TransactionResult] = WaitingRequests()
        self._alarm = EarliestDeadline(base.outbox.timers, self._ring)
        self._given: deque[tuple[int, int | None]] = deque()

    @property
    def version(self) -> int:
        return self.coordinator.version

    def submit(
        self,
        connection: ConnectionId,
        make_input: Callable[[RequestId], TransactionInput],
        respond: Respond,
        now_us: int,
    ) -> None:
        """make_input: receives the number under which the request waits

        respond: is called once, unless the client disconnects first
        """
        request = self._requests.enter(connection, respond)
        given = make_input(request)
        undivided(lambda: self._perform(self.coordinator.step(given), now_us))

    def gone(self, connection: ConnectionId) -> None:
        """No answer can reach the client there; what it asked for goes on."""
        self._requests.gone(connection)

    # --------------------------------------------------------------------------------------------------------- broker

    def led(self, name: TopicPartition, leader_epoch: LeaderEpoch, now_us: int) -> None:
        """This broker leads the partition of the transactions topic, since this epoch."""
        elected = CoordinatorElected(now_us=now_us, partition=name.partition, leader_epoch=leader_epoch)
        self._perform(self.coordinator.step(elected), now_us)

    def not_led(self, name: TopicPartition, leader_epoch: LeaderEpoch | None, now_us: int) -> None:
        """leader_epoch: of the leader that this broker follows; None: it has no replica any more"""
        resigned = CoordinatorResigned(now_us=now_us, partition=name.partition, leader_epoch=leader_epoch)
        self._perform(self.coordinator.step(resigned), now_us)

    def settle(self, now_us: int) -> None:
        """Records written and ids given meanwhile count from now on; to be called at the end of each step of the
        broker."""
        while self._given:
            ticket, producer_id = self._given.popleft()
            given = ProducerIdGiven(now_us=now_us, ticket=ticket, producer_id=producer_id)
            self._perform(self.coordinator.step(given), now_us)
        while self._log.written:
            write, error, _ = self._log.written.popleft()
            self._perform(self.coordinator.step(RecordWritten(now_us=now_us, write=write, error=error)), now_us)

    # -------------------------------------------------------------------------------------------------------- actions

    def _perform(self, actions: list[TransactionAction], now_us: int) -> None:
        for action in actions:
            match action:
                case AnswerProducer():
                    self._requests.answer(action.request, action.result)
                case WriteRecord():
                    batch = build_batch([(action.key, action.value)], timestamp_ms=action.timestamp_ms)
                    self._log.append(action.partition, batch, action.write, action.timeout_ms * 1000, now_us)
                case LoadPartition():
                    self._load(action.partition, action.leader_epoch, now_us)
                case AskProducerId():
                    self._new_producer_id(partial(self._producer_id_given, action.ticket), now_us)
                case SendMarkers():
                    self._markers.send(action, now_us)
                case Emit():
                    self._recorder.emit(action.event)
        self._alarm.set(self.coordinator.next_deadline_us)

    def _ring(self, now_us: int) -> None:
        self._perform(self.coordinator.tick(now_us), now_us)

    def _producer_id_given(self, ticket: int, producer_id: int | None) -> None:
        self._given.append((ticket, producer_id))

    def _marked(self, given: MarkersAnswered) -> None:
        self._perform(self.coordinator.step(given), given.now_us)

    def _load(self, partition: int, leader_epoch: LeaderEpoch, now_us: int) -> None:
        replay = TransactionReplay()

        def done(done_us: int) -> None:
            loaded = PartitionLoaded(
                now_us=done_us,
                partition=partition,
                leader_epoch=leader_epoch,
                transactions=tuple(replay.transactions.values()),
                unreadable=replay.unreadable,
            )
            self._perform(self.coordinator.step(loaded), done_us)

        is_wanted = partial(self.coordinator.is_loading, partition, leader_epoch)
        self._log.load(partition, partial(_replay_batch, replay), is_wanted, done, now_us)


def _replay_batch(replay: TransactionReplay, header: BatchHeader, batch: bytes) -> None:
    """Records damaged on the disk are skipped."""
    records = readable_records(header, batch)
    if records is None:
        replay.unreadable += header.last_offset - header.base_offset + 1
        return
    for record in records:
        replay.record(record.key, record.value)
