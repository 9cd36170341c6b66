"""Keeps Python processes from importing modules in the user's current directory or PYTHONPATH.

Python searches both before installed packages, so a user's `cluster.py` would be imported instead of Highwater's.
"""

from __future__ import annotations

import atexit
import gc
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HOME = str(Path(__file__).resolve().parents[2])
"""Directory that contains Highwater's packages: a checkout, or a directory of installed packages."""
_VARIABLES = ("PYTHONPATH", "PYTHONSAFEPATH")


def environment() -> dict[str, str]:
    """Return the environment variables for a Python process that imports only installed modules and Highwater.

    Source: docs.python.org, "Command line and environment", PYTHONSAFEPATH (3.11)
    """
    kept = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    return {**kept, **_own_variables()}


def _own_variables() -> Mapping[str, str]:
    """Return the variables to set, PYTHONPATH only if Highwater is not installed, since it shadows Python's modules."""
    path = {} if HOME in _installed() else {"PYTHONPATH": HOME}
    return {"PYTHONSAFEPATH": "1", **path}


def _installed() -> list[str]:
    return [_place(directory) for directory in (*site.getsitepackages(), site.getusersitepackages())]


@contextmanager
def as_environment() -> Iterator[None]:
    """Set the variables of `environment` in os.environ within the block, for libraries that start processes."""
    before = _clean_environment()
    try:
        yield
    finally:
        for name in _VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(before)


def _clean_environment() -> dict[str, str]:
    """Set the variables in os.environ. Return the previous values of those that existed."""
    before = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
    os.environ.update(_own_variables())
    return before


def import_only_what_is_installed() -> None:
    """Restrict later imports to installed modules and Highwater, in this process and in its children."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep) if not sys.flags.ignore_environment else []
    library = [sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED")]  # Python's own library
    kept = {HOME, *_installed(), *(_place(entry) for entry in library if entry)}
    foreign = {_place(entry) for entry in ("", *named)} - kept
    sys.path[:] = [entry for entry in sys.path if _place(entry) not in foreign]
    _clean_environment()


def _place(entry: str) -> str:
    """Return the real path of an entry of sys.path; "" is the current directory."""
    return os.path.realpath(entry)


# ------------------------------------------------------------------------------------------------------------ collector
#
# Settings of Python's garbage collector for each kind of process.


def collect_rarely() -> None:
    """Collect garbage rarely, in a process that runs scenarios and serves no clients.

    A run creates many small objects but few cycles, so this saves a tenth of its time.
    """
    gc.set_threshold(100_000, 20, 20)


def collect_nothing_at_exit() -> None:
    """Skip the garbage collections at the exit of this process, which take 0.2 s in a report."""
    atexit.register(gc.freeze)


def collect_in_short_pauses() -> None:
    """Collect garbage in pauses of about 0.01 s, in a process that serves clients, since they wait during a collection.

    Objects that exist now are never searched again. The oldest generation, which may have a million objects, is
    searched once in ten million allocations, because the cycles that a closed connection leaves behind are mostly
    young.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 100)
