"""SIGTERM ends a command as Ctrl-C does: it keeps and reports its results, and its exit code names the signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from scenarios.terminal.exit_codes import ExitCode


class Interruption:
    """How a command that was interrupted has to end."""

    exit_code = ExitCode.INTERRUPTED

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """Acts as Ctrl-C would at this moment: Trio, or a query on Spark, may have put off what that does."""
        self.exit_code = ExitCode.TERMINATED
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # A shell has started it in the background, where Ctrl-C means nothing.
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Within the block SIGTERM does what SIGINT does."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = signal.signal(signal.SIGTERM, interruption.terminate)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGTERM, before)
