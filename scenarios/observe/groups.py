"""Which member of a consumer group is to read which partition, at this instant, according to the trace.

It is the coordinator's word. A member that has died has its partitions until its session is over; one of an eager group
gives them up when the rebalance begins, though it hears of that with its next heartbeat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Handler, Listener, on
from scenarios.observe.view import ClusterView

COOPERATIVE = "cooperative"
"""In the name of an assignor whose members keep their partitions in a rebalance (KIP-429)."""


@dataclass(slots=True)
class MemberView:
    """partitions: those it is to read, and those it has still to give up"""

    client_id: str
    instance: str | None
    partitions: tuple[str, ...] = ()


@dataclass(slots=True)
class GroupView:
    """generation: of the group, or its epoch     coordinator: who spoke last for it"""

    name: str
    coordinator: str = ""
    generation: int = -1
    is_rebalancing: bool = False
    is_cooperative: bool = False
    members: dict[str, MemberView] = field(default_factory=dict)
    """by member id, in order of arrival"""
    partitions: dict[str, None] = field(default_factory=dict)
    """all that any member has had since the group was last empty"""

    @property
    def owners(self) -> dict[str, str | None]:
        """By partition, the member that is to read it; None: there are members, and none of them is to."""
        found: dict[str, str | None] = dict.fromkeys(self.partitions)
        for member_id, member in self.members.items():
            for partition in member.partitions:
                found[partition] = member_id
        return found


class Groups(Listener):
    """Listener. `groups` by name; those that were removed are not there.

    changed: the one that the latest event has changed
    instances: group.instance.id by member id, of all that have joined and not left
    """

    def __init__(self, instances: dict[str, str | None] | None = None) -> None:
        self.groups: dict[str, GroupView] = {}
        self.changed = GroupView("")
        self.instances: dict[str, str | None] = {} if instances is None else instances

    def _group(self, event: Any) -> GroupView:
        group = self.changed = self.groups.setdefault(event.group, GroupView(event.group))
        group.coordinator = event.node
        return group

    @on(trace.GroupMemberJoined)
    def _joined(self, row: TraceRow, event: trace.GroupMemberJoined) -> None:
        group = self._group(event)
        before = [name for name, one in group.members.items() if event.instance and one.instance == event.instance]
        # A static member that comes back takes its own place (KIP-345).
        partitions = group.members.pop(before[0]).partitions if before else ()
        group.members[event.member] = MemberView(event.client_id, event.instance, partitions)
        self.instances[event.member] = event.instance

    @on(trace.GroupMemberLeft)
    def _left(self, row: TraceRow, event: trace.GroupMemberLeft) -> None:
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
        del self.groups[event.group]

    def _forget_members(self, group: GroupView) -> None:
        for member in group.members:
            self.instances.pop(member, None)
        group.members.clear()
        group.partitions.clear()


# --------------------------------------------------------------------------------------------------------------- unread
#
# How long no member of a group read a partition: it had no reader, or its reader was down or frozen.
#
# Whose a partition is follows the coordinator's word (groups.py); whether that one runs is what the run did to it.
# So a
# partition that moves is unread from when the coordinator hears that its member has given it up (at an eager
# rebalance:
# from its beginning), not from when another one joins, and until the answer that gives it to its next member, whose
# first fetch follows it.


@dataclass(slots=True)
class Unread:
    """Of one partition, while its group had members that read it. longest_us: at a stretch

    moved: how often it went from one member to another
    """

    observed_us: int = 0
    unread_us: int = 0
    longest_us: int = 0
    moved: int = 0


@dataclass(slots=True)
class _Stretch:
    """A partition from one moment on. reader: the member that had it last     is_read: that member has it, and runs"""

    since_us: int
    reader: str | None
    is_read: bool
    unread_since_us: int


class UnreadTimes(Listener):
    """Listener, after the view. `found` by group and partition, up to the event before the last `settle`."""

    def __init__(self, view: ClusterView) -> None:
        self.found: dict[str, dict[str, Unread]] = {}
        self._view = view
        self._groups = Groups()
        self._now: dict[tuple[str, str], _Stretch] = {}

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        found = self._groups.handlers_of(kind)
        return (*found, self._group_changed) if found else super().handlers_of(kind)

    def _group_changed(self, row: TraceRow, event: trace.TraceEvent) -> None:
        self._look(self._groups.changed, row.at_us)

    @on(trace.NodeStarted, trace.NodeStopped, trace.FaultBegan, trace.FaultEnded)
    def _process_changed(self, row: TraceRow, event: trace.TraceEvent) -> None:
        self.settle(row.at_us)

    def settle(self, at_us: int) -> None:
        """As when the run is over."""
        for group in self._groups.groups.values():
            self._look(group, at_us)

    def _look(self, group: GroupView, at_us: int) -> None:
        owners = group.owners
        for name, partition in [one for one in self._now if one[0] == group.name and one[1] not in owners]:
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
        """A client from outside is taken to run: nothing of its process is in the trace."""
        node = self._view.nodes.get(client_id)
        return node is None or (node.running and not node.paused)
