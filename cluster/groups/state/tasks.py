"""The tasks of a Kafka Streams application, and their sticky assignor, without I/O.

A task processes one partition number of the topics that a subtopology reads. An active task produces the results; a
standby task keeps a copy of the state in another process. Members of one process share its local state, so a process
has each task at most once.

An active task stays with its member; otherwise it goes to a member that had the standby task, or to the process with
the least load. No member gets more than its fair share. Standby tasks are assigned next, by the same preferences.

Simplified: of processes or members with the same load, the one that joined first is chosen; in Kafka the order is that
of a hash map. As in Kafka 4.4, there are no warm-up tasks. Unlike there, the task offsets that members report are
ignored.
Source: StickyTaskAssignor.java, ProcessState.java
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

ACTIVE, STANDBY, WARMUP = range(3)
"""The kinds of tasks, in the order of the fields in requests and records."""
Id = tuple[str, int]
"""(subtopology, partition number), the id of a task of any kind."""


class StreamsTask(NamedTuple):
    kind: int
    subtopology: str
    partition: int

    @property
    def id(self) -> Id:
        return self.subtopology, self.partition


Tasks = tuple[StreamsTask, ...]
"""Tasks in ascending order, without duplicates."""


def by_subtopology(tasks: Tasks, kind: int) -> list[tuple[str, list[int]]]:
    """Return the partition numbers of the tasks of one kind, by subtopology."""
    chosen = (task for task in tasks if task.kind == kind)
    return [
        (name, [item.partition for item in some]) for name, some in groupby(chosen, key=lambda item: item.subtopology)
    ]


class _Quota:
    """The fair share of tasks per member (`each`). Members that have their share are not counted any more."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.each = 0
        self._divide()

    def _divide(self) -> None:
        self.each = -(-self._tasks // self._members) if self._members else 0

    def has(self, count: int) -> None:
        """Note that a member now has `count` tasks."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self._divide()


class _Assignment:
    def __init__(self, processes: Mapping[str, str], active: _Quota, every: _Quota) -> None:
        self._process_of = processes
        self._members_of: dict[str, list[str]] = {}
        for member, process in processes.items():
            self._members_of.setdefault(process, []).append(member)
        self._on: dict[str, dict[Id, None]] = {process: {} for process in self._members_of}
        self._active = active
        self._every = every
        self.found: dict[str, list[StreamsTask]] = {member: [] for member in processes}

    def give(self, member: str, task: StreamsTask) -> None:
        self.found[member].append(task)
        self._on[self._process_of[member]][task.id] = None
        count = len(self.found[member])
        if task.kind == ACTIVE:
            self._active.has(count)
        self._every.has(count)

    def has_room(self, member: str, kind: int) -> bool:
        return len(self.found[member]) < (self._active if kind == ACTIVE else self._every).each

    def is_on(self, member: str, task: Id) -> bool:
        """Return True if a member's process has the task, in any kind."""
        return task in self._on[self._process_of[member]]

    def _load(self, process: str) -> float:
        members = self._members_of[process]
        return sum(len(self.found[member]) for member in members) / len(members)

    def former(self, members: Sequence[str], task: Id | None) -> str | None:
        """Return the least loaded of `members`, which had a standby task before.

        Return None if there are none, or if the first one's process already has `task`.
        Source: findPrevMemberWithLeastLoad
        """
        if not members:
            return None
        chosen = members[0]
        for member in members[1:]:
            is_less = self._load(self._process_of[member]) < self._load(self._process_of[chosen])
            if (
                is_less
                and len(self.found[member]) < len(self.found[chosen])
                and not (task and self.is_on(member, task))
            ):
                chosen = member
        return None if task and self.is_on(members[0], task) else chosen

    def least_loaded(self, task: Id) -> str | None:
        """Return the least loaded member of the least loaded process without the task, None if every process has it."""
        free = [process for process in self._members_of if task not in self._on[process]]
        if not free:
            return None
        return min(self._members_of[min(free, key=self._load)], key=lambda member: len(self.found[member]))


def assign_sticky(
    processes: Mapping[str, str],
    targets: Mapping[str, Tasks],
    counts: Mapping[str, int],
    stateful: frozenset[str],
    standbys: int,
) -> dict[str, Tasks]:
    """Assign active and standby tasks to members; return them by member id.

    Args:
        processes: process id by member id, in the order in which members joined.
        targets: last target assignment by member id.
        counts: number of tasks by subtopology.
        stateful: subtopologies with state, which can have standby tasks.
        standbys: number of standby tasks for each stateful task (num.standby.replicas).
    """
    ids = [(name, number) for name, count in counts.items() for number in range(count)]
    kept = [item for item in ids if item[0] in stateful] if standbys else []
    former: dict[Id, str] = {}
    formerly_standby: dict[Id, list[str]] = {}
    for member in processes:
        for task in targets.get(member, ()):
            if task.kind == ACTIVE:
                former[task.id] = member
            elif task.kind == STANDBY:
                formerly_standby.setdefault(task.id, []).append(member)
    quotas = _Quota(len(ids), len(processes)), _Quota(len(ids) + len(kept) * standbys, len(processes))
    assignment = _Assignment(processes, *quotas)
    left = dict.fromkeys(sorted(ids, key=lambda item: (item[1], item[0])))
    for is_first in (True, False):
        for item in list(left):
            name = former.get(item) if is_first else assignment.former(formerly_standby.get(item, ()), None)
            if name is not None and assignment.has_room(name, ACTIVE):
                assignment.give(name, StreamsTask(ACTIVE, *item))
                del left[item]
    for item in sorted(left):
        name = assignment.least_loaded(item)
        assert name is not None, "no process can take the task"
        assignment.give(name, StreamsTask(ACTIVE, *item))
    missing: list[Id] = []
    for item in sorted(kept, key=lambda item: (item[1], item[0]), reverse=True):
        for turn in range(standbys):
            again = former.get(item)
            if again is None or assignment.is_on(again, item) or not assignment.has_room(again, STANDBY):
                again = assignment.former(formerly_standby.get(item, ()), item)
            if again is None or not assignment.has_room(again, STANDBY):
                missing += [item] * (standbys - turn)
                break
            assignment.give(again, StreamsTask(STANDBY, *item))
    for item in sorted(missing, reverse=True):
        name = assignment.least_loaded(item)
        if name is not None:  # Otherwise every process has the task.
            assignment.give(name, StreamsTask(STANDBY, *item))
    return {member: tuple(sorted(tasks)) for member, tasks in assignment.found.items()}
