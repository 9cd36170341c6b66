"""Child processes that do not outlive their parent, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that started it has ended."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def dies_with_parent() -> Callable[[], None]:
    """Return a `preexec_fn` that lets the kernel kill the child when the thread that started it has ended."""
    parent = os.getpid()

    def ask_for_signal() -> None:
        die_with_parent()
        if os.getppid() != parent:  # The parent ended before prctl was called.
            os.kill(os.getpid(), signal.SIGKILL)

    return ask_for_signal


@contextmanager
def held_interrupt() -> Iterator[None]:
    """Delay Ctrl-C until the end of the `with` block, so that everything started in it is known and can be stopped."""
    came: list[FrameType | None] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: came.append(frame))
    except ValueError:  # Only the main thread receives SIGINT.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came and callable(before):
            before(signal.SIGINT, came[0])
