"""Ctrl-C at places that can bear it: Py4J loses its connection when an exception comes in the middle of a call, and
DuckDB's cannot be closed while a thread asks."""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Any, Self


class Interrupts:
    """Within the block SIGINT is only noted; `check` raises KeyboardInterrupt then. In other threads than the main one
    nothing changes."""

    def __init__(self) -> None:
        self.noted = False
        self._before: Any = None
        self._in_main_thread = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._in_main_thread:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._in_main_thread:
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """raises: KeyboardInterrupt"""
        if self.noted:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: object) -> None:
        self.noted = True
