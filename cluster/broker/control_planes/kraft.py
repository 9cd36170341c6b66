"""A broker's communication with KRaft controllers: registration and heartbeats, metadata fetches, and other requests.

They use separate connections.

Source: BrokerServer.scala
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from cluster.broker.control_planes.forwarding import RETRY_US as FORWARDING_RETRY_US
from cluster.broker.control_planes.forwarding import AutoTopics, Forwarding, WantedTopic
from cluster.broker.control_planes.isr_updates import FOR_EVER_US, IsrUpdates
from cluster.broker.metadata.controller_channel import ActiveController, ControllerChannel
from cluster.broker.metadata.follower import MetadataFollower
from cluster.broker.metadata.lifecycle import BrokerBase, BrokerEvents, BrokerLifecycle, BrokerState, HeartbeatTimes
from cluster.broker.replicas.blocking_logs import PartitionLocks
from cluster.broker.replicas.changes import ReplicaChanges
from cluster.broker.replicas.manager import ReplicaManager
from cluster.clocks import Timers
from cluster.node import Action
from cluster.protocol.versions import FORWARDED
from cluster.server.responder import Handler, Responder
from controller.inputs import ElectLeader, OnReply, PlainReply
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, BrokerId, TopicPartition
from replica.log.broker_logs import BrokerLogs

if TYPE_CHECKING:
    from cluster.broker.control_planes.directory_assignments import DirectoryAssignments
    from cluster.broker.control_planes.producer_ids import ProducerIds

# --------------------------------------------------------------------------------------------------- metadata publisher
#
# Metadata changes are applied in order, a large change one slice at a time.
#
# Kafka has a separate thread for this, so that a broker serves requests while it creates the logs of 10,000
# partitions. Here other work runs between two slices.
# source: MetadataLoader.java, BrokerMetadataPublisher.scala

AT_ONCE_MAX = 100
"""Maximum number of changed partitions that are applied in one step."""
SLICE = 8
"""Number of partitions in each slice of a larger change."""
PAUSE_US = 1
"""Pause between two slices, in which other work runs."""

Done = Callable[[int], None]


class _Slice(NamedTuple):
    """Part of a change of metadata. `configured` has topics with changed settings; only the last slice has `done`."""

    names: Sequence[TopicPartition]
    configured: Sequence[str]
    done: Done | None


class MetadataPublisher:
    """Applies metadata changes in order and in slices, each when no append to its partitions is in progress."""

    def __init__(self, changes: ReplicaChanges, locks: PartitionLocks, timers: Timers[Action]) -> None:
        self.changes = changes
        self._locks = locks
        self._timers = timers
        self._waiting: deque[_Slice] = deque()
        self._is_amid_change = False

    def publish(self, changed: Sequence[TopicPartition], configured: Sequence[str], now_us: int, done: Done) -> None:
        """Apply changed partitions and the changed settings of topics, then call `done(now_us)`."""
        size = SLICE if len(changed) > AT_ONCE_MAX else AT_ONCE_MAX
        starts = range(0, len(changed), size) if changed else (0,)
        for start in starts[:-1]:
            self._waiting.append(_Slice(changed[start : start + size], (), None))
        self._waiting.append(_Slice(changed[starts[-1] :], configured, done))
        self._go_on(now_us)

    def _go_on(self, now_us: int) -> None:
        while self._waiting and not self._is_amid_change:
            item = self._waiting.popleft()
            self._is_amid_change = item.done is None
            self._locks.change(item.names, partial(self._make, item), now_us)

    def _make(self, item: _Slice, now_us: int) -> None:
        self.changes.apply(item.names, item.configured, now_us)
        if item.done is not None:
            item.done(now_us)
        else:
            self._timers.at(now_us + PAUSE_US, self._continue)

    def _continue(self, now_us: int) -> None:
        self._is_amid_change = False
        self._go_on(now_us)


class KRaftPlane:
    """The `ControlPlane` of KRaft.

    Args:
        logs: the broker's logs. With several log directories, the broker reports each replica's directory.
    """

    zookeeper = None
    """None because this is not the ZooKeeper era."""

    def __init__(
        self,
        base: BrokerBase,
        events: BrokerEvents,
        *,
        controllers: Mapping[BrokerId, tuple[str, int]],
        heartbeats: HeartbeatTimes,
        responder: Responder,
        publisher: MetadataPublisher,
        replicas: ReplicaManager,
        logs: BrokerLogs,
    ) -> None:
        self.metadata_log_dir = next(iter(base.disks))
        self._base = base
        self._publisher = publisher
        self._controller = ActiveController(controllers)
        self._unpublished: dict[TopicPartition, None] = {}
        has_several_directories = len(base.disks) > 1
        self._has_new_disk = not has_several_directories and logs.is_new_disk
        self.lifecycle = BrokerLifecycle(
            base,
            events,
            times=heartbeats,
            channel=self._channel(retry_us=heartbeats.timeout_us),
            previous_broker_epoch=logs.previous_broker_epoch,
            log_dirs=logs.directory_ids() if has_several_directories or self._has_new_disk else (),
            on_caught_up=self._publish_first,
        )
        self._metadata = MetadataFollower(
            base,
            events,
            controller=self._controller,
            held=lambda: logs.logs,
            on_change=self._metadata_changed,
        )
        self.propose_isr = IsrUpdates(
            base, channel=self._channel(retry_us=FOR_EVER_US), broker_epoch=self.fetch_epoch
        ).propose
        self._request_timeout_us = base.config.request_timeout_ms * 1000
        self._forwarding = Forwarding(
            node=base.node,
            channel=self._channel(retry_us=FORWARDING_RETRY_US),
            responder=responder,
            request_timeout_us=self._request_timeout_us,
        )
        self._auto_topics = AutoTopics(self._forwarding, base.node, base.config.request_timeout_ms)
        self._assignments: DirectoryAssignments | None = None
        """None if the broker does not report directories, because it has only one and that is not new."""
        if has_several_directories or self._has_new_disk:
            from cluster.broker.control_planes.directory_assignments import DirectoryAssignments

            self._assignments = DirectoryAssignments(
                base,
                channel=self._channel(retry_us=base.config.broker_session_timeout_ms * 1000 // 2),
                replicas=replicas,
                logs=logs,
                broker_epoch=self.fetch_epoch,
            )

    def _channel(self, retry_us: int) -> ControllerChannel:
        return ControllerChannel(self._base.outbox, self._controller, retry_us=retry_us)

    @cached_property
    def producer_ids(self) -> ProducerIds:
        from cluster.broker.control_planes.producer_ids import IdsOfController

        return IdsOfController(
            node=self._base.node,
            broker_id=self._base.broker_id,
            broker_epoch=self.fetch_epoch,
            forwarding=self._forwarding,
            timers=self._base.outbox.timers,
            max_wait_us=self._request_timeout_us,
        )

    def for_controller(self, key: int) -> Handler | None:
        return self._forwarding.forward if key in FORWARDED else None

    def controller_id(self) -> BrokerId | None:
        return None

    def start(self, now_us: int) -> None:
        self.lifecycle.start(now_us)
        self._metadata.fetch(now_us)

    def begin_controlled_shutdown(self, now_us: int) -> None:
        self._publisher.changes.in_controlled_shutdown = True
        self.lifecycle.begin_controlled_shutdown(now_us)

    def create_topics(self, wanted: Sequence[WantedTopic], now_us: int) -> None:
        self._auto_topics.create(wanted, now_us)

    def elect_leader(self, wanted: ElectLeader, answer: OnReply, now_us: int) -> None:
        message = f"{self._base.node} is a broker; only the active controller elects leaders"
        answer(PlainReply(error=ErrorCode.NOT_CONTROLLER, message=message))

    def fetch_epoch(self) -> BrokerEpoch:
        """Return the broker epoch in this broker's fetches as a follower (KIP-903)."""
        return self.lifecycle.broker_epoch

    # ------------------------------------------------------------------------------------------------------- metadata

    def _metadata_changed(self, changed: Sequence[TopicPartition], configured: Sequence[str], now_us: int) -> None:
        """Apply changed metadata, or keep it until the broker has caught up with the metadata log for the first time.

        Kafka also installs its metadata publishers only then (BrokerServer.startup, initialCatchUpFuture).
        """
        if self.lifecycle.state is BrokerState.STARTING:
            self._unpublished.update(dict.fromkeys(changed))
        else:
            self._publisher.publish(changed, configured, now_us, self._published)

    def _publish_first(self, now_us: int) -> None:
        """After catching up with the metadata log, apply the roles of all partitions and ask to be unfenced."""
        waiting, self._unpublished = self._unpublished, {}
        if self._assignments is not None and self._has_new_disk:
            self._assignments.had_before = frozenset(waiting)
        self._publisher.publish(list(waiting), [], now_us, self._published_first)

    def _published_first(self, now_us: int) -> None:
        self._published(now_us)
        self.lifecycle.ready_to_unfence(now_us)

    def _published(self, now_us: int) -> None:
        if self._assignments is not None:
            self._assignments.bring_up_to_date(now_us)
