"""How often a process looks for cycles of garbage."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """For a process that plays runs, where nobody waits: a run makes many small objects and few cycles, so looking for
    cycles less often is worth a tenth of its time.
    """
    gc.set_threshold(100_000, 20, 20)


def collect_in_short_pauses() -> None:
    """For a process that answers clients: every connection leaves cycles behind, and the requests of all clients wait
    while these are looked for, a hundredth of a second here. What there is now stays to the end, and is looked at no
    more. All that came since, a million objects where there are many partitions, is looked at once in ten million:
    what nearly every connection leaves behind is young.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 100)
