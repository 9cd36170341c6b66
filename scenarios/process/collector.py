"""How often a process looks for cycles of garbage."""

from __future__ import annotations

import atexit
import gc


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
