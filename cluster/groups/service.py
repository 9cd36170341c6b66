"""The group coordinator as part of a broker: its inputs come from requests and elections, its actions are done here.

It writes to the offsets topic through the replica manager, like any produce with acks=all; when it is elected, it reads
the broker's own log. source: GroupMetadataManager.scala, BrokerMetadataPublisher.scala
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from uuid import UUID, uuid5

from cluster.broker.replicas.manager import ReplicaManager
from cluster.config import BrokerConfig
from cluster.coordinators.topic_log import TopicLog, readable_records
from cluster.coordinators.waiting import EarliestDeadline, RequestId, WaitingRequests
from cluster.groups.coordinator import GroupCoordinator
from cluster.groups.desk import GroupSettings
from cluster.groups.inputs import (
    Action,
    AnswerRequest,
    Append,
    CoordinatorInput,
    Elected,
    LeadershipResigned,
    Load,
    Loaded,
    PartitionsDeleted,
    Result,
    Written,
)
from cluster.groups.loading import Replay
from cluster.groups.topic_directory import TopicDirectory
from cluster.node import ConnectionId
from cluster.outbox import Outbox
from cluster.wall_clock import WallClock
from replica.ids import OFFSETS_TOPIC, LeaderEpoch, TopicPartition
from replica.log.records import BatchHeader, build_batch
from replica.trace.events import Emit, Recorder

Respond = Callable[[Result], None]


def group_settings(config: BrokerConfig) -> GroupSettings:
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
    )


class GroupService:
    """coordinator: what is known of groups, to be asked; it is changed through `submit` and the calls of the broker

    life: of this incarnation of the broker, different from all others
    """

    def __init__(
        self,
        *,
        node: str,
        life: UUID,
        config: BrokerConfig,
        outbox: Outbox,
        replicas: ReplicaManager,
        clock: WallClock,
        recorder: Recorder,
        partition_of: Callable[[str], int],
        topics: TopicDirectory,
    ) -> None:
        self._log = TopicLog(OFFSETS_TOPIC, node=node, outbox=outbox, replicas=replicas)
        self._clock = clock
        self._recorder = recorder
        self._commit_timeout_us = config.offsets_commit_timeout_ms * 1000
        # Differs from Kafka: the ids of members follow from the broker's incarnation, so that a run can be repeated.
        ids = count()
        self.coordinator = GroupCoordinator(
            node=node,
            settings=group_settings(config),
            clock=clock,
            new_uuid=lambda: uuid5(life, f"member {next(ids)}"),
            partition_of=partition_of,
            topics=topics,
        )
        self._requests: WaitingRequests[Result] = WaitingRequests()
        self._alarm = EarliestDeadline(outbox.timers, self._ring)

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
        self._perform(self.coordinator.step(make_input(request)), now_us)

    def gone(self, connection: ConnectionId) -> None:
        """No answer can reach the client there; the member's session goes on until it times out, as in Kafka."""
        self._requests.gone(connection)

    # -------------------------------------------------------------------------------------------------------- broker

    def led(self, name: TopicPartition, leader_epoch: LeaderEpoch, now_us: int) -> None:
        """This broker leads the partition, since this epoch."""
        if name.topic == OFFSETS_TOPIC:
            elected = Elected(now_us=now_us, partition=name.partition, leader_epoch=leader_epoch)
            self._perform(self.coordinator.step(elected), now_us)

    def not_led(self, name: TopicPartition, leader_epoch: LeaderEpoch | None, now_us: int) -> None:
        """leader_epoch: of the leader that this broker follows; None: it has no replica any more"""
        if name.topic == OFFSETS_TOPIC:
            resigned = LeadershipResigned(now_us=now_us, partition=name.partition, leader_epoch=leader_epoch)
            self._perform(self.coordinator.step(resigned), now_us)

    def deleted(self, names: Sequence[TopicPartition], now_us: int) -> None:
        """These partitions were deleted."""
        if names and self.coordinator.index.any:
            self._perform(self.coordinator.step(PartitionsDeleted(now_us=now_us, partitions=tuple(names))), now_us)

    def settle(self, now_us: int) -> None:
        """Records written meanwhile count from now on; to be called at the end of each step of the broker."""
        while self._log.written:
            write, error, offset = self._log.written.popleft()
            written = Written(now_us=now_us, write=write, error=error, offset=offset)
            self._perform(self.coordinator.step(written), now_us)

    # -------------------------------------------------------------------------------------------------------- actions

    def _perform(self, actions: list[Action], now_us: int) -> None:
        for action in actions:
            match action:
                case AnswerRequest():
                    self._requests.answer(action.request, action.result)
                case Append():
                    batch = build_batch(action.records, timestamp_ms=action.timestamp_ms)
                    self._log.append(action.partition, batch, action.write, self._commit_timeout_us, now_us)
                case Load():
                    self._load(action.partition, action.leader_epoch, now_us)
                case Emit():
                    self._recorder.emit(action.event)
        self._alarm.set(self.coordinator.next_deadline_us)

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

        self._log.load(partition, partial(_replay_batch, replay), is_wanted, done, now_us)


def _replay_batch(replay: Replay, header: BatchHeader, batch: bytes) -> None:
    """Records damaged on the disk are skipped."""
    if header.is_control:
        return
    records = readable_records(header, batch)
    if records is None:
        replay.unreadable += header.last_offset - header.base_offset + 1
        return
    for record in records:
        replay.record(header.base_offset, record.key, record.value)
