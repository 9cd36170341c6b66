"""A broker: its parts, how they start and stop, and where frames go. source: BrokerServer.scala, KafkaApis.scala"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cluster.apis import Apis
from cluster.broker_lifecycle import BrokerIdentity, BrokerLifecycle
from cluster.channel import Channel, Channels
from cluster.config import BrokerConfig
from cluster.isr_updates import IsrUpdates
from cluster.metadata_follower import MetadataCache, MetadataFollower
from cluster.node import Action, ConnectionId
from cluster.outbox import Outbox
from cluster.partition import Partition
from cluster.replica_fetchers import ReplicaFetchers
from cluster.replica_manager import ReplicaManager
from controller.image import PartitionRegistration, TopicImage
from replica.config import TopicConfig
from replica.disk import Disk
from replica.errors import PeerViolation
from replica.ids import Names, TopicPartition
from replica.log_manager import LogManager
from replica.trace import LogFlushed, LogRecovered, Recorder

MAX_SHUTDOWN_US = 300_000_000
"""BrokerServer.shutdown: a controlled shutdown takes at most five minutes, then the broker stops all the same."""


class BrokerCore:
    """One incarnation of a broker; starting it recovers its logs from disk. `is_open` while its files are."""

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        config: BrokerConfig,
        names: Names,
        controller: tuple[str, int],
        log_dir: Path,
        disk: Disk,
        recorder: Recorder,
    ) -> None:
        self.identity = identity
        self.cache = MetadataCache()
        self._config = config
        self._names = names
        self._recorder = recorder
        self._log_dir = log_dir
        self._disk = disk
        self._controller = controller
        self._outbox = Outbox()
        self._channels = Channels()
        self._accepted: dict[ConnectionId, str] = {}
        self._too_early: list[tuple[ConnectionId, bytearray]] = []
        self.is_open = False
        self.logs: LogManager
        self.replicas: ReplicaManager
        self.fetchers: ReplicaFetchers
        self.lifecycle: BrokerLifecycle

    # ---------------------------------------------------------------------------------------------- start and stop

    def start(self, now_us: int) -> list[Action]:
        defaults = TopicConfig(flush_messages=self._config.log_flush_interval_messages)
        self.logs = LogManager.open(self._log_dir, self._disk, self.identity.broker_id, defaults, now_us)
        self._state_recovery()
        self._build()
        self.replicas.start(now_us)
        self.lifecycle.start(now_us)
        self._metadata.fetch(now_us)
        self.is_open = True
        return self._outbox.take()

    def _build(self) -> None:
        identity, config, outbox = self.identity, self._config, self._outbox
        self.lifecycle = BrokerLifecycle(
            identity=identity,
            config=config,
            outbox=outbox,
            channel=self._controller_channel(),
            previous_broker_epoch=self.logs.previous_broker_epoch,
            metadata_offset=lambda: self.cache.image.offset,
            on_running=self._open_for_requests,
            on_may_stop=self._stop,
        )
        isr_updates = IsrUpdates(
            identity=identity,
            config=config,
            outbox=outbox,
            channel=self._controller_channel(),
            broker_epoch=lambda: self.lifecycle.broker_epoch,
        )
        self.replicas = ReplicaManager(
            node=identity.name,
            config=config,
            outbox=outbox,
            logs=self.logs,
            recorder=self._recorder,
            lookup=self.cache,
            propose_isr=isr_updates.propose,
        )
        self.fetchers = ReplicaFetchers(
            identity=identity,
            config=config,
            names=self._names,
            outbox=outbox,
            channels=self._channels,
            cache=self.cache,
            replicas=self.replicas,
            logs=self.logs,
            recorder=self._recorder,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
        )
        self._metadata = MetadataFollower(
            identity=identity,
            outbox=outbox,
            channel=self._controller_channel(),
            cache=self.cache,
            on_change=self._metadata_changed,
        )
        self._apis = Apis(
            identity=identity,
            names=self._names,
            outbox=outbox,
            cache=self.cache,
            replicas=self.replicas,
            recorder=self._recorder,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
        )

    def _controller_channel(self) -> Channel:
        return Channel(self._outbox, self._channels, *self._controller)

    def _open_for_requests(self, now_us: int) -> None:
        """Unfenced for the first time: what clients and followers have sent meanwhile is served now."""
        waiting, self._too_early = self._too_early, []
        for connection, frame in waiting:
            self._handle(connection, frame, now_us)

    def begin_shutdown(self, now_us: int) -> list[Action]:
        """Controlled shutdown (SIGTERM)."""
        if self._config.controlled_shutdown_enable:
            self.lifecycle.begin_controlled_shutdown(now_us)
            self._outbox.timers.at(now_us + MAX_SHUTDOWN_US, self._stop)
        else:
            self._stop(now_us)
        return self._outbox.take()

    def _stop(self, now_us: int) -> None:
        """Flush, checkpoint, leave the clean-shutdown marker, exit. source: BrokerServer.shutdown"""
        if not self.is_open:
            return
        self.is_open = False
        self.logs.close_clean(self.lifecycle.broker_epoch, self.replicas.high_watermarks())
        self._outbox.exit()

    def crash(self) -> None:
        """The process is gone: its file descriptors close, nothing is written."""
        if self.is_open:
            self.is_open = False
            self.logs.abandon()

    def flush(self, wanted: TopicPartition | None) -> None:
        """fsync now (the scenario's `flush`): all logs, or one."""
        for name, partition in self.replicas.partitions.items():
            if wanted in (None, name):
                partition.log.flush()
                self._recorder.emit(
                    LogFlushed(
                        node=self.identity.name,
                        topic=name.topic,
                        partition=name.partition,
                        offset=partition.log.recovery_point,
                        reason=f"{self.identity.name} has {name} on disk up to {partition.log.recovery_point}",
                    )
                )

    def _state_recovery(self) -> None:
        for name, recovery in self.logs.recoveries.items():
            log = self.logs.logs[name]
            how = "in order" if self.logs.was_clean else "without an orderly shutdown"
            cut = f"; {recovery.truncated_bytes} bytes were torn and are cut off" if recovery.truncated_bytes else ""
            high_watermark = self.logs.high_watermark_checkpoint(name)
            self._recorder.emit(
                LogRecovered(
                    node=self.identity.name,
                    topic=name.topic,
                    partition=name.partition,
                    clean=self.logs.was_clean,
                    log_start_offset=log.log_start_offset,
                    log_end_offset=log.log_end_offset,
                    high_watermark=high_watermark,
                    size_bytes=recovery.truncated_bytes,
                    reason=f"{self.identity.name} comes back {how}: {name} ends at {log.log_end_offset}, the checkpointed "
                    f"high watermark is {high_watermark}{cut}",
                )
            )

    # ------------------------------------------------------------------------------------------------------ metadata

    def _metadata_changed(self, changed: list[TopicPartition], now_us: int) -> None:
        """Take up the role the controller gives us on each partition. source: ReplicaManager.applyDelta"""
        for name in changed:
            topic = self.cache.image.topics.get(name.topic)
            registration = self.cache.image.partition(name.topic, name.partition)
            if topic is None or registration is None:
                self._drop_replica(name)
            elif self.identity.broker_id in registration.replicas:
                self._take_role(name, topic, registration, now_us)

    def _take_role(
        self, name: TopicPartition, topic: TopicImage, registration: PartitionRegistration, now_us: int
    ) -> None:
        partition = self.replicas.partitions.get(name)
        if partition is None:
            partition = self.replicas.partitions[name] = self._open_partition(name, topic)
        known = partition.registration
        if known is not None and registration.partition_epoch < known.partition_epoch:
            return
        if registration.leader == self.identity.broker_id:
            self.fetchers.remove(name)
            partition.make_leader(registration, topic.log_config.min_insync_replicas, now_us)
        elif partition.make_follower(registration, now_us):
            self.fetchers.remove(name)
            if registration.has_leader:
                self.fetchers.add(partition, registration, now_us)

    def _open_partition(self, name: TopicPartition, topic: TopicImage) -> Partition:
        # A broker's own flush policy wins over the topic's default, as its server.properties would.
        flush_messages = min(topic.log_config.flush_messages, self._config.log_flush_interval_messages)
        log_config = replace(topic.log_config, flush_messages=flush_messages)
        log = self.logs.logs.get(name)
        if log is None:
            log = self.logs.create(name, log_config, topic.topic_id)
        else:
            self.logs.set_config(name, log_config)
        return Partition(
            topic_id=topic.topic_id,
            log=log,
            broker_id=self.identity.broker_id,
            names=self._names,
            recorder=self._recorder,
            hooks=self.replicas,
            replica_lag_time_max_us=self._config.replica_lag_time_max_ms * 1000,
            is_eligible=self.cache.is_eligible,
            high_watermark=self.logs.high_watermark_checkpoint(name),
        )

    def _drop_replica(self, name: TopicPartition) -> None:
        if self.replicas.partitions.pop(name, None) is not None:
            self.fetchers.remove(name)
            self.logs.delete(name)

    # ------------------------------------------------------------------------------------------------------ NodeCore

    @property
    def next_deadline_us(self) -> int | None:
        return self._outbox.timers.next_deadline_us

    def tick(self, now_us: int) -> list[Action]:
        self._outbox.timers.run_due(now_us)
        return self._outbox.take()

    def accepted(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        self._accepted[connection] = peer
        return []

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]:
        channel = self._channels.of(connection)
        if channel is not None:
            channel.connected(now_us)
        return self._outbox.take()

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> list[Action]:
        channel = self._channels.of(connection)
        if channel is not None:
            channel.received(frame, now_us)
        elif self.lifecycle.running:
            self._handle(connection, frame, now_us)
        else:  # Kafka opens its listeners to requests only once the broker is unfenced.
            self._too_early.append((connection, frame))
        return self._outbox.take()

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]:
        channel = self._channels.of(connection)
        if channel is not None:
            channel.disconnected(reason, now_us)
        self._accepted.pop(connection, None)
        return self._outbox.take()

    def _handle(self, connection: ConnectionId, frame: bytearray, now_us: int) -> None:
        peer = self._accepted.get(connection)
        if peer is None:
            return
        try:
            self._apis.handle(connection, peer, frame, now_us)
        except PeerViolation:
            self._accepted.pop(connection, None)
            self._outbox.close(connection)
