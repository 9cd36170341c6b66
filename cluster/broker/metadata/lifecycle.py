"""A broker's membership in a KRaft cluster: registration, heartbeats, fencing, controlled shutdown.

The next heartbeat is sent one interval after the last response; but 10 ms after it until the broker has caught up with
the metadata log, and 50 ms after the first response in a controlled shutdown.
Source: BrokerLifecycleManager (3.9 and 4.1)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from cluster.channel import ControllerRequests
from cluster.clocks import Timer, WallClock
from cluster.config import BrokerConfig
from cluster.dynamic_settings import RunningConfig
from cluster.node import Outbox
from cluster.protocol import cold
from cluster.protocol.versions import BROKER_HEARTBEAT, BROKER_REGISTRATION
from cluster.security import PROTOCOLS
from controller.metadata import Endpoint
from controller.sessions import until_next_us
from replica.errors import ErrorCode
from replica.ids import CLUSTER_ID, NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Names
from replica.log.files.disk import Disk
from replica.rules import Rules
from replica.trace.events import Recorder

if TYPE_CHECKING:
    from cluster.broker.metadata.follower import MetadataCache

REGISTRATION_VERSION = 3
HEARTBEAT_VERSION = 1
STARTING_INTERVAL_US = 10_000
SHUTDOWN_INTERVAL_US = 50_000
FIRST_BACKOFF_US = 100_000
BETWEEN_BROKERS = "INTERNAL"
"""Name of the first listener if only brokers use it; see BrokerIdentity.all_endpoints."""


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The identity of one incarnation of a broker.

    Attributes:
        host, port: address of its first listener, which brokers use.
        protocol: security protocol of clients on the first listener.
        endpoints: further advertised addresses, for clients.
        bound: addresses on which the broker listens for `endpoints`.
    """

    broker_id: BrokerId
    name: str
    incarnation_id: UUID
    host: str
    port: int
    rack: str | None
    protocol: str = "PLAINTEXT"
    endpoints: tuple[Endpoint, ...] = ()
    bound: tuple[Endpoint, ...] = ()

    @property
    def all_endpoints(self) -> tuple[Endpoint, ...]:
        """All advertised endpoints, beginning with the first listener.

        The first listener is named after its protocol. If one of `endpoints` has that name, it is for brokers only.
        """
        is_between_brokers = any(endpoint.name == self.protocol for endpoint in self.endpoints)
        name, protocol = (BETWEEN_BROKERS, "PLAINTEXT") if is_between_brokers else (self.protocol, self.protocol)
        return Endpoint(name, self.host, self.port, protocol), *self.endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBase:
    """The objects that the parts of a broker share.

    Attributes:
        config: configuration at the start.
        running: current configuration.
        disks: disks by name of the log directory; the first one has the metadata log.
    """

    identity: BrokerIdentity
    config: BrokerConfig
    running: RunningConfig
    rules: Rules
    names: Names
    disks: Mapping[str, Disk]
    outbox: Outbox
    cache: MetadataCache
    recorder: Recorder
    clock: WallClock

    @property
    def node(self) -> str:
        return self.identity.name

    @property
    def broker_id(self) -> BrokerId:
        return self.identity.broker_id


class BrokerEvents(Protocol):
    """Handles events from a broker's control plane."""

    def quotas_changed(self) -> None:
        """Apply changed quotas of clients."""

    def settings_changed(self, now_us: int) -> None:
        """Apply changed settings of brokers."""

    def unfenced(self, now_us: int) -> None:
        """Begin to serve clients, because the controller has unfenced the broker for the first time."""

    def stop(self, now_us: int) -> None:
        """Stop the broker, because the controller allows its shutdown or because it cannot go on."""


