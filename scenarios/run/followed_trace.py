"""Cuts a trace into parts while it is written, so that a reader can follow it.

A part can be read only when it is complete, and a quiet cluster may need hours to fill one. If all parts were cut by
time, there would be thousands of small files. So parts are cut by time only while a fresh mark of a reader is in the
trace's folder, and only in live runs, because the parts of a simulated run must depend on its events alone.
"""

from __future__ import annotations

import time
from pathlib import Path

import trio

from scenarios.observe.trace_writer import TraceWriter

MARK = ".followed"
FRESH_S = 10.0
PAUSE_S = 1.0
UNWRITTEN_SHARE = 0.05
"""The share of a run's time whose events may be lost if the run is killed."""


def mark(trace_dir: Path) -> None:
    """Mark the trace as being read. The mark expires after FRESH_S if it is not renewed. Raises OSError."""
    (trace_dir / MARK).touch()


def unmark(trace_dir: Path) -> None:
    """Remove the mark. Raises OSError."""
    (trace_dir / MARK).unlink(missing_ok=True)


def is_followed(trace_dir: Path) -> bool:
    try:
        age_s = time.time() - (trace_dir / MARK).stat().st_mtime
    except OSError:
        return False
    return abs(age_s) < FRESH_S


async def cut_parts_while_followed(writer: TraceWriter) -> None:
    """Cut the parts of a live run's trace by time, until cancelled. Raises OSError.

    Without a reader the pauses grow with the run, so a kill loses a small share of the events and there are few parts.
    """
    began = cut = trio.current_time()
    try:
        while True:
            await trio.sleep(PAUSE_S)
            now = trio.current_time()
            if is_followed(writer.trace_dir) or now - cut > (now - began) * UNWRITTEN_SHARE:
                for _ in writer.parts_one_by_one():
                    await trio.lowlevel.checkpoint()
                cut = now
    finally:
        unmark(writer.trace_dir)
