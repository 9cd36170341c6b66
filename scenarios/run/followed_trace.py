"""A trace that is read while it is written: a reader announces itself, and parts are then cut by time as well.

A part is not readable before it is whole, and a quiet cluster fills none for hours. Cutting them by time all along
would leave thousands of small files, so it is done only while a mark in the trace's folder is fresh, and in live runs
only: the parts of a simulated run depend on its events alone.
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
"""of a run's time, whose events a kill may take"""


def mark(trace_dir: Path) -> None:
    """Mark the trace as being read; to be repeated within FRESH_S. raises: OSError"""
    (trace_dir / MARK).touch()


def unmark(trace_dir: Path) -> None:
    """raises: OSError"""
    (trace_dir / MARK).unlink(missing_ok=True)


def is_followed(trace_dir: Path) -> bool:
    try:
        age_s = time.time() - (trace_dir / MARK).stat().st_mtime
    except OSError:
        return False
    return abs(age_s) < FRESH_S


async def cut_parts_while_followed(writer: TraceWriter) -> None:
    """Never ends; to be run beside a live cluster. raises: OSError

    Without a reader the pauses grow with the run: a kill takes a small share of it, and its parts are few.
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
