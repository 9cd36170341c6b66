"""A share group (KIP-932): its members, their partitions, and the partitions whose share state exists.

Members share partitions, so a partition need not be revoked before another member gets it. Only partitions with
initialized share state are assigned.

Records in the offsets topic have the key versions 10 to 15: 10 a member; 11 the group epoch; 12 the epoch of the target
assignment; 13 a member's target; 14 a member's current assignment; 15 the partitions with share state (`ShareTopics`).

Source: ShareGroup.java, ShareGroup*Key.json, ShareGroup*Value.json, SimpleAssignor.java
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from uuid import UUID

from cluster.groups.state.assignors import Partitions, Targets, TopicIdPartition
from cluster.groups.state.consumer_group import FIRST_EPOCH, ConsumerGroup, ConsumerGroupState
from cluster.groups.state.consumer_member import ConsumerMember, MemberState
from cluster.groups.state.consumer_records import (
    ASSIGNMENT_TIME_TAG,
    NEVER_ASSIGNED,
    NO_TAGS,
    ConsumerRecord,
    CurrentAssignment,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    MemberRecord,
    ShareTopics,
    TargetEpochRecord,
    TargetRecord,
    array,
    check_version,
    encode_key,
    encode_value,
    number,
    read_epoch,
    read_names,
    read_partitions,
    written_partitions,
)
from cluster.protocol.primitives import (
    INT8,
    INT32,
    INT64,
    decodes,
    read_count,
    read_string,
    read_text,
    read_uuid,
    skip_tagged,
    string,
)

SHARE = "share"
MEMBER_KEY, EPOCH_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, TOPICS_KEY = range(10, 16)
SHARE_KEYS = (MEMBER_KEY, EPOCH_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, TOPICS_KEY)


class ShareGroup(ConsumerGroup):
    """One share group.

    Attributes:
        initializing_since_ms: time of the last request to initialize partitions; it is not stored in the log.
    """

    TYPE = SHARE

    def __init__(self, group_id: str, first_epoch: int = FIRST_EPOCH) -> None:
        super().__init__(group_id, first_epoch)
        self.shares = ShareTopics()
        self.initializing_since_ms = 0

    @property
    def state(self) -> ConsumerGroupState:
        return ConsumerGroupState.STABLE if self.members else ConsumerGroupState.EMPTY

    def replay(self, record: ConsumerRecord) -> None:
        if isinstance(record, ShareTopics):
            self.shares = record
        else:
            super().replay(record)

    def encoded(self, record: ConsumerRecord) -> tuple[bytes, bytes | None]:
        return encode(self.group_id, record)

    def tombstones(self) -> Iterator[ConsumerRecord]:
        for member_id in self.members:
            yield CurrentAssignmentRecord(member_id, None)
            yield TargetRecord(member_id, None)
            yield MemberRecord(member_id, None)
        yield TargetEpochRecord(None)
        yield ShareTopics()
        yield GroupEpochRecord(None)

    @property
    def needs_assignment(self) -> bool:
        """True if some initialized partition of a subscribed topic is in no member's target assignment.

        Source: initializedAssignmentPending
        """
        subscribed, names = self.subscribed, self.shares.names or {}
        assigned = {item for target in self.targets.values() for item in target}
        wanted = [item for item in self.shares.initialized if names.get(item.topic_id) in subscribed]
        return bool(self.members) and any(item not in assigned for item in wanted)


# ------------------------------------------------------------------------------------------------------------- records


def encode(group_id: str, record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Encode a record of a share group as key and value."""
    match record:
        case MemberRecord(member_id, None):
            return encode_key(MEMBER_KEY, group_id, member_id), None
        case MemberRecord(member_id, ConsumerMember() as member):
            names = array(member.topics, lambda topic: string(topic, True))
            host = string(member.client_id, True) + string(member.client_host, True)
            return encode_key(MEMBER_KEY, group_id, member_id), encode_value(string(member.rack_id, True), host, names)
        case GroupEpochRecord(epoch, metadata_hash):
            value = None if epoch is None else encode_value(INT32.pack(epoch), INT64.pack(metadata_hash))
            return encode_key(EPOCH_KEY, group_id), value
        case TargetEpochRecord(epoch, assigned_ms):
            return encode_key(TARGET_EPOCH_KEY, group_id), None if epoch is None else encode_value(
                INT32.pack(epoch), tags=number(ASSIGNMENT_TIME_TAG, assigned_ms, absent=NEVER_ASSIGNED)
            )
        case TargetRecord(member_id, partitions):
            value = None if partitions is None else encode_value(written_partitions(partitions))
            return encode_key(TARGET_KEY, group_id, member_id), value
        case CurrentAssignmentRecord(member_id, None):
            return encode_key(CURRENT_KEY, group_id, member_id), None
        case CurrentAssignmentRecord(member_id, CurrentAssignment() as current):
            epochs = INT32.pack(current.epoch) + INT32.pack(current.previous_epoch) + INT8.pack(current.state.value)
            return encode_key(CURRENT_KEY, group_id, member_id), encode_value(
                epochs, written_partitions(current.assigned)
            )
        case ShareTopics(names=None):
            return encode_key(TOPICS_KEY, group_id), None
        case ShareTopics(names=dict() as names_of):
            parts = (_named(item, names_of) for item in (record.initializing, record.initialized))
            deleting = array(record.deleting, lambda item: item.bytes + string(names_of.get(item, ""), True) + NO_TAGS)
            return encode_key(TOPICS_KEY, group_id), encode_value(*parts, deleting)
    raise AssertionError(f"{type(record).__name__} is not a record of share groups")


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    topics: dict[UUID, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic_id, []).append(partition.partition)
    return topics


