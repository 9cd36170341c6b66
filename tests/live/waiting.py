"""Waiting for what another process brings about."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], within_s: float = 30, *, pause_s: float = 0.02) -> None:
    """The limit only keeps a test that would never end from hanging."""
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, "it does not come about"
        time.sleep(pause_s)
