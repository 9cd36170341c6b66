"""How often a process that plays runs looks for cycles of garbage."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """A run makes many small objects and few cycles: looking for cycles less often is worth a tenth of its time."""
    gc.set_threshold(100_000, 20, 20)
