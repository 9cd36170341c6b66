"""Invariants of KIP-848's consumer groups, checked by the events of their coordinators."""

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
    """Base class of invariants that are checked by the events of group coordinators.

    `begin_anew` is called when a broker becomes a coordinator, since events of the former coordinator may be missing.
    """

    @on(trace.LeadershipBegan)
    def _leads(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        """Begin anew when a broker becomes leader of an offsets partition, whose log may have lost groups."""
        if event.topic == OFFSETS_TOPIC:
            self.begin_anew()

    @on(trace.GroupsLoaded)
    def _loaded(self, row: TraceRow, event: trace.GroupsLoaded) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        raise NotImplementedError


class OneReader(OfCoordinators):
    """S34: no two members of a group have the same partition.

    A partition still belongs to a member that has been asked to revoke it but has not done so. All state is dropped
    when a new coordinator loads a group, because the last events of the former coordinator may be missing in the trace.
    Classic groups are not checked: their members assign partitions, and a member may not know yet that it has lost one.
    """

    NAME = "S34"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.groups = Groups()

    def begin_anew(self) -> None:
        self.groups = Groups(self.groups.instances)

    @on(trace.GroupMigrated)
    def _migrated(self, row: TraceRow, event: trace.GroupMigrated) -> None:
        """Drop the partitions of all members. Later events report them again, or a classic member assigns them."""
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
                sentence = f"{event.node} assigned {both[0]} to {event.client_id}, but {member.client_id}"
                self.broken(f"{sentence} of group {event.group} also has it", topic, int(number))
                return


class FencedCommitsAreRefused(OfCoordinators):
    """S35: a commit of a member counts only while the member is in the group, and only at its current epoch.

    Since KIP-1251 (`commit-epoch: assignment`), and always in a streams group, a commit at an older epoch is accepted
    if the member already had the partition in that epoch. Partitions that a member had when it was first seen count as
    always assigned to it.

    A member is checked from its first reconciliation until another broker becomes the coordinator. An application that
    polls too late commits after its member has left. Such a commit has no epoch and is accepted, like an operator's, if
    the group has no members.

    Weakened: of the members that left, only the latest LEFT_MAX are checked, and none of a removed group.
    """

    NAME = "S35"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.epochs: dict[tuple[str, str], int | None] = {}
        """Epoch by (group, member): None if the member has left, NO_EPOCH if the group was empty afterwards."""
        self.since: dict[tuple[str, str], dict[str, int]] = {}
        """Epoch at which each partition was assigned, by (group, member)."""
        self.left: dict[tuple[str, str], None] = {}
        self.members: dict[str, dict[str, None]] = {}
        self.instances: dict[tuple[str, str], str] = {}
        self.of_tasks: dict[str, None] = {}
        """Streams groups: their coordinators compare a commit with the epoch of its partition in every release."""

    def begin_anew(self) -> None:
        self.epochs.clear()
        self.since.clear()
        self.left.clear()
        self.instances.clear()
        self.members.clear()
        self.of_tasks.clear()

    @on(trace.GroupMemberJoined)
    def _joined(self, row: TraceRow, event: trace.GroupMemberJoined) -> None:
        self.epochs.pop((event.group, event.member), None)
        self.since[event.group, event.member] = {}
        self.left.pop((event.group, event.member), None)
        members = self.members.setdefault(event.group, {})
        members[event.member] = None
        if event.instance is None:
            return
        before = self.instances.get((event.group, event.instance))
        members.pop(before or "", None)
        if before is not None and (event.group, before) in self.epochs:
            self.epochs[event.group, before] = self.left[event.group, before] = None
            self.since.pop((event.group, before), None)
        self.instances[event.group, event.instance] = event.member

    @on(trace.GroupMemberLeft)
    def _left(self, row: TraceRow, event: trace.GroupMemberLeft) -> None:
        self.since.pop((event.group, event.member), None)
        # Nothing is kept of classic groups: an accepted commit may be reported after its member has left.
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
        key = (event.group, event.member)
        self.epochs[key] = event.generation
        if event.group_type == trace.STREAMS:
            self.of_tasks[event.group] = None
        since, new = self.since.get(key), event.generation if key in self.since else 0
        has = dict.fromkeys((*event.partitions, *event.revoking), new)
        self.since[key] = has if since is None else {one: since.get(one, epoch) for one, epoch in has.items()}
        self.left.pop((event.group, event.member), None)
        self.members.setdefault(event.group, {})[event.member] = None

    @on(trace.GroupMigrated)
    def _migrated(self, row: TraceRow, event: trace.GroupMigrated) -> None:
        """Drop the group's epochs. Classic groups are not checked, and a new consumer group reports its epochs."""
        self._forget_epochs(event.group)

    @on(trace.GroupRemoved)
    def _removed(self, row: TraceRow, event: trace.GroupRemoved) -> None:
        self._forget_epochs(event.group)
        self.members.pop(event.group, None)
        self.of_tasks.pop(event.group, None)
        for key in [key for key in self.instances if key[0] == event.group]:
            del self.instances[key]

    def _forget_epochs(self, group: str) -> None:
        for key in [key for key in self.epochs if key[0] == group]:
            del self.epochs[key]
            self.since.pop(key, None)
            self.left.pop(key, None)

    @on(trace.OffsetCommitted)
    def _committed(self, row: TraceRow, event: trace.OffsetCommitted) -> None:
        if event.member is None or (event.group, event.member) not in self.epochs:
            return
        epoch = self.epochs[event.group, event.member]
        if epoch == event.generation:
            return
        is_by_partition = self.checker.rules.commit_epoch == "assignment" or event.group in self.of_tasks
        if is_by_partition and epoch is not None:
            since = self.since.get((event.group, event.member), {}).get(f"{event.topic}-{event.partition}")
            if since is not None and since <= event.generation < epoch:
                return
        stands = "is not in the group" if epoch in (None, NO_EPOCH) else f"is at epoch {epoch}"
        sentence = (
            f"{event.node} accepted a commit of {event.member} at epoch {event.generation}, but the member {stands}"
        )
        self.broken(sentence, event.topic, event.partition)


INVARIANTS: tuple[type[Invariant], ...] = (OneReader, FencedCommitsAreRefused)
