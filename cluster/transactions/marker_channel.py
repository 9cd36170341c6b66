"""The connections over which a coordinator sends the markers of ended transactions to partitions' leaders.

There is one connection to each leader, with at most one request in flight; a request has all markers that wait.

Simplified: a marker is retried after 100 ms if the leader refused it or if there is no leader. Kafka retries a refused
marker immediately, and looks for a leader whenever its sender wakes up, after 30 s (request.timeout.ms) at the latest.

Source: TransactionMarkerChannelManager.scala
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from cluster.broker.metadata.follower import MetadataCache
from cluster.channel import Channel
from cluster.node import Outbox
from cluster.protocol import cold
from cluster.protocol.versions import WRITE_TXN_MARKERS
from cluster.transactions.inputs import MarkersAnswered, SendMarkers
from controller.image import BrokerRegistration
from replica.errors import ErrorCode, PeerViolation
from replica.ids import BrokerId, TopicPartition

FIRST_WITH_TRANSACTION_VERSION = 2
RETRY_US = 100_000


class _Queue:
    """The markers that wait to be sent to one broker, and the connection with its address."""

    def __init__(self, channel: Channel, address: tuple[str, int]) -> None:
        self.channel = channel
        self.address = address
        self.waiting: list[SendMarkers] = []


class MarkerChannels:
    """The connections that send markers to leaders.

    Args:
        says_version: True to send each transaction's transaction.version, by which a leader can refuse late markers
            (KIP-1228; the rule `marker-epoch`).

    Attributes:
        on_answer: called with the results of markers.
    """

    def __init__(
        self, *, node: str, outbox: Outbox, cache: MetadataCache, request_timeout_us: int, says_version: bool
    ) -> None:
        self.on_answer: Callable[[MarkersAnswered], None] = _ignore
        self._node = node
        self._outbox = outbox
        self._cache = cache
        self._request_timeout_us = request_timeout_us
        self._version = FIRST_WITH_TRANSACTION_VERSION if says_version else FIRST_WITH_TRANSACTION_VERSION - 1
        self._queues: dict[BrokerId, _Queue] = {}

    def send(self, markers: SendMarkers, now_us: int) -> None:
        if markers.again:
            self._outbox.timers.at(now_us + RETRY_US, partial(self._distribute, replace(markers, again=False)))
        else:
            self._distribute(markers, now_us)

    def _distribute(self, markers: SendMarkers, now_us: int) -> None:
        """Put markers into the queues of the partitions' leaders. Source: addTxnMarkersToBrokerQueue"""
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        deleted: list[TopicPartition] = []
        leaderless: list[TopicPartition] = []
        for name in markers.partitions:
            registration = self._cache.image.partition(name.topic, name.partition)
            if registration is None:
                deleted.append(name)
                continue
            leader = self._cache.image.brokers.get(registration.leader)
            if leader is None:
                leaderless.append(name)
            else:
                by_leader.setdefault(leader.broker_id, []).append(name)
        for broker_id, names in by_leader.items():
            queue = self._queue(self._cache.image.brokers[broker_id], now_us)
            queue.waiting.append(replace(markers, partitions=tuple(names)))
            self._go_on(queue, now_us)
        if leaderless:
            self.send(replace(markers, partitions=tuple(leaderless), again=True), now_us)
        if deleted:
            # Answered after the current step of the coordinator has ended.
            self._outbox.timers.at(now_us, lambda at_us: self._answer(markers, dict.fromkeys(deleted, None), at_us))

    def _queue(self, broker: BrokerRegistration, now_us: int) -> _Queue:
        """Return the queue of a broker, or create it; a broker with a new address gets a new connection."""
        address = broker.host, broker.port
        known = self._queues.get(broker.broker_id)
        if known is not None and known.address == address:
            return known
        queue = self._queues[broker.broker_id] = _Queue(Channel(self._outbox, *address), address)
        if known is not None:
            queue.waiting, known.waiting = known.waiting, []  # Before the old connection can send them.
            known.channel.drop(now_us)
        return queue

    def _go_on(self, queue: _Queue, now_us: int) -> None:
        if queue.channel.busy or not queue.waiting:
            return
        sent, queue.waiting = queue.waiting, []
        version = self._version
        entity = cold.request(WRITE_TXN_MARKERS, version, markers=[_marker(markers, version) for markers in sent])

        def encode(correlation_id: int) -> bytes:
            return cold.encode_request(WRITE_TXN_MARKERS, version, correlation_id, self._node, entity)

        def answered(frame: bytearray | None, answered_us: int) -> None:
            self._answered(queue, sent, frame, answered_us)

        queue.channel.request(WRITE_TXN_MARKERS, encode, answered, self._request_timeout_us, now_us)

    def _answered(self, queue: _Queue, sent: Sequence[SendMarkers], frame: bytearray | None, now_us: int) -> None:
        errors = _errors_in(frame, self._version)
        for markers in sent:
            found = errors.get(markers.producer_id, {})
            lost = ErrorCode.REQUEST_TIMED_OUT  # Without a result the marker is sent again, perhaps to a new leader.
            self._answer(markers, {name: found.get(name, lost) for name in markers.partitions}, now_us)
        self._go_on(queue, now_us)

    def _answer(self, markers: SendMarkers, errors: dict[TopicPartition, ErrorCode | None], now_us: int) -> None:
        self.on_answer(
            MarkersAnswered(
                now_us=now_us,
                transactional_id=markers.transactional_id,
                coordinator_epoch=markers.coordinator_epoch,
                errors=errors,
            )
        )


def _marker(markers: SendMarkers, version: int) -> dict[str, object]:
    topics: dict[str, list[int]] = {}
    for name in markers.partitions:
        topics.setdefault(name.topic, []).append(name.partition)
    return {
        "producer_id": markers.producer_id,
        "producer_epoch": markers.producer_epoch,
        "transaction_result": markers.commit,
        "topics": [{"name": topic, "partition_indexes": numbers} for topic, numbers in topics.items()],
        "coordinator_epoch": markers.coordinator_epoch,
        **({"transaction_version": markers.version} if version >= FIRST_WITH_TRANSACTION_VERSION else {}),
    }


def _errors_in(frame: bytearray | None, version: int) -> dict[int, dict[TopicPartition, ErrorCode]]:
    """Return the errors in a response by producer id and partition; empty if there is no readable response."""
    if frame is None:
        return {}
    try:
        answer = cold.decode_response(WRITE_TXN_MARKERS, version, frame)
    except PeerViolation:
        return {}
    found: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker in answer.markers:
        of_producer = found.setdefault(int(marker.producer_id), {})
        for topic in marker.topics:
            for partition in topic.partitions:
                of_producer[TopicPartition(str(topic.name), int(partition.partition_index))] = partition.error_code
    return found


def _ignore(event: MarkersAnswered) -> None:
    """Do nothing: the default before a callback is set."""
