"""Processes that do not outlive the one that has started them, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

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
