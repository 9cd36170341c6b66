"""What a search covered: runs are numbered by their seeds, and every state and branch is of a known kind."""

from __future__ import annotations

import pytest

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario
from scenarios.search.coverage import Coverage
from scenarios.search.covered import BRANCH, IN_CONTEXT, OTHER, Covered, Reached, kind_of
from scenarios.search.document import Kept, document_of
from scenarios.search.findings import Finding
from scenarios.search.schedules import Schedule
from scenarios.search.search import Found, SeedJob, by_kind, schedule_of


def reaching(seed: int, *reached: str, findings: tuple[Finding, ...] = ()) -> Found:
    return Found(seed, findings, schedule_of(SeedJob(seed, "kafka-2.0", safe=False)), reached)


def covered(*runs: Found) -> Covered:
    found = Covered()
    for run in runs:
        found.take(run)
    return found


def test_runs_are_numbered_by_their_seeds_in_whatever_order_they_come() -> None:
    runs = [reaching(7, "a", "b"), reaching(3, "b"), reaching(9, "a", "c")]
    expected = [Reached("b", OTHER, 2, 1), Reached("a", OTHER, 2, 2), Reached("c", OTHER, 1, 3)]
    assert covered(*runs).reached() == covered(*reversed(runs)).reached() == expected


@pytest.mark.parametrize(
    "name",
    [
        "kip101-hw-truncation-loss",
        "acks1-leader-kill",
        "kafka-7128-early-join",
        "stale-fetch-across-epochs",
        "zk-version-stuck-isr",
    ],
)
def test_every_name_has_a_kind(name: str) -> None:
    watcher = Coverage()
    run_scenario(load_file(find_scenario(name)).scenario, runs_dir=None, watchers=(watcher,))
    kinds = {reached: kind_of(reached) for reached in watcher.reached}
    assert [reached for reached, kind in kinds.items() if kind == OTHER] == []
    assert {BRANCH, IN_CONTEXT, "changes of a replica's state", "leader epochs"} <= set(kinds.values())


def test_a_finding_has_its_smallest_schedule_and_its_runs() -> None:
    lost = Finding("lost", "r1 is gone", True)
    found = [reaching(8, findings=(lost,)), reaching(2, findings=(lost, Finding("S25 min-isr", "moved", False)))]
    kinds = by_kind(found)
    steps = Schedule({"timeline": [{"at": "40000ms", "heal": "all"}, {"at": "900ms", "kill": "b1", "as": "k"}]}, False)
    kept = {seed: Kept(f"found/{seed}.yaml", steps.text, True) for seed in (8, 2)}
    asked = {"era": "kafka-2.0", "mode": "blind", "safe": False, "seeds": "1..9", "asked": 9}
    document = document_of(asked, covered(*found, reaching(1)), found, kinds, kept)
    assert (document["played"], document["broke_something"]) == (3, 2)
    bug, by_design = document["findings"]
    assert (bug["kind"], bug["runs"], bug["first_seed"], bug["shown_seed"]) == ("lost", [2, 3], 2, 8)
    assert by_design["runs"] == [2] and bug["steps"] == [("0.900 s", "kill: b1, as: k"), ("40.000 s", "heal: all")]
