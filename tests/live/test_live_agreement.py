"""Live and simulated runs agree: the same verdict, and the same records lost and stored twice, times aside."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from scenarios.language.parse.catalogue import bundled
from scenarios.language.parse.loading import load_file
from scenarios.language.spec import Scenario
from scenarios.run.runner import run_scenario
from scenarios.run.worlds import NewWorld, live, processes, simulated

AT_ONCE = 12
"""They mostly wait."""
NOT_COMPARED = {
    "luck-or-law": "which records die is drawn from the seed, with the delays of a simulated network",
    "shutting-down-follower-rejoins-any": "the ISR grows back within the one millisecond that a simulated answer takes",
}
"""By run name, or by scenario for all its variants: outcomes that depend on less time than a live run can promise."""


LESSONS_PLAYED = (1, 2, 3, 4, 7, 8)
"""Acks, retries, the ISR, operators and controllers."""


def lessons() -> list[Scenario]:
    files = [load_file(path) for path in bundled().values()]
    chosen = [one for file in files if file.scenario.lesson in LESSONS_PLAYED for one in file.all]
    return [one for one in chosen if one.id not in NOT_COMPARED and one.run_name not in NOT_COMPARED]


def outcome(scenario: Scenario, world: NewWorld) -> dict[str, Any]:
    summary = run_scenario(scenario, runs_dir=None, world=world).summary
    assert not summary["our_bug"], (scenario.run_name, summary["anomalies"])
    records = summary["records"]
    return {"verdict": summary["verdict"], "lost": records["lost"], "duplicated": records["duplicated"]}


@pytest.mark.night
@pytest.mark.live
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("world", [live, processes], ids=["one process", "a process each"])
def test_the_first_two_lessons_end_live_as_they_end_in_virtual_time(world: NewWorld) -> None:
    chosen = lessons()
    assert len(chosen) > 80
    # The longest first, so that none is left to wait for alone.
    chosen.sort(key=lambda scenario: -scenario.duration_us)
    expected = [outcome(scenario, simulated) for scenario in chosen]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = list(threads.map(lambda scenario: outcome(scenario, world), chosen))
    wrong = [
        (scenario.run_name, one, other)
        for scenario, one, other in zip(chosen, expected, found, strict=True)
        if one != other
    ]
    assert wrong == []
