"""Shows on stderr the progress of work that takes longer than half a second."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from scenarios.terminal.safe_output import OutputFailed

QUIET_S = 0.5
REFRESH_S = 0.1
ESTIMATE_FROM_S = 5.0
"""Seconds before the first estimate. Earlier estimates would be unreliable."""

REPEAT_S = 10.0
"""Longest time in seconds between two lines if stderr is not a terminal."""

COLUMNS_MAX = 120


def _room() -> int:
    """Return the largest width of a redrawn line. A longer line would wrap and could not be erased."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        columns = 0
    return min(columns or COLUMNS_MAX, COLUMNS_MAX) - 1


class ProgressLine:
    """A line on stderr with the progress of some work and the estimated time left.

    On a terminal the line is redrawn at least twice a second. Otherwise a new line is printed for every tenth of the
    work, and at least every REPEAT_S.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._began_s = time.monotonic()
        self._drawn_s = self._began_s
        self._tenths = 0
        self._shown = False
        self._present: tuple[float, str] | None = None
        self._terminal = sys.stderr.isatty()
        self._lock = threading.Lock()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._redraw, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        with self._lock, suppress(OSError, OutputFailed):  # The terminal may be gone.
            if self._shown and self._terminal:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    def note(self, text: str) -> None:
        """Print a permanent line of text above the redrawn line."""
        with self.aside():
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Erase the redrawn line, and do not draw it within the block, which may print to the same terminal."""
        with self._lock:
            if self._shown and self._terminal:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
            yield

    def show(self, fraction: float, detail: str = "") -> None:
        """Show the progress.

        Args:
            fraction: share of the work that is done, 0 to 1.
            detail: text after the label.
        """
        with self._lock:
            self._present = (fraction, detail)
            now_s = time.monotonic()
            if now_s - self._began_s < QUIET_S:
                return
            if self._terminal:
                if now_s - self._drawn_s >= REFRESH_S:
                    self._draw(now_s)
            elif int(fraction * 10) > self._tenths:
                self._tenths = int(fraction * 10)
                self._print(now_s, self._tenths * 10)

    def _redraw(self) -> None:
        while not self._over.wait(QUIET_S):
            with self._lock:
                if self._present is None or self._over.is_set():
                    continue
                now_s = time.monotonic()
                if self._terminal:
                    self._draw(now_s)
                elif now_s - self._drawn_s >= REPEAT_S:
                    self._print(now_s, int(self._present[0] * 100))

    def _print(self, now_s: float, percent: int) -> None:
        """Print a line on a stderr that is not a terminal. The caller must hold the lock."""
        assert self._present is not None
        self._drawn_s = now_s
        sys.stderr.write(f"{self._label}: {percent} % {self._present[1]}{self._time_left(now_s)}\n")
        sys.stderr.flush()

    def _time_left(self, now_s: float) -> str:
        """Return the estimated time left as text, "" if there is no estimate yet."""
        assert self._present is not None
        fraction = self._present[0]
        taken_s = now_s - self._began_s
        if not 0.01 <= fraction < 1 or taken_s < ESTIMATE_FROM_S:
            return ""
        left_s = round(taken_s * (1 - fraction) / fraction)
        return f", about {f'{left_s} s' if left_s < 120 else f'{left_s // 60} min'} left"

    def _draw(self, now_s: float) -> None:
        """Redraw the line on a terminal. The caller must hold the lock."""
        assert self._present is not None
        fraction, detail = self._present
        self._drawn_s = now_s
        self._shown = True
        filled = round(max(0.0, min(fraction, 1.0)) * 20)
        bar = "█" * filled + "·" * (20 - filled)
        line = f"  {now_s - self._began_s:5.1f} s {bar} {self._label} {detail}{self._time_left(now_s)}"
        sys.stderr.write(f"\r\x1b[K{line[: _room()]}")
        sys.stderr.flush()


class WaitingLine:
    """A line on stderr that shows what the command waits for, and for how long. The progress cannot be measured.

    On a terminal the line is redrawn twice a second. Otherwise a new line is printed for each wait and every REPEAT_S.
    Nothing is drawn after `end`, which may be called from any thread and more than once.
    """

    def __init__(self, what: str) -> None:
        """Show the line at once. `what` is a sentence such as `starting Spark`."""
        self._began_s = time.monotonic()
        self._for = what
        self._printed_s = -REPEAT_S
        self._drawn = False
        self._terminal = sys.stderr.isatty()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.wait_for(what)
        threading.Thread(target=self._redraw, daemon=True).start()

    def wait_for(self, what: str) -> None:
        with self._lock:
            self._for = what
            self._printed_s = -REPEAT_S
        self._draw()

    def end(self) -> None:
        with self._lock:
            if self._drawn and not self._over.is_set():
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
            self._over.set()

    def _redraw(self) -> None:
        while not self._over.wait(QUIET_S):
            self._draw()

    def _draw(self) -> None:
        with self._lock:
            if self._over.is_set():
                return
            taken_s = time.monotonic() - self._began_s
            line = f"  {taken_s:5.1f} s  {self._for}"
            if self._terminal:
                self._drawn = True
                sys.stderr.write(f"\r\x1b[K{line[: _room()]}")
                sys.stderr.flush()
            elif taken_s - self._printed_s >= REPEAT_S:
                self._printed_s = taken_s
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()
