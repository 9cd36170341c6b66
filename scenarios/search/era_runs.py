"""Runs the catalogue of scenarios under the rules of one era of Kafka.

A scenario that was written for the era is judged by its own expectations. Every other scenario must only keep the
promises of the era; whether it meets its expectations is counted separately.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from replica.rules import PROFILES
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.spec import Scenario
from scenarios.language.write import lock
from scenarios.run.cluster_under_test import NotPossibleNow
from scenarios.run.runner import run_scenario


@dataclass(frozen=True, slots=True)
class EraJob:
    """One run of a scenario in an era.

    Attributes:
        scenario: the scenario as the user named it.
        variant: id of a variant, None for the scenario as written.
        profile: the era, such as kafka-3.9.
    """

    scenario: str
    variant: str | None
    profile: str


def moved_to(scenario: Scenario, profile: str) -> Scenario:
    """Return the scenario with the rules of the era `profile`, except for rules that the scenario sets itself.

    Raises:
        ScenarioInvalid: the scenario needs a feature that the era lacks.
    """
    flipped = scenario.rules.unlike(PROFILES[scenario.profile])
    rules = PROFILES[profile].changed(flipped)
    if rules == scenario.rules:
        return scenario
    moved = replace(scenario, profile=profile, rules=rules)
    return load_text(lock.dump(moved), scenario.id).scenario


def play_in_era(job: EraJob) -> dict[str, Any]:
    """Run a scenario in an era. Return the run's summary with one of these values as `ending`.

    * `held`, `failed`: the scenario was written for the era, and its expectations were met or not.
    * `same`, `differs`: the scenario was written for another era, and its expectations were met or not.
    * `broken`: a promise of the era was broken, which is a bug in Highwater.
    * `not-applicable`: the scenario cannot run in this era, for the reason in `why`.
    """
    written = load_file(find_scenario(job.scenario))
    scenario = written.scenario if job.variant is None else written.variants[job.variant]
    written_for = scenario.profile
    not_played = {"scenario": scenario.id, "variant": job.variant, "written_for": written_for}
    try:
        moved = moved_to(scenario, job.profile)
        result = run_scenario(moved, runs_dir=None)
    except ScenarioInvalid as invalid:
        errors = [diagnostic.title for diagnostic in invalid.diagnostics if diagnostic.severity == "error"]
        return {**not_played, "ending": "not-applicable", "why": errors[0]}
    except NotPossibleNow as error:
        return {**not_played, "ending": "not-applicable", "why": str(error)}
    endings = ("held", "failed") if moved is scenario else ("same", "differs")
    ending = "broken" if result.broke_an_invariant else endings[not result.held]
    return {**result.summary, "written_for": written_for, "ending": ending}
