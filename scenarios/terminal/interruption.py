"""SIGTERM ends a command as Ctrl-C does: it keeps and reports its results, and its exit code names the signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType

# ----------------------------------------------------------------------------------------------------------- exit codes
#
# The exit codes of the `highwater` command: its contract with scripts.


class ExitCode(IntEnum):
    """Losing records is a result, not a failure, unless the scenario or a flag says so."""

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
    """How a command that was interrupted has to end."""

    exit_code = ExitCode.INTERRUPTED

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """Acts as Ctrl-C would at this moment: Trio, or a query on Spark, may have put off what that does."""
        self.exit_code = ExitCode.TERMINATED
        handler = signal.getsignal(signal.SIGINT)
        assert callable(handler)
        handler(signal.SIGINT, frame)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Within the block SIGTERM does what SIGINT does."""
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
    """Python's, even where a shell has started the process in the background, with SIGINT ignored.

    Trio puts its own in the place of Python's handler, and of nothing else: without it SIGTERM would raise
    KeyboardInterrupt in the middle of Trio. A blocked SIGINT means as little as an ignored one, here and in processes
    that are started from here.
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
