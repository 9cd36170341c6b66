"""Effects of a metadata change on the replicas of one broker: delete, lead or follow, in that order.

source: ReplicaManager.applyDelta, TopicDelta.localChanges, BrokerMetadataPublisher.scala
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.broker.replicas.fetchers import ReplicaFetchers
from cluster.broker.replicas.log_life import LogDeletions
from cluster.broker.replicas.manager import ReplicaManager
from cluster.broker.replicas.partition import Partition
from cluster.clocks import Timers, WallClock
from cluster.dynamic_settings import RunningConfig
from cluster.node import Action
from controller.image import PartitionRegistration, TopicImage
from replica.ids import LeaderEpoch, Names, TopicPartition
from replica.inputs import LagLimits
from replica.log.broker_logs import BrokerLogs
from replica.rules import Rules
from replica.trace.events import Recorder, ReplicaDeleted


class AssignedPartition(NamedTuple):
    """One partition that this broker has a replica of, as the controller wants it."""

    name: TopicPartition
    topic: TopicImage
    registration: PartitionRegistration


class Roles(Protocol):
    """Learns which partitions this broker now leads, now follows, or no longer hosts."""

    def led(self, name: TopicPartition, leader_epoch: LeaderEpoch, now_us: int) -> None: ...

    def not_led(self, name: TopicPartition, leader_epoch: LeaderEpoch | None, now_us: int) -> None: ...

    def deleted(self, names: Sequence[TopicPartition], now_us: int) -> None: ...


class ReplicaChanges:
    """in_controlled_shutdown: replicas that have left the ISR are then not fetched any more.

    roles: notified when the replicas have taken theirs up
    """

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        config: RunningConfig,
        rules: Rules,
        names: Names,
        cache: MetadataCache,
        replicas: ReplicaManager,
        fetchers: ReplicaFetchers,
        logs: BrokerLogs,
        recorder: Recorder,
        clock: WallClock,
        timers: Timers[Action],
        roles: Roles,
    ) -> None:
        self.in_controlled_shutdown = False
        self._identity = identity
        self._config = config
        self._rules = rules
        self._names = names
        self._cache = cache
        self._replicas = replicas
        self._fetchers = fetchers
        self._logs = logs
        self._recorder = recorder
        self._clock = clock
        self._deletions = LogDeletions(timers, lambda: config.current.log_segment_delete_delay_ms * 1000)
        self._roles = roles

    def apply(self, changed: Sequence[TopicPartition], configured: Sequence[str], now_us: int) -> None:
        """changed: partitions     configured: topics; both in the order of the metadata log"""
        assigned: list[AssignedPartition] = []
        for name in changed:
            topic = self._cache.image.topics.get(name.topic)
            registration = self._cache.image.partition(name.topic, name.partition)
            if topic is None or registration is None or self._identity.broker_id not in registration.replicas:
                self._delete(name, now_us)
            else:
                assigned.append(AssignedPartition(name, topic, registration))
        self.assign(assigned, now_us)
        if configured:
            self._configure(configured, now_us)
        deleted = [name for name in changed if name.topic not in self._cache.image.topics]
        self._roles.deleted(deleted, now_us)

    def assign(self, assigned: Sequence[AssignedPartition], now_us: int) -> None:
        """Lead or follow each of these partitions, as far as that is news. source: becomeLeaderOrFollower"""
        leaders: list[tuple[Partition, PartitionRegistration]] = []
        followers: list[tuple[Partition, PartitionRegistration]] = []
        for name, topic, registration in assigned:
            if name in self._replicas.offline:
                continue
            partition = self._partition(name, topic, now_us)
            if _is_news(partition, registration):
                leads = registration.leader == self._identity.broker_id
                (leaders if leads else followers).append((partition, registration))
        for partition, registration in leaders:
            self._fetchers.remove(partition.topic_partition)
            partition.make_leader(registration, now_us)
        self._follow(followers, now_us)
        self._fetchers.close_idle()
        self._replicas.start_high_watermark_checkpoints(now_us)
        for name, _, registration in assigned:
            if registration.leader == self._identity.broker_id:
                self._roles.led(name, registration.leader_epoch, now_us)
            else:
                self._roles.not_led(name, registration.leader_epoch, now_us)

    def keep(self, name: TopicPartition, topic: TopicImage, now_us: int) -> None:
        """Have a replica of this partition, and leave its role as it is."""
        if name not in self._replicas.offline:
            self._partition(name, topic, now_us)

    def stop(self, partitions: Sequence[tuple[TopicPartition, bool]], now_us: int) -> None:
        """Stop following these; delete the log of those with True. source: ReplicaManager.stopReplicas"""
        for name, delete in partitions:
            partition = self._replicas.partitions.get(name)
            if delete:
                self._delete(name, now_us)
            elif partition is not None:
                self._fetchers.remove(name)
                partition.following_began(now_us)
                self._left(name, now_us)
        self._fetchers.close_idle()

    def _left(self, name: TopicPartition, now_us: int) -> None:
        self._roles.not_led(name, None, now_us)

    def _follow(self, followers: Sequence[tuple[Partition, PartitionRegistration]], now_us: int) -> None:
        """All take up their roles first: a waiting fetch of several of them is answered with an error for each.

        source: applyLocalFollowersDelta, stopPartitions
        """
        starting, stopping = [], []
        for partition, registration in followers:
            begins_anew = partition.make_follower(registration)
            if self.in_controlled_shutdown and self._identity.broker_id not in registration.in_sync_replicas:
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
            self._delete(name, now_us)  # A topic of that name was deleted and created again.
        partition = self._replicas.partitions[name] = self._open(name, topic)
        return partition

    def _open(self, name: TopicPartition, topic: TopicImage) -> Partition:
        log = self._logs.logs.get(name)
        if log is None:
            log = self._logs.create(name, topic.log_config, topic.topic_id)
        else:
            self._logs.set_config(name, topic.log_config)
        return Partition(
            topic_id=topic.topic_id,
            log=log,
            broker_id=self._identity.broker_id,
            names=self._names,
            recorder=self._recorder,
            hooks=self._replicas,
            lag_limits=LagLimits(
                time_max_us=self._config.current.replica_lag_time_max_ms * 1000,
                max_messages=self._config.current.replica_lag_max_messages
                if self._rules.isr_lag == "messages"
                else None,
            ),
            rules=self._rules,
            brokers=self._cache,
            clock=self._clock,
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
        """source: stopPartitions; also the stray log of a topic that was deleted while we were down"""
        self._fetchers.remove(name)
        self._replicas.remove(name)
        self._replicas.offline.pop(name, None)
        self._replicas.complete_all(name, now_us)
        self._left(name, now_us)
        log = self._logs.logs.get(name)
        if log is not None:
            me = self._identity.name
            is_deleted = self._cache.image.partition(name.topic, name.partition) is None
            why = "the topic was deleted" if is_deleted else "it is no replica any more"
            self._recorder.emit(
                ReplicaDeleted(
                    node=me,
                    topic=name.topic,
                    partition=name.partition,
                    previous_log_end_offset=log.log_end_offset,
                    reason=f"{me} deletes its log of {name}: {why}",
                )
            )
            self._deletions.add(self._logs.delete(name), now_us)


def _is_news(partition: Partition, registration: PartitionRegistration) -> bool:
    """A partition epoch may come twice: the answer to an AlterPartition can be faster than the metadata."""
    known = partition.registration
    return known is None or registration.partition_epoch >= known.partition_epoch
