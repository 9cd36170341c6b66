"""Every safety rule is missed when it is gone: a mutant without it is caught by a scenario, a schedule or a test.

`CAUGHT.md` beside this file is the list with what caught each; `pytest --rewrite` writes it anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest
from mutant import Mutant
from mutants import MUTANTS
from mutate import OWN_SCENARIOS, Edit, Finding, changed_source, source_of

from replica.rules import Rules, Switch
from scenarios.language.parse.loading import load_file
from scenarios.language.rules_table import AS_WRITTEN, RuleRow, rule_rows
from scenarios.language.spec import Scenario
from scenarios.run.runner import run_scenario
from tests.catalogue import bundled_file, bundled_files
from tests.soak import ALL_EXAMPLES, one_in

LIST = Path(__file__).parent / "CAUGHT.md"
PLAYER = Path(__file__).parent / "mutate.py"


@cache
def rows_by_switch() -> dict[str, RuleRow]:
    """What shows each switch, by its name: the scenarios of all rows are loaded."""
    return {row.switch: row for row in rule_rows(bundled_files()) if row.contrasts}


WITH_ALL_RULES: tuple[Edit, ...] = ()


def play_apart(edits: tuple[Edit, ...], runs: list[str]) -> list[Finding]:
    """In a process of its own, where the changed modules are the only ones there are."""
    asked = json.dumps({"edits": [asdict(edit) for edit in edits], "runs": runs})
    environment = {**os.environ, ALL_EXAMPLES: "1"}
    command = [sys.executable, str(PLAYER), asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return [Finding(**found) for found in json.loads(done.stdout)]


def run_and_check(caught: str) -> tuple[str, str]:
    """`min-isr-1-trap: S1`, or a test, which is both."""
    if caught.startswith("test "):
        return caught, caught.rpartition("::")[2]
    run, _, check = caught.partition(": ")
    return run, check


NAMED = [run_and_check(caught) for mutant in MUTANTS for caught in mutant.caught_by]


@pytest.mark.soak
@pytest.mark.parametrize("mutant", one_in(6, MUTANTS, pytest.mark.night), ids=lambda mutant: mutant.name)
def test_the_missing_rule_is_noticed(mutant: Mutant) -> None:
    assert mutant.caught_by, "nothing is said to catch it"
    runs, checks = zip(*map(run_and_check, mutant.caught_by), strict=True)
    for found, check in zip(play_apart(mutant.edits, list(runs)), checks, strict=True):
        assert check in found.failed, f"{mutant.rule}: not noticed by {check} of {found}"


@pytest.mark.soak
def test_with_all_rules_each_of_these_checks_passes() -> None:
    runs = list(dict.fromkeys(run for run, _ in NAMED))
    found = play_apart(WITH_ALL_RULES, runs)
    assert [finding for finding in found if finding.failed or finding.crash] == []


@pytest.mark.soak
@pytest.mark.parametrize("path", sorted(OWN_SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_with_the_rule_all_is_well(path: Path) -> None:
    result = run_scenario(load_file(path).scenario, runs_dir=None)
    assert result.held, [expectation for expectation in result.expectations if not expectation.held]


def test_the_edits_fit_the_source_and_change_it() -> None:
    for mutant in MUTANTS:
        for edit in mutant.edits:
            source = source_of(edit.module)
            changed = changed_source(source, [edit])
            assert changed != source, mutant.name
            compile(changed, f"<{mutant.name}>", "exec")


def holds_with(scenario: Scenario, switch: str, value: Switch) -> bool:
    return run_scenario(replace(scenario, rules=scenario.rules.changed({switch: value})), runs_dir=None).held


@pytest.mark.parametrize("switch", one_in(48, Rules.switches()))
def test_a_rule_of_another_era_is_noticed(switch: str) -> None:
    """In a scenario that shows a switch, the other run's value of it alone does not meet the expectations."""
    row = rows_by_switch()[switch]
    for contrast in row.contrasts:
        file = bundled_file(contrast.scenario)
        runs = {AS_WRITTEN: file.scenario, **file.variants}
        old, new = runs[contrast.old], runs[contrast.new]
        if not holds_with(new, row.switch, old.rules.value(row.switch)):
            return
        if not holds_with(old, row.switch, new.rules.value(row.switch)):
            return
    pytest.fail(f"no scenario shows {row.switch}: {', '.join(contrast.text for contrast in row.contrasts)}")


def test_every_switch_is_shown() -> None:
    assert list(rows_by_switch()) == list(Rules.switches())


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25


def test_the_list_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite"):
        LIST.write_text(as_markdown(), encoding="utf-8")
    assert LIST.read_text(encoding="utf-8") == as_markdown(), "pytest --rewrite writes it anew"


def as_markdown() -> str:
    lines = [
        "# Rules that cannot go missing",
        "",
        "Each rule was taken out of the source, and the checks named here failed: an invariant (S1), an expectation of",
        "a scenario, or a test. With the rule they pass.",
        "",
        "| mutant | the rule it lacks | caught by |",
        "|---|---|---|",
    ]
    for mutant in MUTANTS:
        lines.append(f"| {mutant.name} | {mutant.rule} | {'<br>'.join(mutant.caught_by)} |")
    return "\n".join([*lines, ""])
