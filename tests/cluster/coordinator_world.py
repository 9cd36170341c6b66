"""The verbs of tests/golden/groups_*.txt: one coordinator, its log kept by hand, and members of any kind.

Groups are all `g` unless said; a member id given out is printed as `c1-1`, the first uuid being 1.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

from cluster.broker.metadata.follower import MetadataCache
from cluster.clocks import WallClock
from cluster.coordinators.core import (
    AnswerRequest,
    Append,
    CommonInput,
    Elected,
    InTransaction,
    LeadershipResigned,
    Load,
    Written,
)
from cluster.groups.coordinator import GroupCoordinator
from cluster.groups.desk import GroupSettings
from cluster.groups.inputs import (
    Action,
    AlterShareOffsetsResult,
    CommitOffsets,
    CommitResult,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    CoordinatorInput,
    CreateTopics,
    DeleteGroups,
    DeleteGroupsResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    DeleteShareOffsetsResult,
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    Leaving,
    Loaded,
    Result,
    StreamsHeartbeat,
    SyncGroup,
    SyncResult,
    TransactionCompleted,
)
from cluster.groups.state.assignors import TopicIdPartition
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_records import read_consumer_key
from cluster.groups.state.group import Group
from cluster.groups.state.loading import Replay
from cluster.groups.state.offsets import OffsetAndMetadata
from cluster.groups.state.records import GroupKey, OffsetKey, UnknownKey, read_key
from cluster.groups.state.streams_group import UserEndpoint
from cluster.groups.state.tasks import ACTIVE, STANDBY, StreamsTask
from cluster.groups.state.topology import topology_class
from cluster.groups.topic_directory import TopicDirectory
from cluster.protocol.cold import make
from cluster.protocol.consumer_protocol import assigned_partitions, write_assignment
from cluster.protocol.entities import Entity
from controller.image import PartitionRegistration, TopicImage
from replica.config import TopicConfig
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import NO_PRODUCER_ID
from replica.log.producers.transaction_index import NOT_ASKED_FOR
from replica.trace.events import EVENT_NAMES, Emit

SECOND = 1_000_000
PARTITION = PartitionRegistration(replicas=(1,), in_sync_replicas=(1,), leader=1, leader_epoch=0, partition_epoch=0)
_UUID = re.compile(r"-00000000-0000-0000-0000-([0-9a-f]{12})")


def _short(line: str) -> str:
    return _UUID.sub(lambda found: f"-{int(found[1], 16)}", line)


def subscription(*topics: str, owned: tuple[str, ...] | None = None) -> bytes:
    """A consumer's description of itself: version 0 of its protocol, or 1, with what it has."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    said = len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"
    if owned is None:
        return b"\0\0" + said
    return b"\0\1" + said + write_assignment([partition(one) for one in owned], 0)[2:-4]


def given_text(assignment: bytes) -> str:
    """A consumer's assignment, or a text that stands for one."""
    found = assigned_partitions(assignment) if assignment else None
    return assignment.decode() if found is None else " ".join(map(str, found)) or "no partition"


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