def _named(partitions: Partitions, names: Mapping[UUID, str]) -> bytes:
    def write(topic: tuple[UUID, list[int]]) -> bytes:
        topic_id, numbers = topic
        return topic_id.bytes + string(names.get(topic_id, ""), True) + array(numbers, INT32.pack) + NO_TAGS

    return array(tuple(_by_topic(partitions).items()), write)


@decodes("a share group's record")
def read_share_record(version: int, whose: str, value: bytes | None) -> ConsumerRecord:
    """Decode a record, whose key has `version` and the member id `whose`.

    Raises:
        PeerViolation: if the record is malformed.
    """
    check_version(value)
    match version:
        case 10:
            return MemberRecord(whose, None if value is None else _read_member(whose, value))
        case 11:
            if value is None:
                return GroupEpochRecord(None)
            return GroupEpochRecord(INT32.unpack_from(value, 2)[0], INT64.unpack_from(value, 6)[0])
        case 12:
            return (
                TargetEpochRecord(None) if value is None else TargetEpochRecord(*read_epoch(value, ASSIGNMENT_TIME_TAG))
            )
        case 13:
            return TargetRecord(whose, None if value is None else read_partitions(value, 2)[0])
        case 14:
            return CurrentAssignmentRecord(whose, None if value is None else _read_current(value))
        case _:
            return ShareTopics() if value is None else _read_topics(value)


def _read_member(member_id: str, value: bytes) -> ConsumerMember:
    rack_id, position = read_string(value, 2, True)
    client_id, position = read_text(value, position, True)
    client_host, position = read_text(value, position, True)
    topics, _ = read_names(value, position)
    return ConsumerMember(
        member_id=member_id, rack_id=rack_id, client_id=client_id, client_host=client_host, topics=topics
    )


def _read_current(value: bytes) -> CurrentAssignment:
    epoch, previous_epoch = INT32.unpack_from(value, 2)[0], INT32.unpack_from(value, 6)[0]
    return CurrentAssignment(epoch, previous_epoch, MemberState.STABLE, read_partitions(value, 11)[0], ())


def _read_topics(value: bytes) -> ShareTopics:
    names: dict[UUID, str] = {}
    initializing, position = _read_named(value, 2, names)
    initialized, position = _read_named(value, position, names)
    count, position = read_count(value, position, True, 18)
    deleting = []
    for _ in range(count):
        topic_id, position = read_uuid(value, position)
        names[topic_id], position = read_text(value, position, True)
        position = skip_tagged(value, position)
        deleting.append(topic_id)
    return ShareTopics(initializing, initialized, names, tuple(deleting))


def _read_named(value: bytes, position: int, names: dict[UUID, str]) -> tuple[Partitions, int]:
    topics, position = read_count(value, position, True, 19)
    found = []
    for _ in range(topics):
        topic_id, position = read_uuid(value, position)
        names[topic_id], position = read_text(value, position, True)
        count, position = read_count(value, position, True, 4)
        for _ in range(count):
            found.append(TopicIdPartition(topic_id, INT32.unpack_from(value, position)[0]))
            position += 4
        position = skip_tagged(value, position)
    return tuple(sorted(found)), position


# ------------------------------------------------------------------------------------------------------------ assignor


def assign_simply(topics_of: Mapping[str, Sequence[UUID]], targets: Targets, initialized: Partitions) -> Targets:
    """Assign initialized partitions to members; with more members than partitions, members share partitions.

    Members keep partitions of their last targets up to their fair share.

    Args:
        topics_of: ids of existing topics that each member reads, by member id, in the order in which members joined.
        targets: last target assignments by member id.

    Source: SimpleHomogeneousAssignmentBuilder, SimpleHeterogeneousAssignmentBuilder
    """
    found: dict[str, list[TopicIdPartition]] = {name: [] for name in topics_of}
    subscriptions = [frozenset(topics) for topics in topics_of.values()]
    if all(subscription == subscriptions[0] for subscription in subscriptions):
        parts = [[item for item in initialized if item.topic_id in subscriptions[0]]] if subscriptions else []
    else:
        parts = [
            [TopicIdPartition(topic, number) for number in numbers] for topic, numbers in _by_topic(initialized).items()
        ]
    for partitions in parts:
        readers = [name for name, topics in topics_of.items() if partitions and partitions[0].topic_id in topics]
        for name, share in _shared_out(partitions, readers, targets).items():
            found[name] += share
    return {name: tuple(sorted(share)) for name, share in found.items()}


def _shared_out(
    partitions: Sequence[TopicIdPartition], readers: Sequence[str], targets: Targets
) -> dict[str, list[TopicIdPartition]]:
    if not partitions or not readers:
        return {}
    sharing = -(-len(readers) // len(partitions))
    total = sharing * len(partitions)
    quota = {
        name: -(-total * (index + 1) // len(readers)) - -(-total * index // len(readers))
        for index, name in enumerate(readers)
    }
    kept = {
        name: [target for target in targets.get(name, ()) if target in partitions][-quota[name] :] for name in readers
    }
    holders = {partition: [name for name in readers if partition in kept[name]] for partition in partitions}
    for item, names in holders.items():
        for name in names[: max(0, len(names) - sharing)]:
            kept[name].remove(item)
            names.remove(name)
    unfilled = dict.fromkeys(name for name in readers if len(kept[name]) < quota[name])
    turns = cycle(readers)
    for item, names in holders.items():
        skipped = 0
        while len(names) < sharing and unfilled and skipped < len(readers):
            name = next(turns)
            if name not in unfilled or name in names:
                skipped += 1
                continue
            skipped = 0
            names.append(name)
            kept[name].append(item)
            if len(kept[name]) >= quota[name]:
                del unfilled[name]
    return kept
