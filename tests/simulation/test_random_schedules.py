"""Any random fault schedule keeps the invariants, and with acks=all, min ISR 2 and idempotence the promises of Kafka.

A few here, forty in the soak (`.ci/run` searches a hundred more), and in the night hundreds: HIGHWATER_SOAK=2000 says
how many.
"""

from __future__ import annotations

import os
import random

import pytest

from scenarios.check.promises import UNPROMISED
from scenarios.search.findings import judge
from scenarios.search.schedules import random_schedule

SEEDS = int(os.environ.get("HIGHWATER_SOAK", "320"))
SOAK_SEEDS = 40
QUICK_SEEDS = 4
"""Two of them are of safe schedules."""


@pytest.mark.parametrize(
    "seed",
    [
        *range(QUICK_SEEDS),
        *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(QUICK_SEEDS, SOAK_SEEDS)),
        *(pytest.param(seed, marks=pytest.mark.night) for seed in range(SOAK_SEEDS, SEEDS)),
    ],
)
def test_it_breaks_nothing(seed: int) -> None:
    """A failure shows the file that replays it: `highwater run FILE`. What no Kafka keeps is no failure."""
    schedule = random_schedule(random.Random(seed))
    try:
        _, found = judge(schedule)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n\n{schedule.text}") from error
    findings = [one for one in found if one.kind not in UNPROMISED]
    assert not findings, "\n".join([*(f"{one.kind}: {one.sentence}" for one in findings), "", schedule.text])


def test_the_quick_ones_are_of_both_kinds() -> None:
    assert [random_schedule(random.Random(seed)).safe for seed in range(QUICK_SEEDS)] == [False, True, False, True]