class CoordinatorWorld:
    """log: (batch offset, key, value) of all written records     lines: to be printed

    part_of: producer id by offset, of a batch in a transaction     markers: (producer id, committed) by offset
    """

    def __init__(self, **settings: Any) -> None:
        self.now_us = 0
        self.log: list[tuple[int, bytes, bytes | None]] = []
        self.part_of: dict[int, int] = {}
        self.markers: dict[int, tuple[int, bool]] = {}
        self.lines: list[str] = []
        self.answers: dict[int, Result] = {}
        self.epoch = 0
        self.requests: dict[int, str] = {}
        self._offset = 0
        self._reads_later = False
        self._held: list[tuple[int, int]] | None = None
        self._settings = GroupSettings(**settings)
        self.topics = TopicDirectory(MetadataCache())
        self.make_topic("t", 3)
        self.coordinator: GroupCoordinator
        self.restart()

    def make_topic(self, name: str, partitions: int) -> None:
        """Or give one more partitions."""
        image = self.topics.cache.image
        known = image.topics.get(name)
        image.offset += 1
        if known is None:
            image.new_topics_offset = image.offset
        topic_id = UUID(int=100 + len(image.topics)) if known is None else known.topic_id
        numbers = dict.fromkeys(range(partitions), PARTITION)
        image.add_topic(name, TopicImage(topic_id=topic_id, config={}, log_config=TopicConfig(), partitions=numbers))

    def policy(self, value: str) -> list[str]:
        """group.consumer.migration.policy, from now on; the coordinator begins anew."""
        self._settings = replace(self._settings, consumer_migration_policy=value)
        self.restart()
        return []

    def set_max_size(self, members: int) -> None:
        """group.max.size, from now on; the coordinator begins anew."""
        self._settings = replace(self._settings, max_size=members)
        self.restart()

    def restart(self) -> None:
        ids = count(1)
        self.coordinator = GroupCoordinator(
            node="b1",
            settings=self._settings,
            clock=WallClock(),
            new_uuid=lambda: UUID(int=next(ids)),
            partition_of=lambda group_id: 0,
            topics=self.topics,
        )
        self.elect()
        self.lines.clear()

    # ------------------------------------------------------------------------------------------------------- the core

    def step(self, given: CommonInput | CoordinatorInput) -> list[str]:
        self._perform(self.coordinator.step(given))
        return self._taken()

    def _taken(self) -> list[str]:
        lines, self.lines = self.lines, []
        return [_short(line) for line in lines]

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case AnswerRequest():
                    assert action.request not in self.answers, "a request is answered once"
                    self.answers[action.request] = action.result
                    self.lines.append(f"{self.requests[action.request]} <- {printed(action.result)}")
                case Append():
                    self._append(action)
                case Load():
                    self._load(action.leader_epoch)
                case CreateTopics():
                    self.lines += [f"create {one.name} with {one.partitions} partitions" for one in action.topics]
                case Emit():
                    name = EVENT_NAMES[type(action.event)]
                    self.lines.append(f"  {name}: {action.event.sentence()}")

    def _append(self, action: Append) -> None:
        self.lines.append("write " + ", ".join(printed_record(key, value) for key, value in action.records))
        offset = self._offset
        self._offset += len(action.records)
        self.log += [(offset, key, value) for key, value in action.records]
        if action.transaction is not None:
            self.part_of[offset] = action.transaction.producer_id
        if action.write is None:
            return
        if self._held is not None:
            self._held.append((action.write, offset))
        else:
            self._written(action.write, ErrorCode.NONE, offset)

    def _written(self, write: int, error: ErrorCode, offset: int) -> None:
        self._perform(self.coordinator.step(Written(now_us=self.now_us, write=write, error=error, offset=offset)))

    def _load(self, epoch: int) -> None:
        if self._reads_later:
            return
        replay = self._read()
        loaded = Loaded(
            now_us=self.now_us,
            partition=0,
            leader_epoch=epoch,
            groups=replay.groups(self.now_us // 1000),
            consumer_groups=replay.consumer_groups(),
            unreadable=replay.unreadable,
        )
        self._perform(self.coordinator.step(loaded))

    def replay(self) -> tuple[Group, ...]:
        """The groups as the log has them."""
        return self._read().groups(self.now_us // 1000)

    def _read(self) -> Replay:
        replay = Replay()
        markers = dict(self.markers)
        for offset, key, value in self.log:
            for before in [one for one in markers if one < offset]:
                producer_id, committed = markers.pop(before)
                replay.marker(producer_id, committed=committed)
            replay.record(offset, key, value, self.part_of.get(offset, NO_PRODUCER_ID))
        for producer_id, committed in markers.values():
            replay.marker(producer_id, committed=committed)
        return replay

    def _ask(self, what: str) -> int:
        self.requests[len(self.requests) + 1] = what
        return len(self.requests)

    def member_id(self, name: str) -> str:
        """c1-7 -> the whole id"""
        if name in ("-", ""):
            return ""
        stem, _, number = name.rpartition("-")
        return f"{stem}-{UUID(int=int(number))}" if number.isdigit() else name

    # ---------------------------------------------------------------------------------------------------------- verbs

    def at(self, at: int) -> list[str]:
        """Time passes, deadline by deadline."""
        while (due_us := self.coordinator.next_deadline_us) is not None and due_us <= at:
            self.now_us = max(self.now_us, due_us)
            before = len(self.lines)
            self._perform(self.coordinator.tick(self.now_us))
            if len(self.lines) > before:
                self.lines.insert(before, f"at {self.now_us / SECOND:g} s:")
        self.now_us = at
        return self._taken()

    def join(
        self,
        client: str,
        member: str = "",
        instance: str | None = None,
        version: int = 9,
        protocols: tuple[str, ...] = ("range",),
        topics: tuple[str, ...] = ("t",),
        session: int = 10 * SECOND,
        rebalance: int = 60 * SECOND,
        group: str = "g",
        kind: str = "consumer",
        owned: tuple[str, ...] | None = None,
        metadata: str = "",
    ) -> list[str]:
        """owned: what it says it has     metadata: in place of a subscription, as hexadecimal digits"""
        said = bytes.fromhex(metadata) if metadata else subscription(*topics, owned=owned)
        event = JoinGroup(
            now_us=self.now_us,
            request=self._ask(f"{client} join"),
            group_id=group,
            member_id=self.member_id(member),
            instance_id=instance,
            client_id=client,
            client_host="/host",
            session_timeout_ms=session // 1000,
            rebalance_timeout_ms=rebalance // 1000,
            protocol_type=kind,
            protocols=tuple((name, said) for name in protocols),
            requires_member_id=version >= 4 and instance is None,
            may_skip_assignment=version >= 9,
            reason="",
        )
        return self.step(event)

    def sync(
        self,
        member: str,
        generation: int,
        assign: tuple[str, ...] = (),
        instance: str | None = None,
        protocol: str | None = None,
        group: str = "g",
        gives: tuple[str, ...] = (),
        extra: str = "",
    ) -> list[str]:
        """assign: texts that stand for assignments     gives: real ones, c1-1:t-0+t-1     extra: user data in them"""
        pairs = [one.split(":") for one in assign]
        event = SyncGroup(
            now_us=self.now_us,
            request=self._ask(f"{member} sync"),
            group_id=group,
            generation=generation,
            member_id=self.member_id(member),
            instance_id=instance,
            protocol_type=None,
            protocol=protocol,
            assignments={self.member_id(name): data.encode() for name, data in pairs}
            | dict(self._real(one, extra) for one in gives),
        )
        return self.step(event)

    def _real(self, text: str, extra: str) -> tuple[str, bytes]:
        name, _, partitions = text.partition(":")
        data = write_assignment([partition(one) for one in partitions.split("+") if one], 0)
        return self.member_id(name), data[:-4] + len(extra).to_bytes(4, "big") + extra.encode() if extra else data

    def heartbeat(self, member: str, generation: int, instance: str | None = None, group: str = "g") -> list[str]:
        event = Heartbeat(
            now_us=self.now_us,
            request=self._ask(f"{member} heartbeat"),
            group_id=group,
            generation=generation,
            member_id=self.member_id(member),
            instance_id=instance,
        )
        return self.step(event)

    def leave(self, member: str = "", instance: str | None = None, group: str = "g") -> list[str]:
        members = (Leaving(self.member_id(member), instance),)
        request = self._ask(f"{member or instance} leave")
        return self.step(LeaveGroup(now_us=self.now_us, request=request, group_id=group, members=members))

    def commit(
        self,
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        group: str = "g",
        metadata: str = "",
        version: int = 9,
        transaction: int | None = None,
        **offsets: int,
    ) -> list[str]:
        """offsets: t_0=5 for t-0     transaction: id of the producer whose it is"""
        event = CommitOffsets(
            now_us=self.now_us,
            request=self._ask(f"{member or 'somebody'} commit"),
            group_id=group,
            generation=generation,
            member_id=self.member_id(member),
            instance_id=instance,
            offsets={
                partition(name.replace("_", "-")): OffsetAndMetadata(offset, -1, metadata, self.now_us // 1000)
                for name, offset in offsets.items()
            },
            knows_epochs=version >= 9 and transaction is None,
            transaction=None if transaction is None else InTransaction(transaction, 0, NOT_ASKED_FOR),
        )
        return self.step(event)

    def marker(self, producer: int, end: str) -> list[str]:
        """end=commit or end=abort: it is on all in-sync replicas. A reader that is under way does not come to it."""
        if not self._reads_later:
            self.markers[self._offset] = (producer, end == "commit")
        self._offset += 1
        return self.step(
            TransactionCompleted(now_us=self.now_us, partition=0, producer_id=producer, committed=end == "commit")
        )

    def fetch(self, name: str = "t-0", group: str = "g") -> list[str]:
        """What a consumer is told that wants stable offsets only."""
        found = self.coordinator.offsets(group, [partition(name)], stable=True)[partition(name)]
        if isinstance(found, OffsetAndMetadata):
            return [f"{name} at {found.offset}"]
        return [f"{name} none" if found is None else f"{name} {found.name}"]

    def beat(
        self,
        member: str,
        epoch: int,
        owned: tuple[str, ...] | None = None,
        topics: tuple[str, ...] | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        pattern: str | None = None,
        group: str = "g",
        rebalance: int | None = None,
        version: int = 0,
        rack: str | None = None,
        bare: str = "",
    ) -> list[str]:
        """A heartbeat of KIP-848; epoch 0 joins, and then topics are `t` unless said. bare=yes: nothing is added"""
        joins = epoch == 0
        if joins and not bare:
            owned, rebalance = owned or (), rebalance or 60 * SECOND
            topics = (None if pattern is not None else ("t",)) if topics is None else topics
        event = ConsumerHeartbeat(
            now_us=self.now_us,
            request=self._ask(f"{member} beat"),
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            client_id=f"client-{member}",
            client_host="/host",
            rebalance_timeout_ms=-1 if rebalance is None else rebalance // 1000,
            topics=topics,
            topic_regex=pattern,
            assignor=assignor,
            owned=None if owned is None else tuple(sorted(self._topic_partition(one) for one in owned)),
            makes_its_id=version >= 1,
        )
        return [self._named(line) for line in self.step(event)]

    def stream(
        self,
        member: str,
        epoch: int,
        shape: str = "copy",
        version: int = 0,
        process: str = "",
        owned: tuple[str, ...] | None = None,
        standby: tuple[str, ...] = (),
        stops: str = "",
        group: str = "g",
        instance: str | None = None,
        endpoint: UserEndpoint | None = None,
        knows: int = -1,
    ) -> list[str]:
        """A heartbeat of KIP-1071, of a member of one process unless said. shape: what the application does

        version: of its topology     owned, standby: tasks that it has     stops=all: the whole application
        knows: epoch of the endpoints that it knows
        """
        joins = epoch == 0
        tasks = None if owned is None and not joins else tuple(sorted(task(one, ACTIVE) for one in owned or ()))
        kept = None if tasks is None else tuple(sorted(task(one, STANDBY) for one in standby))
        event = StreamsHeartbeat(
            now_us=self.now_us,
            request=self._ask(f"{member} beat"),
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=None,
            client_id=f"client-{member}",
            client_host="/host",
            rebalance_timeout_ms=60_000 if joins else -1,
            topology=topology(version, SHAPES[shape]) if joins else None,
            owned=(tasks, kept, None if tasks is None else ()),
            process_id=process or f"process-of-{member}" if joins else None,
            user_endpoint=endpoint,
            client_tags=None,
            shuts_down=bool(stops),
            endpoints_epoch=knows,
        )
        return self.step(event)

    def _topic_partition(self, text: str) -> TopicIdPartition:
        topic, _, number = text.rpartition("-")
        return TopicIdPartition(self.topics.cache.image.topics[topic].topic_id, int(number))

    def _named(self, line: str) -> str:
        for name, topic in self.topics.cache.image.topics.items():
            line = line.replace(str(topic.topic_id), name)
        return line

    def delete(self, *groups: str) -> list[str]:
        request = self._ask("delete")
        return self.step(DeleteGroups(now_us=self.now_us, request=request, group_ids=groups))

    def delete_offsets(self, *names: str, group: str = "g") -> list[str]:
        request = self._ask("delete-offsets")
        partitions = tuple(partition(name) for name in names)
        return self.step(DeleteOffsets(now_us=self.now_us, request=request, group_id=group, partitions=partitions))

    def hold(self) -> list[str]:
        """The log takes its time: writes are not answered until `release`."""
        self._held = []
        return []

    def release(self, error: str = "NONE") -> list[str]:
        held, self._held = self._held or [], None
        for write, offset in held:
            self._written(write, ErrorCode[error], offset)
        return self._taken()

    def take_held(self) -> list[tuple[int, int]]:
        """The writes that are held, to be answered apart from later ones."""
        held, self._held = self._held or [], None
        return held

    def answer_held(self, held: list[tuple[int, int]]) -> None:
        for write, offset in held:
            self._written(write, ErrorCode.NONE, offset)

    def elect(self, read: str = "at-once") -> list[str]:
        """read=later: the log is long, and read with `finish-reading`."""
        self.epoch += 1
        self._reads_later = read == "later"
        return self.step(Elected(now_us=self.now_us, partition=0, leader_epoch=self.epoch))

    def finish_reading(self) -> list[str]:
        self._reads_later = False
        self._load(self.epoch)
        return self._taken()

    def resign(self) -> list[str]:
        self.epoch += 1
        return self.step(LeadershipResigned(now_us=self.now_us, partition=0, leader_epoch=self.epoch))

    def show(self, group: str = "g") -> list[str]:
        consumers = self.coordinator.index.consumer_groups.get(group)
        if consumers is not None:
            return self._shown_consumers(consumers)
        found = self.coordinator.index.groups.get(group)
        if found is None:
            return [f"no group {group}"]
        protocol = f" by {found.protocol}" if found.protocol else ""
        self.lines.append(f"{found.group_id} is {found.state.value}, generation {found.generation}{protocol}")
        for member in found.members.values():
            standing = "leader" if found.is_leader(member.member_id) else "member"
            static = f" static {member.instance_id}" if member.is_static else ""
            waits = " waits to join" if member.awaiting_join else " waits to sync" if member.awaiting_sync else ""
            given = f" has {given_text(member.assignment)}" if member.assignment else ""
            self.lines.append(f"  {standing} {member.member_id}{static}{given}{waits}")
        self.lines += [f"  {name} at {known.value.offset}" for name, known in found.offsets.committed.items()]
        self.lines += [f"  {name} at {value.offset}, on its way" for name, value in found.offsets.pending.items()]
        for producer_id, offsets in found.offsets.transactional.items():
            waits = f"in a transaction of producer {producer_id}"
            self.lines += [f"  {name} at {one.value.offset}, {waits}" for name, one in offsets.items()]
        return self._taken()

    def _shown_consumers(self, group: ConsumerGroup) -> list[str]:
        lines = [f"{group.group_id} is {group.state.value}, epoch {group.epoch}, target of epoch {group.target_epoch}"]
        for member in group.members.values():
            static = f" static {member.instance_id}" if member.instance_id else ""
            has = f" has {partitions_text(member.assigned) or 'nothing'}"
            gives = f" gives up {partitions_text(member.pending_revocation)}" if member.pending_revocation else ""
            target = partitions_text(group.targets.get(member.member_id, ())) or "nothing"
            state = member.state.name.lower().replace("_", " ")
            kind = "" if member.classic is None else " (classic)"
            lines.append(
                f"  {member.member_id}{kind}{static} at epoch {member.epoch}, {state}:{has}{gives}, target {target}"
            )
        lines += [f"  {name} at {known.value.offset}" for name, known in group.offsets.committed.items()]
        return [self._named(line) for line in lines]


SHAPES: dict[str, list[dict[str, object]]] = {
    "copy": [{"subtopology_id": "0", "source_topics": ["t"]}],
    "store": [
        {
            "subtopology_id": "0",
            "source_topics": ["t"],
            "state_changelog_topics": [{"name": "counts", "topic_configs": []}],
        }
    ],
    "two": [{"subtopology_id": "0", "source_topics": ["t", "u"]}],
    "join": [
        {
            "subtopology_id": "0",
            "source_topics": ["t", "u"],
            "copartition_groups": [{"source_topics": [0, 1], "repartition_source_topics": []}],
        }
    ],
    "count": [
        {"subtopology_id": "0", "source_topics": ["t"], "repartition_sink_topics": ["words"]},
        {
            "subtopology_id": "1",
            "repartition_source_topics": [{"name": "words", "topic_configs": []}],
            "state_changelog_topics": [{"name": "counts", "topic_configs": [{"key": "cleanup.policy", "value": "x"}]}],
        },
    ],
}
"""Subtopologies. copy: without state     store: with     count: with a repartition topic and a store"""


STATUSES = (
    "STALE_TOPOLOGY",
    "MISSING_SOURCE_TOPICS",
    "INCORRECTLY_PARTITIONED_TOPICS",
    "MISSING_INTERNAL_TOPICS",
    "SHUTDOWN_APPLICATION",
    "ASSIGNMENT_DELAYED",
)
"""Kafka's names, by code. Source: StreamsGroupHeartbeatResponse.Status"""


def topology(epoch: int, subtopologies: list[dict[str, object]]) -> Entity:
    return make(topology_class(), epoch=epoch, subtopologies=subtopologies)


def task(text: str, kind: int = ACTIVE) -> StreamsTask:
    subtopology, _, number = text.partition("_")
    return StreamsTask(kind, subtopology, int(number))


def partitions_text(partitions: tuple[Any, ...]) -> str:
    """Or of tasks: a standby one is in brackets."""
    if partitions and isinstance(partitions[0], StreamsTask):
        names = [(one.kind, f"{one.subtopology}_{one.partition}") for one in partitions]
        return " ".join(name if kind == ACTIVE else f"({name})" for kind, name in names)
    return " ".join(f"{one.topic_id}-{one.partition}" for one in partitions)


def printed(result: Result) -> str:
    match result:
        case ConsumerHeartbeatResult():
            if result.error is not ErrorCode.NONE:
                return f"{result.error.name}: {result.message}" if result.message else result.error.name
            reads = "" if result.assigned is None else f", reads {partitions_text(result.assigned) or 'nothing'}"
            waits = "".join(f"; {STATUSES[code]}: {detail}" for code, detail in result.statuses)
            return f"{result.member_id} at epoch {result.member_epoch}{reads}{waits}"
        case JoinResult():
            if result.error is not ErrorCode.NONE:
                return result.error.name + (f" {result.member_id}" if result.member_id else "")
            members = f", assigns to {', '.join(one.member_id for one in result.members)}" if result.members else ""
            skip = ", skips the assignment" if result.skip_assignment else ""
            who = f"{result.member_id}, led by {result.leader_id}"
            return f"generation {result.generation} as {who}, protocol {result.protocol}{members}{skip}"
        case SyncResult():
            told = given_text(result.assignment) or "nothing"
            return told if result.error is ErrorCode.NONE else result.error.name
        case LeaveResult():
            return result.members[0][1].name if result.error is ErrorCode.NONE else result.error.name
        case CommitResult() | DeleteGroupsResult():
            return ", ".join(f"{name} {error.name}" for name, error in result.errors.items())
        case DeleteOffsetsResult():
            errors = ", ".join(f"{name} {error.name}" for name, error in result.errors.items())
            return errors if result.error is ErrorCode.NONE else result.error.name
        case AlterShareOffsetsResult() | DeleteShareOffsetsResult():
            return result.refusal.error.name
        case _:
            return result.error.name


def printed_record(key: bytes, value: bytes | None) -> str:
    what = "is no more" if value is None else "is kept"
    match read_key(key):
        case OffsetKey(group_id, name):
            return f"offset of {name} in {group_id} {what}"
        case GroupKey(group_id):
            return f"group {group_id} {what}"
        case UnknownKey(version):
            kinds = {
                3: "epoch",
                4: "topics",
                5: "member",
                6: "target epoch",
                7: "target",
                8: "assignment",
                16: "pattern",
                17: "epoch",
                19: "member",
                20: "target epoch",
                21: "target",
                22: "assignment",
                23: "topology",
            }
            _, group_id, whose = read_consumer_key(key)
            return f"{kinds[version]} of {whose or group_id} {what}"
    raise AssertionError("what we write we can read")
