"""Child processes in Python that import nothing from the user's current directory.

Python searches the current directory (`-c`, `-m`) and PYTHONPATH before installed packages, so that a user's
`cluster.py` would be imported instead of Highwater's.
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
"""Directory of Highwater's packages: a checkout, or a directory of installed packages."""
_VARIABLES = ("PYTHONPATH", "PYTHONSAFEPATH")


def environment() -> dict[str, str]:
    """Return os.environ for a Python process that imports only from its own installation.

    Source: docs.python.org, "Command line and environment", PYTHONSAFEPATH (3.11)
    """
    kept = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    return {**kept, **_ours()}


def _ours() -> Mapping[str, str]:
    """Return the variables to add; no PYTHONPATH if Highwater is installed, since it would shadow Python's modules."""
    path = {} if HOME in _installed() else {"PYTHONPATH": HOME}
    return {"PYTHONSAFEPATH": "1", **path}


def _installed() -> list[str]:
    return [_place(directory) for directory in (*site.getsitepackages(), site.getusersitepackages())]


@contextmanager
def as_environment() -> Iterator[None]:
    """Set the variables of `environment` in the block, for libraries that cannot give a process its own environment."""
    before = _clean_environment()
    try:
        yield
    finally:
        for name in _VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(before)


def _clean_environment() -> dict[str, str]:
    """Set the variables in os.environ, and return their previous values."""
    before = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
    os.environ.update(_ours())
    return before


def import_only_what_is_installed() -> None:
    """Restrict imports to installed modules from now on, in this process and in its children."""
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
# How often a process runs Python's garbage collector.


def collect_rarely() -> None:
    """Collect garbage rarely, in a process that plays runs and answers no clients.

    A run creates many small objects and few cycles, so this saves a tenth of its time.
    """
    gc.set_threshold(100_000, 20, 20)


def collect_nothing_at_exit() -> None:
    """Collect no garbage when the process ends.

    Python would search all modules for cycles several times; without that, a report ends a fifth of a second sooner.
    """
    atexit.register(gc.freeze)


def collect_in_short_pauses() -> None:
    """Collect garbage in short pauses, in a process that answers clients.

    Every connection leaves cycles behind, and all clients wait during a collection, here a hundredth of a second.
    Objects that exist now are never searched again. The oldest generation, a million objects with many partitions, is
    searched once in ten million allocations, since the garbage of nearly every connection is young.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 100)
