"""Waiting for what another process or thread brings about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(
    look: Callable[[], T], within_s: float = 30, *, holds: Callable[[T], object] = bool, pause_s: float = 0.02
) -> T:
    """What `look` sees once that holds. The limit only keeps a test that would never end from hanging."""
    until = time.monotonic() + within_s
    while not holds(found := look()):
        assert time.monotonic() < until, f"it does not come about; seen last: {found!r}"
        time.sleep(pause_s)
    return found
