"""Turns the events of transaction and group coordinators into changes for the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.wording import member_name
from scenarios.observe.groups import GROUP_CHANGES, Groups, GroupView
from scenarios.view.places import NOTHING, PlacesOfNames

STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead",
)  # fmt: skip
"""Kafka's states of a transactional.id, to which the page refers by index."""
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")

NO_MEMBERS, REBALANCING, STABLE = range(3)

TAKEN_OVER_MAX = 500
"""Largest number of open transactions, and of groups, that a new tape takes over from the previous tape."""


@dataclass(slots=True)
class CoordinatorNames:
    """The lists of names in the page's data about coordinators, to which changes refer by index."""

    transactional_ids: PlacesOfNames = field(default_factory=PlacesOfNames)
    groups: PlacesOfNames = field(default_factory=PlacesOfNames)
    assigned: PlacesOfNames = field(default_factory=PlacesOfNames)
    """Names of the partitions that were assigned to members."""
    members: PlacesOfNames = field(default_factory=PlacesOfNames)
    """Ids of group members."""
    clients: dict[str, str] = field(default_factory=dict)
    """The client.id of each member id."""

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if len(self.transactional_ids):
            found["txns"] = list(self.transactional_ids)
        if len(self.groups):
            found["groups"] = list(self.groups)
            found["assigned"] = list(self.assigned)
            clients = ((member, self.clients.get(member, "")) for member in self.members)
            found["members"] = [[member_name(member, client), client] for member, client in clients]
        return found


class CoordinatorChanges(Listener):
    """Listener that turns the events of coordinators into changes for the page.

    A change is a list that begins with its kind: "txn", "marker", "stable", "group" or "own".

    Args:
        names: lists of names that grow with the changes.
        nodes, partitions: the tape's lists of names.
    """

    def __init__(self, names: CoordinatorNames, nodes: PlacesOfNames, partitions: PlacesOfNames) -> None:
        self._names = names
        self._nodes = nodes
        self._partitions = partitions
        self._groups = Groups()
        self.parts = (self._groups,)
        self._found: list[list[Any]] = []
        self._producers: dict[int, None] = {}
        self._open: dict[str, list[Any]] = {}
        self._held: dict[TopicPartition, int] = {}
        self._told: dict[str, tuple[int, int, str]] = {}
        self._owners: dict[str, dict[str, str | None]] = {}

    def is_transactional(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def take_over(self, before: CoordinatorChanges) -> list[list[Any]]:
        self._producers, self._groups, self.parts = before._producers, before._groups, before.parts
        found: list[list[Any]] = []
        for name, change in list(before._open.items())[-TAKEN_OVER_MAX:]:
            node = before._nodes.name(change[2])
            self._open[name] = ["txn", self._names.transactional_ids.place(name), self._nodes.place(node), *change[3:]]
            found.append(self._open[name])
        for partition, offset in before._held.items():
            found.append(self._stable(partition, offset))
        for group in list(self._groups.groups.values())[-TAKEN_OVER_MAX:]:
            found += self._group_changes(group)
        return found

    def changes(self, row: TraceRow) -> list[list[Any]]:
        self._found = []
        self(row)
        return self._found

    @on(trace.TransactionStateChanged)
    def _transaction(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        self._producers[event.producer_id] = None
        state = STATES.index(event.state) if event.state in STATES else NOTHING
        name = event.transactional_id
        index, node = self._names.transactional_ids.place(name), self._nodes.place(event.node)
        change = ["txn", index, node, state, event.producer_id, event.producer_epoch, int(event.fences)]
        self._open.pop(name, None)
        if event.state in _OPEN:
            self._open[name] = change
        self._found.append(change)

    @on(trace.TransactionMarkerWritten)
    def _marker_written(self, row: TraceRow, event: trace.TransactionMarkerWritten) -> None:
        index = self._partitions.place(f"{event.topic}-{event.partition}")
        first = NOTHING if event.first_offset is None else event.first_offset
        committed = int(event.committed)
        self._found.append(["marker", index, event.leader_epoch, event.offset, committed, first, event.producer_id])

    @on(trace.LastStableOffsetMoved)
    def _stable_offset_moved(self, row: TraceRow, event: trace.LastStableOffsetMoved) -> None:
        lags = event.last_stable_offset < event.high_watermark
        partition = TopicPartition(event.topic, event.partition)
        self._found.append(self._stable(partition, event.last_stable_offset if lags else NOTHING))

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        partition = TopicPartition(event.topic, event.partition)
        if partition in self._held:
            self._found.append(self._stable(partition, NOTHING))

    @on(*GROUP_CHANGES)
    def _group_changed(self, row: TraceRow, event: trace.TraceEvent) -> None:
        if self._groups.changed is not None:
            self._found += self._group_changes(self._groups.changed)

    def _stable(self, partition: TopicPartition, offset: int) -> list[Any]:
        self._held.pop(partition, None)
        if offset != NOTHING:
            self._held[partition] = offset
        return ["stable", self._partitions.place(str(partition)), offset]

    def _group_changes(self, group: GroupView) -> list[list[Any]]:
        names, index = self._names, self._names.groups.place(group.name)
        found: list[list[Any]] = []
        phase = REBALANCING if group.is_rebalancing else STABLE if group.members else NO_MEMBERS
        summary = (phase, group.generation, group.coordinator)
        if self._told.get(group.name) != summary:
            self._told[group.name] = summary
            found.append(["group", index, self._nodes.place(group.coordinator), phase, group.generation])
        owners, before = group.owners, self._owners.get(group.name, {})
        for partition in (*owners, *(item for item in before if item not in owners)):
            owner = owners.get(partition)
            is_known = partition in before
            if is_known and partition in owners and before[partition] == owner:
                continue
            who = names.members.place(owner)
            if owner is not None:
                names.clients[owner] = group.members[owner].client_id
            # A group without members owns no partitions, so its partitions do not count as unread.
            found.append(["own", index, names.assigned.place(partition), who, int(partition in owners)])
        self._owners[group.name] = owners
        return found
