"""The failures of runs and of the processes that play them."""

from __future__ import annotations


class ProcessDied(Exception):
    """A process that played runs is gone, killed by others or by the kernel."""


def first_leaf(failure: BaseException) -> BaseException:
    """The first failure; the tasks of a nursery report together, and the others only follow from it."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
