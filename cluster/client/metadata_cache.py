"""A client's metadata of the cluster, and when to refresh it.

No I/O happens here; `client.connections` sends the requests. A response with an older leader epoch than one already
seen never replaces a leader (KIP-320), so a lagging broker cannot bring back old metadata.
Source: Metadata.java, MetadataSnapshot.java
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from cluster.client.node import ExponentialBackoff
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from replica.config import NEVER
from replica.errors import INVALID_METADATA, ErrorCode
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, BrokerId, LeaderEpoch, TopicPartition

FIRST_WITH_RELIABLE_EPOCHS = 9
"""The first version of Metadata whose epochs are used: before 2.4 a broker could send a stale epoch.

Source: MetadataResponse.hasReliableLeaderEpochs
"""
INT32_MAX = 2**31 - 1


def group_coordinator(node_id: int) -> int:
    """Convert a broker's id to the node id of the client's separate connection to it as group coordinator, or back."""
    return INT32_MAX - node_id


class BrokerAddress(NamedTuple):
    """A broker's address; bootstrap addresses have ids below NO_BROKER until a response has the real ids."""

    node_id: int
    host: str
    port: int


class LeaderAndEpoch(NamedTuple):
    """A partition's leader and its epoch; the leader is NO_BROKER if there is none with a known address."""

    leader: BrokerId
    epoch: LeaderEpoch


NO_LEADER = LeaderAndEpoch(NO_BROKER, UNDEFINED_EPOCH)


