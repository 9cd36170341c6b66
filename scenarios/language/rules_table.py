"""Rule x era x the scenario that shows the difference, read off `replica.rules` and the bundled scenarios.

A scenario shows a rule when it and one of its variants, or two of its variants, differ in that switch. Pairs that
differ in nothing but that switch come first: there the rule alone makes the difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from replica.rules import PROFILES, Rules, spelled
from scenarios.language.spec import Scenario, ScenarioFile

SHOWN_AT_MOST = 3
AS_WRITTEN = "as written"


@dataclass(frozen=True, slots=True)
class Period:
    """A value and the eras that have it, first and last."""

    value: str
    first: str
    last: str

    @property
    def text(self) -> str:
        first, last = self.first.removeprefix("kafka-"), self.last.removeprefix("kafka-")
        eras = list(PROFILES)
        if self.last == eras[-1]:
            return f"{self.value} from {first}" if self.first != eras[0] else f"{self.value} always"
        return f"{self.value} {first}" if first == last else f"{self.value} {first} to {last}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two runs of one scenario with different values of a switch.

    values: of the switch, old and new     others: further switches that differ as well
    same_verdict: the difference shows elsewhere than in the verdict
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
        """The reason why the rule does not differ alone."""
        return f" (with {self.others} other rules)" if self.others else ""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One switch. in_no_profile: values that no era has"""

    switch: str
    since: str
    periods: tuple[Period, ...]
    in_no_profile: tuple[str, ...]
    contrasts: tuple[Contrast, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "rule": self.switch,
            "changed_by": self.since,
            "eras": [{"value": one.value, "first": one.first, "last": one.last} for one in self.periods],
            "in_no_profile": list(self.in_no_profile),
            "shown_by": [{"scenario": one.scenario, "old": one.old, "new": one.new} for one in self.contrasts],
        }


def rule_rows(files: Iterable[ScenarioFile]) -> list[RuleRow]:
    """One row per switch, in the order of `Rules`."""
    found = list(files)
    rows = []
    for switch, (_, choices) in Rules.switches().items():
        periods = tuple(_periods(switch))
        used = {period.value for period in periods}
        values = choices or ("false", "true")
        contrasts = sorted(
            _contrasts(found, switch, values), key=lambda one: (one.others, one.same_verdict, one.scenario, one.old)
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
    """contrasts: best first. The best of each pair of values first, so that every change of a rule is shown; where the
    rule differs alone nowhere, the contrasts that come closest.
    """
    alone = [contrast for contrast in contrasts if not contrast.others] or contrasts
    firsts: dict[tuple[str, str], Contrast] = {}
    for contrast in alone:
        firsts.setdefault(contrast.values, contrast)
    chosen = list(firsts.values())[:SHOWN_AT_MOST]
    return (chosen + [one for one in alone if one not in chosen])[:SHOWN_AT_MOST]


def _periods(switch: str) -> Iterator[Period]:
    by_value = itertools.groupby(PROFILES, key=lambda era: spelled(PROFILES[era].value(switch)))
    for value, group in by_value:
        eras = list(group)
        yield Period(value, eras[0], eras[-1])


def _contrasts(files: Iterable[ScenarioFile], switch: str, values: tuple[str, ...]) -> Iterator[Contrast]:
    """At most one per file and pair of values: the one that differs least in other switches, then in other parts."""
    for file in files:
        best: dict[tuple[str, str], tuple[tuple[int, int], Contrast]] = {}
        for one, other in itertools.combinations(file.all, 2):
            ours, theirs = spelled(one.rules.value(switch)), spelled(other.rules.value(switch))
            if ours == theirs:
                continue
            old, new = (one, other) if values.index(ours) < values.index(theirs) else (other, one)
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
    """The table in replica/RULES.md."""
    lines = ["| rule | changed by | value by era | scenario: old / new |", "|---|---|---|---|"]
    for row in rows:
        eras = [period.text for period in row.periods]
        eras += [f"{value} in no profile" for value in row.in_no_profile]
        shown = "<br>".join(f"`{one.scenario}`: {one.old} / {one.new}{one.alone}" for one in row.contrasts)
        lines.append(f"| `{row.switch}` | {row.since} | {'; '.join(eras)} | {shown or '-'} |")
    return "\n".join(lines) + "\n"
