"""The current owners of partitions in consumer groups, according to the trace.

The coordinator's assignment is decisive. A dead member owns its partitions until its session ends. A member of an eager
group loses them when the rebalance begins, although it learns of the rebalance only with its next heartbeat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from replica.causes import ShareCause
from replica.ids import OFFSETS_TOPIC, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from scenarios.observe.view import ClusterView

GROUP_CHANGES = (
    trace.GroupMemberJoined,
    trace.GroupMemberLeft,
    trace.GroupRebalanceBegan,
    trace.GroupRebalanced,
    trace.GroupAssigned,
    trace.GroupMemberAssigned,
    trace.GroupMemberReconciled,
    trace.GroupRemoved,
)
"""Events that change a `GroupView`."""
COOPERATIVE = "cooperative"
"""Part of the names of assignors whose members keep their partitions in a rebalance (KIP-429)."""


@dataclass(slots=True)
class MemberView:
    """A member of a group. `partitions` are those that it owns, including those that it still has to revoke."""

    client_id: str
    instance: str | None
    partitions: tuple[str, ...] = ()


@dataclass(slots=True)
class GroupView:
    """A consumer group.

    Attributes:
        generation: generation or epoch of the group.
        coordinator: broker that emitted the last event about the group.
        coordinator_since: seq of the event with which the coordinator last began to lead a partition of the offsets
            topic; -1 if the trace does not tell.
    """

    name: str
    coordinator: str = ""
    coordinator_since: int = -1
    generation: int = -1
    is_rebalancing: bool = False
    is_cooperative: bool = False
    members: dict[str, MemberView] = field(default_factory=dict)
    """Members by member id, in order of arrival."""
    partitions: dict[str, None] = field(default_factory=dict)
    """All partitions that any member has owned since the group was last empty."""

    @property
    def owners(self) -> dict[str, str | None]:
        """Return the member id of the owner of each partition, None if no member owns it."""
        found: dict[str, str | None] = dict.fromkeys(self.partitions)
        for member_id, member in self.members.items():
            for partition in member.partitions:
                found[partition] = member_id
        return found


class Groups(Listener):
    """Listener that keeps the state of all existing consumer groups.

    Events of a former coordinator are ignored: if it is frozen or cut off, it does not know of its successor, and what
    it decides is never committed.

    Attributes:
        changed: group that the latest event has changed, None if the event was ignored.
        instances: group.instance.id of each current member, by member id.
    """

    def __init__(self, instances: dict[str, str | None] | None = None) -> None:
        self.groups: dict[str, GroupView] = {}
        self.changed: GroupView | None = None
        self.instances: dict[str, str | None] = {} if instances is None else instances
        self._led_since: dict[str, int] = {}

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        if event.topic == OFFSETS_TOPIC:
            self._led_since[event.node] = row.seq

    def _group(self, event: Any) -> GroupView:
        """Return the group of an event, or a copy to be thrown away if the event is to be ignored.

        A broker learns of its leaderships in the order of the controller's decisions. So one that has begun to lead no
        partition since the current coordinator did is a former coordinator.
        """
        group = self.groups.setdefault(event.group, GroupView(event.group))
        since = self._led_since.get(event.node, -1)
        if since < group.coordinator_since:
            self.changed = None
            return GroupView(event.group)
        self.changed = group
        group.coordinator, group.coordinator_since = event.node, since
        return group

    @on(trace.GroupMemberJoined)
    def _joined(self, row: TraceRow, event: trace.GroupMemberJoined) -> None:
        group = self._group(event)
        before = [name for name, item in group.members.items() if event.instance and item.instance == event.instance]
        # A static member that returns keeps its assignment (KIP-345).
        partitions = group.members.pop(before[0]).partitions if before else ()
        group.members[event.member] = MemberView(event.client_id, event.instance, partitions)
        self.instances[event.member] = event.instance

    @on(trace.GroupMemberLeft)
    def _member_left(self, row: TraceRow, event: trace.GroupMemberLeft) -> None:
        group = self._group(event)
        group.members.pop(event.member, None)
        self.instances.pop(event.member, None)
        if not group.members:
            group.partitions.clear()

    @on(trace.GroupRebalanceBegan)
    def _rebalance_began(self, row: TraceRow, event: trace.GroupRebalanceBegan) -> None:
        group = self._group(event)
        group.is_rebalancing = True
        if not group.is_cooperative:
            for member in group.members.values():
                member.partitions = ()

    @on(trace.GroupRebalanced)
    def _rebalanced(self, row: TraceRow, event: trace.GroupRebalanced) -> None:
        group = self._group(event)
        group.generation = event.generation
        group.is_cooperative = COOPERATIVE in (event.protocol or "")
        if not event.members:
            self._forget_members(group)
            group.is_rebalancing = False

    @on(trace.GroupAssigned)
    def _assigned(self, row: TraceRow, event: trace.GroupAssigned) -> None:
        group = self._group(event)
        group.generation, group.is_rebalancing = event.generation, False

    @on(trace.GroupMemberAssigned, trace.GroupMemberReconciled)
    def _member_has(self, row: TraceRow, event: trace.GroupMemberAssigned | trace.GroupMemberReconciled) -> None:
        group = self._group(event)
        known = MemberView(event.client_id, self.instances.get(event.member))
        member = group.members.setdefault(event.member, known)
        member.partitions = event.partitions
        if isinstance(event, trace.GroupMemberReconciled):
            member.partitions += event.revoking
        group.partitions.update(dict.fromkeys(member.partitions))

    @on(trace.GroupRemoved)
    def _removed(self, row: TraceRow, event: trace.GroupRemoved) -> None:
        self._forget_members(self._group(event))
        if self.changed is not None:
            del self.groups[event.group]

    def _forget_members(self, group: GroupView) -> None:
        for member in group.members:
            self.instances.pop(member, None)
        group.members.clear()
        group.partitions.clear()


# ------------------------------------------------------------------------------------------------------- skipped inputs
#
# Inputs that an operator let a group skip, so that no application owes an output for them.


class SkippedInputs(Listener):
    """Listener that collects the offsets that an operator's commits have skipped, by group and partition."""

    def __init__(self) -> None:
        self._committed: dict[tuple[str, TopicPartition], int] = {}
        self._skipped: dict[tuple[str, TopicPartition], list[tuple[int, int]]] = {}

    def covers(self, group: str, partition: TopicPartition, offset: int) -> bool:
        return any(first <= offset < end for first, end in self._skipped.get((group, partition), ()))

    @on(trace.OffsetCommitted)
    def _offset_committed(self, row: TraceRow, event: trace.OffsetCommitted) -> None:
        key = event.group, TopicPartition(event.topic, event.partition)
        before = self._committed.get(key, 0)
        self._committed[key] = event.offset
        if event.member is None and event.producer_id is None:
            # All inputs from the new offset on must be processed, also those that were skipped before.
            kept = [(first, min(end, event.offset)) for first, end in self._skipped.get(key, ())]
            self._skipped[key] = [(first, end) for first, end in (*kept, (before, event.offset)) if first < end]


