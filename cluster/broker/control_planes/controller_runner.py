"""The ZooKeeper-era controller inside a broker: it executes one registry operation at a time, and commands brokers.

For each live broker it has a queue of requests and a connection, with at most one request in flight.
Source: ControllerEventManager, ControllerChannelManager, RequestSendThread
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from cluster.broker.control_planes.isr_updates import FOR_EVER_US
from cluster.broker.control_planes.registry_client import RegistryClient
from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.channel import Channel
from cluster.clocks import Timer
from cluster.node import Outbox
from cluster.protocol.control_messages import api_of, encode_control_request
from controller.zookeeper import znodes
from controller.zookeeper.control_requests import ControlRequest
from controller.zookeeper.controller_context import Process, Reply
from controller.zookeeper.kafka_controller import KafkaController
from controller.zookeeper.registry import Operation, RegistryError, Result
from replica.ids import BrokerEpoch, BrokerId
from replica.trace.events import Emit

FIRST_REBALANCE_US = 5_000_000
"""Delay from an election to the first check of preferred leaders (KafkaController.onControllerFailover)."""
REQUEST_TIMEOUT_US = 30_000_000
"""controller.socket.timeout.ms"""


class _Sender:
    """Sends requests to one incarnation of a broker in order. A failed request is retried until the broker is gone."""

    def __init__(self, outbox: Outbox, node: str, request: ControlRequest) -> None:
        self.broker_epoch: BrokerEpoch = request.broker.broker_epoch
        self._node = node
        self._channel = Channel(outbox, request.broker.host, request.broker.port, retry_us=FOR_EVER_US)
        self._queue: deque[ControlRequest] = deque()

    def send(self, request: ControlRequest, now_us: int) -> None:
        self._queue.append(request)
        self._go_on(now_us)

    def close(self) -> None:
        self._queue.clear()
        self._channel.close()

    def _go_on(self, now_us: int) -> None:
        if self._channel.busy or not self._queue:
            return
        request = self._queue.popleft()
        self._channel.request(
            api_of(request),
            lambda correlation_id: encode_control_request(request, correlation_id, self._node),
            self._answered,
            REQUEST_TIMEOUT_US,
            now_us,
        )

    def _answered(self, frame: bytearray | None, now_us: int) -> None:
        """Send the next request.

        Simplified: the response is ignored. Kafka logs an error, but continues too.
        """
        self._go_on(now_us)


class ControllerRunner:
    """Passes events to a KafkaController, and performs the actions that it returns."""

    def __init__(self, base: BrokerBase, *, client: RegistryClient, controller: KafkaController) -> None:
        self.controller = controller
        self._node = base.node
        self._outbox = base.outbox
        self._client = client
        self._recorder = base.recorder
        config = base.config
        self._rebalance_us = (
            config.leader_imbalance_check_interval_seconds * 1_000_000 if config.auto_leader_rebalance_enable else None
        )
        self._senders: dict[BrokerId, _Sender] = {}
        self._rebalance: Timer | None = None
        self._was_active = False

    def startup(self, now_us: int) -> None:
        self.post(self.controller.elect(), now_us)

    def watch_fired(self, path: str, now_us: int) -> None:
        match path:
            case znodes.CONTROLLER:
                self.post(self.controller.controller_changed(), now_us)
            case znodes.BROKER_IDS:
                self.post(self.controller.brokers_changed(), now_us)
            case znodes.TOPICS:
                self.post(self.controller.topics_changed(), now_us)
            case znodes.ISR_CHANGES:
                self.post(self.controller.isr_changed(), now_us)
            case _ if path.startswith(f"{znodes.CONFIGS}/"):
                self.post(self.controller.topic_config_changed(), now_us)

    def session_expired(self, now_us: int) -> None:
        self.controller.session_expired()
        self._after_step(now_us)

    def post(self, process: Process, now_us: int) -> None:
        self._ask(self.controller.post(process))
        self._after_step(now_us)

    # ------------------------------------------------------------------------------------------------------ running

    def _ask(self, operation: Operation | None) -> None:
        if operation is not None:
            self._client.execute(operation, self._answered)

    def _answered(self, results: Sequence[Result], now_us: int) -> None:
        if results and results[0].error is RegistryError.SESSION_EXPIRED:
            return  # `session_expired` is called next, and ends the waiting process.
        self._ask(self.controller.resume(results))
        self._after_step(now_us)

    def _after_step(self, now_us: int) -> None:
        if self.controller.is_active is not self._was_active:
            self._was_active = self.controller.is_active
            self._changed_sides(now_us)
        self._close_gone()
        for action in self.controller.take_actions():
            match action:
                case Emit():
                    self._recorder.emit(action.event)
                case Reply():
                    action.answer(action.value)
                case ControlRequest():
                    self._send(action, now_us)

    def _changed_sides(self, now_us: int) -> None:
        if self._rebalance is not None:
            self._rebalance.cancel()
        for sender in self._senders.values():
            sender.close()
        self._senders.clear()
        if self._was_active and self._rebalance_us is not None:
            self._rebalance = self._outbox.timers.at(now_us + FIRST_REBALANCE_US, self._rebalance_due)

    def _rebalance_due(self, now_us: int) -> None:
        assert self._rebalance_us is not None, "automatic leader rebalancing is disabled"
        self._rebalance = self._outbox.timers.at(now_us + self._rebalance_us, self._rebalance_due)
        self.post(self.controller.rebalance(), now_us)

    # ------------------------------------------------------------------------------------------------------- to brokers

    def _send(self, request: ControlRequest, now_us: int) -> None:
        broker_id = request.broker.broker_id
        sender = self._senders.get(broker_id)
        if sender is None:
            sender = self._senders[broker_id] = _Sender(self._outbox, self._node, request)
        sender.send(request, now_us)

    def _close_gone(self) -> None:
        """Drop the requests to brokers that are no longer live. Source: ControllerChannelManager.removeBroker"""
        for broker_id, sender in list(self._senders.items()):
            live = self.controller.live.get(broker_id)
            if live is None or live.broker_epoch != sender.broker_epoch:
                sender.close()
                del self._senders[broker_id]
