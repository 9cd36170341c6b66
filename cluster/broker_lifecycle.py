"""A broker's standing with the controller: registration, heartbeats, fencing, controlled shutdown.

source: BrokerLifecycleManager.scala (3.9): the next heartbeat leaves one interval after the last answer, 10 ms after
it while the broker starts, 50 ms after the first answer of a controlled shutdown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from cluster.channel import Channel
from cluster.config import BrokerConfig
from cluster.outbox import Outbox
from cluster.timers import Timer
from cluster.wire import cold
from cluster.wire.versions import BROKER_HEARTBEAT, BROKER_REGISTRATION
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Offset

REGISTRATION_VERSION = 3
HEARTBEAT_VERSION = 1
STARTING_INTERVAL_US = 10_000
SHUTDOWN_INTERVAL_US = 50_000
FIRST_BACKOFF_US = 100_000


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Who a broker process is: one per incarnation."""

    broker_id: BrokerId
    name: str
    incarnation_id: UUID
    host: str
    port: int
    rack: str | None


class BrokerLifecycle:
    """`broker_epoch` is -1 until registered; `running` once the controller has unfenced the broker."""

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        config: BrokerConfig,
        outbox: Outbox,
        channel: Channel,
        previous_broker_epoch: BrokerEpoch,
        metadata_offset: Callable[[], Offset],
        on_running: Callable[[int], None],
        on_may_stop: Callable[[int], None],
    ) -> None:
        self.broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        self.running = False
        self.stopping = False
        self._identity = identity
        self._config = config
        self._outbox = outbox
        self._channel = channel
        self._previous_broker_epoch = previous_broker_epoch
        self._metadata_offset = metadata_offset
        self._on_running = on_running
        self._on_may_stop = on_may_stop
        self._timer: Timer | None = None
        self._failures = 0
        self._heartbeats_while_stopping = 0
        # BrokerServer: half a session, so that a lost heartbeat leaves time for another one.
        self._timeout_us = config.broker_session_timeout_ms * 1000 // 2

    def start(self, now_us: int) -> None:
        self._register(now_us)

    def begin_controlled_shutdown(self, now_us: int) -> None:
        """Ask the controller to move leaderships away; `on_may_stop` is called when it says that we may go."""
        self.stopping = True
        if not self._channel.busy and self.broker_epoch != NO_BROKER_EPOCH:
            self._later(0, self._heartbeat, now_us)

    # -------------------------------------------------------------------------------------------------- registration

    def _register(self, now_us: int) -> None:
        identity = self._identity
        entity = cold.request(
            BROKER_REGISTRATION,
            REGISTRATION_VERSION,
            broker_id=identity.broker_id,
            cluster_id="highwater",
            incarnation_id=identity.incarnation_id,
            listeners=[{"name": "PLAINTEXT", "host": identity.host, "port": identity.port, "security_protocol": 0}],
            features=[],
            rack=identity.rack,
            is_migrating_zk_broker=False,
            log_dirs=[],
            previous_broker_epoch=self._previous_broker_epoch,
        )
        self._channel.request(
            BROKER_REGISTRATION,
            lambda correlation_id: cold.encode_request(
                BROKER_REGISTRATION, REGISTRATION_VERSION, correlation_id, identity.name, entity
            ),
            self._registered,
            self._timeout_us,
            now_us,
        )

    def _registered(self, frame: bytearray | None, reason: str, now_us: int) -> None:
        if frame is not None:
            answer = cold.decode_response(BROKER_REGISTRATION, REGISTRATION_VERSION, frame)
            if answer.error_code == ErrorCode.NONE:
                self._failures = 0
                self.broker_epoch = int(answer.broker_epoch)
                self._heartbeat(now_us)
                return
        self._later(self._backoff_us(), self._register, now_us)

    # ----------------------------------------------------------------------------------------------------- heartbeat

    def _heartbeat(self, now_us: int) -> None:
        # Stay fenced until our own registration has come back to us in the metadata log: then our view is current.
        want_fence = self._metadata_offset() < self.broker_epoch
        entity = cold.request(
            BROKER_HEARTBEAT,
            HEARTBEAT_VERSION,
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=want_fence,
            want_shut_down=self.stopping,
        )
        self._channel.request(
            BROKER_HEARTBEAT,
            lambda correlation_id: cold.encode_request(
                BROKER_HEARTBEAT, HEARTBEAT_VERSION, correlation_id, self._identity.name, entity
            ),
            self._answered,
            self._timeout_us,
            now_us,
        )

    def _answered(self, frame: bytearray | None, reason: str, now_us: int) -> None:
        if frame is None:
            self._later(self._backoff_us(), self._heartbeat, now_us)
            return
        answer = cold.decode_response(BROKER_HEARTBEAT, HEARTBEAT_VERSION, frame)
        if answer.error_code != ErrorCode.NONE:
            self._later(self._backoff_us(), self._heartbeat, now_us)
            return
        self._failures = 0
        if self.stopping:
            self._answered_while_stopping(bool(answer.should_shut_down), now_us)
        elif not self.running and not answer.is_fenced:
            self.running = True
            self._on_running(now_us)
            self._later(self._config.broker_heartbeat_interval_ms * 1000, self._heartbeat, now_us)
        elif not self.running:
            self._later(STARTING_INTERVAL_US, self._heartbeat, now_us)
        else:
            self._later(self._config.broker_heartbeat_interval_ms * 1000, self._heartbeat, now_us)

    def _answered_while_stopping(self, should_shut_down: bool, now_us: int) -> None:
        if should_shut_down:
            self._on_may_stop(now_us)
            return
        self._heartbeats_while_stopping += 1
        first = self._heartbeats_while_stopping == 1
        interval_us = SHUTDOWN_INTERVAL_US if first else self._config.broker_heartbeat_interval_ms * 1000
        self._later(interval_us, self._heartbeat, now_us)

    def _later(self, delay_us: int, what: Callable[[int], None], now_us: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._outbox.timers.at(now_us + delay_us, what)

    def _backoff_us(self) -> int:
        # Simplified: Kafka adds 2 % of jitter to this backoff.
        backoff_us = min(FIRST_BACKOFF_US << min(self._failures, 10), self._timeout_us)
        self._failures += 1
        return backoff_us
