"""Applies metadata changes to the replicas of one broker: deletes replicas, then leads or follows the others.

Source: ReplicaManager.applyDelta, TopicDelta.localChanges, BrokerMetadataPublisher.scala
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.fetchers import ReplicaFetchers
from cluster.broker.replicas.log_life import LogDeletions
from cluster.broker.replicas.manager import ReplicaManager
from cluster.broker.replicas.partition import Partition
from controller.image import PartitionRegistration, TopicImage
from replica.causes import DeletionCause
from replica.ids import LeaderEpoch, TopicPartition
from replica.inputs import LagLimits
from replica.log.broker_logs import BrokerLogs
from replica.trace.events import ReplicaDeleted


class AssignedPartition(NamedTuple):
    """A partition with a replica on this broker, as the metadata describes it."""

    name: TopicPartition
    topic: TopicImage
    registration: PartitionRegistration


class Roles(Protocol):
    """A listener for changes of the roles of this broker's replicas."""

    def led(self, name: TopicPartition, leader_epoch: LeaderEpoch, now_us: int) -> None: ...

    def not_led(self, name: TopicPartition, leader_epoch: LeaderEpoch | None, now_us: int) -> None: ...

    def deleted(self, names: Sequence[TopicPartition], now_us: int) -> None: ...


class ReplicaChanges:
    """Applies metadata changes to the replicas of one broker.

    Attributes:
        in_controlled_shutdown: True to stop followers outside the ISR instead of letting them fetch.
        roles: notified after the replicas have taken their roles.
    """

    def __init__(
        self,
        base: BrokerBase,
        *,
        replicas: ReplicaManager,
        fetchers: ReplicaFetchers,
        logs: BrokerLogs,
        roles: Roles,
    ) -> None:
        self.in_controlled_shutdown = False
        self._base = base
        self._broker_id = base.broker_id
        self._cache = base.cache
        self._replicas = replicas
        self._fetchers = fetchers
        self._logs = logs
        self._recorder = base.recorder
        running = base.running
        self._deletions = LogDeletions(base.outbox.timers, lambda: running.current.log_segment_delete_delay_ms * 1000)
        self._roles = roles

    def apply(self, changed: Sequence[TopicPartition], configured: Sequence[str], now_us: int) -> None:
        """Apply the current metadata to changed partitions, and to topics with changed settings."""
        assigned: list[AssignedPartition] = []
        for name in changed:
            topic = self._cache.image.topics.get(name.topic)
            registration = self._cache.image.partition(name.topic, name.partition)
            if topic is None or registration is None or self._broker_id not in registration.replicas:
                self._delete(name, now_us)
            else:
                assigned.append(AssignedPartition(name, topic, registration))
        self.assign(assigned, now_us)
        if configured:
            self._configure(configured, now_us)
        deleted = [name for name in changed if name.topic not in self._cache.image.topics]
        self._roles.deleted(deleted, now_us)

    def assign(self, assigned: Sequence[AssignedPartition], now_us: int) -> None:
        """Lead or follow each of these partitions whose state has changed. Source: becomeLeaderOrFollower"""
        leaders: list[tuple[Partition, PartitionRegistration]] = []
        followers: list[tuple[Partition, PartitionRegistration]] = []
        for name, topic, registration in assigned:
            if name in self._replicas.offline:
                continue
            partition = self._partition(name, topic, now_us)
            if _is_news(partition, registration):
                leads = registration.leader == self._broker_id
                (leaders if leads else followers).append((partition, registration))
        for partition, registration in leaders:
            self._fetchers.remove(partition.topic_partition)
            partition.make_leader(registration, now_us)
        self._follow(followers, now_us)
        self._fetchers.close_idle()
        self._replicas.start_high_watermark_checkpoints(now_us)
        for name, _, registration in assigned:
            if registration.leader == self._broker_id:
                self._roles.led(name, registration.leader_epoch, now_us)
            else:
                self._roles.not_led(name, registration.leader_epoch, now_us)

    def keep(self, name: TopicPartition, topic: TopicImage, now_us: int) -> None:
        """Create the replica of a partition if it does not exist; an existing one keeps its role."""
        if name not in self._replicas.offline:
            self._partition(name, topic, now_us)

    def stop(self, partitions: Sequence[tuple[TopicPartition, bool]], now_us: int) -> None:
        """Stop the replicas of partitions; True in a pair means that the log is deleted too. Source: stopReplicas"""
        for name, delete in partitions:
            partition = self._replicas.partitions.get(name)
            if delete:
                self._delete(name, now_us)
            elif partition is not None:
                self._fetchers.remove(name)
                partition.following_began(now_us)
                self._note_not_led(name, now_us)
        self._fetchers.close_idle()

    def _note_not_led(self, name: TopicPartition, now_us: int) -> None:
        self._roles.not_led(name, None, now_us)

    def _follow(self, followers: Sequence[tuple[Partition, PartitionRegistration]], now_us: int) -> None:
        """Follow the leaders of these partitions, or stop fetching in a controlled shutdown.

        All partitions become followers first; so waiting fetches get an error for each.
        Source: applyLocalFollowersDelta, stopPartitions
        """
        starting, stopping = [], []
        for partition, registration in followers:
            begins_anew = partition.make_follower(registration)
            if self.in_controlled_shutdown and self._broker_id not in registration.in_sync_replicas:
                stopping.append(partition)
            elif begins_anew:
                self._fetchers.remove(partition.topic_partition)
                starting.append((partition, registration))
            else:
                self._fetchers.follow_on(partition.topic_partition, registration, now_us)
        for partition, registration in starting:
            self._fetchers.add(partition, registration, now_us)
        for partition, _ in starting:
            partition.following_began(now_us)
        for partition in stopping:
            self._fetchers.remove(partition.topic_partition)
        for partition in stopping:
            partition.following_began(now_us)

    def _partition(self, name: TopicPartition, topic: TopicImage, now_us: int) -> Partition:
        partition = self._replicas.partitions.get(name)
        if partition is not None and partition.topic_id == topic.topic_id:
            return partition
        known = self._logs.topic_id(name)
        if known is not None and known != topic.topic_id:
            self._delete(name, now_us)  # The topic was deleted and created again.
        partition = self._replicas.partitions[name] = self._open(name, topic)
        return partition

    def _open(self, name: TopicPartition, topic: TopicImage) -> Partition:
        log = self._logs.logs.get(name)
        if log is None:
            log = self._logs.create(name, topic.log_config, topic.topic_id)
        else:
            self._logs.holder(name).set_config(name, topic.log_config)
        config = self._base.running.current
        return Partition(
            self._base,
            topic_id=topic.topic_id,
            log=log,
            hooks=self._replicas,
            lag_limits=LagLimits(
                time_max_us=config.replica_lag_time_max_ms * 1000,
                max_messages=config.replica_lag_max_messages if self._base.rules.isr_lag == "messages" else None,
            ),
            high_watermark=self._logs.high_watermark_checkpoint(name),
        )

    def _configure(self, topic_names: Sequence[str], now_us: int) -> None:
        here: dict[str, list[Partition]] = {topic_name: [] for topic_name in topic_names}
        for name, partition in self._replicas.partitions.items():
            if name.topic in here:
                here[name.topic].append(partition)
        for topic_name, partitions in here.items():
            topic = self._cache.image.topics.get(topic_name)
            if topic is None:
                continue
            for partition in partitions:
                partition.configured(topic.log_config, now_us)

    def _delete(self, name: TopicPartition, now_us: int) -> None:
        """Delete a replica, or a log whose topic was deleted while the broker was down. Source: stopPartitions"""
        self._fetchers.remove(name)
        self._replicas.remove(name)
        self._replicas.offline.pop(name, None)
        self._replicas.complete_all(name, now_us)
        self._note_not_led(name, now_us)
        log = self._logs.logs.get(name)
        if log is not None:
            is_deleted = self._cache.image.partition(name.topic, name.partition) is None
            self._recorder.emit(
                ReplicaDeleted(
                    self._base.node,
                    *name,
                    previous_log_end_offset=log.log_end_offset,
                    cause=DeletionCause.TOPIC_DELETED if is_deleted else DeletionCause.NOT_ASSIGNED,
                )
            )
            self._deletions.add(self._logs.delete(name), now_us)


def _is_news(partition: Partition, registration: PartitionRegistration) -> bool:
    """Return True unless the partition's known state is newer than `registration`.

    The AlterPartition response can arrive before the metadata record of the same state.
    """
    known = partition.registration
    return known is None or registration.partition_epoch >= known.partition_epoch