class HeartbeatTimes:
    """The timeout of a heartbeat, and the delay after a failed heartbeat, by the rule `heartbeats`.

        | `heartbeats` | timeout | delay after a failure |
        |---|---|---|
        | backoff | half the session timeout (KAFKA-14392) | 100 ms, doubled each time, up to the session timeout |
        | interval | `broker.heartbeat.interval.ms` | the same, without backoff (KAFKA-19294) |

    Args:
        phase_us: time of a running broker's heartbeats, modulo their interval; None to count from its unfencing.

    Source: BrokerServer.startup (brokerLifecycleChannelManager), BrokerLifecycleManager.resendExponentialBackoff
    """

    def __init__(self, config: BrokerConfig, rules: Rules, phase_us: int | None = None) -> None:
        self._session_us = config.broker_session_timeout_ms * 1000
        self._interval_us = config.broker_heartbeat_interval_ms * 1000
        self._phase_us = phase_us
        self._has_backoff = rules.heartbeats == "backoff"
        self.timeout_us = self._session_us // 2 if self._has_backoff else self._interval_us

    def first_us(self, now_us: int) -> int:
        """Return the delay from a broker's unfencing to its next heartbeat."""
        return until_next_us(now_us, self._interval_us, self._phase_us)

    def after_failure_us(self, failures: int) -> int:
        """Return the delay after a failed heartbeat; `failures` counts the earlier ones since the last success."""
        if not self._has_backoff:
            return self._interval_us
        # Simplified: Kafka adds 2 % of jitter to this backoff.
        return min(FIRST_BACKOFF_US << min(failures, 20), self._session_us)


class BrokerState(Enum):
    """The state of a broker. Source: BrokerState.java"""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


