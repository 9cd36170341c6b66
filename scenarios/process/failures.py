"""The failures of runs and of the processes that play them, and what this process lacks when it fails."""

from __future__ import annotations

import errno
import resource
from typing import NamedTuple

CAUSES_MAX = 20


class ProcessDied(Exception):
    """A process that played runs is gone, killed by others or by the kernel."""


class Lack(NamedTuple):
    """What ran out, with its limit, and what to do about it."""

    what: str
    fix: str


def lack_behind(failure: BaseException | None) -> Lack | None:
    """The memory or the descriptors whose lack made this fail; None: it failed for another reason.

    A library that cannot be mapped into memory is an ImportError.
    """
    for _ in range(CAUSES_MAX):  # What is raised in a nursery may be among its own causes.
        if failure is None:
            break
        failure = first_leaf(failure)
        code = failure.errno if isinstance(failure, OSError) else None
        if code in (errno.EMFILE, errno.ENFILE):
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            whose = (
                f"this process may have {limit:,} (ulimit -n)" if code == errno.EMFILE else "the whole system has none"
            )
            return Lack(f"too many open files: {whose}", "give it more: ulimit -n 4096")
        unmapped = isinstance(failure, ImportError) and ("failed to map" in str(failure) or "allocate" in str(failure))
        if code == errno.ENOMEM or isinstance(failure, MemoryError) or unmapped:
            limit, _ = resource.getrlimit(resource.RLIMIT_AS)
            bound = (
                "" if limit == resource.RLIM_INFINITY else f": this process may have {limit >> 20:,} MiB (ulimit -v)"
            )
            return Lack(
                f"memory ran out{bound}", "free some, or give it more; fewer brokers, records or --jobs need less"
            )
        failure = failure.__cause__ or failure.__context__
    return None


def first_leaf(failure: BaseException) -> BaseException:
    """The first failure; the tasks of a nursery report together, and the others only follow from it."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
