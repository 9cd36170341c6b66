"""Python processes that this program starts: they import nothing from where its user happens to be.

Python itself looks for modules in the current directory (`-c`, `-m`) and in PYTHONPATH before it looks at what is
installed: a `cluster.py` of the user's would be taken for ours, and run.
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
"""Where our packages lie: a checkout, or a directory of installed packages."""
_VARIABLES = ("PYTHONPATH", "PYTHONSAFEPATH")


def environment() -> dict[str, str]:
    """os.environ for such a process. source: docs.python.org, "Command line and environment", PYTHONSAFEPATH (3.11)"""
    kept = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    return {**kept, **_ours()}


def _ours() -> Mapping[str, str]:
    """An installed package is found without help; ahead of Python's own modules its directory would be a risk."""
    path = {} if HOME in _installed() else {"PYTHONPATH": HOME}
    return {"PYTHONSAFEPATH": "1", **path}


def _installed() -> list[str]:
    return [_place(directory) for directory in (*site.getsitepackages(), site.getusersitepackages())]


@contextmanager
def as_environment() -> Iterator[None]:
    """For libraries that start processes themselves, and offer no choice of their environment."""
    before = _clean_environment()
    try:
        yield
    finally:
        for name in _VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(before)


def _clean_environment() -> dict[str, str]:
    """returns: the previous value"""
    before = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
    os.environ.update(_ours())
    return before


def import_only_what_is_installed() -> None:
    """From here on, in this process and in all that it starts."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep) if not sys.flags.ignore_environment else []
    library = [sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED")]  # Python's own
    kept = {HOME, *_installed(), *(_place(entry) for entry in library if entry)}
    foreign = {_place(entry) for entry in ("", *named)} - kept
    sys.path[:] = [entry for entry in sys.path if _place(entry) not in foreign]
    _clean_environment()


def _place(entry: str) -> str:
    """ "" is the current directory."""
    return os.path.realpath(entry)


# ------------------------------------------------------------------------------------------------------------ collector
#
# How often a process looks for cycles of garbage.


def collect_rarely() -> None:
    """For a process that plays runs and answers no clients: a run makes many small objects and few cycles, so a less
    frequent search for cycles saves a tenth of its time.
    """
    gc.set_threshold(100_000, 20, 20)


def collect_nothing_at_exit() -> None:
    """At its end Python searches all modules for cycles, several times, though the memory goes with the process: a
    report ends a fifth of a second sooner without.
    """
    atexit.register(gc.freeze)


def collect_in_short_pauses() -> None:
    """For a process that answers clients: every connection leaves cycles behind, and the requests of all clients wait
    during the search for them, a hundredth of a second here. Objects that exist now stay to the end, and later searches
    skip them. All newer objects, a million where there are many partitions, are searched once in ten million: the
    garbage of nearly every connection is young.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 100)
