"""A Kafka broker: start, stop, and the handling of connections. Source: BrokerServer.scala, KafkaApis.scala"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

from cluster.authorization.authorizer import access_to
from cluster.broker.api_table import ServedApis
from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.coordinators import Coordinators
from cluster.broker.apis.injections import Injections
from cluster.broker.apis.offered import offered
from cluster.broker.control_planes.kraft import KRaftPlane, MetadataPublisher
from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerBase, BrokerIdentity, HeartbeatTimes
from cluster.broker.replicas.blocking_logs import BlockingLogs, PartitionLocks
from cluster.broker.replicas.changes import ReplicaChanges
from cluster.broker.replicas.fetch_sessions import FetchSessionCache, FetchSessions
from cluster.broker.replicas.fetchers import FetcherContext, ReplicaFetchers
from cluster.broker.replicas.log_life import LogDirFailures, state_recoveries
from cluster.broker.replicas.manager import ReplicaManager
from cluster.broker.replicas.replication_quotas import ReplicationQuotas
from cluster.broker.replicas.resting import MANY
from cluster.clocks import WallClock
from cluster.config import BrokerConfig
from cluster.dynamic_settings import DynamicSettings, RunningConfig
from cluster.node import Action, ConnectionId, Outbox
from cluster.operated import BrokerInput
from cluster.protocol.primitives import MAX_INT32
from cluster.protocol.versions import FETCH
from cluster.quotas.client_quotas import ClientQuotas
from cluster.request_faults import RequestFaults
from cluster.security import OPEN, ListenerSecurity
from cluster.server.request_handlers import CpuTimes
from cluster.server.responder import Refusals, Responder
from cluster.server.socket_server import RequestTimes, SocketServer
from cluster.slices import Slices
from controller.features import TRANSACTION_VERSION, level_of
from controller.image import MetadataImage
from controller.inputs import OnReply
from replica.errors import ErrorCode
from replica.ids import BrokerId, Names, TopicPartition
from replica.log.broker_logs import BrokerLogs
from replica.log.files.disk import Disk
from replica.rules import Rules
from replica.trace.events import LogFlushed, Recorder

if TYPE_CHECKING:
    from cluster.broker.apis.operator_requests import OperatorRequests
    from cluster.broker.control_planes.plane import ControlPlane, Lifecycle
    from cluster.broker.replicas.record_deletion import RecordDeletion
    from cluster.groups.service import GroupService
    from cluster.messages.admin.broker_description import OwnKey
    from cluster.server.request_log import RequestLog

MAX_SHUTDOWN_US = 300_000_000
"""Time limit of a controlled shutdown. Then the broker stops even if it still leads (BrokerServer.shutdown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTimes:
    """The clocks of a broker, and the times that its work takes.

    Attributes:
        now: returns the time of the current step in microseconds.
        cpu: CPU times of handling requests; None if work takes no time.
        stopwatch: returns the time that the trace uses, to measure request times; None not to measure them.
        slicing: returns the time, which advances within a step, to process long requests in slices; None not to.
        works_apart: True in live mode, where long computations run in a worker thread.
        phase_us: phase of periodic checks, see ReplicaManager.
        heartbeat_phase_us: phase of heartbeats, see HeartbeatTimes.
    """

    now: Callable[[], int]
    cpu: CpuTimes | None = None
    stopwatch: Callable[[], int] | None = None
    slicing: Callable[[], int] | None = None
    works_apart: bool = False
    phase_us: int = 0
    heartbeat_phase_us: int | None = None


def broker_base(
    *,
    identity: BrokerIdentity,
    config: BrokerConfig,
    rules: Rules,
    names: Names,
    disks: Mapping[str, Disk],
    recorder: Recorder,
    clock: WallClock,
) -> BrokerBase:
    """Return the objects that the parts of a new broker share, with empty metadata."""
    running = RunningConfig(DynamicSettings(config))
    return BrokerBase(
        identity=identity,
        config=config,
        running=running,
        rules=rules,
        names=names,
        disks=disks,
        outbox=Outbox(),
        cache=MetadataCache(MetadataImage(running.settings, identity.broker_id)),
        recorder=recorder,
        clock=clock,
    )


class BrokerCore:
    """One run of a broker's process, from the recovery of its logs to its stop or crash.

    `is_open` is True while the log files are open.

    Args:
        controllers: address of each controller of the quorum; in the ZooKeeper era, of the registry.
        security: authentication required of clients outside the cluster.
        rests_above: number of partitions in a fetch session above which unchanged ones are skipped (see resting.py).
        faults: request faults, which survive a restart of the broker; None for none.
    """

    def __init__(
        self,
        base: BrokerBase,
        times: BrokerTimes,
        *,
        controllers: Mapping[BrokerId, tuple[str, int]],
        security: ListenerSecurity = OPEN,
        rests_above: int = MANY,
        faults: RequestFaults | None = None,
    ) -> None:
        self.identity, self.cache = base.identity, base.cache
        self.base = base
        self._times = times
        self._outbox = base.outbox
        self._controllers = controllers
        self._security = security
        self._rests_above = rests_above
        self._faults = faults or RequestFaults()
        self._slices = Slices(
            now=times.now,
            clock=times.slicing,
            at=base.outbox.timers.at,
            take_up=lambda work, now_us: self._server.handlers.submit(work, now_us),
        )
        requests: RequestLog | None = None
        if times.stopwatch is not None:
            from cluster.server.request_log import RequestLog

            requests = RequestLog(base.node, base.recorder, times.stopwatch)
        self._server = SocketServer(
            node=base.node,
            config=base.config,
            outbox=base.outbox,
            recorder=base.recorder,
            times=RequestTimes(
                cpu=times.cpu or CpuTimes(), slices=self._slices, log=requests, clock=times.stopwatch or times.now
            ),
            listens_early=base.rules.startup_port == "open",
            on_gone=self._connection_gone,
        )
        self._client_quotas = ClientQuotas(
            node=base.node,
            config=base.config,
            recorder=base.recorder,
            now=times.now,
            principal=self._server.connections.principal,
            peer=self._server.connections.peer,
            thread_us=self._server.thread_times.of,
            mute=self._server.throttle,
        )
        self._access = access_to(security, base.config, lambda: self.cache.image, self._server.connections)
        self._locks = PartitionLocks()
        refusals = Refusals(base.node, self._server.connections, base.recorder)
        self._responder = Responder(base.outbox, self._server.connections, self._client_quotas, self._slices, refusals)
        self.is_open = False
        self.logs: BrokerLogs
        self.replicas: ReplicaManager
        self.fetchers: ReplicaFetchers
        self.lifecycle: Lifecycle
        self._plane: ControlPlane

    # ---------------------------------------------------------------------------------------------- start and stop

    def start(self, now_us: int) -> list[Action]:
        base = self.base
        self.logs = BrokerLogs.open(
            base.disks,
            base.broker_id,
            self.cache.image.topic_defaults,
            base.clock.at(now_us),
            producer_id_expiration_ms=base.config.producer_id_expiration_ms,
        )
        if base.rules.unknown_producer == "refused":
            self.logs.refuse_unknown_producers(ErrorCode.UNKNOWN_PRODUCER_ID)
        elif base.rules.unknown_producer == "out-of-order":
            self.logs.refuse_unknown_producers(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        state_recoveries(self.logs, base.node, base.recorder)
        self._build()
        self.is_open = True
        if not self.logs.directories:
            self._outbox.exit("none of its log directories can be read")
            return self._outbox.take()
        for disk in self.base.disks.values():
            disk.on_failure = self._log_dir_failures.report
        self._server.start()
        self.replicas.start(now_us)
        self._plane.start(now_us)
        return self._outbox.take()

    def _build(self) -> None:
        base = self.base
        quotas = ReplicationQuotas(base.broker_id, base.cache)
        self.replicas = ReplicaManager(
            base,
            logs=self.logs,
            quotas=quotas,
            propose_isr=lambda partition, proposal, now_us: self._plane.propose_isr(partition, proposal, now_us),
            phase_us=self._times.phase_us,
        )
        self.fetchers = ReplicaFetchers(
            FetcherContext(
                base=base,
                locks=self._locks,
                replicas=self.replicas,
                logs=self.logs,
                quotas=quotas,
                replicated_us=self._server.handler_time.times.replicated_us,
                era_fetch_version=offered(base.rules.release)[FETCH][1],
                broker_epoch=lambda: self._plane.fetch_epoch(),
            )
        )
        self._coordinators = Coordinators(base=base, replicas=self.replicas, plane=lambda: self._plane)
        self._changes = ReplicaChanges(
            base, replicas=self.replicas, fetchers=self.fetchers, logs=self.logs, roles=self._coordinators
        )
        base.running.on_change.append(self._reconfigure)
        self._plane = self._join()
        self.lifecycle = self._plane.lifecycle
        self._log_dir_failures = LogDirFailures(
            base,
            metadata_log_dir=self._plane.metadata_log_dir,
            logs=self.logs,
            replicas=self.replicas,
            fetchers=self.fetchers,
            propagate=self.lifecycle.propagate_directory_failure,
        )
        self._parts = parts = self._wired()
        self._apis = ServedApis(parts)
        self._server.handle = self._apis.handle
        if self._security.is_on:
            from cluster.broker.outside_clients import gate_before

            self._server.gate = gate_before(parts, self._security)

    def _wired(self) -> BrokerParts:
        return BrokerParts(
            base=self.base,
            own_keys=self._own_keys,
            connections=self._server.connections,
            responder=self._responder,
            handler_time=self._server.handler_time,
            client_quotas=self._client_quotas,
            access=self._access,
            injections=Injections(self._faults, self.base, self._server, self._responder, self._client_quotas),
            works_apart=self._times.works_apart,
            plane=self._plane,
            replicas=self.replicas,
            deletion=lambda: self._deletion,
            changes=self._changes,
            logs=BlockingLogs(
                self.replicas,
                self._server.handlers,
                self._locks,
                self._outbox,
                slices=self._slices,
                works_apart=self._times.works_apart,
            ),
            directories=self.logs,
            fetch_sessions=FetchSessions(self._fetch_session_cache(), self.cache.topic_name),
            coordinators=self._coordinators,
            offered=lambda: self._apis.offered,
        )

    @cached_property
    def _deletion(self) -> RecordDeletion:
        from cluster.broker.replicas.record_deletion import RecordDeletion

        return RecordDeletion(self._outbox, self.cache, self.replicas)

    def _own_keys(self) -> Sequence[OwnKey]:
        from cluster.messages.admin.broker_description import own_keys

        roots = [*(manager.root for manager in self.logs.directories.values()), *self.logs.failed_roots]
        return own_keys(self.identity, self.base.rules, roots, self._controllers)

    def _fetch_session_cache(self) -> FetchSessionCache:
        draw = Random(f"{self.identity.incarnation_id}/fetch-sessions")
        slots = self.base.config.max_incremental_fetch_session_cache_slots
        return FetchSessionCache(slots, lambda: draw.randint(1, MAX_INT32), self._rests_above)

    def _join(self) -> ControlPlane:
        """Create the broker's control plane, for KRaft or for the ZooKeeper era."""
        base = self.base
        if base.rules.membership == "zk-session":
            from cluster.broker.control_planes.zookeeper import ZooKeeperPlane

            registry = next(iter(self._controllers.values()))
            return ZooKeeperPlane(base, self, registry=registry, responder=self._responder, changes=self._changes)
        return KRaftPlane(
            base,
            self,
            controllers=self._controllers,
            heartbeats=HeartbeatTimes(base.config, base.rules, self._times.heartbeat_phase_us),
            responder=self._responder,
            publisher=MetadataPublisher(self._changes, self._locks, self._outbox.timers),
            replicas=self.replicas,
            logs=self.logs,
        )

    # -------------------------------------------------------------------------------------------------- BrokerEvents

    def quotas_changed(self) -> None:
        self._client_quotas.follow(self.cache.image.client_quotas)
        self._server.times_threads = self._client_quotas.measures_threads

    def settings_changed(self, now_us: int) -> None:
        image, base = self.cache.image, self.base
        base.running.follow(image.dynamic_config(base.broker_id), now_us)
        self._coordinators.set_transaction_version(level_of(TRANSACTION_VERSION, base.rules, image.feature_levels))

    def unfenced(self, now_us: int) -> None:
        self._server.open(now_us)

    def stop(self, now_us: int) -> None:
        """Flush the logs, write checkpoints and the clean-shutdown marker, and exit. Source: BrokerServer.shutdown"""
        if not self.is_open:
            return
        self.is_open = False
        self._slices.clear()
        self.lifecycle.stopped()
        self.logs.close_clean(self.lifecycle.broker_epoch, self.replicas.high_watermarks())
        self._outbox.exit()

    # ---------------------------------------------------------------------------------------------------- operators

    def _reconfigure(self, config: BrokerConfig, now_us: int) -> None:
        """Apply a changed configuration. Source: DynamicBrokerConfig.addReconfigurables"""
        self._server.reconfigure(config, now_us)
        self.logs.set_producer_id_expiration(config.producer_id_expiration_ms)
        self.fetchers.resize(config.num_replica_fetchers, now_us)

    def begin_shutdown(self, now_us: int) -> list[Action]:
        """Begin a controlled shutdown, as on SIGTERM. Stop immediately if controlled.shutdown.enable is false."""
        if self.base.config.controlled_shutdown_enable:
            self._plane.begin_controlled_shutdown(now_us)
            self._outbox.timers.at(now_us + MAX_SHUTDOWN_US, self.stop)
        else:
            self.stop(now_us)
        return self._outbox.take()

    def crash(self) -> None:
        """Close all files without writing, as if the process were killed."""
        if self.is_open:
            self.is_open = False
            self.logs.abandon()

    @property
    def groups(self) -> GroupService:
        return self._coordinators.groups

    @property
    def answers_operator(self) -> bool:
        return self.is_open

    def flush(self, wanted: TopicPartition | None, answer: Callable[[None], None], now_us: int) -> list[Action]:
        """Flush all logs, or only that of the partition `wanted` (the `flush` step of a scenario)."""
        for name, partition in self.replicas.partitions.items():
            if wanted in (None, name):
                partition.log.flush()
                self.base.recorder.emit(LogFlushed(self.identity.name, *name, offset=partition.log.recovery_point))
        answer(None)
        return []

    def operate(self, make_input: Callable[[int], BrokerInput], answer: OnReply, now_us: int) -> list[Action]:
        self._operator.ask(make_input(now_us), answer, now_us)
        return self._actions(now_us)

    @cached_property
    def _operator(self) -> OperatorRequests:
        from cluster.broker.apis.operator_requests import OperatorRequests

        return OperatorRequests(self._parts)

    # ------------------------------------------------------------------------------------------------------ NodeCore

    @property
    def next_deadline_us(self) -> int | None:
        return self._outbox.timers.next_deadline_us

    @property
    def accepts(self) -> bool:
        return not self._server.is_full

    @property
    def max_request_bytes(self) -> int:
        return self.base.config.socket_request_max_bytes

    def tick(self, now_us: int) -> list[Action]:
        self._outbox.timers.run_due(now_us)
        return self._actions(now_us)

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> list[Action]:
        self._server.accepted(connection, peer, listener, now_us)
        return self._actions(now_us)

    def identified(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        self._server.connections.identified(connection, peer)
        return []

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]:
        channel = self._outbox.callers.get(connection)
        if channel is not None:
            channel.connected(now_us)
        return self._actions(now_us)

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> list[Action]:
        if connection < 0:
            self._server.received(connection, frame, now_us)
        elif (channel := self._outbox.callers.get(connection)) is not None:
            channel.received(frame, now_us)
        return self._actions(now_us)

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]:
        channel = self._outbox.callers.get(connection)
        if channel is not None:
            channel.disconnected(now_us)
        self._server.connections.gone(connection)
        return self._actions(now_us)

    def _connection_gone(self, connection: ConnectionId) -> None:
        """Remove the state of a connection that either side has closed."""
        self._responder.gone(connection)
        self._client_quotas.gone(connection)
        self._coordinators.gone(connection, self._times.now())
        self.replicas.fetches.consumer_gone(connection)

    def _actions(self, now_us: int) -> list[Action]:
        if self._log_dir_failures.reported and self.is_open:
            self._log_dir_failures.handle(now_us)
        if self._server.is_place_free:
            self._server.settle(now_us)
        if self.is_open:
            self._coordinators.settle(now_us)
        return self._server.outgoing(self._outbox.take(), now_us)
