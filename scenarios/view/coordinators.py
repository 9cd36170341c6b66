"""What the coordinators of transactions and groups have said, as the page plays it; of a run without them, nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.wording import member_name
from scenarios.observe.groups import Groups, GroupView
from scenarios.view.places import NOTHING, PlacesOfNames

STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead",
)  # fmt: skip
"""Kafka's, of a transactional.id; the page knows them by their places."""
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")

NO_MEMBERS, REBALANCING, STABLE = range(3)

TAKEN_OVER_MAX = 500
"""Open transactions, and groups, that a tape takes over from the one before."""


@dataclass(slots=True)
class CoordinatorNames:
    """Of one tape, each a list that changes refer to by place."""

    transactional_ids: PlacesOfNames = field(default_factory=PlacesOfNames)
    groups: PlacesOfNames = field(default_factory=PlacesOfNames)
    assigned: PlacesOfNames = field(default_factory=PlacesOfNames)
    """partitions that members have had, as clients have named them"""
    members: PlacesOfNames = field(default_factory=PlacesOfNames)
    """ids of members"""
    clients: dict[str, str] = field(default_factory=dict)
    """by member id, the client.id"""

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


class CoordinatorChanges:
    """Makes the changes of each event. nodes, partitions: the tape's"""

    def __init__(self, names: CoordinatorNames, nodes: PlacesOfNames, partitions: PlacesOfNames) -> None:
        self._names = names
        self._nodes = nodes
        self._partitions = partitions
        self._groups = Groups()
        self._producers: dict[int, None] = {}
        self._open: dict[str, list[Any]] = {}
        self._held: dict[TopicPartition, int] = {}
        self._told: dict[str, tuple[int, int, str]] = {}
        self._owners: dict[str, dict[str, str | None]] = {}

    def is_transactional(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def take_over(self, before: CoordinatorChanges) -> list[list[Any]]:
        self._producers, self._groups = before._producers, before._groups
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

    def __call__(self, row: TraceRow) -> list[list[Any]]:
        event = row.event
        match event:
            case trace.TransactionStateChanged():
                return [self._transaction(event)]
            case trace.TransactionMarkerWritten():
                place = self._place(event)
                first = NOTHING if event.first_offset is None else event.first_offset
                committed = int(event.committed)
                return [["marker", place, event.leader_epoch, event.offset, committed, first, event.producer_id]]
            case trace.LastStableOffsetMoved():
                lags = event.last_stable_offset < event.high_watermark
                partition = TopicPartition(event.topic, event.partition)
                return [self._stable(partition, event.last_stable_offset if lags else NOTHING)]
            case trace.LeadershipBegan():
                partition = TopicPartition(event.topic, event.partition)
                return [self._stable(partition, NOTHING)] if partition in self._held else []
        group = self._groups(row)
        return [] if group is None else self._group_changes(group)

    def _place(self, event: Any) -> int:
        return self._partitions.place(f"{event.topic}-{event.partition}")

    def _transaction(self, event: trace.TransactionStateChanged) -> list[Any]:
        self._producers[event.producer_id] = None
        state = STATES.index(event.state) if event.state in STATES else NOTHING
        name = event.transactional_id
        place, node = self._names.transactional_ids.place(name), self._nodes.place(event.node)
        change = ["txn", place, node, state, event.producer_id, event.producer_epoch, int(event.fences)]
        self._open.pop(name, None)
        if event.state in _OPEN:
            self._open[name] = change
        return change

    def _stable(self, partition: TopicPartition, offset: int) -> list[Any]:
        self._held.pop(partition, None)
        if offset != NOTHING:
            self._held[partition] = offset
        return ["stable", self._partitions.place(str(partition)), offset]

    def _group_changes(self, group: GroupView) -> list[list[Any]]:
        names, place = self._names, self._names.groups.place(group.name)
        found: list[list[Any]] = []
        phase = REBALANCING if group.is_rebalancing else STABLE if group.members else NO_MEMBERS
        told = (phase, group.generation, group.coordinator)
        if self._told.get(group.name) != told:
            self._told[group.name] = told
            found.append(["group", place, self._nodes.place(group.coordinator), phase, group.generation])
        owners, before = group.owners, self._owners.get(group.name, {})
        for partition in (*owners, *(one for one in before if one not in owners)):
            owner = owners.get(partition)
            is_known = partition in before
            if is_known and partition in owners and before[partition] == owner:
                continue
            who = names.members.place(owner)
            if owner is not None:
                names.clients[owner] = group.members[owner].client_id
            # Without members a partition is not unread: the group has no reader for it.
            found.append(["own", place, names.assigned.place(partition), who, int(partition in owners)])
        self._owners[group.name] = owners
        return found
