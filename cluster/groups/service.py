"""The group coordinator as part of a broker: its inputs come from requests and elections, its actions are done here.

It writes to the offsets topic through the replica manager, like any produce with acks=all; when it is elected, it reads
the broker's own log. source: GroupMetadataManager.scala, BrokerMetadataPublisher.scala
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from uuid import uuid5

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.manager import ReplicaManager
from cluster.config import BrokerConfig
from cluster.coordinators.topic_log import TopicLog, readable_records
from cluster.coordinators.waiting import EarliestDeadline, RequestId, WaitingRequests
from cluster.groups.commits import OFFSET_WRITE_ERRORS
from cluster.groups.coordinator import GroupCoordinator
from cluster.groups.desk import GroupSettings
from cluster.groups.inputs import (
    Action,
    AnswerRequest,
    Append,
    CoordinatorInput,
    Elected,
    InTransaction,
    LeadershipResigned,
    Load,
    Loaded,
    PartitionsDeleted,
    Result,
    TransactionCompleted,
    Written,
)
from cluster.groups.state.loading import Replay
from cluster.groups.state.records import VALUE_VERSIONS
from cluster.groups.topic_directory import TopicDirectory
from cluster.node import ConnectionId
from cluster.slices import undivided
from replica.errors import ErrorCode, KafkaError
from replica.ids import OFFSETS_TOPIC, LeaderEpoch, TopicPartition
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, build_batch
from replica.log.producers.transaction_index import NOT_ASKED_FOR
from replica.rules import WITH_ONE_GROUP_COORDINATOR
from replica.trace.events import Emit

Respond = Callable[[Result], None]


def group_settings(config: BrokerConfig, release: str) -> GroupSettings:
    has_one = release in WITH_ONE_GROUP_COORDINATOR
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        metadata_max_bytes=config.offset_metadata_max_bytes,
        retention_ms=config.offsets_retention_minutes * 60_000,
        retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        consumer_migration_policy=config.group_consumer_migration_policy,
        versions=VALUE_VERSIONS[release],
        # source: CoordinatorOperationExceptionHelper; before 4.0 GroupMetadataManager.storeOffsets
        late_commit=ErrorCode.COORDINATOR_NOT_AVAILABLE if has_one else ErrorCode.REQUEST_TIMED_OUT,
        one_coordinator=has_one,
    )


class GroupService:
    """coordinator: what is known of groups, to be asked; it is changed through `submit` and the calls of the broker

    life: of this incarnation of the broker, different from all others     release: of the era
    """

    def __init__(self, base: BrokerBase, *, replicas: ReplicaManager, partition_of: Callable[[str], int]) -> None:
        self._log = TopicLog(OFFSETS_TOPIC, node=base.node, outbox=base.outbox, replicas=replicas)
        self._clock = base.clock
        self._recorder = base.recorder
        self._commit_timeout_us = base.config.offsets_commit_timeout_ms * 1000
        # Differs from Kafka: the ids of members follow from the broker's incarnation, so that a run can be repeated.
        ids = count()
        self.coordinator = GroupCoordinator(
            node=base.node,
            settings=group_settings(base.config, base.rules.release),
            clock=base.clock,
            new_uuid=lambda: uuid5(base.identity.incarnation_id, f"member {next(ids)}"),
            partition_of=partition_of,
            topics=TopicDirectory(base.cache),
        )
        self._replicas = replicas
        self._ended: deque[tuple[TopicPartition, int, bool]] = deque()
        replicas.on_transaction_ended = self._transaction_ended
        self._requests: WaitingRequests[Result] = WaitingRequests()
        self._alarm = EarliestDeadline(base.outbox.timers, self._ring)

    # ------------------------------------------------------------------------------------------------------- requests

    def submit(
        self,
        connection: ConnectionId,
        make_input: Callable[[RequestId], CoordinatorInput],
        respond: Respond,
        now_us: int,
    ) -> None:
        """make_input: receives the number under which the request waits

        respond: is called once, unless the client disconnects first
        """
        request = self._requests.enter(connection, respond)
        given = make_input(request)
        undivided(lambda: self._perform(self.coordinator.step(given), now_us))

    def ask_transaction(
        self,
        group_id: str,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        api_version: int,
        go_on: Callable[[int, ErrorCode, int], None],
        now_us: int,
    ) -> None:
        """Before offsets are committed in a transaction: is it open? go_on: (guard, error, now_us)

        source: GroupCoordinator.handleTxnCommitOffsets
        """
        index = self.coordinator.index
        error = index.status(group_id)
        partition = self._replicas.partitions.get(TopicPartition(OFFSETS_TOPIC, index.partition_of(group_id)))
        if error is ErrorCode.NONE and (partition is None or partition.leader is None):
            error = ErrorCode.NOT_COORDINATOR
        if error is not ErrorCode.NONE or partition is None:
            go_on(NOT_ASKED_FOR, error, now_us)
            return

        def answered(guard: int, found: ErrorCode, at_us: int) -> None:
            go_on(guard, OFFSET_WRITE_ERRORS.get(found, found), at_us)

        checks = self._replicas.transaction_checks
        checks.begin_commit(transactional_id, producer_id, producer_epoch, partition, api_version, answered, now_us)

    def gone(self, connection: ConnectionId) -> None:
        """No answer can reach the client there; the member's session goes on until it times out, as in Kafka."""
        self._requests.gone(connection)

    # -------------------------------------------------------------------------------------------------------- broker

    def led(self, name: TopicPartition, leader_epoch: LeaderEpoch, now_us: int) -> None:
        """This broker leads the partition of the offsets topic, since this epoch."""
        elected = Elected(now_us=now_us, partition=name.partition, leader_epoch=leader_epoch)
        self._perform(self.coordinator.step(elected), now_us)

    def not_led(self, name: TopicPartition, leader_epoch: LeaderEpoch | None, now_us: int) -> None:
        """leader_epoch: of the leader that this broker follows; None: it has no replica any more"""
        resigned = LeadershipResigned(now_us=now_us, partition=name.partition, leader_epoch=leader_epoch)
        self._perform(self.coordinator.step(resigned), now_us)

    def deleted(self, names: Sequence[TopicPartition], now_us: int) -> None:
        """These partitions were deleted."""
        if names and self.coordinator.index.any:
            self._perform(self.coordinator.step(PartitionsDeleted(now_us=now_us, partitions=tuple(names))), now_us)

    def _transaction_ended(self, name: TopicPartition, producer_id: int, committed: bool) -> None:
        if name.topic == OFFSETS_TOPIC:
            self._ended.append((name, producer_id, committed))

    def settle(self, now_us: int) -> None:
        """Records written meanwhile count from now on; to be called at the end of each step of the broker.

        Markers come after the commits that they end.
        """
        while self._log.written:
            write, error, offset = self._log.written.popleft()
            written = Written(now_us=now_us, write=write, error=error, offset=offset)
            self._perform(self.coordinator.step(written), now_us)
        while self._ended:
            name, producer_id, committed = self._ended.popleft()
            ended = TransactionCompleted(
                now_us=now_us, partition=name.partition, producer_id=producer_id, committed=committed
            )
            self._perform(self.coordinator.step(ended), now_us)

    # -------------------------------------------------------------------------------------------------------- actions

    def _perform(self, actions: list[Action], now_us: int) -> None:
        for action in actions:
            match action:
                case AnswerRequest():
                    self._requests.answer(action.request, action.result)
                case Append():
                    self._append(action, now_us)
                case Load():
                    self._load(action.partition, action.leader_epoch, now_us)
                case Emit():
                    self._recorder.emit(action.event)
        self._alarm.set(self.coordinator.next_deadline_us)

    def _append(self, wanted: Append, now_us: int) -> None:
        part_of = wanted.transaction or InTransaction(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NOT_ASKED_FOR)
        batch = build_batch(
            wanted.records,
            timestamp_ms=wanted.timestamp_ms,
            producer_id=part_of.producer_id,
            producer_epoch=part_of.producer_epoch,
            base_sequence=NO_SEQUENCE if wanted.transaction is None else 0,
            transactional=wanted.transaction is not None,
        )
        self._log.append(wanted.partition, batch, wanted.write, self._commit_timeout_us, now_us, part_of.guard)

    def _ring(self, now_us: int) -> None:
        self._perform(self.coordinator.tick(now_us), now_us)

    def _load(self, partition: int, leader_epoch: LeaderEpoch, now_us: int) -> None:
        replay = Replay()

        def done(done_us: int) -> None:
            groups = replay.groups(self._clock.at(done_us) // 1000)
            loaded = Loaded(
                now_us=done_us,
                partition=partition,
                leader_epoch=leader_epoch,
                groups=groups,
                consumer_groups=replay.consumer_groups(),
                unreadable=replay.unreadable,
            )
            self._perform(self.coordinator.step(loaded), done_us)

        def is_wanted() -> bool:
            return self.coordinator.index.loading.get(partition) == leader_epoch

        self._log.load(partition, partial(replay_batch, replay), is_wanted, done, now_us)


def replay_batch(replay: Replay, header: BatchHeader, batch: bytes) -> None:
    """Records damaged on the disk are skipped."""
    if header.is_control:
        _replay_marker(replay, header, batch)
        return
    records = readable_records(header, batch)
    if records is None:
        replay.unreadable += header.last_offset - header.base_offset + 1
        return
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    for record in records:
        replay.record(header.base_offset, record.key, record.value, producer_id)


def _replay_marker(replay: Replay, header: BatchHeader, batch: bytes) -> None:
    try:
        marker = read_end_transaction_marker(batch)
    except KafkaError:
        replay.unreadable += 1
        return
    if marker is not None:
        replay.marker(header.producer_id, committed=marker.control_type is ControlRecordType.COMMIT)
