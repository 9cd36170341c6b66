"""The table of rules, as `highwater rules` shows it, is read off the rules and the bundled scenarios."""

from __future__ import annotations

import itertools

import pytest

from replica.rules import PROFILES, Rules
from scenarios.language.rules_table import RuleRow, rule_rows
from tests.catalogue import bundled_file, bundled_files


@pytest.fixture(scope="module")
def rows() -> list[RuleRow]:
    return rule_rows(bundled_files())


@pytest.mark.soak
def test_every_switch_has_its_row(rows: list[RuleRow]) -> None:
    assert [row.switch for row in rows] == list(Rules.switches())
    for row in rows:
        assert [row.periods[0].first.era, row.periods[-1].last.era] == [next(iter(PROFILES)), list(PROFILES)[-1]]


def test_no_rule_returns_to_an_older_value() -> None:
    for switch, (_, choices) in Rules.switches().items():
        order = choices or (False, True)
        values = [order.index(rules.value(switch)) for rules in PROFILES.values()]  # type: ignore[arg-type]
        assert all(earlier <= later for earlier, later in itertools.pairwise(values)), switch


@pytest.mark.soak
def test_a_contrast_differs_in_its_switch(rows: list[RuleRow]) -> None:
    for row in rows:
        for contrast in row.contrasts:
            file = bundled_file(contrast.scenario)
            old, new = (
                file.scenario if name == "as written" else file.variants[name] for name in (contrast.old, contrast.new)
            )
            assert old.rules.value(row.switch) != new.rules.value(row.switch)
