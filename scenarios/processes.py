"""Many runs on all cores, told in the order in which they were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_order(play: Callable[[Job], Result], work: Sequence[Job], processes: int) -> Iterator[Result]:
    """`play` of each job, in the order of `work`, however the processes take turns. With one process, or one job, in
    this one.
    """
    if processes == 1 or len(work) < 2:
        yield from map(play, work)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(play, work)
