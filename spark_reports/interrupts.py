"""Delay Ctrl-C until code that can handle it.

Py4J loses its connection if an exception interrupts a call. A DuckDB connection cannot be closed while a thread uses
it.
"""

from __future__ import annotations

import signal
import threading
from typing import Any, Self


class Interrupts:
    """A context manager that records SIGINT without raising KeyboardInterrupt; call `check` to raise it.

    It has no effect outside the main thread.
    """

    def __init__(self) -> None:
        self.noted = False
        self._before: Any = None
        self._in_main_thread = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._in_main_thread:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._in_main_thread:
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Raise KeyboardInterrupt if SIGINT has arrived in the block."""
        if self.noted:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: object) -> None:
        self.noted = True
