"""The group coordinator as part of a broker: its inputs come from requests and elections, its actions are done here.

It writes to the offsets topic through the replica manager, like any produce with acks=all; when it is elected, it reads
the broker's own log. source: GroupMetadataManager.scala, BrokerMetadataPublisher.scala
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple
from uuid import UUID, uuid5

from cluster.broker.replicas.delayed import ProduceResults
from cluster.broker.replicas.manager import ReplicaManager
from cluster.config import BrokerConfig
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
    WriteId,
    Written,
)
from cluster.groups.loading import Replay
from cluster.groups.member import RequestId
from cluster.node import ConnectionId
from cluster.outbox import Outbox
from cluster.protocol.versions import PRODUCE, VERSIONS
from cluster.timers import Timer
from cluster.wall_clock import WallClock
from replica.errors import ErrorCode, KafkaError
from replica.ids import ACKS_ALL, OFFSETS_TOPIC, LeaderEpoch, Offset, TopicPartition
from replica.log.records import BatchHeader, build_batch, check_crc, read_records
from replica.trace.events import Emit, Recorder

LOAD_BYTES_PER_STEP = 64 << 10
"""A log is read in steps of this size, so that the broker does other things between them."""
Respond = Callable[[Result], None]


class _Waiting(NamedTuple):
    connection: ConnectionId
    respond: Respond


def group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        metadata_max_bytes=config.offset_metadata_max_bytes,
        retention_ms=config.offsets_retention_minutes * 60_000,
        retention_check_interval_ms=config.offsets_retention_check_interval_ms,
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
    ) -> None:
        self._node = node
        self._outbox = outbox
        self._replicas = replicas
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
        )
        self._requests = count()
        self._waiting: dict[RequestId, _Waiting] = {}
        self._in_progress: dict[ConnectionId, RequestId] = {}
        self._written: deque[tuple[WriteId, ErrorCode, Offset]] = deque()
        self._alarm: tuple[int, Timer] | None = None

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
        request = next(self._requests)
        self._waiting[request] = _Waiting(connection, respond)
        self._in_progress[connection] = request
        self._perform(self.coordinator.step(make_input(request)), now_us)

    def gone(self, connection: ConnectionId) -> None:
        """No answer can reach the client there; the member's session goes on until it times out, as in Kafka."""
        request = self._in_progress.pop(connection, None)
        if request is not None:
            self._waiting.pop(request, None)

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
        if names and self.coordinator.index.groups:
            self._perform(self.coordinator.step(PartitionsDeleted(now_us=now_us, partitions=tuple(names))), now_us)

    def settle(self, now_us: int) -> None:
        """Records written meanwhile count from now on; to be called at the end of each step of the broker."""
        while self._written:
            write, error, offset = self._written.popleft()
            written = Written(now_us=now_us, write=write, error=error, offset=offset)
            self._perform(self.coordinator.step(written), now_us)

    # -------------------------------------------------------------------------------------------------------- actions

    def _perform(self, actions: list[Action], now_us: int) -> None:
        for action in actions:
            match action:
                case AnswerRequest():
                    waiting = self._waiting.pop(action.request, None)
                    if waiting is not None:
                        self._in_progress.pop(waiting.connection, None)
                        waiting.respond(action.result)
                case Append():
                    self._append(action, now_us)
                case Load():
                    self._load(action.partition, action.leader_epoch, now_us)
                case Emit():
                    self._recorder.emit(action.event)
        self._set_alarm()

    def _set_alarm(self) -> None:
        """One deadline of the broker stands for the earliest of the coordinator's."""
        due_us = self.coordinator.next_deadline_us
        if self._alarm is not None and self._alarm[0] == due_us:
            return
        if self._alarm is not None:
            self._alarm[1].cancel()
            self._alarm = None
        if due_us is not None:
            self._alarm = (due_us, self._outbox.timers.at(due_us, self._ring))

    def _ring(self, now_us: int) -> None:
        self._alarm = None
        self._perform(self.coordinator.tick(now_us), now_us)

    def _append(self, action: Append, now_us: int) -> None:
        """Simplified: these appends keep no handler waiting for a slow disk."""
        name = TopicPartition(OFFSETS_TOPIC, action.partition)
        batch = memoryview(build_batch(action.records, timestamp_ms=action.timestamp_ms))

        def appended(results: ProduceResults, cause: int | None) -> None:
            if action.write is not None:
                result = results[name]
                self._written.append((action.write, result.error, result.base_offset))

        self._replicas.append_records(
            0 if action.write is None else ACKS_ALL,
            self._commit_timeout_us,
            [(name, batch)],
            self._node,
            VERSIONS[PRODUCE][1],
            appended,
            now_us,
            internal_topics_allowed=True,
        )

    # -------------------------------------------------------------------------------------------------------- loading

    def _load(self, partition: int, leader_epoch: LeaderEpoch, now_us: int) -> None:
        """Read the log from its start to its end, as far as it goes, committed or not."""
        name = TopicPartition(OFFSETS_TOPIC, partition)
        led = self._replicas.partitions.get(name)
        if led is None:
            return
        log = led.log
        size_bytes = log.bytes_available(log.log_start_offset, log.log_end_offset)
        first = partial(self._read_on, partition, leader_epoch, log.raw_batches(), Replay())
        self._outbox.timers.at(log.disk.speed.read_ends_us(size_bytes, now_us), first)

    def _read_on(
        self,
        partition: int,
        leader_epoch: LeaderEpoch,
        batches: Iterator[tuple[BatchHeader, bytes]],
        replay: Replay,
        now_us: int,
    ) -> None:
        if self.coordinator.index.loading.get(partition) != leader_epoch:
            return
        left = LOAD_BYTES_PER_STEP
        for header, batch in batches:
            _replay_batch(replay, header, batch)
            left -= len(batch)
            if left <= 0:
                rest = partial(self._read_on, partition, leader_epoch, batches, replay)
                self._outbox.timers.at(now_us + 1, rest)
                return
        groups = replay.groups(self._clock.at(now_us) // 1000)
        loaded = Loaded(
            now_us=now_us,
            partition=partition,
            leader_epoch=leader_epoch,
            groups=groups,
            unreadable=replay.unreadable,
        )
        self._perform(self.coordinator.step(loaded), now_us)


def _replay_batch(replay: Replay, header: BatchHeader, batch: bytes) -> None:
    """Records damaged on the disk are skipped. Differs from Kafka: it gives up there, and then knows no group."""
    if header.is_control:
        return
    try:
        records = read_records(batch) if check_crc(batch, 0, header) else None
    except KafkaError:
        records = None
    if records is None:
        replay.unreadable += header.last_offset - header.base_offset + 1
        return
    for record in records:
        replay.record(header.base_offset, record.key, record.value)
