"""What one record costs as a cluster or a run grows, each axis by itself: partitions, brokers, records.

Calls are counted as in counts.py, so they are alike on every machine; processor time is of the same runs without the
profiler. Along partitions and brokers both are what the longer of two runs has more, for each record that it has more:
without a run's start and end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from scenarios.bench.steady import steady
from scenarios.language.spec import Scenario
from scenarios.run.runner import ScenarioRun
from scenarios.run.worlds import simulated
from tests.bench.counts import OWN_CALLS, RECORDS, play_counted

PARTITIONS = (1, 10, 100, 1000)
BROKERS = (3, 10, 30)
PARTITIONS_ON_BROKERS = 6
RECORD_COUNTS = (1_000, 10_000, 100_000)
RATE = 100
SHORT_S, LONG_S = 3, 6


class Growth(NamedTuple):
    """One row: what a record costs at one size of an axis.

    calls: of own functions, None where they were not counted     cpu_us: processor time in microseconds
    """

    axis: str
    size: int
    calls: float | None
    cpu_us: float


def measure_growth(progress: Callable[[float], None]) -> Iterator[Growth]:
    _cpu(steady(2, RATE))  # What the first run of a process loads is no part of a record's price.
    rows = [
        *(partial(_grown, "partitions", count, 3, count) for count in PARTITIONS),
        *(partial(_grown, "brokers", PARTITIONS_ON_BROKERS, count, count) for count in BROKERS),
        *(partial(_long, count) for count in RECORD_COUNTS),
    ]
    for done, row in enumerate(rows):
        progress(done / len(rows))
        yield row()


def _grown(axis: str, partitions: int, brokers: int, size: int) -> Growth:
    short, long = (steady(seconds, RATE, partitions=partitions, brokers=brokers) for seconds in (SHORT_S, LONG_S))
    (short_s, before), (long_s, after) = _cpu(short), _cpu(long)
    counted_before, counted = play_counted(short), play_counted(long)
    calls = (counted[OWN_CALLS] - counted_before[OWN_CALLS]) / (counted[RECORDS] - counted_before[RECORDS])
    return Growth(axis, size, calls, (long_s - short_s) / (after - before) * 1e6)


def _long(count: int) -> Growth:
    cpu_s, records = _cpu(steady(count // RATE, RATE))
    return Growth("records", count, None, cpu_s / records * 1e6)


def _cpu(scenario: Scenario) -> tuple[float, int]:
    """Processor seconds of a run, and its acked records."""
    with TemporaryDirectory(prefix="highwater-") as folder:
        run = ScenarioRun(scenario, simulated, Path(folder))
        began_s = time.process_time()
        run.execute()
        return time.process_time() - began_s, sum(entry.acked for entry in run.ledger)
