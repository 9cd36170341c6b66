"""Any random fault schedule keeps the invariants, and with acks=all, min ISR 2 and idempotence the promises of Kafka.

A few here; `pytest -m soak tests/simulation` plays hundreds, as `.ci/run` does, and HIGHWATER_SOAK=2000 says how many.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from scenarios.search.findings import judge
from scenarios.search.schedules import Schedule, random_schedule

SOAK_SEEDS = int(os.environ.get("HIGHWATER_SOAK", "320"))
_RANDOMS = st.randoms(use_true_random=False, note_method_calls=False)

# Derandomized, so that every machine tries the same schedules; shrinking would take minutes, and the YAML says it all.
quick = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


def check(schedule: Schedule) -> None:
    """Fails with the file that replays it: `highwater run FILE`."""
    try:
        _, findings = judge(schedule)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n\n{schedule.text}") from error
    assert not findings, "\n".join([*(f"{one.kind}: {one.sentence}" for one in findings), "", schedule.text])


@quick
@given(_RANDOMS)
def test_faults_break_no_invariant(rng: random.Random) -> None:
    check(random_schedule(rng, safe=False))


@quick
@given(_RANDOMS)
def test_acks_all_and_two_in_sync_replicas_lose_nothing(rng: random.Random) -> None:
    check(random_schedule(rng, safe=True))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_SEEDS))
def test_soak(seed: int) -> None:
    check(random_schedule(random.Random(seed)))
