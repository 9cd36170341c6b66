"""A broker's copy of the cluster's metadata: it fetches the metadata log and applies it record by record.

As an observer of the log (KIP-500), it sends Fetch requests to the active controller, as for the log of a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from cluster.broker.metadata.controller_channel import ActiveController
from cluster.broker.metadata.lifecycle import BrokerBase, BrokerEvents, BrokerIdentity
from cluster.channel import Channel
from cluster.messages.quorum import decode_snapshot, decode_snapshot_answer, encode_fetch_snapshot
from cluster.protocol.api_01_fetch import FetchedPartition, FetchPartition, FetchRequest
from cluster.protocol.fetch_request_codec import RepeatedFetches
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.versions import FETCH, FETCH_SNAPSHOT
from controller.image import BrokerRegistration, MetadataImage
from controller.metadata import (
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    decode_record,
)
from controller.quorum.messages import ControllerEpoch, FetchSnapshot, OffsetAndEpoch
from replica.causes import LoadingCause
from replica.errors import ErrorCode
from replica.ids import (
    METADATA_TOPIC,
    NO_BROKER,
    NO_BROKER_EPOCH,
    UNDEFINED_EPOCH,
    BrokerEpoch,
    BrokerId,
    TopicPartition,
)
from replica.log.batches.records import batches, read_records
from replica.trace.events import SnapshotFetched, SnapshotLoaded

if TYPE_CHECKING:
    from controller.snapshot import Snapshot

    OnSnapshot = Callable[[Snapshot | None, int, int], None]
    """Called with (the snapshot, None if the fetch failed; its size in bytes; now_us)."""

# ----------------------------------------------------------------------------------------------------- snapshot fetcher
#
# A broker fetches a snapshot of the metadata in parts, from the controller whose response named it (KIP-630).


class SnapshotFetcher:
    """Fetches one snapshot from a controller, part by part, and passes it to `on_snapshot`."""

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        channel: Channel,
        end: OffsetAndEpoch,
        epoch: ControllerEpoch,
        timeout_us: int,
        on_snapshot: OnSnapshot,
    ) -> None:
        self._identity = identity
        self._channel = channel
        self._end = end
        self._epoch = epoch
        self._timeout_us = timeout_us
        self._on_snapshot = on_snapshot
        self._data = bytearray()

    def fetch(self, now_us: int) -> None:
        wanted = FetchSnapshot(self._identity.broker_id, self._epoch, self._end, len(self._data))
        self._channel.request(
            FETCH_SNAPSHOT,
            lambda correlation_id: encode_fetch_snapshot(wanted, correlation_id, self._identity.name),
            self._answered,
            self._timeout_us,
            now_us,
        )

    def _answered(self, frame: bytearray | None, now_us: int) -> None:
        answer = None if frame is None else decode_snapshot_answer(frame)
        if answer is None or answer.error is not ErrorCode.NONE:
            self._on_snapshot(None, 0, now_us)
            return
        self._data += answer.data
        if len(self._data) < answer.size_bytes:
            self.fetch(now_us)
        else:
            self._on_snapshot(decode_snapshot(self._end, bytes(self._data)), len(self._data), now_us)


FETCH_VERSION = 12
MAX_WAIT_MS = 1500
"""Maximum wait of a fetch. Simplified: 500 ms in KRaft; a longer wait makes idle clusters cheap to simulate."""
MAX_BYTES = 8 << 20
RETRY_US = 20_000
TIMEOUT_US = 2_000_000
"""controller.quorum.fetch.timeout.ms: time after which an observer without a response fetches again."""


class MetadataCache:
    """The cluster's metadata that this broker has applied so far."""

    def __init__(self, image: MetadataImage | None = None) -> None:
        self.image = image or MetadataImage()

    def is_eligible(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> bool:
        """Return True if a broker's replicas may join an ISR (KIP-841, KIP-903).

        The broker must be unfenced, not shutting down, and have this epoch; -1, of fetches without an epoch, is enough.
        """
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active and broker_epoch in (NO_BROKER_EPOCH, broker.broker_epoch)

    def alive_broker_epoch(self, broker_id: BrokerId) -> BrokerEpoch | None:
        """Return a broker's epoch; None if it is fenced or unknown. Source: KRaftMetadataCache.getAliveBrokerEpoch"""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.broker_epoch

    def registration(self, broker_id: BrokerId) -> BrokerRegistration | None:
        return self.image.brokers.get(broker_id)

    def topic_name(self, topic: str | UUID) -> str | None:
        return self.image.topic_names.get(topic) if isinstance(topic, UUID) else topic

    def missing_partition_error(self, topic_partition: TopicPartition) -> ErrorCode:
        """Return the error for a partition that has no replica on this broker (4.2).

        It is NOT_LEADER_OR_FOLLOWER if the metadata has the partition, else UNKNOWN_TOPIC_OR_PARTITION.
        """
        known = self.image.partition(topic_partition.topic, topic_partition.partition) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class MetadataFollower:
    """Fetches the metadata log from the active controller by long polling, and applies it to the cache.

    Args:
        held: returns the partitions whose logs are on this broker's disks.
        on_change: called with changed partitions and with topics whose settings changed, in log order.
    """

    def __init__(
        self,
        base: BrokerBase,
        events: BrokerEvents,
        *,
        controller: ActiveController,
        held: Callable[[], Iterable[TopicPartition]],
        on_change: Callable[[list[TopicPartition], list[str], int], None],
    ) -> None:
        self._identity = base.identity
        self._fetches = RepeatedFetches(FETCH_VERSION, base.node)
        self._outbox = base.outbox
        self._controller = controller
        self._voters = {voter: Channel(base.outbox, *address) for voter, address in controller.voters.items()}
        self._target = next(iter(self._voters))
        self._asking_around = False
        self._cache = base.cache
        self._recorder = base.recorder
        self._names = base.names
        self._held = held
        self._on_change = on_change
        self._events = events

    def fetch(self, now_us: int) -> None:
        """Fetch from the active controller, or from all controllers in turn while it is unknown or does not respond."""
        # Simplified: Kafka chooses another controller at random.
        leader_id = self._controller.leader_id
        voters = list(self._voters)
        if leader_id is None or self._asking_around:
            self._target = voters[(voters.index(self._target) + 1) % len(voters)]
        else:
            self._target = leader_id
        wanted = FetchPartition(0, UNDEFINED_EPOCH, self._cache.image.offset + 1, UNDEFINED_EPOCH, -1, MAX_BYTES)
        request = FetchRequest(
            replica_id=self._identity.broker_id,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            topics=[(METADATA_TOPIC, [wanted])],
        )
        self._voters[self._target].request(
            FETCH,
            lambda correlation_id: self._fetches.encode(correlation_id, request),
            self._answered,
            TIMEOUT_US,
            now_us,
        )

    def _answered(self, frame: bytearray | None, now_us: int) -> None:
        if frame is None:
            self._asking_around = True
            self._outbox.timers.at(now_us + RETRY_US, self.fetch)
            return
        changed: dict[TopicPartition, None] = {}
        configured: dict[str, None] = {}
        refused = False
        before = self._cache.image.settings_offset
        snapshot: FetchedPartition | None = None
        for _, partitions in decode_fetch_response(FETCH_VERSION, frame).topics:
            for partition in partitions:
                refused |= partition.error is not ErrorCode.NONE
                self._learn_leader(partition)
                snapshot = partition if partition.snapshot_id is not None else snapshot
                if partition.records:
                    self._apply(partition.records, changed, configured)
        if self._cache.image.settings_offset != before:
            self._events.settings_changed(now_us)
        if changed or configured:
            self._on_change(list(changed), list(configured), now_us)
        if snapshot is not None:
            self._fetch_snapshot(snapshot, now_us)
        elif refused:
            self._outbox.timers.at(now_us + RETRY_US, self.fetch)
        else:
            self.fetch(now_us)

    def _fetch_snapshot(self, partition: FetchedPartition, now_us: int) -> None:
        """Fetch the snapshot that a response names because the controller's log no longer has the next records."""
        assert partition.snapshot_id is not None
        end = OffsetAndEpoch(partition.snapshot_id.epoch, partition.snapshot_id.end_offset)
        source = self._names(self._target)

        def fetched(snapshot: Snapshot | None, size_bytes: int, now_us: int) -> None:
            if snapshot is None:
                self._outbox.timers.at(now_us + RETRY_US, self.fetch)
                return
            self._load(snapshot, source, size_bytes, now_us)
            self.fetch(now_us)

        SnapshotFetcher(
            identity=self._identity,
            channel=self._voters[self._target],
            end=end,
            epoch=self._controller.epoch if partition.current_leader is None else partition.current_leader.leader_epoch,
            timeout_us=TIMEOUT_US,
            on_snapshot=fetched,
        ).fetch(now_us)

    def _load(self, snapshot: Snapshot, source: str, size_bytes: int, now_us: int) -> None:
        """Replace the metadata by a snapshot, and report the differences to the listeners.

        Source: BrokerMetadataPublisher, ReplicaManager.applyDelta of a delta that began with a snapshot
        """
        me, end = self._identity.name, snapshot.end
        had = self._cache.image.offset + 1
        before, after = self._cache.image, snapshot.image(self._cache.image.empty())
        self._recorder.emit(
            SnapshotFetched(
                node=me,
                peer=source,
                offset=end.offset,
                controller_epoch=end.epoch,
                size_bytes=size_bytes,
                had_offset=had,
            )
        )
        self._cache.image = after
        self._recorder.emit(
            SnapshotLoaded(node=me, offset=end.offset, controller_epoch=end.epoch, cause=LoadingCause.BEHIND)
        )
        from controller.snapshot import changed_configs, changed_partitions

        changed = dict.fromkeys(changed_partitions(before, after))
        if before.client_quotas != after.client_quotas:
            self._events.quotas_changed()
        if (before.broker_config, before.feature_levels) != (after.broker_config, after.feature_levels):
            self._events.settings_changed(now_us)
        # A topic deleted before the snapshot is not in it; its logs are still on disk (isStrayKraftReplica).
        changed.update((name, None) for name in self._held() if not self._is_replica_of(name, after))
        self._on_change(list(changed), changed_configs(before, after), now_us)

    def _is_replica_of(self, name: TopicPartition, image: MetadataImage) -> bool:
        registration = image.partition(name.topic, name.partition)
        return registration is not None and self._identity.broker_id in registration.replicas

    def _learn_leader(self, partition: FetchedPartition) -> None:
        leader = partition.current_leader
        if leader is not None:
            leader_id = None if leader.leader_id == NO_BROKER else leader.leader_id
            self._controller.learn(leader_id, leader.leader_epoch)
        # If the voter refuses although it is the known leader, the next fetch goes to another voter.
        self._asking_around = partition.error is not ErrorCode.NONE and self._controller.leader_id == self._target

    def _apply(self, data: memoryview, changed: dict[TopicPartition, None], configured: dict[str, None]) -> None:
        image = self._cache.image
        for position, header in batches(data):
            for entry in read_records(data[position : position + header.size_bytes]):
                if entry.offset <= image.offset or entry.value is None:
                    continue
                record = decode_record(entry.value)
                if isinstance(record, RemoveTopicRecord):
                    deleted = image.topics[record.name].partitions
                    changed.update(dict.fromkeys(TopicPartition(record.name, number) for number in sorted(deleted)))
                elif isinstance(record, ClearElrRecord):
                    # This record raises the partition epochs (TopicDelta.maybeClearElr). With the old epochs,
                    # leaders' ISR proposals would be refused.
                    changed.update(dict.fromkeys(image.with_elr(record.topic)))
                defaults = image.topic_defaults
                image.apply(record, entry.offset)
                if image.topic_defaults != defaults:
                    configured.update(dict.fromkeys(image.topics))
                if isinstance(record, PartitionRecord | PartitionChangeRecord):
                    changed[TopicPartition(record.topic, record.partition)] = None
                elif isinstance(record, ConfigRecord):
                    configured[record.topic] = None
                elif isinstance(record, ClientQuotaRecord):
                    self._events.quotas_changed()
