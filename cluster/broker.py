"""A broker: its parts, how they start and stop, and where frames go. source: BrokerServer.scala, KafkaApis.scala"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from cluster.admin_apis import AdminApis
from cluster.apis import Apis
from cluster.auto_topics import AutoTopics, WantedTopic
from cluster.blocking_logs import BlockingLogs
from cluster.broker_lifecycle import BrokerIdentity, BrokerLifecycle, BrokerState
from cluster.channel import Channels
from cluster.config import BrokerConfig
from cluster.controller_channel import ActiveController, ControllerChannel
from cluster.cpu import CpuTimes
from cluster.directory_assignments import DirectoryAssignments
from cluster.envelopes import FORWARDED
from cluster.fetch_sessions import FetchSessionCache, FetchSessions
from cluster.fetcher_context import FetcherContext
from cluster.forwarding import RETRY_US as FORWARDING_RETRY_US
from cluster.forwarding import Forwarding
from cluster.group_apis import GroupApis
from cluster.group_offset_apis import GroupOffsetApis
from cluster.group_service import GroupService
from cluster.isr_updates import FOR_EVER_US, IsrUpdates
from cluster.log_dir_failures import LogDirFailures
from cluster.metadata_apis import MetadataApis
from cluster.metadata_follower import MetadataCache, MetadataFollower
from cluster.node import Action, ConnectionId
from cluster.offsets_topic import OffsetsTopic
from cluster.outbox import Outbox
from cluster.partition_locks import PartitionLocks
from cluster.producer_ids import IdsOfController, IdsOfRegistration, InitProducerIdApi, ProducerIds
from cluster.record_deletion import RecordDeletion
from cluster.replica_changes import ReplicaChanges
from cluster.replica_fetchers import ReplicaFetchers
from cluster.replica_manager import ProposeIsrTo, ReplicaManager
from cluster.replication_quotas import ReplicationQuotas
from cluster.request_log import RequestLog
from cluster.responder import Handler, Responder
from cluster.socket_server import SocketServer
from cluster.wall_clock import WallClock
from cluster.wire.headers import RequestHeader
from cluster.wire.primitives import MAX_INT32
from cluster.zookeeper_lifecycle import ZooKeeperLifecycle
from cluster.zookeeper_plane import ZooKeeperPlane
from controller.events import Reply
from replica.broker_logs import BrokerLogs
from replica.config import TopicConfig
from replica.disk import Disk
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Names, TopicPartition
from replica.rules import Rules
from replica.trace import LogFlushed, LogRecovered, Recorder

MAX_SHUTDOWN_US = 300_000_000
"""BrokerServer.shutdown: a controlled shutdown takes at most five minutes, then the broker stops all the same."""


class BrokerCore:
    """One incarnation of a broker; starting it recovers its logs from disk. `is_open` while its files are.

    controllers: address of every controller of the quorum
    """

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        config: BrokerConfig,
        rules: Rules,
        names: Names,
        controllers: Mapping[BrokerId, tuple[str, int]],
        disks: Mapping[str, Disk],
        clock: WallClock,
        recorder: Recorder,
        cpu: CpuTimes | None = None,
        stopwatch: Callable[[], int] | None = None,
    ) -> None:
        """cpu: what takes time; None: nothing does
        stopwatch: the time of the trace, by which every request is measured; None: none is
        """
        self.identity = identity
        self.cache = MetadataCache()
        self._config = config
        self._rules = rules
        self._names = names
        self._recorder = recorder
        self._disks = disks
        self._clock = clock
        self._controller = ActiveController(controllers)
        self._outbox = Outbox()
        self._channels = Channels()
        self._server = SocketServer(
            node=identity.name,
            config=config,
            cpu=cpu or CpuTimes(),
            outbox=self._outbox,
            recorder=recorder,
            handle=self._handle,
            on_gone=self._connection_gone,
            requests=None if stopwatch is None else RequestLog(identity.name, recorder, stopwatch),
        )
        self._locks = PartitionLocks()
        self._responder = Responder(self._outbox, self._server.connections)
        self._unpublished: dict[TopicPartition, None] = {}
        self._forwarding: Forwarding | None = None
        self._auto_topics: AutoTopics | None = None
        self.is_open = False
        self.logs: BrokerLogs
        self.replicas: ReplicaManager
        self.fetchers: ReplicaFetchers
        self.lifecycle: BrokerLifecycle | ZooKeeperLifecycle
        self.zookeeper: ZooKeeperPlane | None = None
        """The control plane of the ZooKeeper era; None where the controller is a quorum (KRaft)."""

    # ---------------------------------------------------------------------------------------------- start and stop

    def start(self, now_us: int) -> list[Action]:
        defaults = TopicConfig(flush_messages=self._config.log_flush_interval_messages)
        self.logs = BrokerLogs.open(
            self._disks,
            self.identity.broker_id,
            defaults,
            self._clock.at(now_us),
            producer_id_expiration_ms=self._config.producer_id_expiration_ms,
        )
        self._state_recovery()
        self._build()
        self.is_open = True
        if not self.logs.directories:
            self._outbox.exit("none of its log directories can be read")
            return self._outbox.take()
        for disk in self._disks.values():
            disk.on_failure = self._log_dir_failures.report
        self.replicas.start(now_us)
        self.lifecycle.start(now_us)
        if self.zookeeper is None:
            self._metadata.fetch(now_us)
        return self._outbox.take()

    def _build(self) -> None:
        identity, config, outbox = self.identity, self._config, self._outbox
        propose_isr = self._join_registry() if self._rules.membership == "zk-session" else self._join_quorum()
        quotas = ReplicationQuotas(identity.broker_id, lambda: self.cache.image)
        self.replicas = ReplicaManager(
            node=identity.name,
            config=config,
            rules=self._rules,
            outbox=outbox,
            logs=self.logs,
            recorder=self._recorder,
            clock=self._clock,
            lookup=self.cache,
            quotas=quotas,
            propose_isr=propose_isr,
        )
        self.fetchers = ReplicaFetchers(
            FetcherContext(
                identity=identity,
                config=config,
                rules=self._rules,
                names=self._names,
                outbox=outbox,
                channels=self._channels,
                locks=self._locks,
                cache=self.cache,
                replicas=self.replicas,
                logs=self.logs,
                quota=lambda: quotas.follower,
                recorder=self._recorder,
                clock=self._clock,
                replicated_us=self._server.handler_time.times.replicated_us,
                broker_epoch=self._fetch_epoch,
                halt=outbox.exit,
            )
        )
        if self.zookeeper is None:
            self._forwarding = Forwarding(
                node=identity.name,
                channel=self._controller_channel(retry_us=FORWARDING_RETRY_US),
                responder=self._responder,
                request_timeout_us=config.request_timeout_ms * 1000,
            )
            self._auto_topics = AutoTopics(self._forwarding, identity.name, config.request_timeout_ms)
        topic = OffsetsTopic(config, self.cache, lambda wanted, now_us: self._create_topics([wanted], now_us))
        self._groups = GroupService(
            node=identity.name,
            life=identity.incarnation_id,
            config=config,
            outbox=outbox,
            replicas=self.replicas,
            clock=self._clock,
            recorder=self._recorder,
            partition_of=topic.partition_of,
        )
        self._changes = ReplicaChanges(
            identity=identity,
            config=config,
            rules=self._rules,
            names=self._names,
            cache=self.cache,
            replicas=self.replicas,
            fetchers=self.fetchers,
            logs=self.logs,
            recorder=self._recorder,
            clock=self._clock,
            timers=outbox.timers,
            roles=self._groups,
        )
        self._log_dir_failures = LogDirFailures(
            node=identity.name,
            metadata_log_dir=next(iter(self._disks)) if self.zookeeper is None else None,
            logs=self.logs,
            replicas=self.replicas,
            fetchers=self.fetchers,
            recorder=self._recorder,
            propagate=self.lifecycle.propagate_directory_failure,
            halt=outbox.exit,
        )
        self._assignments = DirectoryAssignments(
            identity=identity,
            outbox=outbox,
            channel=self._controller_channel(retry_us=config.broker_session_timeout_ms * 1000 // 2),
            cache=self.cache,
            replicas=self.replicas,
            logs=self.logs,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
        )
        blocking_logs = BlockingLogs(self.replicas, self._server.handlers, self._locks, outbox)
        self._apis = Apis(
            identity=identity,
            config=config,
            outbox=outbox,
            connections=self._server.connections,
            cache=self.cache,
            replicas=self.replicas,
            logs=blocking_logs,
            fetch_sessions=FetchSessions(self._fetch_session_cache(), self.cache.topic_name),
            handler_time=self._server.handler_time,
            recorder=self._recorder,
            responder=self._responder,
            others={**self._group_apis(topic), **self._admin_apis()},
        )

    def _group_apis(self, topic: OffsetsTopic) -> Mapping[int, Handler]:
        membership = GroupApis(
            service=self._groups, topic=topic, connections=self._server.connections, responder=self._responder
        )
        offsets = GroupOffsetApis(service=self._groups, cache=self.cache, clock=self._clock, responder=self._responder)
        return {**membership.handlers, **offsets.handlers}

    def _admin_apis(self) -> dict[int, Handler]:
        """What admin clients ask, and what everybody asks of the metadata; some of it depends on the control plane."""
        handlers: dict[int, Handler] = {}
        producer_ids: ProducerIds = IdsOfRegistration(lambda: self.lifecycle.broker_epoch)
        if self.zookeeper is not None:
            handlers.update(self.zookeeper.serve(self.replicas, self._changes))
        if self._forwarding is not None:
            handlers.update(dict.fromkeys(FORWARDED, self._forwarding.forward))
            producer_ids = IdsOfController(
                node=self.identity.name,
                broker_id=self.identity.broker_id,
                broker_epoch=lambda: self.lifecycle.broker_epoch,
                forwarding=self._forwarding,
                timers=self._outbox.timers,
                max_wait_us=self._config.request_timeout_ms * 1000,
            )
        handlers.update(InitProducerIdApi(producer_ids, self._responder).handlers)
        metadata = MetadataApis(
            cache=self.cache,
            config=self._config,
            responder=self._responder,
            create_topics=self._create_topics,
            controller_id=None if self.zookeeper is None else self.zookeeper.controller_id,
        )
        admin = AdminApis(
            broker_id=self.identity.broker_id,
            config=self._config,
            cache=self.cache,
            replicas=self.replicas,
            logs=self.logs,
            deletion=RecordDeletion(self._outbox, self.cache, self.replicas),
            responder=self._responder,
        )
        return {**handlers, **metadata.handlers, **admin.handlers}

    def _create_topics(self, wanted: Sequence[WantedTopic], now_us: int) -> None:
        if self._auto_topics is not None:
            self._auto_topics.create(wanted, now_us)
        elif self.zookeeper is not None:
            for topic in wanted:
                self.zookeeper.topics.create(topic, now_us)

    def _fetch_session_cache(self) -> FetchSessionCache:
        draw = Random(f"{self.identity.incarnation_id}/fetch-sessions")
        slots = self._config.max_incremental_fetch_session_cache_slots
        return FetchSessionCache(slots, lambda: draw.randint(1, MAX_INT32))

    def _fetch_epoch(self) -> BrokerEpoch:
        """Followers of the ZooKeeper era do not say in which life they fetch (KIP-903 is for KRaft)."""
        return NO_BROKER_EPOCH if self.zookeeper is not None else self.lifecycle.broker_epoch

    def _join_quorum(self) -> ProposeIsrTo:
        """KRaft: registration, the metadata log and ISR proposals, each over its own connection to the controller."""
        identity, config, outbox = self.identity, self._config, self._outbox
        self.lifecycle = BrokerLifecycle(
            identity=identity,
            config=config,
            outbox=outbox,
            channel=self._controller_channel(retry_us=config.broker_session_timeout_ms * 1000 // 2),
            previous_broker_epoch=self.logs.previous_broker_epoch,
            log_dirs=self.logs.directory_ids() if len(self._disks) > 1 else (),
            metadata_offset=lambda: self.cache.image.offset,
            on_caught_up=self._publish_first,
            on_running=self._open_for_requests,
            on_stop=self._stop,
        )
        self._metadata = MetadataFollower(
            identity=identity,
            outbox=outbox,
            channels=self._channels,
            controller=self._controller,
            cache=self.cache,
            recorder=self._recorder,
            names=self._names,
            held=lambda: self.logs.logs,
            on_change=self._metadata_changed,
        )
        return IsrUpdates(
            identity=identity,
            config=config,
            outbox=outbox,
            channel=self._controller_channel(retry_us=FOR_EVER_US),
            broker_epoch=lambda: self.lifecycle.broker_epoch,
        ).propose

    def _join_registry(self) -> ProposeIsrTo:
        """ZooKeeper: a session with the registry, over which one of the brokers becomes the controller."""
        self.zookeeper = ZooKeeperPlane(
            identity=self.identity,
            config=self._config,
            rules=self._rules,
            names=self._names,
            outbox=self._outbox,
            channels=self._channels,
            responder=self._responder,
            cache=self.cache,
            recorder=self._recorder,
            registry=next(iter(self._controller.voters.values())),
            on_running=self._open_for_requests,
            on_stop=self._stop,
        )
        self.lifecycle = self.zookeeper.lifecycle
        return self.zookeeper.propose_isr

    def _controller_channel(self, retry_us: int) -> ControllerChannel:
        return ControllerChannel(self._outbox, self._channels, self._controller, retry_us=retry_us)

    def _metadata_changed(self, changed: Sequence[TopicPartition], configured: Sequence[str], now_us: int) -> None:
        """Until the controller has said that we are caught up, nothing is led or followed: metadata publishers are
        installed only then (BrokerServer.startup, initialCatchUpFuture)."""
        if self.lifecycle.state is BrokerState.STARTING:
            self._unpublished.update(dict.fromkeys(changed))
        else:
            self._publish(changed, configured, now_us)

    def _publish_first(self, now_us: int) -> None:
        """Caught up with the metadata log: take up the role it gives us on each partition."""
        waiting, self._unpublished = self._unpublished, {}
        self._publish(list(waiting), [], now_us)

    def _publish(self, changed: Sequence[TopicPartition], configured: Sequence[str], now_us: int) -> None:
        def publish(now_us: int) -> None:
            self._changes.apply(changed, configured, now_us)
            if len(self._disks) > 1:
                self._assignments.bring_up_to_date(now_us)

        self._locks.change(changed, publish, now_us)

    def _open_for_requests(self, now_us: int) -> None:
        """Unfenced for the first time."""
        self._server.open(now_us)

    def begin_shutdown(self, now_us: int) -> list[Action]:
        """Controlled shutdown (SIGTERM)."""
        if self._config.controlled_shutdown_enable:
            self._changes.in_controlled_shutdown = self.zookeeper is None
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
        self.lifecycle.stopped()
        self.logs.close_clean(self.lifecycle.broker_epoch, self.replicas.high_watermarks())
        self._outbox.exit()

    def crash(self) -> None:
        """The process is gone: its file descriptors close, nothing is written."""
        if self.is_open:
            self.is_open = False
            self.logs.abandon()

    def elect_leader(
        self,
        topic_partition: TopicPartition,
        desired: BrokerId | None,
        unclean: bool,
        answer: Callable[[Reply], None],
        now_us: int,
    ) -> list[Action]:
        """An operator asks the controller that this broker is (ZooKeeper era); the answer comes later."""
        assert self.zookeeper is not None, "a broker elects nobody where a quorum does"
        self.zookeeper.elect_leader(topic_partition, desired, unclean, answer, now_us)
        return self._outbox.take()

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
                    reason=f"{self.identity.name} comes back {how}: {name} ends at {log.log_end_offset}, "
                    f"the checkpointed high watermark is {high_watermark}{cut}",
                )
            )

    # ------------------------------------------------------------------------------------------------------ NodeCore

    @property
    def next_deadline_us(self) -> int | None:
        return self._outbox.timers.next_deadline_us

    @property
    def accepts(self) -> bool:
        return not self._server.is_full

    @property
    def max_request_bytes(self) -> int:
        return self._config.socket_request_max_bytes

    def tick(self, now_us: int) -> list[Action]:
        self._outbox.timers.run_due(now_us)
        return self._actions(now_us)

    def accepted(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        self._server.accepted(connection, peer, now_us)
        return self._actions(now_us)

    def identified(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        self._server.connections.identified(connection, peer)
        return []

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]:
        channel = self._channels.of(connection)
        if channel is not None:
            channel.connected(now_us)
        return self._actions(now_us)

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> list[Action]:
        channel = self._channels.of(connection)
        if channel is not None:
            channel.received(frame, now_us)
        else:
            self._server.received(connection, frame, now_us)
        return self._actions(now_us)

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]:
        channel = self._channels.of(connection)
        if channel is not None:
            channel.disconnected(reason, now_us)
        self._server.connections.gone(connection)
        return self._actions(now_us)

    def _connection_gone(self, connection: ConnectionId) -> None:
        """Whichever side has ended it."""
        self._groups.gone(connection)
        self.replicas.consumer_gone(connection)

    def _actions(self, now_us: int) -> list[Action]:
        if self._log_dir_failures.reported and self.is_open:
            self._log_dir_failures.handle(now_us)
        self._server.settle(now_us)
        if self.is_open:
            self._groups.settle(now_us)
        return self._server.outgoing(self._outbox.take(), now_us)

    def _handle(self, connection: ConnectionId, peer: str, frame: bytearray, now_us: int) -> RequestHeader:
        return self._apis.handle(connection, peer, frame, now_us)