# --------------------------------------------------------------------------------------------------------------- unread
#
# The times in which no member of a group read a partition, because it had no owner or its owner was down or paused.
#
# The owner is the member that the coordinator names; the events of the run show whether it runs. So a partition
# that moves is unread from the time at which the coordinator learns that its member has given it up (in an eager
# rebalance: from its start) until the answer that assigns it to the next member, whose first fetch follows.


@dataclass(slots=True)
class Unread:
    """The time in which a partition had no reader while its group had members.

    Attributes:
        longest_us: longest single time without a reader.
        moved: number of times that the owner changed.
    """

    observed_us: int = 0
    unread_us: int = 0
    longest_us: int = 0
    moved: int = 0


@dataclass(slots=True)
class _Stretch:
    """The reader of a partition during a time that begins at `since_us`.

    Attributes:
        reader: last owner of the partition.
        is_read: True if that member still owns the partition and its process runs.
    """

    since_us: int
    reader: str | None
    is_read: bool
    unread_since_us: int


class UnreadTimes(Listener):
    """Listener that measures how long partitions had no reader in a group. It must be called after the view.

    Attributes:
        found: results by group and partition, complete up to the last call of `settle`.
    """

    def __init__(self, view: ClusterView) -> None:
        self.found: dict[str, dict[str, Unread]] = {}
        self._view = view
        self._groups = Groups()
        self._now: dict[tuple[str, str], _Stretch] = {}
        self.parts = (self._groups,)

    @on(*GROUP_CHANGES)
    def _group_changed(self, row: TraceRow, event: trace.TraceEvent) -> None:
        if self._groups.changed is not None:
            self._look(self._groups.changed, row.at_us)

    @on(trace.NodeStarted, trace.NodeStopped, trace.FaultBegan, trace.FaultEnded)
    def _process_changed(self, row: TraceRow, event: trace.TraceEvent) -> None:
        self.settle(row.at_us)

    def settle(self, at_us: int) -> None:
        """Bring `found` up to date for the time `at_us`."""
        for group in self._groups.groups.values():
            self._look(group, at_us)

    def _look(self, group: GroupView, at_us: int) -> None:
        owners = group.owners
        for name, partition in [item for item in self._now if item[0] == group.name and item[1] not in owners]:
            self._add(self._now.pop((name, partition)), name, partition, at_us)
        for partition, owner in owners.items():
            is_read = owner is not None and self._runs(group.members[owner].client_id)
            known = self._now.get((group.name, partition))
            if known is None:
                self._now[group.name, partition] = _Stretch(at_us, owner, is_read, at_us)
                continue
            found = self._add(known, group.name, partition, at_us)
            found.moved += owner is not None and owner != known.reader
            began_us = at_us if known.is_read else known.unread_since_us
            self._now[group.name, partition] = _Stretch(at_us, owner or known.reader, is_read, began_us)

    def _add(self, stretch: _Stretch, group: str, partition: str, until_us: int) -> Unread:
        found = self.found.setdefault(group, {}).setdefault(partition, Unread())
        lasted_us = until_us - stretch.since_us
        found.observed_us += lasted_us
        if not stretch.is_read:
            found.unread_us += lasted_us
            found.longest_us = max(found.longest_us, until_us - stretch.unread_since_us)
        return found

    def _runs(self, client_id: str) -> bool:
        """Return True if the member's process runs. External processes are not in the trace and count as running."""
        node = self._view.nodes.get(client_id)
        return node is None or (node.running and not node.paused)


