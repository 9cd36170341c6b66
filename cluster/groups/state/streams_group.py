"""A streams group (KIP-1071): the members of a Kafka Streams application, their tasks, and the topology.

Records in the offsets topic have the key versions 17 and 19 to 23: 17 the group epoch; 19 a member; 20 the epoch of the
target assignment; 21 a member's target; 22 a member's current assignment; 23 the topology.

Source: StreamsGroup.java, StreamsGroupMember.java, StreamsGroup*Key.json, StreamsGroup*Value.json,
StreamsCoordinatorRecordHelpers.java
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple

from cluster.clocks import Timer
from cluster.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from cluster.groups.state.consumer_member import ConsumerMember, MemberState
from cluster.groups.state.consumer_records import (
    ASSIGNMENT_EPOCHS_TAG,
    ASSIGNMENT_TIME_TAG,
    NEVER_ASSIGNED,
    NO_EPOCHS,
    NO_HASH,
    NO_TAGS,
    VALUE_VERSION,
    ConsumerRecord,
    CurrentAssignment,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
    TopologyRecord,
    array,
    check_version,
    encode_key,
    encode_value,
    number,
    read_epoch,
    read_epochs,
)
from cluster.groups.state.tasks import ACTIVE, STANDBY, WARMUP, StreamsTask, Tasks, by_subtopology
from cluster.groups.state.topology import PartitionsOf, sources_of, topology_class
from cluster.protocol.entities import UINT16, Entity, encode_entity, entity_reader
from cluster.protocol.primitives import (
    INT8,
    INT16,
    INT32,
    INT64,
    decodes,
    read_count,
    read_string,
    read_tagged,
    read_text,
    skip_tagged,
    string,
    tagged,
)
from replica.ids import TopicPartition
from replica.trace.groups import STREAMS

EPOCH_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, TOPOLOGY_KEY = 17, 19, 20, 21, 22, 23
STREAMS_KEYS = (EPOCH_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, TOPOLOGY_KEY)
VALIDATED_EPOCH_TAG, CONFIGS_TAG = range(2)
NOT_VALIDATED = -1
STATES = (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS)
"""The states of members, in the order of their codes in records, which start at 1. Source: streams/MemberState.java"""
Pairs = tuple[tuple[str, str], ...]


class UserEndpoint(NamedTuple):
    """The address of a member for interactive queries (application.server)."""

    host: str
    port: int


class EndpointPartitions(NamedTuple):
    """The partitions that the tasks of the member with an endpoint read, in ascending order."""

    endpoint: UserEndpoint
    active: tuple[TopicPartition, ...]
    standby: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember(ConsumerMember):
    """A member of a streams group: one thread of an application.

    Attributes:
        process_id: id of the application's process, whose members share local state.
        since: member epoch at which each active task was assigned.
    """

    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: UserEndpoint | None = None
    client_tags: Pairs = ()
    assigned: Tasks = ()  # type: ignore[assignment]
    pending_revocation: Tasks = ()  # type: ignore[assignment]
    since: Mapping[StreamsTask, int] = field(default_factory=dict)  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class StreamsEpochRecord(GroupEpochRecord):
    """The group epoch, with further fields of a streams group; for these see `StreamsGroup`."""

    validated_epoch: int = NOT_VALIDATED
    configs: Pairs = ()


class StreamsGroup(ConsumerGroup):
    """One streams group.

    Attributes:
        topology: topology of the application, None until the first member has sent it.
        validated_epoch: epoch of the topology if all its topics exist, otherwise NOT_VALIDATED.
        configs: group settings that the assignor uses, stored with the group epoch.
        shutdown_by: id of the member that requested a shutdown of the whole application; it is not stored in the log.
        delay: timer of the first assignment.
        endpoints_epoch: number of changes of the members' endpoints and of what is read there. A new coordinator begins
            at 0. Source: endpointInformationEpoch
    """

    TYPE = STREAMS
    HAS_TASKS = True
    MEMBER: ClassVar[type[ConsumerMember]] = StreamsMember
    members: dict[str, StreamsMember]  # type: ignore[assignment]
    targets: dict[str, Tasks]  # type: ignore[assignment]

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.topology: Entity | None = None
        self.validated_epoch = NOT_VALIDATED
        self.configs: Pairs = ()
        self.shutdown_by: str | None = None
        self.delay: Timer | None = None
        self.endpoints_epoch = 0

    @property
    def state(self) -> ConsumerGroupState:
        if self.members and (self.topology is None or self.topology.epoch != self.validated_epoch):
            return ConsumerGroupState.NOT_READY
        return super().state

    @property
    def subscribed(self) -> tuple[str, ...]:
        """The topics that the topology reads, in ascending order; none without members. Source: isSubscribedToTopic"""
        parts = self.topology.subtopologies if self.topology is not None and self.members else ()
        return tuple(sorted({name for part in parts for name in sources_of(part)}))

    def is_free(self, member: ConsumerMember, task: StreamsTask) -> bool:  # type: ignore[override]
        """Return True if `member` can get a task: no member of its process has the task in any kind.

        An active task must also not be active at any other member. Simplified: a task that the member was about to
        revoke counts as free for it, as in consumer groups.
        Source: CurrentAssignmentBuilder.computeNextAssignment
        """
        process_id = self.members[member.member_id].process_id
        for other in self.members.values():
            is_near = other.process_id == process_id
            for item in (*other.assigned, *other.pending_revocation):
                if item.id == task.id and (is_near or item.kind == task.kind == ACTIVE):
                    return False
        return True

    def assignment_epoch(self, member: ConsumerMember, name: TopicPartition) -> int | None:
        """Return the member epoch at which a member got the active task that reads a partition, None without the task.

        Source: createAssignmentEpochValidator
        """
        parts = self.topology.subtopologies if self.topology is not None else ()
        readers = (part.subtopology_id for part in parts if name.topic in sources_of(part))
        tasks = (StreamsTask(ACTIVE, reader, name.partition) for reader in readers)
        return next((member.assignment_epoch(task) for task in tasks), None)

    def endpoints(self, partitions_of: PartitionsOf) -> tuple[EndpointPartitions, ...]:
        """Return the members' endpoints, and what is read at each. Source: buildEndpointToPartitions"""
        return tuple(
            EndpointPartitions(
                member.user_endpoint,
                self.read_by(member.assigned, partitions_of),
                self.read_by(member.assigned, partitions_of, (STANDBY, WARMUP)),
            )
            for member in self.members.values()
            if member.user_endpoint is not None
        )

    def read_by(
        self, tasks: Tasks, partitions_of: PartitionsOf, kinds: tuple[int, ...] = (ACTIVE,)
    ) -> tuple[TopicPartition, ...]:
        """Return the partitions that those of the tasks read that have one of the kinds, in ascending order."""
        parts = (
            {subtopology.subtopology_id: subtopology for subtopology in self.topology.subtopologies}
            if self.topology is not None
            else {}
        )
        found = (
            TopicPartition(topic, task.partition)
            for task in tasks
            if task.kind in kinds and task.subtopology in parts
            for topic in sources_of(parts[task.subtopology])
            if task.partition < (partitions_of(topic) or 0)
        )
        return tuple(sorted(found))

    def replay(self, record: ConsumerRecord) -> None:
        if isinstance(record, TopologyRecord):
            self.topology = record.topology
            return
        if isinstance(record, StreamsEpochRecord):
            self.validated_epoch, self.configs = record.validated_epoch, record.configs
        super().replay(record)
        if not self.members:
            self.shutdown_by = None

    def encoded(self, record: ConsumerRecord) -> tuple[bytes, bytes | None]:
        return encode(self.group_id, record)

    def tombstones(self) -> Iterator[ConsumerRecord]:
        for member_id in self.members:
            yield CurrentAssignmentRecord(member_id, None)
        for member_id in self.members:
            yield TargetRecord(member_id, None)
        yield TargetEpochRecord(None)
        for member_id in self.members:
            yield MemberRecord(member_id, None)
        yield GroupEpochRecord(None)
        yield TopologyRecord(None)

    def stop_timers(self) -> None:
        super().stop_timers()
        if self.delay is not None:
            self.delay.cancel()
            self.delay = None


