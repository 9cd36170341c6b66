"""Who plays the schedules of a search and shrinks those that broke something: here the processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from scenarios.process.pool import in_order
from scenarios.process.work_folders import folder_in_memory
from scenarios.search.search import FindingKind, Found, SeedJob, by_kind, play_seed, shrink


class Shrunk(NamedTuple):
    """A schedule as small as it is by now. number: of the found one, from 0     done: to the steps it needs"""

    number: int
    text: str
    steps: int
    done: bool


class Player(Protocol):
    """Plays and shrinks. raises: KeyboardInterrupt, ProcessDied"""

    def play(self, jobs: Sequence[SeedJob]) -> Generator[Found, None, None]:
        """Each job's outcome, in any order."""
        ...

    def kinds(self, found: list[Found]) -> list[FindingKind]:
        """Each kind of finding with the schedule to keep."""
        ...

    def shrunk(self, found: Sequence[Found]) -> Iterator[Shrunk]:
        """Ever smaller ones of each. One that cannot be shrunk in time does not come."""
        ...


NewPlayer = Callable[[Callable[[], None]], AbstractContextManager[Player]]
"""Given what is to be called a few times a second while it works."""


class LocalPlayer:
    """In as many processes; each kind is that of the first seed that shows it."""

    def __init__(self, processes: int) -> None:
        self._processes = processes

    def play(self, jobs: Sequence[SeedJob]) -> Generator[Found, None, None]:
        return in_order(play_seed, jobs, self._processes, folder_in_memory())

    def kinds(self, found: list[Found]) -> list[FindingKind]:
        return by_kind(found)

    def shrunk(self, found: Sequence[Found]) -> Iterator[Shrunk]:
        for number, one in enumerate(found):
            smallest = one.schedule
            for smallest in shrink(one.schedule, one.kinds):
                yield Shrunk(number, smallest.text, len(smallest.tree["timeline"]), done=False)
            yield Shrunk(number, smallest.text, len(smallest.tree["timeline"]), done=True)
