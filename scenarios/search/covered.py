"""What all runs of a search reached together: each state and branch with the run that was first, and with how many did.

Runs are numbered from 1 in the order of their seeds, whatever order they were played in: so the same seeds give the
same figures on any machine.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass

from scenarios.search.coverage import FAULT_MARK
from scenarios.search.search import Found

IN_CONTEXT = "rule branches with role and fault"
BRANCH = "rule branches"
OTHER = "other"
_KINDS = {
    "error ": "error codes",
    "state ": "changes of a replica's state",
    "steps ": "steps of a partition, three in a row",
    "ISR ": "sizes of ISR and ELR",
    "ELR ": "sizes of ISR and ELR",
    "elected, ISR": "sizes of ISR and ELR",
    "append ": "leader epochs",
    "another epoch": "leader epochs",
    "fetch counts in another epoch": "leader epochs",
    "leads, epochs": "leader epochs",
    "follows, epochs": "leader epochs",
    "leads": "distances of log and high watermark",
    "follows": "distances of log and high watermark",
    "cut, ": "distances of log and high watermark",
    "high watermark": "distances of log and high watermark",
    "fetch counts": "distances of log and high watermark",
    "returns while": "distances of log and high watermark",
    "proposed though": "distances of log and high watermark",
    "joins though": "distances of log and high watermark",
}
"""By the beginning of a name of coverage.py; the first that fits."""
KINDS = (IN_CONTEXT, BRANCH, *dict.fromkeys(_KINDS.values()), OTHER)


@dataclass(frozen=True, slots=True)
class Reached:
    """One name of coverage.py. runs: how many reached it; first_run: the number of the first of them"""

    name: str
    kind: str
    runs: int
    first_run: int


class Covered:
    """Collects what each run reached, in any order of runs."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._by_seed: dict[int, array[int]] = {}

    def __len__(self) -> int:
        """How many different names."""
        return len(self._places)

    def take(self, found: Found) -> None:
        # Ten thousand runs reach some hundred names each, mostly the same ones.
        places = (self._places.setdefault(name, len(self._places)) for name in found.reached)
        self._by_seed[found.seed] = array("l", places)

    def number_of(self) -> dict[int, int]:
        """The number of each run by its seed."""
        return {seed: number for number, seed in enumerate(sorted(self._by_seed), start=1)}

    def reached(self) -> list[Reached]:
        """All names, in the order in which they were reached."""
        runs: Counter[int] = Counter()
        first: dict[int, int] = {}
        for seed, number in self.number_of().items():
            runs.update(self._by_seed[seed])
            for place in self._by_seed[seed]:
                first.setdefault(place, number)
        names = list(self._places)
        found = [Reached(names[place], kind_of(names[place]), runs[place], number) for place, number in first.items()]
        return sorted(found, key=lambda one: (one.first_run, one.name))


def kind_of(name: str) -> str:
    if name.startswith("branch "):
        return IN_CONTEXT if FAULT_MARK in name else BRANCH
    return next((kind for beginning, kind in _KINDS.items() if name.startswith(beginning)), OTHER)
