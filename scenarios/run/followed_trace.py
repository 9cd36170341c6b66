"""Cuts a live run's trace into parts by time, so that a reader can follow the run.

A reader can open only complete parts, and a quiet cluster may need hours to fill one. Cutting by time all the time
would leave thousands of small files. So a reader marks the trace's folder, and frequent cuts are made only while the
mark is fresh. Simulated runs are not cut by time, because their parts must depend on events alone.
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
"""The largest share of a run's time whose events are lost if the run is killed."""


def mark(trace_dir: Path) -> None:
    """Mark the trace as being read, or renew the mark, which expires after FRESH_S. Raises OSError."""
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
    """Cut a live run's trace into parts by time until cancelled. Raises OSError.

    Without a reader, the time between cuts is UNWRITTEN_SHARE of the run's length, so there are few parts.
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