class BrokerLifecycle:
    """The registration and heartbeats of a broker. It does not notice if the controller fences it again.

    Args:
        log_dirs: ids of the online log directories; empty if the broker has a single directory that is not new.
    """

    def __init__(
        self,
        base: BrokerBase,
        events: BrokerEvents,
        *,
        times: HeartbeatTimes,
        channel: ControllerRequests,
        previous_broker_epoch: BrokerEpoch,
        log_dirs: Sequence[UUID],
        on_caught_up: Callable[[int], None],
    ) -> None:
        self.broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        self.state = BrokerState.STARTING
        self._identity = base.identity
        self._config = base.config
        self._outbox = base.outbox
        self._cache = base.cache
        self._events = events
        self._channel = channel
        self._previous_broker_epoch = previous_broker_epoch
        self._log_dirs = log_dirs
        self._offline_dirs: dict[UUID, bool] = {}
        """Failed log directories, with True once a heartbeat has reported the failure to the controller."""
        self._on_caught_up = on_caught_up
        self._timer: Timer | None = None
        self._failures = 0
        self._is_ready_to_unfence = False
        self._at_once = False
        """True to send another heartbeat right after the response to the one in flight."""
        self._answered_in_shutdown = False
        self._times = times

    @property
    def serving(self) -> bool:
        """True while requests of clients and followers are processed; requests that come earlier wait."""
        return self.state in (BrokerState.RUNNING, BrokerState.PENDING_CONTROLLED_SHUTDOWN)

    def start(self, now_us: int) -> None:
        timeout_us = self._config.initial_broker_registration_timeout_ms * 1000
        self._outbox.timers.at(now_us + timeout_us, self._give_up)
        self._register(now_us)

    def _give_up(self, now_us: int) -> None:
        """Stop if the registration has timed out. Source: RegistrationTimeoutEvent"""
        if self.broker_epoch == NO_BROKER_EPOCH:
            self._events.stop(now_us)

    def begin_controlled_shutdown(self, now_us: int) -> None:
        """Ask the controller to move leaderships away from this broker; stop immediately if it is not running."""
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._communicate_at_once(now_us)
        elif self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._events.stop(now_us)

    def ready_to_unfence(self, now_us: int) -> None:
        """Ask to be unfenced, in an immediate heartbeat. Source: SetReadyToUnfenceEvent"""
        self._is_ready_to_unfence = True
        self._communicate_at_once(now_us)

    def stopped(self) -> None:
        self.state = BrokerState.SHUTTING_DOWN

    def propagate_directory_failure(self, directory_id: UUID, now_us: int) -> None:
        """Report a failed log directory in heartbeats. Stop if this does not succeed within log.dir.failure.timeout.ms.

        Source: OfflineDirEvent, OfflineDirBrokerFailureEvent
        """
        self._offline_dirs[directory_id] = False
        timeout_us = self._config.log_dir_failure_timeout_ms * 1000
        self._outbox.timers.at(now_us + timeout_us, lambda now_us: self._give_up_on(directory_id, now_us))
        if self.broker_epoch != NO_BROKER_EPOCH:
            self._communicate_at_once(now_us)

    def _give_up_on(self, directory_id: UUID, now_us: int) -> None:
        if not self._offline_dirs[directory_id]:
            self._events.stop(now_us)

    # -------------------------------------------------------------------------------------------------- registration

    def _register(self, now_us: int) -> None:
        identity = self._identity
        entity = cold.request(
            BROKER_REGISTRATION,
            REGISTRATION_VERSION,
            broker_id=identity.broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=identity.incarnation_id,
            listeners=[
                {
                    "name": all_endpoint.name,
                    "host": all_endpoint.host,
                    "port": all_endpoint.port,
                    "security_protocol": PROTOCOLS[all_endpoint.protocol],
                }
                for all_endpoint in identity.all_endpoints
            ],
            features=[],
            rack=identity.rack,
            is_migrating_zk_broker=False,
            log_dirs=self._log_dirs,
            previous_broker_epoch=self._previous_broker_epoch,
        )
        self._channel.request(
            BROKER_REGISTRATION,
            lambda correlation_id: cold.encode_request(
                BROKER_REGISTRATION, REGISTRATION_VERSION, correlation_id, identity.name, entity
            ),
            self._registered,
            self._times.timeout_us,
            now_us,
        )

    def _registered(self, frame: bytearray | None, now_us: int) -> None:
        """Handle the response to a registration.

        DUPLICATE_BROKER_REGISTRATION is retried like other errors, until the session of the earlier incarnation ends.
        """
        if frame is not None:
            answer = cold.decode_response(BROKER_REGISTRATION, REGISTRATION_VERSION, frame)
            if answer.error_code == ErrorCode.NONE:
                self._failures = 0
                self.broker_epoch = int(answer.broker_epoch)
                self._heartbeat(now_us)
                return
        self._after_failure(self._register, now_us)

    # ----------------------------------------------------------------------------------------------------- heartbeat

    def _heartbeat(self, now_us: int) -> None:
        entity = cold.request(
            BROKER_HEARTBEAT,
            HEARTBEAT_VERSION,
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._cache.image.offset,
            want_fence=not self._is_ready_to_unfence,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=list(self._offline_dirs),
        )
        reported = list(self._offline_dirs)
        self._channel.request(
            BROKER_HEARTBEAT,
            lambda correlation_id: cold.encode_request(
                BROKER_HEARTBEAT, HEARTBEAT_VERSION, correlation_id, self._identity.name, entity
            ),
            lambda frame, now_us: self._answered(frame, reported, now_us),
            self._times.timeout_us,
            now_us,
        )

    def _answered(self, frame: bytearray | None, reported: Sequence[UUID], now_us: int) -> None:
        """Handle the response to a heartbeat that reported the failed directories `reported`.

        After STALE_BROKER_EPOCH all retries fail, since the broker does not register again, as in Kafka.
        """
        answer = None if frame is None else cold.decode_response(BROKER_HEARTBEAT, HEARTBEAT_VERSION, frame)
        if answer is None or answer.error_code != ErrorCode.NONE:
            self._after_failure(self._heartbeat, now_us)
            return
        self._failures = 0
        self._offline_dirs.update(dict.fromkeys(reported, True))
        interval_us = self._config.broker_heartbeat_interval_ms * 1000
        match self.state:
            case BrokerState.STARTING if answer.is_caught_up:
                self.state = BrokerState.RECOVERY
                self._on_caught_up(now_us)
                interval_us = 0 if self._is_ready_to_unfence else interval_us
            case BrokerState.STARTING:
                interval_us = STARTING_INTERVAL_US
            case BrokerState.RECOVERY if not answer.is_fenced:
                self.state = BrokerState.RUNNING
                self._events.unfenced(now_us)
                interval_us = self._times.first_us(now_us)
            case BrokerState.PENDING_CONTROLLED_SHUTDOWN if answer.should_shut_down:
                self._events.stop(now_us)
                return
            case BrokerState.PENDING_CONTROLLED_SHUTDOWN if not self._answered_in_shutdown:
                self._answered_in_shutdown = True
                interval_us = SHUTDOWN_INTERVAL_US
            case _:
                pass
        self._later(0 if self._at_once else interval_us, self._heartbeat, now_us)

    # ------------------------------------------------------------------------------------------------------ schedule

    def _communicate_at_once(self, now_us: int) -> None:
        if self._channel.busy:
            self._at_once = True
        else:
            self._later(0, self._heartbeat, now_us)

    def _after_failure(self, what: Callable[[int], None], now_us: int) -> None:
        pause_us = self._times.after_failure_us(self._failures)
        self._failures += 1
        self._later(pause_us, what, now_us)

    def _later(self, delay_us: int, what: Callable[[int], None], now_us: int) -> None:
        self._at_once = False
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._outbox.timers.at(now_us + delay_us, what)
