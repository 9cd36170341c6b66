"""How long no member of a group read a partition: it had no reader, or its reader was down or frozen.

Whose a partition is follows the coordinator's word (groups.py); whether that one runs is what the run did to it. So a
partition that moves is unread from when the coordinator hears that its member has given it up (at an eager rebalance:
from its beginning), not from when another one joins, and until the answer that gives it to its next member, whose
first fetch follows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.observe.groups import Groups, GroupView
from scenarios.observe.view import ClusterView

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
