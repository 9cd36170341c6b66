"""The missing rule that is to blame: found by a replay of the same run with a rule added."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.rules import PROFILES
from scenarios.check.promises import GAPS, gaps
from scenarios.explain.blame import (
    Blame,
    Suspects,
    additions,
    blame,
    blame_text,
    can_be_afforded,
    play_additions,
    suspects_of,
)
from scenarios.language.parse.catalogue import bundled
from scenarios.language.parse.loading import load_file
from scenarios.language.write import lock
from scenarios.run.runner import run_scenario
from tests.soak import one_row_in

V2_0 = PROFILES["kafka-2.0"]


def blames_of(scenario_id: str, variant: str | None = None) -> tuple[dict[str, list[str]], list[Blame]]:
    """By invariant, the settings that keep it alone."""
    file = load_file(Path(str(bundled()[scenario_id])))
    scenario = file.scenario if variant is None else file.variants[variant]
    suspects = suspects_of(run_scenario(scenario, runs_dir=None, keep_rows=True).rows, scenario.rules)
    changes = additions(suspects)
    found = blame(suspects, dict(play_additions(lock.dump(scenario), changes, 1)))
    return {one.invariant: [gap.remedy for gap in one.to_blame] for one in found}, found


@pytest.mark.soak
@pytest.mark.parametrize(
    ("scenario_id", "invariant", "rule"),
    one_row_in(
        3,
        [
            ("kip101-replica-divergence", "S6", "truncation=leader-epoch"),
            ("kip279-fast-failover-divergence", "S15", "truncation=leader-epoch-exact"),
            ("stale-fetch-across-epochs", "S5", "fetch-fencing=leader-epoch"),
        ],
    ),
)
def test_of_many_missing_rules_the_one_that_the_scenario_is_about_is_to_blame(
    scenario_id: str, invariant: str, rule: str
) -> None:
    to_blame, found = blames_of(scenario_id)
    assert to_blame[invariant] == [rule]
    assert all(one.innocent and one.together is None for one in found if one.invariant == invariant)


def test_every_gap_names_a_newer_value_that_closes_it() -> None:
    for gap in GAPS:
        switch, _, value = gap.remedy.partition("=")
        assert switch == gap.switch and not gap.concerns(V2_0.changed({switch: value}))


@pytest.mark.parametrize(
    ("together", "told"), [((), "all of them together keep it"), (("S6",), "not even by all of them together")]
)
def test_where_no_rule_alone_would_have_kept_it_that_is_said(together: tuple[str, ...], told: str) -> None:
    suspects = [Suspects("S6", gaps(V2_0, "S6"))]
    *alone, all_of_them = (change.settings for change in additions(suspects))
    (found,) = blame(suspects, {**dict.fromkeys(alone, ("S6",)), all_of_them: together})
    assert not found.to_blame and found.together is (together == ())
    assert told in blame_text([found], 1 + len(alone))


def test_a_rule_that_cannot_be_added_is_not_to_blame() -> None:
    suspects = [Suspects("S6", gaps(V2_0, "S6"))]
    found = blame(suspects, dict.fromkeys((change.settings for change in additions(suspects)), None))
    assert found[0].to_blame == () and found[0].together is False


def test_long_runs_are_played_again_only_when_asked_for() -> None:
    changes = additions([Suspects("S6", gaps(V2_0, "S6"))])
    assert can_be_afforded(10_000, changes) and not can_be_afforded(1_000_000, changes)
