"""The group coordinator as part of a broker: its settings, its log, and the actions that other parts carry out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from uuid import uuid5

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.manager import ReplicaManager
from cluster.config import BrokerConfig
from cluster.coordinators.core import Load
from cluster.coordinators.service import CoordinatorService
from cluster.coordinators.topic_log import AT_ONCE, readable_records
from cluster.groups.commits import OFFSET_WRITE_ERRORS
from cluster.groups.coordinator import GroupCoordinator
from cluster.groups.desk import GroupSettings
from cluster.groups.inputs import (
    AlterShares,
    CoordinatorInput,
    CreateTopics,
    DeleteShares,
    ForgetShares,
    Loaded,
    OtherAction,
    PartitionsDeleted,
    Result,
    ShareAction,
    ShareRefusal,
    SharesChanged,
    SharesDeleted,
    SharesInitialized,
    TransactionCompleted,
)
from cluster.groups.state.assignors import TopicIdPartition
from cluster.groups.state.consumer_group import FIRST_EPOCH
from cluster.groups.state.loading import Replay
from cluster.groups.state.records import value_versions
from cluster.groups.state.topology import MissingTopic
from cluster.groups.topic_directory import TopicDirectory
from replica.errors import ErrorCode, KafkaError
from replica.ids import OFFSETS_TOPIC, TopicPartition
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import NO_PRODUCER_ID, BatchHeader
from replica.log.producers.transaction_index import NOT_ASKED_FOR
from replica.rules import NEXT_COORDINATOR_SINCE, KafkaRelease, Rules

SAME_EPOCH_SINCE = KafkaRelease(4, 2)
"""The first release in which a member that has revoked partitions keeps its epoch until it reaches its target."""

FIRST_EPOCH_SINCE = KafkaRelease(4, 3)
"""The first release whose new groups have epoch 1; their first member gets epoch 2."""
ASSIGNED_ANEW_SINCE = KafkaRelease(4, 4)
"""The first release with `empty_is_assigned`, `assignor_raises_epoch` and `has_static_streams` of GroupSettings."""


def group_settings(config: BrokerConfig, rules: Rules) -> GroupSettings:
    has_one = rules.release >= NEXT_COORDINATOR_SINCE
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        metadata_max_bytes=config.offset_metadata_max_bytes,
        commit_timeout_ms=config.offsets_commit_timeout_ms,
        retention_ms=config.offsets_retention_minutes * 60_000,
        retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        consumer_migration_policy=config.group_consumer_migration_policy,
        share_session_timeout_ms=config.group_share_session_timeout_ms,
        share_heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        share_max_size=config.group_share_max_size,
        share_assignment_interval_ms=config.group_share_assignment_interval_ms,
        share_initialize_retry_interval_ms=config.group_share_initialize_retry_interval_ms,
        streams_session_timeout_ms=config.group_streams_session_timeout_ms,
        streams_heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        streams_max_size=config.group_streams_max_size,
        streams_initial_rebalance_delay_ms=config.group_streams_initial_rebalance_delay_ms,
        streams_assignment_interval_ms=config.group_streams_assignment_interval_ms,
        streams_num_standby_replicas=config.group_streams_num_standby_replicas,
        versions=value_versions(rules.release),
        # source: CoordinatorOperationExceptionHelper; before 4.0 GroupMetadataManager.storeOffsets
        late_commit=ErrorCode.COORDINATOR_NOT_AVAILABLE if has_one else ErrorCode.REQUEST_TIMED_OUT,
        one_coordinator=has_one,
        revoking_raises_epoch=rules.release < SAME_EPOCH_SINCE,
        older_epochs_count=rules.commit_epoch == "assignment",
        first_epoch=FIRST_EPOCH if rules.release >= FIRST_EPOCH_SINCE else 0,
        empty_is_assigned=rules.release >= ASSIGNED_ANEW_SINCE,
        assignor_raises_epoch=rules.release >= ASSIGNED_ANEW_SINCE,
        has_static_streams=rules.release >= ASSIGNED_ANEW_SINCE,
    )


ChangeShares = Callable[[ShareAction, Callable[[Mapping[TopicIdPartition, ShareRefusal], int], None], int], None]
"""Initializes or deletes the states of share partitions, and calls back with (refused partitions, now_us)."""


CreateInternalTopics = Callable[[Sequence[MissingTopic], int], None]
"""A function of (topics, now_us) that requests the creation of topics."""


class GroupService(CoordinatorService[CoordinatorInput, OtherAction, Result]):
    """The group coordinator service; `coordinator` gives read access to groups."""

    def __init__(
        self,
        base: BrokerBase,
        *,
        replicas: ReplicaManager,
        partition_of: Callable[[str], int],
        change_shares: ChangeShares,
        create_topics: CreateInternalTopics,
    ) -> None:
        # Differs from Kafka: member ids are derived from the broker's incarnation, so a run can be repeated exactly.
        ids = count()
        self.coordinator = GroupCoordinator(
            node=base.node,
            settings=group_settings(base.config, base.rules),
            clock=base.clock,
            new_uuid=lambda: uuid5(base.identity.incarnation_id, f"member {next(ids)}"),
            partition_of=partition_of,
            topics=TopicDirectory(base.cache),
        )
        has_linger = base.rules.release >= NEXT_COORDINATOR_SINCE
        linger_ms = base.config.group_coordinator_append_linger_ms if has_linger else AT_ONCE
        super().__init__(OFFSETS_TOPIC, base, replicas, self.coordinator, linger_ms)
        self._change_shares = change_shares
        self._create_topics = create_topics
        self._clock = base.clock
        self._replicas = replicas
        self._ended: deque[tuple[TopicPartition, int, bool]] = deque()
        replicas.on_transaction_ended = self._transaction_ended

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
        """Verify a transaction before offsets are committed in it, then call `go_on` with (guard, error, now_us).

        Source: GroupCoordinator.handleTxnCommitOffsets
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

    def deleted(self, names: Sequence[TopicPartition], now_us: int) -> None:
        """Delete the committed offsets of deleted partitions."""
        if names and self.coordinator.index.any:
            self._step(PartitionsDeleted(now_us=now_us, partitions=tuple(names)), now_us)

    def _transaction_ended(self, name: TopicPartition, producer_id: int, committed: bool) -> None:
        if name.topic == OFFSETS_TOPIC:
            self._ended.append((name, producer_id, committed))

    def settle(self, now_us: int) -> None:
        """Apply finished writes, then ended transactions: in the log, markers come after the commits."""
        if self._log.written:  # Saves a call at the end of each step, since few steps have writes.
            super().settle(now_us)
        while self._ended:
            name, producer_id, committed = self._ended.popleft()
            ended = TransactionCompleted(
                now_us=now_us, partition=name.partition, producer_id=producer_id, committed=committed
            )
            self._step(ended, now_us)

    def _do(self, action: OtherAction, now_us: int) -> None:
        if isinstance(action, CreateTopics):
            self._create_topics(action.topics, now_us)
            return

        def done(refused: Mapping[TopicIdPartition, ShareRefusal], at_us: int) -> None:
            if isinstance(action, AlterShares | ForgetShares):
                self._step(SharesChanged(now_us=at_us, number=action.number, refused=refused), at_us)
                return
            group_id = action.group_id
            error = next((item.error for item in refused.values()), ErrorCode.NONE)
            if isinstance(action, DeleteShares):
                self._step(SharesDeleted(now_us=at_us, group_id=group_id, error=error), at_us)
                return
            partitions = action.partitions
            self._step(SharesInitialized(now_us=at_us, group_id=group_id, partitions=partitions, error=error), at_us)

        self._change_shares(action, done, now_us)

    def _load(self, wanted: Load, now_us: int) -> None:
        replay = Replay()

        def done(done_us: int) -> None:
            groups = replay.groups(self._clock.at(done_us) // 1000)
            loaded = Loaded(
                now_us=done_us,
                partition=wanted.partition,
                leader_epoch=wanted.leader_epoch,
                groups=groups,
                consumer_groups=replay.consumer_groups(),
                share_groups=tuple(replay.share_groups.values()),
                unreadable=replay.unreadable,
            )
            self._step(loaded, done_us)

        is_wanted = partial(self.coordinator.index.is_loading, wanted.partition, wanted.leader_epoch)
        self._log.load(wanted.partition, partial(replay_batch, replay), is_wanted, done, now_us)


def replay_batch(replay: Replay, header: BatchHeader, batch: bytes) -> None:
    """Apply the records of a batch to `replay`; skip a damaged batch, and count its records as unreadable."""
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