# ------------------------------------------------------------------------------------------------------------- records


def encode(group_id: str, record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Encode a record of a streams group as key and value."""
    match record:
        case StreamsEpochRecord(epoch=int() as epoch):
            tags = {CONFIGS_TAG: array(record.configs, _pair)}
            if record.validated_epoch != NOT_VALIDATED:
                tags[VALIDATED_EPOCH_TAG] = INT32.pack(record.validated_epoch)
            value = encode_value(INT32.pack(epoch), INT64.pack(record.metadata_hash), tags=tagged(tags))
            return encode_key(EPOCH_KEY, group_id), value
        case GroupEpochRecord():
            return encode_key(EPOCH_KEY, group_id), None
        case MemberRecord(member_id, member):
            key = encode_key(MEMBER_KEY, group_id, member_id)
            return key, encode_value(_member(member)) if isinstance(member, StreamsMember) else None
        case TargetEpochRecord(epoch, assigned_ms):
            return encode_key(TARGET_EPOCH_KEY, group_id), None if epoch is None else encode_value(
                INT32.pack(epoch), tags=number(ASSIGNMENT_TIME_TAG, assigned_ms, absent=NEVER_ASSIGNED)
            )
        case TargetRecord(member_id, tasks):
            key = encode_key(TARGET_KEY, group_id, member_id)
            return key, None if tasks is None else encode_value(_tasks(tasks))
        case CurrentAssignmentRecord(member_id, current):
            key = encode_key(CURRENT_KEY, group_id, member_id)
            return key, None if current is None else encode_value(_current(current))
        case TopologyRecord(topology):
            key = encode_key(TOPOLOGY_KEY, group_id)
            return key, None if topology is None else INT16.pack(VALUE_VERSION) + encode_entity(topology)
    raise AssertionError(f"{type(record).__name__} is not a record of streams groups")


def _pair(pair: tuple[str, str]) -> bytes:
    return string(pair[0], True) + string(pair[1], True) + NO_TAGS


def _member(member: StreamsMember) -> bytes:
    endpoint = member.user_endpoint
    where = INT8.pack(-1)
    if endpoint is not None:
        where = INT8.pack(1) + string(endpoint.host, True) + UINT16.pack(endpoint.port) + NO_TAGS
    texts = (member.instance_id, member.rack_id, member.client_id, member.client_host)
    return b"".join(
        (
            *(string(text, True) for text in texts),
            INT32.pack(member.rebalance_timeout_ms),
            INT32.pack(member.topology_epoch),
            string(member.process_id, True),
            where,
            array(sorted(member.client_tags), _pair),
        )
    )


def _tasks(tasks: Tasks, since: Mapping[StreamsTask, int] = NO_EPOCHS) -> bytes:
    def write(kind: int, of_subtopology: tuple[str, list[int]]) -> bytes:
        name, numbers = of_subtopology
        epochs = [since.get(StreamsTask(kind, name, item)) for item in numbers]
        known = [epoch for epoch in epochs if epoch is not None]
        is_noted = kind == ACTIVE and len(known) == len(epochs)
        tags = tagged({ASSIGNMENT_EPOCHS_TAG: array(known, INT32.pack)}) if is_noted else NO_TAGS
        return string(name, True) + array(numbers, INT32.pack) + tags

    kinds = (ACTIVE, STANDBY, WARMUP)
    return b"".join(array(by_subtopology(tasks, kind), partial(write, kind)) for kind in kinds)


def _current(current: CurrentAssignment) -> bytes:
    state = INT8.pack(STATES.index(current.state) + 1)
    epochs = INT32.pack(current.epoch) + INT32.pack(current.previous_epoch) + state
    return epochs + _tasks(current.assigned, current.since) + _tasks(current.pending_revocation, current.since)


@decodes("a streams group's record")
def read_streams_record(version: int, whose: str, value: bytes | None) -> ConsumerRecord:
    """Decode a record, whose key has `version` and the member id `whose`.

    Raises:
        PeerViolation: if the record is malformed.
    """
    check_version(value)
    if version == EPOCH_KEY:
        return GroupEpochRecord(None, NO_HASH) if value is None else _read_epoch(value)
    if version == MEMBER_KEY:
        return MemberRecord(whose, None if value is None else _read_member(whose, value))
    if version == TARGET_EPOCH_KEY:
        return TargetEpochRecord(None) if value is None else TargetEpochRecord(*read_epoch(value, ASSIGNMENT_TIME_TAG))
    if version == TARGET_KEY:
        return TargetRecord(whose, None if value is None else _read_tasks(value, 2, {})[0])
    if version == CURRENT_KEY:
        return CurrentAssignmentRecord(whose, None if value is None else _read_current(value))
    return TopologyRecord(None if value is None else entity_reader(topology_class())(value, 2)[0])


def _read_epoch(value: bytes) -> StreamsEpochRecord:
    tags, _ = read_tagged(value, 14)
    validated, pairs = tags.get(VALIDATED_EPOCH_TAG), tags.get(CONFIGS_TAG)
    return StreamsEpochRecord(
        INT32.unpack_from(value, 2)[0],
        INT64.unpack_from(value, 6)[0],
        NOT_VALIDATED if validated is None else INT32.unpack_from(validated, 0)[0],
        () if pairs is None else _read_pairs(pairs, 0)[0],
    )


def _read_pairs(value: bytes, position: int) -> tuple[Pairs, int]:
    count, position = read_count(value, position, True, 3, nullable=True)
    pairs = []
    for _ in range(count):
        name, position = read_text(value, position, True)
        text, position = read_text(value, position, True)
        pairs.append((name, text))
        position = skip_tagged(value, position)
    return tuple(pairs), position


def _read_member(member_id: str, value: bytes) -> StreamsMember:
    instance_id, position = read_string(value, 2, True)
    rack_id, position = read_string(value, position, True)
    client_id, position = read_text(value, position, True)
    client_host, position = read_text(value, position, True)
    timeout_ms, topology_epoch = INT32.unpack_from(value, position)[0], INT32.unpack_from(value, position + 4)[0]
    process_id, position = read_text(value, position + 8, True)
    endpoint = None
    has_endpoint, position = INT8.unpack_from(value, position)[0] >= 0, position + 1
    if has_endpoint:
        host, position = read_text(value, position, True)
        endpoint = UserEndpoint(host, UINT16.unpack_from(value, position)[0])
        position = skip_tagged(value, position + 2)
    tags, _ = _read_pairs(value, position)
    return StreamsMember(
        member_id=member_id,
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=timeout_ms,
        topology_epoch=topology_epoch,
        process_id=process_id,
        user_endpoint=endpoint,
        client_tags=tags,
    )


def _read_tasks(value: bytes, position: int, since: dict[StreamsTask, int]) -> tuple[Tasks, int]:
    """Decode tasks of all kinds from `position` on, and put the assignment epochs of active tasks into `since`.

    Return the tasks and the position after them.
    """
    found: list[StreamsTask] = []
    for kind in (ACTIVE, STANDBY, WARMUP):
        count, position = read_count(value, position, True, 3)
        for _ in range(count):
            name, position = read_text(value, position, True)
            numbers, position = read_count(value, position, True, 4)
            tasks = [
                StreamsTask(kind, name, INT32.unpack_from(value, position + 4 * index)[0]) for index in range(numbers)
            ]
            found += tasks
            tags, position = read_tagged(value, position + 4 * numbers)
            if ASSIGNMENT_EPOCHS_TAG in tags:
                since.update(zip(tasks, read_epochs(tags[ASSIGNMENT_EPOCHS_TAG], numbers), strict=True))
    return tuple(sorted(found)), position


def _read_current(value: bytes) -> CurrentAssignment:
    epoch, previous_epoch = INT32.unpack_from(value, 2)[0], INT32.unpack_from(value, 6)[0]
    (state,) = INT8.unpack_from(value, 10)
    since: dict[StreamsTask, int] = {}
    assigned, position = _read_tasks(value, 11, since)
    pending, _ = _read_tasks(value, position, since)
    return CurrentAssignment(
        epoch,
        previous_epoch,
        STATES[state - 1] if 0 < state <= len(STATES) else MemberState.UNKNOWN,
        assigned,
        pending,
        since,
    )
