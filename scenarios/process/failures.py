"""What runs, and the processes that play them, failed with."""

from __future__ import annotations


class ProcessDied(Exception):
    """A process that played runs is gone, killed by others or by the kernel."""


def first_leaf(failure: BaseException) -> BaseException:
    """What went wrong first; the tasks of a nursery report together, and the rest only followed from it."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
