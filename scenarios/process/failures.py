"""Finds out whether an exhausted or damaged resource has caused the failure of a run or of a worker process."""

from __future__ import annotations

import errno
import resource
from traceback import walk_tb
from typing import NamedTuple

CAUSES_MAX = 20


class ProcessDied(Exception):
    """Raised if a worker process has died, for example because the kernel killed it."""


class Lack(NamedTuple):
    """An exhausted resource or a damaged file (`what`) and a remedy (`fix`)."""

    what: str
    fix: str


def lack_behind(failure: BaseException | None) -> Lack | None:
    """Return the lack of memory or file descriptors, or the damaged bytecode file, that caused a failure; else None."""
    for _ in range(CAUSES_MAX):  # An exception raised in a nursery may be among its own causes.
        if failure is None:
            break
        failure = first_leaf(failure)
        code = failure.errno if isinstance(failure, OSError) else None
        if code in (errno.EMFILE, errno.ENFILE):
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            whose = (
                f"this process may open {limit:,} (ulimit -n)"
                if code == errno.EMFILE
                else "the whole system has reached its limit"
            )
            return Lack(f"too many open files; {whose}", "raise the limit: ulimit -n 4096")
        # Without memory, importing a shared library raises an ImportError.
        unmapped = isinstance(failure, ImportError) and ("failed to map" in str(failure) or "allocate" in str(failure))
        if code == errno.ENOMEM or isinstance(failure, MemoryError) or unmapped:
            limit, _ = resource.getrlimit(resource.RLIMIT_AS)
            bound = "" if limit == resource.RLIM_INFINITY else f"; this process may use {limit >> 20:,} MiB (ulimit -v)"
            return Lack(
                f"memory ran out{bound}", "free some memory, raise the limit, or use fewer brokers, records or --jobs"
            )
        for frame, _ in walk_tb(failure.__traceback__):
            if frame.f_code.co_name == "_compile_bytecode":  # importlib reads a file that Python has compiled.
                path = frame.f_locals["bytecode_path"]
                return Lack(f"{path} is damaged: {failure}", "delete this file; Python writes it again")
        failure = failure.__cause__ or failure.__context__
    return None


def first_leaf(failure: BaseException) -> BaseException:
    """Return the first exception in a group, at any depth. In a nursery the others are its consequences."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
