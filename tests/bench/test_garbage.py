"""What a run leaves to Python's search for cycles: counted in objects, not in seconds."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from scenarios.bench.steady import steady
from scenarios.run.runner import ScenarioRun
from scenarios.run.worlds import simulated

RECORDS_PER_S = 100
FETCHES_PER_RECORD = 3


def garbage_of(seconds: int, folder: Path) -> int:
    """Objects that nothing refers to any more, and that were not freed when the last reference went."""
    run = ScenarioRun(steady(seconds, RECORDS_PER_S), simulated, folder)
    gc.collect()
    gc.disable()
    try:
        run.execute()
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.soak
def test_a_fetch_that_was_answered_leaves_no_garbage_behind(tmp_path: Path) -> None:
    """One that had waited was a cycle of 27 objects: to search them took a twelfth of a run's time."""
    garbage_of(2, tmp_path / "first")  # What is loaded by the first run of a process leaves garbage of its own.
    more = garbage_of(3, tmp_path / "long") - garbage_of(2, tmp_path / "short")
    assert more < FETCHES_PER_RECORD * RECORDS_PER_S, "less than an object for each fetch"