class ClientMetadata:
    """The nodes, partitions and leaders that a client knows; `version` grows with every change."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        *,
        max_age_ms: int,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        rng: random.Random,
    ) -> None:
        self.nodes: dict[int, BrokerAddress] = {
            node_id: BrokerAddress(node_id, host, port)
            for node_id, (host, port) in zip(
                range(NO_BROKER - 1, NO_BROKER - 1 - len(bootstrap), -1), bootstrap, strict=True
            )
        }
        self.group_coordinators: dict[int, BrokerAddress] = {}
        """Group coordinators by their own node numbers (`group_coordinator`), for a second connection to the broker."""
        self.topics: list[str] = []
        self.topic_ids: tuple[UUID, ...] = ()
        """Topics to request by id (KIP-516): a coordinator found them by a pattern and returned only their ids."""
        self.wants_all = False
        """True to request all topics, because the client has to match them with a pattern."""
        self.version = 0
        self._leaders: dict[TopicPartition, LeaderAndEpoch] = {}
        self._online: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self._of_topic: dict[str, dict[TopicPartition, None]] = {}
        self._topic_names: dict[UUID, str] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._internal: dict[str, None] = {}
        self._led_by: dict[int, list[TopicPartition]] = {}
        self._led_by_version = 0
        """The metadata version at which `_led_by` was computed."""
        self._available: dict[str, list[int]] = {}
        self._available_version = 0
        self._max_age_us = min(max_age_ms * 1000, NEVER)
        self._backoff = ExponentialBackoff(retry_backoff_ms, retry_backoff_max_ms, rng)
        self._update_requested = True
        self._last_success_us = 0
        self._last_refresh_us: int | None = None
        self._failures = 0
        self._equivalent_responses = 0
        self._failure_wait_us = 0
        self._equivalent_wait_us = 0
        self.update_due_us = 0
        """The time from which the next refresh may be sent."""

    # ------------------------------------------------------------------------------------------------ what is known

    def leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        """Return the current leader, NO_BROKER if there is none or its address is unknown."""
        known = self._leaders.get(tp, NO_LEADER)
        return known if known.leader in self.nodes else LeaderAndEpoch(NO_BROKER, known.epoch)

    def is_online(self, tp: TopicPartition, node_id: BrokerId) -> bool:
        """Return True if a broker has a replica whose log directory works. Source: Cluster.nodeIfOnline"""
        return node_id in self.nodes and node_id in self._online.get(tp, ())

    def is_known(self, tp: TopicPartition) -> bool:
        """Return True if a Metadata response has contained this partition."""
        return tp in self._leaders

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return all partitions of a topic in order; none while the topic is unknown."""
        return list(self._of_topic.get(topic, ()))

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return a topic's name, None if the id is unknown, as it always is before 2.8, where responses have no ids."""
        return self._topic_names.get(topic_id)

    def topic_id(self, topic: str) -> UUID | None:
        """Return a topic's id, None if no response has contained it."""
        return self._topic_ids.get(topic)

    def topic_names(self, *, internal: bool) -> list[str]:
        """Return the names of all known topics in ascending order, with Kafka's internal topics if `internal`."""
        return sorted(name for name in self._of_topic if internal or name not in self._internal)

    def available(self, topic: str) -> list[int]:
        """Return a topic's partitions that have a leader, in order. Source: Cluster.availablePartitionsForTopic"""
        if self._available_version != self.version:
            self._available, self._available_version = {}, self.version
        known = self._available.get(topic)
        if known is None:
            led = (tp.partition for tp in self.partitions(topic) if self.leader(tp).leader != NO_BROKER)
            known = self._available[topic] = list(led)
        return known

    def partitions_led_by(self, node_id: int) -> list[TopicPartition]:
        if self._led_by_version != self.version:
            self._led_by, self._led_by_version = {}, self.version
        known = self._led_by.get(node_id)
        if known is None:
            known = self._led_by[node_id] = [tp for tp in self._leaders if self.leader(tp).leader == node_id]
        return known

    # ------------------------------------------------------------------------------------------------ when to ask

    def add_topic(self, topic: str) -> None:
        """Request a topic with each refresh; a new topic is requested immediately."""
        if topic not in self.topics:
            self.topics.append(topic)
            self._update_requested = True
            self._last_refresh_us = None
            self._equivalent_responses = 0
            self._reschedule()

    def request_update(self) -> None:
        """Refresh as soon as the refresh backoff allows. Source: Metadata.requestUpdate"""
        self._update_requested = True
        self._reschedule()

    def is_stale(self, now_us: int) -> bool:
        """Return True if a refresh was requested or is due. Source: ConsumerNetworkClient.ensureFreshMetadata"""
        return self._update_requested or now_us >= self._last_success_us + self._max_age_us

    def may_update(self, now_us: int) -> bool:
        """Return True if the refresh backoff has passed. Source: Metadata.timeToAllowUpdate"""
        return self._last_refresh_us is None or now_us >= self._last_refresh_us + self._refresh_wait_us

    @property
    def _refresh_wait_us(self) -> int:
        is_equal = self._equivalent_responses > 0
        return max(self._failure_wait_us, self._equivalent_wait_us) if is_equal else self._failure_wait_us

    def _reschedule(self) -> None:
        """Compute when the next refresh is due. Source: Metadata.timeToNextUpdate"""
        due_us = 0 if self._update_requested else self._last_success_us + self._max_age_us
        if self._last_refresh_us is not None:
            due_us = max(due_us, self._last_refresh_us + self._refresh_wait_us)
        self.update_due_us = due_us

    def update_failed(self, now_us: int) -> None:
        """Increase the backoff after a missing or empty response."""
        self._last_refresh_us = now_us
        self._failures += 1
        self._failure_wait_us = self._backoff.after_us(self._failures - 1)
        self._reschedule()

    # ------------------------------------------------------------------------------------------------ what is learned

    def update(self, response: Any, now_us: int) -> None:
        """Apply a Metadata response."""
        if not response.brokers:  # from a broker that is still starting (NetworkClient.handleSuccessfulResponse)
            self.update_failed(now_us)
            return
        expired = now_us >= self._last_success_us + self._max_age_us
        self._equivalent_responses = 0 if expired else self._equivalent_responses + 1
        self._update_requested = False
        self._last_refresh_us = self._last_success_us = now_us
        self._failures = 0
        self._failure_wait_us = self._backoff.after_us(0)
        self.nodes = {int(b.node_id): BrokerAddress(int(b.node_id), b.host, int(b.port)) for b in response.brokers}
        has_epochs = response.__version__ >= FIRST_WITH_RELIABLE_EPOCHS
        for topic in response.topics:
            self._update_topic(topic, has_epochs=has_epochs)
        if self._equivalent_responses:
            self._equivalent_wait_us = self._backoff.after_us(self._equivalent_responses - 1)
        self._reschedule()
        self.version += 1

    def _update_topic(self, topic: Any, *, has_epochs: bool) -> None:
        if topic.error_code is not ErrorCode.NONE:
            if topic.error_code in INVALID_METADATA:
                self.request_update()
            return
        topic_id = getattr(topic, "topic_id", None)
        if getattr(topic, "is_internal", False):
            self._internal[str(topic.name)] = None
        is_another = False
        if topic_id is not None:
            self._topic_names[topic_id] = str(topic.name)
            is_another = self._topic_ids.get(str(topic.name)) != topic_id
            self._topic_ids[str(topic.name)] = topic_id
        for partition in sorted(topic.partitions, key=lambda item: int(item.partition_index)):
            tp = TopicPartition(str(topic.name), int(partition.partition_index))
            known = self._leaders.get(tp)
            epoch = int(partition.leader_epoch) if has_epochs else UNDEFINED_EPOCH
            has_epoch = epoch != UNDEFINED_EPOCH
            # The epochs of a recreated topic begin at 0 (Metadata.updateLatestMetadata, KAFKA-12257).
            if known is None or epoch >= known.epoch or is_another or not has_epoch:
                self._leaders[tp] = LeaderAndEpoch(int(partition.leader_id), epoch)
                offline = getattr(partition, "offline_replicas", ())
                self._online[tp] = tuple(int(node) for node in partition.replica_nodes if node not in offline)
                self._of_topic.setdefault(tp.topic, {})[tp] = None
            if known is None or epoch > known.epoch or is_another or not has_epoch:
                self._equivalent_responses = 0
            if partition.error_code in INVALID_METADATA:
                self.request_update()

    def update_leader(self, tp: TopicPartition, hint: LeaderIdAndEpoch, endpoints: Sequence[NodeEndpoint]) -> bool:
        """Apply the leader from an error response (KIP-951); return True if it is newer than the known leader."""
        known = self._leaders.get(tp)
        if known is None or hint.leader_id == NO_BROKER or hint.leader_epoch <= known.epoch:
            return False
        for endpoint in endpoints:
            if endpoint.node_id == hint.leader_id:
                self.nodes[endpoint.node_id] = BrokerAddress(endpoint.node_id, endpoint.host, endpoint.port)
        if hint.leader_id not in self.nodes:
            return False
        self._leaders[tp] = LeaderAndEpoch(hint.leader_id, hint.leader_epoch)
        self.version += 1
        return True

    def address(self, node_id: int) -> BrokerAddress | None:
        """Return a node's address, None if the node is unknown or no longer in the metadata."""
        return self.nodes.get(node_id) or self.group_coordinators.get(node_id)

    def group_coordinator_is(self, broker_id: int, host: str, port: int) -> int:
        """Set the address of a group's coordinator, and return the node number of its separate connection.

        Source: FindCoordinatorResponseHandler
        """
        node_id = group_coordinator(broker_id)
        self.group_coordinators[node_id] = BrokerAddress(node_id, host, port)
        return node_id

    def coordinator_is(self, node_id: int, host: str, port: int) -> None:
        """Set the address of a coordinator from a FindCoordinator response, since the metadata may lack the broker.

        Source: TransactionManager.FindCoordinatorHandler
        """
        self.nodes[node_id] = BrokerAddress(node_id, host, port)
        self._available = {}

    def epoch_seen(self, tp: TopicPartition, epoch: LeaderEpoch) -> None:
        """Forget a partition's leader and request a refresh if a response has a newer leader epoch.

        Nothing changes if the known leader has no epoch. Source: updateLastSeenEpochIfNewer
        """
        known = self._leaders.get(tp)
        if known is not None and UNDEFINED_EPOCH < known.epoch < epoch:
            self._leaders[tp] = LeaderAndEpoch(NO_BROKER, epoch)
            self.request_update()
            self.version += 1
