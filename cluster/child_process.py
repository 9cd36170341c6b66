"""Processes that do not outlive the one that has started them, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def dies_with_parent() -> Callable[[], None]:
    """For `preexec_fn`: SIGKILL to the child as soon as the thread that has started it is gone."""
    parent = os.getpid()

    def ask_for_signal() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # Gone before it was asked for.
            os.kill(os.getpid(), signal.SIGKILL)

    return ask_for_signal


@contextmanager
def held_interrupt() -> Iterator[None]:
    """Ctrl-C within the block takes effect at its end: what is started in it is known by then, and can be ended."""
    came: list[FrameType | None] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: came.append(frame))
    except ValueError:  # Not the main thread, which alone hears of it.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came and callable(before):
            before(signal.SIGINT, came[0])
