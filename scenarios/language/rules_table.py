"""The table of rules: the value of each rule by era, and the scenarios that show the difference.

A rule is a switch of `replica.rules`. A bundled scenario shows a rule if two of its runs (the file itself or variants)
have different values of the switch. Pairs of runs that differ in no other switch come first, because there the rule
alone makes the difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from replica.rules import PROFILES, KafkaRelease, Rules, spelled
from scenarios.language.spec import Scenario, ScenarioFile

SHOWN_AT_MOST = 3
AS_WRITTEN = "as written"


@dataclass(frozen=True, slots=True)
class Period:
    """A value of a switch, with the first and the last era (by release) that have the value."""

    value: str
    first: KafkaRelease
    last: KafkaRelease

    @property
    def text(self) -> str:
        releases = [rules.release for rules in PROFILES.values()]
        if self.last >= releases[-1]:
            return f"{self.value} from {self.first}" if self.first > releases[0] else f"{self.value} always"
        return f"{self.value} {self.first}" + (f" to {self.last}" if self.last > self.first else "")


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two runs of one scenario that have different values of a switch.

    Attributes:
        old: name of the run with the older value.
        new: name of the run with the newer value.
        values: old and new value of the switch.
        others: number of other switches in which the two runs differ.
        same_verdict: whether both runs expect the same verdict.
    """

    scenario: str
    old: str
    new: str
    values: tuple[str, str]
    others: int
    same_verdict: bool

    @property
    def text(self) -> str:
        return f"{self.scenario}: {self.old} / {self.new}{self.alone}"

    @property
    def alone(self) -> str:
        """Return a note such as ` (with 2 other rules)` if the runs differ in other switches; empty if not."""
        rules = "rule" if self.others == 1 else "rules"
        return f" (with {self.others} other {rules})" if self.others else ""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One row of the table: a switch, its values by era, and the scenarios that show it.

    Attributes:
        since: the change to Kafka that introduced the switch.
        in_no_profile: values of the switch that no era has.
    """

    switch: str
    since: str
    periods: tuple[Period, ...]
    in_no_profile: tuple[str, ...]
    contrasts: tuple[Contrast, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "rule": self.switch,
            "changed_by": self.since,
            "eras": [
                {"value": period.value, "first": period.first.era, "last": period.last.era} for period in self.periods
            ],
            "in_no_profile": list(self.in_no_profile),
            "shown_by": [
                {"scenario": contrast.scenario, "old": contrast.old, "new": contrast.new} for contrast in self.contrasts
            ],
        }


def rule_rows(files: Iterable[ScenarioFile]) -> list[RuleRow]:
    """Return one row for each switch, in the order of `Rules`."""
    found = list(files)
    rows = []
    for switch, (_, choices) in Rules.switches().items():
        periods = tuple(_periods(switch))
        used = {period.value for period in periods}
        values = choices or ("false", "true")
        contrasts = sorted(
            _contrasts(found, switch, values),
            key=lambda contrast: (contrast.others, contrast.same_verdict, contrast.scenario, contrast.old),
        )
        rows.append(
            RuleRow(
                switch,
                Rules.since(switch),
                periods,
                tuple(value for value in values if value not in used),
                tuple(_most_telling(contrasts)),
            )
        )
    return rows


def _most_telling(contrasts: list[Contrast]) -> list[Contrast]:
    """Return the contrasts to show, at most SHOWN_AT_MOST.

    The best contrast of each pair of values comes first. Contrasts that differ in other switches as well are used only
    if there are no others.

    Args:
        contrasts: all contrasts of a switch, best first.
    """
    alone = [contrast for contrast in contrasts if not contrast.others] or contrasts
    firsts: dict[tuple[str, str], Contrast] = {}
    for contrast in alone:
        firsts.setdefault(contrast.values, contrast)
    chosen = list(firsts.values())[:SHOWN_AT_MOST]
    return (chosen + [item for item in alone if item not in chosen])[:SHOWN_AT_MOST]


def _periods(switch: str) -> Iterator[Period]:
    for value, group in itertools.groupby(PROFILES.values(), key=lambda rules: spelled(rules.value(switch))):
        releases = [rules.release for rules in group]
        yield Period(value, releases[0], releases[-1])


def _contrasts(files: Iterable[ScenarioFile], switch: str, values: tuple[str, ...]) -> Iterator[Contrast]:
    """Yield at most one contrast for each file and pair of values of the switch.

    If several pairs of runs have these values, take the pair with the fewest differences in other switches, then in
    parts such as `topics`.
    """
    for file in files:
        best: dict[tuple[str, str], tuple[tuple[int, int], Contrast]] = {}
        for item, other in itertools.combinations(file.all, 2):
            ours, theirs = spelled(item.rules.value(switch)), spelled(other.rules.value(switch))
            if ours == theirs:
                continue
            old, new = (item, other) if values.index(ours) < values.index(theirs) else (other, item)
            others = len(old.rules.unlike(new.rules)) - 1
            pair = (spelled(old.rules.value(switch)), spelled(new.rules.value(switch)))
            distance = (others, sum(getattr(old, part) != getattr(new, part) for part in _PARTS))
            if pair not in best or distance < best[pair][0]:
                same_verdict = old.expect.verdict == new.expect.verdict
                best[pair] = distance, Contrast(file.scenario.id, _name(old), _name(new), pair, others, same_verdict)
        yield from (contrast for _, contrast in best.values())


_PARTS = ("cluster", "topics", "network", "workloads", "timeline")


def _name(scenario: Scenario) -> str:
    return scenario.variant or AS_WRITTEN


def as_markdown(rows: Iterable[RuleRow]) -> str:
    """Return the table for replica/RULES.md."""
    lines = ["| rule | changed by | value by era | scenario: old / new |", "|---|---|---|---|"]
    for row in rows:
        eras = [period.text for period in row.periods]
        eras += [f"{value} in no profile" for value in row.in_no_profile]
        shown = "<br>".join(
            f"`{contrast.scenario}`: {contrast.old} / {contrast.new}{contrast.alone}" for contrast in row.contrasts
        )
        lines.append(f"| `{row.switch}` | {row.since} | {'; '.join(eras)} | {shown or '-'} |")
    return "\n".join(lines) + "\n"
