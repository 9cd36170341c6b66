"""A search that learns: schedules that reached something new are kept, and changed a little to make others.

It goes by generations. All schedules of a generation are made from the results of those before, each from a stream of
its own, and results are taken in their order: the findings depend on the seeds alone, not on the processes that play.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from scenarios.search.coverage import worth
from scenarios.search.mutation import mutated
from scenarios.search.schedules import Schedule
from scenarios.search.search import Found, SeedJob

GENERATION_RUNS = 16
FRESH_SHARE = 0.4
"""Of each generation after the first: drawn as a blind search draws them."""


@dataclass(slots=True)
class _Kept:
    """A run that reached something new. children: how often its schedule has been changed"""

    found: Found
    children: int = 0


class Corpus:
    """What was reached, how often, and the schedules that were the first to reach something."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self._kinds: set[str] = set()
        self._kept: list[_Kept] = []

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, found: Found) -> None:
        """Keep its schedule if any of what it reached is new and counts, unless it only breaks what broke before."""
        is_new = any(name not in self.times and worth(name) for name in found.reached)
        breaks_the_same = bool(found.kinds) and self._kinds.issuperset(found.kinds)
        self.times.update(found.reached)
        self._kinds.update(found.kinds)
        if is_new and not breaks_the_same:
            self._kept.append(_Kept(found))

    def chosen(self, rng: random.Random) -> Found:
        """The rarer its states and branches, and the nearer to a loss, the likelier; less likely with every change that
        was made of it."""
        (kept,) = rng.choices(self._kept, [self._weight(one) / (1 + one.children) for one in self._kept])
        kept.children += 1
        return kept.found

    def donor(self, rng: random.Random) -> Schedule:
        return rng.choice(self._kept).found.schedule

    def _weight(self, kept: _Kept) -> float:
        """What is near a loss counts in full, though all that is made of it reaches the same."""
        worths = [(worth(name), self.times[name]) for name in kept.found.reached]
        return sum(one if one > 1 else one / times for one, times in worths)


Play = Callable[[Sequence[SeedJob]], Generator[Found, None, None]]
"""The outcome of each job, in their order."""


def generations(jobs: Sequence[SeedJob], play: Play) -> Generator[Found, None, None]:
    """`play` of each job, or of a changed schedule in its place once the search has something to change."""
    corpus = Corpus()
    for first in range(0, len(jobs), GENERATION_RUNS):
        work = [_with_schedule(job, corpus) for job in jobs[first : first + GENERATION_RUNS]]
        with closing(play(work)) as outcomes:
            for found in outcomes:
                corpus.take(found)
                yield found


def _with_schedule(job: SeedJob, corpus: Corpus) -> SeedJob:
    rng = random.Random(f"{job.profile}/change/{job.seed}")
    if not len(corpus) or rng.random() < FRESH_SHARE:
        return job
    parent = corpus.chosen(rng)
    return job._replace(schedule=mutated(rng, parent.schedule, corpus.donor(rng), parent.turns))
