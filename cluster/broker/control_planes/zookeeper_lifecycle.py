"""A broker's membership in the ZooKeeper era: its ephemeral node in the registry, and its controlled shutdown.

Source: KafkaServer.startup and .controlledShutdown, KafkaZkClient.registerBroker, CheckedEphemeral
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from cluster.broker.control_planes.controller_runner import ControllerRunner
from cluster.broker.control_planes.registry_client import RegistryClient
from cluster.broker.metadata.lifecycle import BrokerBase, BrokerEvents, BrokerState
from cluster.channel import Channel
from cluster.protocol import cold
from cluster.protocol.control_messages import version_of
from cluster.protocol.versions import CONTROLLED_SHUTDOWN
from controller.zookeeper import znodes
from controller.zookeeper.registry import Create, GetData, RegistryError, Result
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch

TRY_AGAIN_US = 1_000_000


class ZooKeeperLifecycle:
    """The registration of a broker in the registry.

    Differs from Kafka: if the node of the broker's previous incarnation still exists, registration is retried every
    second until that session has expired. Kafka's process exits with NodeExists, and a supervisor restarts it.

    Attributes:
        broker_epoch: czxid of the broker's node, -1 before the registration.
    """

    def __init__(
        self,
        base: BrokerBase,
        events: BrokerEvents,
        *,
        client: RegistryClient,
        runner: ControllerRunner,
    ) -> None:
        self.broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        self.state = BrokerState.STARTING
        self._identity = base.identity
        self._path = znodes.broker_path(base.identity.broker_id)
        self._config = base.config
        self._outbox = base.outbox
        self._cache = base.cache
        self._client = client
        self._runner = runner
        self._events = events
        self._shutdown_attempts = 0

    @property
    def serving(self) -> bool:
        return self.state in (BrokerState.RUNNING, BrokerState.PENDING_CONTROLLED_SHUTDOWN)

    def start(self, now_us: int) -> None:
        self._client.start(now_us)

    def stopped(self) -> None:
        """Close the session. The registry removes the broker's node immediately, not after the session timeout."""
        self.state = BrokerState.SHUTTING_DOWN
        self._client.close()

    # --------------------------------------------------------------------------------------------------- registration

    def session_began(self, now_us: int) -> None:
        identity = self._identity
        data = znodes.broker_data(identity.host, identity.port, identity.rack)
        self._client.execute(Create(path=self._path, data=data, ephemeral=True), self._made)

    def _made(self, results: Sequence[Result], now_us: int) -> None:
        (result,) = results
        if result.error is None:
            self._registered(result, now_us)
        elif result.error is RegistryError.NODE_EXISTS:
            self._client.execute(GetData(path=self._path), self._found)

    def _found(self, results: Sequence[Result], now_us: int) -> None:
        """Use the existing node of this broker if this session created it; otherwise retry the registration later."""
        (result,) = results
        if result.error is None and result.owner == self._client.session:
            self._registered(result, now_us)
        elif result.error is not RegistryError.SESSION_EXPIRED:
            self._outbox.timers.at(now_us + TRY_AGAIN_US, self.session_began)

    def _registered(self, result: Result, now_us: int) -> None:
        self.broker_epoch = result.czxid
        if self.state is BrokerState.STARTING:
            self.state = BrokerState.RUNNING
            self._events.unfenced(now_us)
        self._runner.startup(now_us)

    # ---------------------------------------------------------------------------------------------- controlled shutdown

    def propagate_directory_failure(self, directory_id: UUID, now_us: int) -> None:
        """Do nothing.

        Simplified: a failed log directory is not announced in the registry (log_dir_event_notification). Its partitions
        keep their leaders, as in KRaft before 3.7 (KIP-858).
        """

    def begin_controlled_shutdown(self, now_us: int) -> None:
        """Ask the controller to move leaderships away from this broker; stop immediately if it is not running."""
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._ask_controller(now_us)
        elif self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._events.stop(now_us)

    def _ask_controller(self, now_us: int) -> None:
        controller = self._cache.image.brokers.get(self._runner.controller.active_controller)
        if controller is None:
            self._not_yet(now_us)
            return
        self._channel = Channel(self._outbox, controller.host, controller.port)
        version = version_of(CONTROLLED_SHUTDOWN)
        entity = cold.request(
            CONTROLLED_SHUTDOWN, version, broker_id=self._identity.broker_id, broker_epoch=self.broker_epoch
        )
        self._channel.request(
            CONTROLLED_SHUTDOWN,
            lambda correlation_id: cold.encode_request(
                CONTROLLED_SHUTDOWN, version, correlation_id, self._identity.name, entity
            ),
            self._answered,
            self._config.request_timeout_ms * 1000,
            now_us,
        )

    def _answered(self, frame: bytearray | None, now_us: int) -> None:
        if frame is not None:
            answer = cold.decode_response(CONTROLLED_SHUTDOWN, version_of(CONTROLLED_SHUTDOWN), frame)
            if answer.error_code == ErrorCode.NONE and not answer.remaining_partitions:
                self._events.stop(now_us)
                return
        self._channel.close()
        self._not_yet(now_us)

    def _not_yet(self, now_us: int) -> None:
        """After a pause, ask the controller again, or stop if this was the last attempt.

        Partitions that the broker then still leads have no leader until the controller notices.
        """
        self._shutdown_attempts += 1
        is_last = self._shutdown_attempts >= self._config.controlled_shutdown_max_retries
        backoff_us = self._config.controlled_shutdown_retry_backoff_ms * 1000
        self._outbox.timers.at(now_us + backoff_us, self._events.stop if is_last else self._ask_controller)
