"""Derives trace events of the controllers' decisions from the records of their metadata log.

The log has decisions, but not their causes. The other records of a batch suggest them: a fencing and the partition
changes beside it are one decision. A lone change of the ISR was proposed by the leader, because a controller never
makes one on its own. The active controller's console shows whether a broker was fenced because its session timed out.

Source: ReplicationControlManager (handleBrokerFenced, handleBrokerUnfenced, handleBrokerInControlledShutdown,
handleUncleanBrokerShutdown, alterPartition)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cluster.kafka.observe.console_lines import SaidFencing
from cluster.kafka.observe.observed import METADATA_LOG, Key, Seen, leader_key
from controller.changes import ChangeEvents
from controller.election import Choice, Occasion
from controller.image import MetadataImage, PartitionRegistration
from controller.metadata import (
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    GroupConfigRecord,
    LeaderChangeMessage,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from replica.causes import (
    ActivationCause,
    ConfigCause,
    ElrCause,
    FencingCause,
    IsrCommitCause,
    OccasionKind,
    RegistrationCause,
    UnfencingCause,
)
from replica.ids import NO_BROKER, BrokerEpoch, BrokerId, Names, Offset, TopicPartition
from replica.trace import events as trace
from replica.wording import shown


class WrittenRecord(NamedTuple):
    """A record of the metadata log. `wall_ms` is its time by the clock of the controller that wrote it."""

    offset: Offset
    wall_ms: int
    record: MetadataRecord


class MetadataEvents:
    """Translates metadata records into trace events.

    Args:
        topic_defaults: defaults for topics in the configuration files of brokers and controllers.

    Attributes:
        timed_out: brokers whose sessions timed out according to a controller's console, with their epochs; a set.
    """

    def __init__(self, names: Names, topic_defaults: Mapping[str, str]) -> None:
        self.image = MetadataImage()
        self.timed_out: dict[tuple[BrokerId, BrokerEpoch], None] = {}
        self._names = names
        self._topic_defaults = dict(topic_defaults)
        self._teller = ChangeEvents(node="", names=names)
        self._new_topics: dict[str, None] = {}

    @property
    def controller(self) -> str:
        """The name of the metadata log's leader, "" before the first."""
        return self._teller.node

    def fencing_said(self, said: SaidFencing) -> None:
        """Handle a console line about a fenced broker.

        Up to 3.9 it has no epoch, so the broker's current epoch counts.
        """
        known = self.image.brokers.get(said.broker_id)
        epoch = said.broker_epoch if said.broker_epoch is not None or known is None else known.broker_epoch
        if epoch is not None:
            self.timed_out[said.broker_id, epoch] = None

    def decided(self, batch: Sequence[WrittenRecord]) -> Iterator[Seen]:
        """Yield the events of one committed batch."""
        self._new_topics = {}
        for index, written in enumerate(batch):
            yield from self._events(written, batch, index)

    def _events(self, written: WrittenRecord, batch: Sequence[WrittenRecord], index: int) -> Iterator[Seen]:
        record = written.record
        match record:
            case LeaderChangeMessage():
                yield from self._leads(written, record)
            case RegisterBrokerRecord():
                yield self._registered(written, record)
            case BrokerRegistrationChangeRecord():
                yield from self._registration_changed(written, record)
            case TopicRecord():
                self._new_topics[record.name] = None
                self._apply(written, replace(record, config=self._topic_defaults))
            case RemoveTopicRecord():
                self._apply(written)
                yield self._seen(written, trace.TopicDeleted(node=self.controller, topic=record.name))
            case ConfigRecord():
                yield from self._topic_configured(written, record)
            case BrokerConfigRecord():
                yield from self._broker_configured(written, record)
            case GroupConfigRecord():
                yield self._group_configured(written, record)
            case FeatureLevelRecord():
                yield from self._feature_changed(written, record)
            case PartitionRecord():
                yield self._created(written, record)
            case PartitionChangeRecord():
                if index == 0 or not isinstance(batch[index - 1].record, PartitionChangeRecord):
                    yield from self._fenced_with(batch, index)
                yield from self._changed(written, record, batch, index)
            case ClearElrRecord():
                yield from self._elr_cleared(written, record)

    def _apply(self, written: WrittenRecord, record: MetadataRecord | None = None) -> None:
        self.image.offset = written.offset - 1  # Records of no interest were skipped.
        self.image.apply(record or written.record, written.offset)

    @staticmethod
    def _seen(
        written: WrittenRecord, event: trace.TraceEvent, *, key: Key | None = None, after: Key | None = None
    ) -> Seen:
        return Seen(event, METADATA_LOG, written.wall_ms, key, after)

    # ------------------------------------------------------------------------------------- controllers and brokers

    def _leads(self, written: WrittenRecord, record: LeaderChangeMessage) -> Iterator[Seen]:
        """Yield the events of a new quorum leader. It is the active controller, because its record is committed."""
        node, epoch = self._names(record.leader_id), record.controller_epoch
        self._teller = ChangeEvents(node=node, names=self._names)
        key = ("controller", epoch)
        yield self._seen(written, trace.QuorumLeaderElected(node=node, controller_epoch=epoch), key=key)
        active = trace.ControllerActivated(node=node, controller_epoch=epoch, cause=ActivationCause.COMMITTED)
        yield self._seen(written, active, after=key)

    def _registered(self, written: WrittenRecord, record: RegisterBrokerRecord) -> Seen:
        who, known = self._names(record.broker_id), self.image.brokers.get(record.broker_id)
        if known is None:
            cause = RegistrationCause.FIRST
        elif known.incarnation_id == record.incarnation_id:
            cause = RegistrationCause.SAME_INCARNATION
        else:
            cause = RegistrationCause.NEW_INCARNATION
        self._apply(written)
        event = trace.BrokerRegistered(
            node=self.controller,
            broker=who,
            broker_epoch=record.broker_epoch,
            cause=cause,
            previous_epoch=known.broker_epoch if known and cause is RegistrationCause.NEW_INCARNATION else None,
        )
        return self._seen(written, event)

    def _registration_changed(self, written: WrittenRecord, record: BrokerRegistrationChangeRecord) -> Iterator[Seen]:
        """Yield the events of a changed registration. A fencing that `_fenced_with` has already yielded is left out."""
        before = self.image.brokers[record.broker_id]
        who = self._names(record.broker_id)
        if record.fenced and not before.fenced:
            yield self._fenced(written, record)
        elif record.fenced is False and before.fenced:
            event = trace.BrokerUnfenced(node=self.controller, broker=who, cause=UnfencingCause.CAUGHT_UP)
            yield self._seen(written, event, key=_record_key(written))
        self._apply(written)

    def _fenced(self, written: WrittenRecord, record: BrokerRegistrationChangeRecord) -> Seen:
        who, cause = self._names(record.broker_id), self._fencing(record)
        event = trace.BrokerFenced(node=self.controller, broker=who, cause=cause)
        return self._seen(written, event, key=_record_key(written))

    def _fencing(self, record: BrokerRegistrationChangeRecord) -> FencingCause | None:
        if (record.broker_id, record.broker_epoch) in self.timed_out:
            return FencingCause.NO_HEARTBEAT
        return FencingCause.SHUTDOWN if self.image.brokers[record.broker_id].in_controlled_shutdown else None

    def _fenced_with(self, batch: Sequence[WrittenRecord], index: int) -> Iterator[Seen]:
        """Yield the fencing that caused partition changes, before their events; its record follows them in the log."""
        written = _next_that_is_no_change(batch, index)
        if written is None or not isinstance(written.record, BrokerRegistrationChangeRecord):
            return
        record = written.record
        broker = self.image.brokers[record.broker_id]
        if record.fenced and not broker.fenced:
            yield self._fenced(written, record)
            self.image.brokers[record.broker_id] = replace(broker, fenced=True)

    # ---------------------------------------------------------------------------------------------------- settings

    def _topic_configured(self, written: WrittenRecord, record: ConfigRecord) -> Iterator[Seen]:
        self._apply(written)
        if record.topic in self._new_topics:
            return
        topic = self.image.topics[record.topic]
        event = trace.ConfigAltered(
            node=self.controller,
            topic=record.topic,
            key=record.key,
            value=record.value,
            min_isr=topic.log_config.min_insync_replicas,
        )
        yield self._seen(written, event)

    def _broker_configured(self, written: WrittenRecord, record: BrokerConfigRecord) -> Iterator[Seen]:
        """Yield the event of a changed setting of a broker.

        Records before the first topic yield none, because formatting the disks wrote them.
        """
        self._apply(written)
        if not self.image.topics:
            return
        event = trace.ConfigAltered(
            node=self.controller,
            broker=None if record.broker_id == NO_BROKER else self._names(record.broker_id),
            key=record.key,
            value=record.value,
        )
        yield self._seen(written, event)

    def _group_configured(self, written: WrittenRecord, record: GroupConfigRecord) -> Seen:
        self._apply(written)
        group = shown(record.group)
        altered = trace.ConfigAltered(node=self.controller, group=group, key=record.key, value=record.value)
        return self._seen(written, altered)

    def _feature_changed(self, written: WrittenRecord, record: FeatureLevelRecord) -> Iterator[Seen]:
        """Yield the event of a changed feature level, presented as a changed setting of all brokers."""
        self._apply(written)
        if self.image.topics:
            level = str(record.feature_level)
            event = trace.ConfigAltered(node=self.controller, key=record.name, value=level, cause=ConfigCause.FEATURE)
            yield self._seen(written, event)

    # -------------------------------------------------------------------------------------------------- partitions

    def _created(self, written: WrittenRecord, record: PartitionRecord) -> Seen:
        self._apply(written)
        event = trace.PartitionCreated(
            self.controller,
            record.topic,
            record.partition,
            broker=self._names(record.leader),
            replicas=self._teller.named(record.replicas),
            isr=self._teller.named(record.in_sync_replicas),
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            min_isr=self.image.topics[record.topic].log_config.min_insync_replicas,
        )
        return self._seen(written, event, key=leader_key(record.topic, record.partition, record.leader_epoch))

    def _changed(
        self, written: WrittenRecord, record: PartitionChangeRecord, batch: Sequence[WrittenRecord], index: int
    ) -> Iterator[Seen]:
        name = TopicPartition(record.topic, record.partition)
        partitions = self.image.topics[record.topic].partitions
        before = partitions[record.partition]
        self._apply(written)
        after = partitions[record.partition]
        occasion, what_happened = self._occasion(batch, index, before, after)
        leads = leader_key(record.topic, record.partition, after.leader_epoch)
        for event in self._change_events(name, before, after, occasion):
            begins = isinstance(event, (trace.LeaderElected, trace.PartitionWentOffline))
            yield self._seen(written, event, key=leads if begins else None, after=what_happened)

    def _change_events(
        self,
        name: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
        occasion: Occasion | None,
    ) -> Iterator[trace.TraceEvent]:
        teller = self._teller
        if after.is_reassigning and not before.is_reassigning:
            yield self._reassignment(name, after)
        if occasion is not None or after.leader_epoch != before.leader_epoch or not after.has_leader:
            yield from teller.events(name, before, after, election_between(before, after), occasion)
            return
        if before.in_sync_replicas != after.in_sync_replicas or (before.recovering and not after.recovering):
            leader = self._names(after.leader)
            yield teller.isr_committed(name, before, after, IsrCommitCause.PROPOSED, proposed_by=leader)
        yield from teller.elr_committed(name, before, after)
        if before.is_reassigning and not after.is_reassigning:
            yield teller.reassigned(name, before, after)

    def _reassignment(self, name: TopicPartition, after: PartitionRegistration) -> trace.TraceEvent:
        named = self._teller.named
        return trace.ReassignmentBegan(
            self.controller,
            *name,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            replicas=named(after.replicas),
            adding=named(after.adding_replicas),
            removing=named(after.removing_replicas),
        )

    def _occasion(
        self, batch: Sequence[WrittenRecord], index: int, before: PartitionRegistration, after: PartitionRegistration
    ) -> tuple[Occasion | None, Key | None]:
        """Return the cause of a partition change and the key of the cause's event, None for each that is unknown.

        A batch may also hold decisions about other partitions, so its other records count as the cause only if they fit
        the change.
        """
        following = _next_that_is_no_change(batch, index)
        leaving = (*before.in_sync_replicas, *before.elr)
        staying = (*after.in_sync_replicas, *after.elr)
        match following and following.record:
            case BrokerRegistrationChangeRecord(broker_id=who, fenced=True) as record if who in (
                before.leader,
                *leaving,
            ) and (after.leader != who or who not in staying):
                assert following is not None
                return Occasion(OccasionKind.FENCED, (who,), self._fencing(record)), _record_key(following)
            case RegisterBrokerRecord(broker_id=who) if who in leaving and who not in staying:
                return Occasion(OccasionKind.REGISTERED, (who,)), None
        preceding = _last_that_is_no_change(batch, index)
        match preceding and preceding.record:
            case BrokerRegistrationChangeRecord(broker_id=who, fenced=False) if after.leader == who:
                assert preceding is not None
                return Occasion(OccasionKind.UNFENCED, (who,)), _record_key(preceding)
            case BrokerRegistrationChangeRecord(broker_id=who, in_controlled_shutdown=True) if who in leaving:
                return Occasion(OccasionKind.CONTROLLED_SHUTDOWN, (who,)), None
        departed = [who for who in before.in_sync_replicas if who not in after.in_sync_replicas]
        for who in departed:  # The record of the broker's shutdown was in an earlier batch.
            broker = self.image.brokers.get(who)
            if broker is not None and broker.in_controlled_shutdown:
                return Occasion(OccasionKind.CONTROLLED_SHUTDOWN, (who,)), None
        return None, None

    def _elr_cleared(self, written: WrittenRecord, record: ClearElrRecord) -> Iterator[Seen]:
        """Yield the events of cleared ELRs; a record without a name concerns every topic."""
        for topic in [record.topic] if record.topic else sorted(self.image.topics):
            before = dict(self.image.topics[topic].partitions)
            self._apply(written, ClearElrRecord(topic=topic))
            for number, partition in sorted(before.items()):
                after = self.image.topics[topic].partitions[number]
                if after != partition:
                    name, cause = TopicPartition(topic, number), ElrCause.MIN_ISR_CHANGED
                    for event in self._teller.elr_committed(name, partition, after, cause=cause):
                        yield self._seen(written, event)


def election_between(before: PartitionRegistration, after: PartitionRegistration) -> Choice:
    """Return the leader election that the states of a partition before and after a change imply."""
    is_member = after.leader in (*before.in_sync_replicas, *before.elr)
    clean = after.leader == NO_BROKER or is_member or len(after.in_sync_replicas) > 1
    return Choice(after.leader, clean, None, () if after.leader in before.in_sync_replicas else before.elr)


def _record_key(written: WrittenRecord) -> Key:
    return ("record", written.offset)


def _next_that_is_no_change(batch: Sequence[WrittenRecord], index: int) -> WrittenRecord | None:
    return next((item for item in batch[index:] if not isinstance(item.record, PartitionChangeRecord)), None)


def _last_that_is_no_change(batch: Sequence[WrittenRecord], index: int) -> WrittenRecord | None:
    return next((item for item in reversed(batch[:index]) if not isinstance(item.record, PartitionChangeRecord)), None)
