"""Which member of a consumer group is to read which partition, at this instant, according to the trace.

It is the coordinator's word. A member that has died has its partitions until its session is over; one of an eager group
gives them up when the rebalance begins, though it hears of that with its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from replica.trace import events as trace
from replica.trace.events import TraceRow
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


class Groups:
    """Listener. `groups` by name; those that were removed are not there.

    instances: group.instance.id by member id, of all that have joined and not left
    """

    def __init__(self, instances: dict[str, str | None] | None = None) -> None:
        self.groups: dict[str, GroupView] = {}
        self.instances: dict[str, str | None] = {} if instances is None else instances
        self._handlers: dict[type, Callable[[GroupView, Any], None]] = {
            trace.GroupMemberJoined: self._joined,
            trace.GroupMemberLeft: self._left,
            trace.GroupRebalanceBegan: self._rebalance_began,
            trace.GroupRebalanced: self._rebalanced,
            trace.GroupAssigned: self._assigned,
            trace.GroupMemberAssigned: self._member_has,
            trace.GroupMemberReconciled: self._member_has,
            trace.GroupRemoved: self._removed,
        }

    def wants(self, kind: type) -> bool:
        return kind in self._handlers

    def __call__(self, row: TraceRow) -> GroupView | None:
        """The group that the event has changed; None: none."""
        handler = self._handlers.get(type(row.event))
        if handler is None:
            return None
        event: Any = row.event
        group = self.groups.setdefault(event.group, GroupView(event.group))
        group.coordinator = event.node
        handler(group, event)
        if not group.members:
            group.partitions.clear()
        return group

    def _joined(self, group: GroupView, event: trace.GroupMemberJoined) -> None:
        before = [name for name, one in group.members.items() if event.instance and one.instance == event.instance]
        # A static member that comes back takes its own place (KIP-345).
        partitions = group.members.pop(before[0]).partitions if before else ()
        group.members[event.member] = MemberView(event.client_id, event.instance, partitions)
        self.instances[event.member] = event.instance

    def _left(self, group: GroupView, event: trace.GroupMemberLeft) -> None:
        group.members.pop(event.member, None)
        self.instances.pop(event.member, None)

    def _rebalance_began(self, group: GroupView, event: trace.GroupRebalanceBegan) -> None:
        group.is_rebalancing = True
        if not group.is_cooperative:
            for member in group.members.values():
                member.partitions = ()

    def _rebalanced(self, group: GroupView, event: trace.GroupRebalanced) -> None:
        group.generation = event.generation
        group.is_cooperative = COOPERATIVE in (event.protocol or "")
        if not event.members:
            self._forget_members(group)
            group.is_rebalancing = False

    def _assigned(self, group: GroupView, event: trace.GroupAssigned) -> None:
        group.generation, group.is_rebalancing = event.generation, False

    def _member_has(self, group: GroupView, event: trace.GroupMemberAssigned | trace.GroupMemberReconciled) -> None:
        known = MemberView(event.client_id, self.instances.get(event.member))
        member = group.members.setdefault(event.member, known)
        member.partitions = event.partitions
        if isinstance(event, trace.GroupMemberReconciled):
            member.partitions += event.revoking
        group.partitions.update(dict.fromkeys(member.partitions))

    def _removed(self, group: GroupView, event: trace.GroupRemoved) -> None:
        del self.groups[group.name]
        self._forget_members(group)

    def _forget_members(self, group: GroupView) -> None:
        for member in group.members:
            self.instances.pop(member, None)
        group.members.clear()


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

_OF_PROCESSES = (trace.NodeStarted, trace.NodeStopped, trace.FaultBegan, trace.FaultEnded)


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


class UnreadTimes:
    """Listener, after the view. `found` by group and partition, up to the event before the last `settle`."""

    def __init__(self, view: ClusterView) -> None:
        self.found: dict[str, dict[str, Unread]] = {}
        self._view = view
        self._groups = Groups()
        self._now: dict[tuple[str, str], _Stretch] = {}

    def wants(self, kind: type) -> bool:
        return kind in _OF_PROCESSES or self._groups.wants(kind)

    def __call__(self, row: TraceRow) -> None:
        group = self._groups(row)
        if group is not None:
            self._look(group, row.at_us)
        elif type(row.event) in _OF_PROCESSES:
            for other in self._groups.groups.values():
                self._look(other, row.at_us)

    def settle(self, at_us: int) -> None:
        """The run is over."""
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