# --------------------------------------------------------------------------------------------------------- share groups
#
# What became of the records of share groups (KIP-932), according to the leaders of partitions.
#
# A share group delivers at least once. A repeated delivery is no anomaly and is only counted. A record that is given up
# after its last delivery is named, since no member has accepted or rejected it.


ACCEPTED, REJECTED, GIVEN_UP, GAP = "accepted", "rejected", "given_up", "gap"


@dataclass(slots=True)
class ShareFates:
    """The fates of one partition's records in one share group.

    Attributes:
        deliveries: number of deliveries of each record, by offset.
        fates: final state of each settled record, by offset.
        causes: number of deliveries that ended without settling the record, by cause.
        most: largest delivery count.
    """

    deliveries: dict[int, int] = field(default_factory=dict)
    fates: dict[int, str] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    most: int = 0

    def as_json(self) -> dict[str, Any]:
        fates = list(self.fates.values())
        return {
            "delivered": len(self.deliveries),
            "again": sum(count > 1 for count in self.deliveries.values()),
            "largest_delivery_count": self.most,
            "accepted": fates.count(ACCEPTED),
            "rejected": fates.count(REJECTED),
            "given_up": sorted(offset for offset, fate in self.fates.items() if fate == GIVEN_UP),
            "in_flight": sum(offset not in self.fates for offset in self.deliveries),
            "released": dict(sorted(self.causes.items())),
        }


class ShareGroups(Listener):
    """Listener that keeps the fates of records in share groups. `found` has them by group and partition."""

    def __init__(self) -> None:
        self.found: dict[str, dict[TopicPartition, ShareFates]] = {}

    def as_json(self) -> dict[str, Any]:
        """Return the fates as a part of a run's summary, empty if there are no share groups."""
        found = {
            group: {str(name): fates.as_json() for name, fates in sorted(partitions.items())}
            for group, partitions in sorted(self.found.items())
        }
        return {"share_groups": found} if found else {}

    def _fates_of(
        self, event: trace.SharePartitionLoaded | trace.ShareRecordsAcquired | trace.ShareRecordsSettled
    ) -> ShareFates:
        name = TopicPartition(event.topic, event.partition)
        return self.found.setdefault(event.group, {}).setdefault(name, ShareFates())

    @on(trace.SharePartitionLoaded)
    def _loaded(self, row: TraceRow, event: trace.SharePartitionLoaded) -> None:
        self._fates_of(event)

    @on(trace.ShareRecordsAcquired)
    def _acquired(self, row: TraceRow, event: trace.ShareRecordsAcquired) -> None:
        fates = self._fates_of(event)
        fates.most = max(fates.most, event.delivery_count)
        for offset in range(event.first, event.last + 1):
            fates.deliveries[offset] = fates.deliveries.get(offset, 0) + 1

    @on(trace.ShareRecordsSettled)
    def _settled(self, row: TraceRow, event: trace.ShareRecordsSettled) -> None:
        fates = self._fates_of(event)
        offsets = range(event.first, event.last + 1)
        if event.share_cause in trace.RELEASES:
            cause = event.share_cause.value
            fates.causes[cause] = fates.causes.get(cause, 0) + len(offsets)
        if event.state != "available":
            ends = {ShareCause.ACCEPTED: ACCEPTED, ShareCause.REJECTED: REJECTED, ShareCause.GAP: GAP}
            fates.fates.update(dict.fromkeys(offsets, ends.get(event.share_cause, GIVEN_UP)))
