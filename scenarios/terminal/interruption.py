"""Makes SIGTERM end a command like Ctrl-C, with the results so far and with an exit code of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType

# ----------------------------------------------------------------------------------------------------------- exit codes
#
# The exit codes of the `highwater` command, on which scripts rely.


class ExitCode(IntEnum):
    """The exit codes. Lost records are a failure only if the scenario's expectations or a flag say so."""

    HELD = 0
    EXPECTATION_FAILED = 1
    USAGE = 2
    INVALID_SCENARIO = 3
    OUR_BUG = 4
    UNDECIDED = 5
    MISSING = 6
    INTERRUPTED = 130
    TERMINATED = 143


class Interruption:
    """The exit code of an interrupted command, and the handler of SIGTERM that sets it."""

    exit_code = ExitCode.INTERRUPTED

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGTERM: set the exit code, and call the present handler of SIGINT, such as Trio's."""
        self.exit_code = ExitCode.TERMINATED
        handler = signal.getsignal(signal.SIGINT)
        assert callable(handler)
        handler(signal.SIGINT, frame)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Make SIGTERM have the effect of SIGINT within the block."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    with _handler_of_ctrl_c():
        before = signal.signal(signal.SIGTERM, interruption.terminate)
        try:
            yield interruption
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _handler_of_ctrl_c() -> Iterator[None]:
    """Install Python's handler of SIGINT if SIGINT is ignored, as in a shell's background process.

    Trio replaces only Python's own handler. Otherwise SIGTERM would raise KeyboardInterrupt inside Trio. SIGINT is
    blocked within the block, which has the same effect as ignoring it, also in child processes.
    """
    if callable(signal.getsignal(signal.SIGINT)):
        yield
        return
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN if before is None else before)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
