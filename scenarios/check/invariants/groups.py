"""Invariants of KIP-848's consumer groups, checked by the events of their coordinators."""

from __future__ import annotations

from dataclasses import dataclass, field

from replica.ids import OFFSETS_TOPIC
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import on
from scenarios.check.invariants.checker import Invariant, InvariantChecker
from scenarios.observe.groups import Groups

NO_EPOCH = -1
LEFT_MAX = 1000


class OfCoordinators(Invariant):
    """Base class of invariants that are checked by the events of group coordinators, each coordinator by its own.

    `begin_anew` is called when a broker becomes a coordinator, since events of the former coordinator may be missing.
    Until a frozen coordinator learns of its successor, both decide about the same members.
    """

    @on(trace.LeadershipBegan)
    def _leads(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        """Begin anew when a broker becomes leader of an offsets partition, whose log may have lost groups."""
        if event.topic == OFFSETS_TOPIC:
            self.begin_anew(event.node)

    @on(trace.GroupsLoaded)
    def _loaded(self, row: TraceRow, event: trace.GroupsLoaded) -> None:
        self.begin_anew(event.node)

    def begin_anew(self, node: str) -> None:
        raise NotImplementedError


class OneReader(OfCoordinators):
    """S34: no two members of a group have the same partition.

    A partition still belongs to a member that has been asked to revoke it but has not done so. A broker's state is
    dropped when it loads a group, because the last events of the former coordinator may be missing in the trace.
    Classic groups are not checked: their members assign partitions, and a member may not know yet that it has lost one.
    """

    NAME = "S34"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.groups: dict[str, Groups] = {}
        """Groups by coordinator."""
        self.instances: dict[str, str | None] = {}

    def begin_anew(self, node: str) -> None:
        self.groups[node] = Groups(self.instances)

    def _groups_of(self, node: str) -> Groups:
        if node not in self.groups:
            self.begin_anew(node)
        return self.groups[node]

    @on(trace.GroupMigrated)
    def _migrated(self, row: TraceRow, event: trace.GroupMigrated) -> None:
        """Drop the partitions of all members. Later events report them again, or a classic member assigns them."""
        group = self._groups_of(event.node).groups.get(event.group)
        for member in group.members.values() if group is not None else ():
            member.partitions = ()

    @on(trace.GroupMemberJoined, trace.GroupMemberLeft, trace.GroupRebalanced, trace.GroupRemoved)
    def _changed(
        self,
        row: TraceRow,
        event: trace.GroupMemberJoined | trace.GroupMemberLeft | trace.GroupRebalanced | trace.GroupRemoved,
    ) -> None:
        self._groups_of(event.node)(row)

    @on(trace.GroupMemberReconciled)
    def _reconciled(self, row: TraceRow, event: trace.GroupMemberReconciled) -> None:
        groups = self._groups_of(event.node)
        groups(row)
        has = dict.fromkeys((*event.partitions, *event.revoking))
        for other, member in groups.groups[event.group].members.items():
            both = [partition for partition in member.partitions if partition in has] if other != event.member else []
            if both:
                topic, _, number = both[0].rpartition("-")
                sentence = f"{event.node} assigned {both[0]} to {event.client_id}, but {member.client_id}"
                self.broken(f"{sentence} of group {event.group} also has it", topic, int(number))
                return


@dataclass(slots=True)
class _MemberEpochs:
    """The epochs of group members that one coordinator has reported.

    Attributes:
        epochs: epoch by (group, member): None if the member has left, NO_EPOCH if the group was empty afterwards.
        since: epoch at which each partition was assigned, by (group, member).
        left: (group, member) of the members that left, in the order in which they did.
        members: member ids by group.
        instances: member by (group, group.instance.id).
        of_tasks: streams groups. Their coordinators compare a commit with the epoch of its partition in every release.
    """

    epochs: dict[tuple[str, str], int | None] = field(default_factory=dict)
    since: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    left: dict[tuple[str, str], None] = field(default_factory=dict)
    members: dict[str, dict[str, None]] = field(default_factory=dict)
    instances: dict[tuple[str, str], str] = field(default_factory=dict)
    of_tasks: dict[str, None] = field(default_factory=dict)

    def forget_epochs(self, group: str) -> None:
        for key in [key for key in self.epochs if key[0] == group]:
            del self.epochs[key]
            self.since.pop(key, None)
            self.left.pop(key, None)


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
        self.coordinators: dict[str, _MemberEpochs] = {}

    def begin_anew(self, node: str) -> None:
        self.coordinators[node] = _MemberEpochs()

    def _known(self, node: str) -> _MemberEpochs:
        if node not in self.coordinators:
            self.begin_anew(node)
        return self.coordinators[node]

    @on(trace.GroupMemberJoined)
    def _joined(self, row: TraceRow, event: trace.GroupMemberJoined) -> None:
        known = self._known(event.node)
        known.epochs.pop((event.group, event.member), None)
        known.since[event.group, event.member] = {}
        known.left.pop((event.group, event.member), None)
        members = known.members.setdefault(event.group, {})
        members[event.member] = None
        if event.instance is None:
            return
        before = known.instances.get((event.group, event.instance))
        members.pop(before or "", None)
        if before is not None and (event.group, before) in known.epochs:
            known.epochs[event.group, before] = known.left[event.group, before] = None
            known.since.pop((event.group, before), None)
        known.instances[event.group, event.instance] = event.member

    @on(trace.GroupMemberLeft)
    def _member_left(self, row: TraceRow, event: trace.GroupMemberLeft) -> None:
        known = self._known(event.node)
        known.since.pop((event.group, event.member), None)
        # Nothing is kept of classic groups: an accepted commit may be reported after its member has left.
        if (event.group, event.member) in known.epochs:
            known.epochs[event.group, event.member] = known.left[event.group, event.member] = None
            if len(known.left) > LEFT_MAX:
                oldest = next(iter(known.left))
                del known.epochs[oldest], known.left[oldest]
        if known.instances.get((event.group, event.instance or "")) == event.member:
            del known.instances[event.group, event.instance or ""]
        members = known.members.setdefault(event.group, {})
        members.pop(event.member, None)
        if not members:
            del known.members[event.group]
            gone = [key for key, epoch in known.epochs.items() if key[0] == event.group and epoch is None]
            known.epochs.update(dict.fromkeys(gone, NO_EPOCH))

    @on(trace.GroupMemberReconciled)
    def _reconciled(self, row: TraceRow, event: trace.GroupMemberReconciled) -> None:
        known = self._known(event.node)
        key = (event.group, event.member)
        known.epochs[key] = event.generation
        if event.group_type == trace.STREAMS:
            known.of_tasks[event.group] = None
        since, new = known.since.get(key), event.generation if key in known.since else 0
        has = dict.fromkeys((*event.partitions, *event.revoking), new)
        known.since[key] = has if since is None else {item: since.get(item, epoch) for item, epoch in has.items()}
        known.left.pop((event.group, event.member), None)
        known.members.setdefault(event.group, {})[event.member] = None

    @on(trace.GroupMigrated)
    def _migrated(self, row: TraceRow, event: trace.GroupMigrated) -> None:
        """Drop the group's epochs. Classic groups are not checked, and a new consumer group reports its epochs."""
        known = self._known(event.node)
        known.forget_epochs(event.group)

    @on(trace.GroupRemoved)
    def _removed(self, row: TraceRow, event: trace.GroupRemoved) -> None:
        known = self._known(event.node)
        known.forget_epochs(event.group)
        known.members.pop(event.group, None)
        known.of_tasks.pop(event.group, None)
        for key in [key for key in known.instances if key[0] == event.group]:
            del known.instances[key]

    @on(trace.OffsetCommitted)
    def _committed(self, row: TraceRow, event: trace.OffsetCommitted) -> None:
        known = self._known(event.node)
        if event.member is None or (event.group, event.member) not in known.epochs:
            return
        epoch = known.epochs[event.group, event.member]
        if epoch == event.generation:
            return
        is_by_partition = self.checker.rules.commit_epoch == "assignment" or event.group in known.of_tasks
        if is_by_partition and epoch is not None:
            since = known.since.get((event.group, event.member), {}).get(f"{event.topic}-{event.partition}")
            if since is not None and since <= event.generation < epoch:
                return
        stands = "is not in the group" if epoch in (None, NO_EPOCH) else f"is at epoch {epoch}"
        sentence = (
            f"{event.node} accepted a commit of {event.member} at epoch {event.generation}, but the member {stands}"
        )
        self.broken(sentence, event.topic, event.partition)


INVARIANTS: tuple[type[Invariant], ...] = (OneReader, FencedCommitsAreRefused)
