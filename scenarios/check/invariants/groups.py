"""Invariants of KIP-848's consumer groups, by what their coordinators say."""

from __future__ import annotations

from replica.ids import OFFSETS_TOPIC
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import on
from scenarios.check.invariants.checker import Invariant, InvariantChecker
from scenarios.observe.groups import Groups

NO_EPOCH = -1
LEFT_MAX = 1000


class OfCoordinators(Invariant):
    """By the words of coordinators; `begin_anew` where a broker becomes one."""

    @on(trace.LeadershipBegan)
    def _leads(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        """Of groups that its log has lost there is nothing to be read, and nothing is said."""
        if event.topic == OFFSETS_TOPIC:
            self.begin_anew()

    @on(trace.GroupsLoaded)
    def _loaded(self, row: TraceRow, event: trace.GroupsLoaded) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        raise NotImplementedError


class OneReader(OfCoordinators):
    """S34: no two members of a group have a partition, that which has still to give it up included.

    Whatever a broker says as it becomes the coordinator begins anew: what the last one said last may not be in the
    trace. Not of classic groups, whose members assign: there a member may not know that it was given up.
    """

    NAME = "S34"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.groups = Groups()

    def begin_anew(self) -> None:
        self.groups = Groups(self.groups.instances)

    @on(trace.GroupMigrated)
    def _migrated(self, row: TraceRow, event: trace.GroupMigrated) -> None:
        """What its members have is said anew, or assigned by one of them from now on."""
        group = self.groups.groups.get(event.group)
        for member in group.members.values() if group is not None else ():
            member.partitions = ()

    @on(trace.GroupMemberJoined, trace.GroupMemberLeft, trace.GroupRebalanced, trace.GroupRemoved)
    def _changed(self, row: TraceRow, event: trace.TraceEvent) -> None:
        self.groups(row)

    @on(trace.GroupMemberReconciled)
    def _reconciled(self, row: TraceRow, event: trace.GroupMemberReconciled) -> None:
        self.groups(row)
        group = self.groups.groups[event.group]
        has = dict.fromkeys((*event.partitions, *event.revoking))
        for other, member in group.members.items():
            both = [one for one in member.partitions if one in has] if other != event.member else []
            if both:
                topic, _, number = both[0].rpartition("-")
                sentence = f"{event.node} gives {both[0]} to {event.client_id}, and {member.client_id} has it"
                self.broken(f"{sentence} in group {event.group}, too", topic, int(number))
                return


class FencedCommitsAreRefused(OfCoordinators):
    """S35: what a member commits counts only while it is in the group, and at its epoch.

    Known of a member from when it last reconciled or left; anew where another broker becomes the coordinator. Weakened:
    of members that have left only the latest LEFT_MAX are known, and none of a group that was removed.
    An everyday operation that would make it false: an application polls too late, and commits when its member has left.
    Such a commit names no epoch, and counts, like an operator's, where the group has no members.
    """

    NAME = "S35"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.epochs: dict[tuple[str, str], int | None] = {}
        """By group and member; None: it has left; NO_EPOCH: and since then its group has been without members"""
        self.left: dict[tuple[str, str], None] = {}
        self.members: dict[str, dict[str, None]] = {}
        self.instances: dict[tuple[str, str], str] = {}

    def begin_anew(self) -> None:
        self.epochs.clear()
        self.left.clear()
        self.instances.clear()
        self.members.clear()

    @on(trace.GroupMemberJoined)
    def _joined(self, row: TraceRow, event: trace.GroupMemberJoined) -> None:
        self.epochs.pop((event.group, event.member), None)
        self.left.pop((event.group, event.member), None)
        members = self.members.setdefault(event.group, {})
        members[event.member] = None
        if event.instance is None:
            return
        before = self.instances.get((event.group, event.instance))
        members.pop(before or "", None)
        if before is not None and (event.group, before) in self.epochs:
            self.epochs[event.group, before] = self.left[event.group, before] = None
        self.instances[event.group, event.instance] = event.member

    @on(trace.GroupMemberLeft)
    def _left(self, row: TraceRow, event: trace.GroupMemberLeft) -> None:
        # Of classic groups nothing is kept: a commit that was taken before a member left may be said after that.
        if (event.group, event.member) in self.epochs:
            self.epochs[event.group, event.member] = self.left[event.group, event.member] = None
            if len(self.left) > LEFT_MAX:
                oldest = next(iter(self.left))
                del self.epochs[oldest], self.left[oldest]
        if self.instances.get((event.group, event.instance or "")) == event.member:
            del self.instances[event.group, event.instance or ""]
        members = self.members.setdefault(event.group, {})
        members.pop(event.member, None)
        if not members:
            del self.members[event.group]
            gone = [key for key, epoch in self.epochs.items() if key[0] == event.group and epoch is None]
            self.epochs.update(dict.fromkeys(gone, NO_EPOCH))

    @on(trace.GroupMemberReconciled)
    def _reconciled(self, row: TraceRow, event: trace.GroupMemberReconciled) -> None:
        self.epochs[event.group, event.member] = event.generation
        self.left.pop((event.group, event.member), None)
        self.members.setdefault(event.group, {})[event.member] = None

    @on(trace.GroupMigrated)
    def _migrated(self, row: TraceRow, event: trace.GroupMigrated) -> None:
        """From here on a classic group is like any other; of a consumer group each member's epoch follows."""
        self._forget_epochs(event.group)

    @on(trace.GroupRemoved)
    def _removed(self, row: TraceRow, event: trace.GroupRemoved) -> None:
        self._forget_epochs(event.group)
        self.members.pop(event.group, None)
        for key in [key for key in self.instances if key[0] == event.group]:
            del self.instances[key]

    def _forget_epochs(self, group: str) -> None:
        for key in [key for key in self.epochs if key[0] == group]:
            del self.epochs[key]
            self.left.pop(key, None)

    @on(trace.OffsetCommitted)
    def _committed(self, row: TraceRow, event: trace.OffsetCommitted) -> None:
        if event.member is None or (event.group, event.member) not in self.epochs:
            return
        epoch = self.epochs[event.group, event.member]
        if epoch == event.generation:
            return
        stands = "is not in the group" if epoch in (None, NO_EPOCH) else f"is at epoch {epoch}"
        sentence = f"{event.node} takes a commit of {event.member} at epoch {event.generation}, which {stands}"
        self.broken(sentence, event.topic, event.partition)


INVARIANTS: tuple[type[Invariant], ...] = (OneReader, FencedCommitsAreRefused)
