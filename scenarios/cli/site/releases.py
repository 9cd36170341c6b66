"""Find the outcome of a lost record under the rules of Kafka's releases, and the rules that save the record.

1. The scenario is played under the rules of the oldest release, the newest release, and its own release.
2. If two releases have different outcomes, the release in the middle is played, until neighbours differ.
3. If the scenario's own release saves the record, because the file changes a rule, every release is played.
4. Releases that were not played are left out, because a single release may differ from all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from replica.rules import PROFILES, Switch
from scenarios.explain.what_if import RecordFate
from scenarios.language.spec import Scenario

ERAS = tuple(PROFILES)
NOT_PLAYABLE = "not playable"


@dataclass(frozen=True, slots=True)
class ReleaseOutcome:
    """A record's outcome under the rules of one release; NOT_PLAYABLE if the scenario cannot be played under them."""

    outcome: str
    saved: bool


def outcomes_by_release(own: str, play: Callable[[str], RecordFate | None]) -> dict[str, ReleaseOutcome]:
    """Play a scenario under the rules of some releases. Return their outcomes by era, oldest first.

    Args:
        own: the era of the scenario.
        play: returns the outcome under the rules of an era; None if the scenario cannot be played under them.
    """
    played: dict[int, ReleaseOutcome] = {}

    def outcome(index: int) -> ReleaseOutcome:
        if index not in played:
            fate = play(ERAS[index])
            played[index] = ReleaseOutcome(_words(fate), fate.saved) if fate else ReleaseOutcome(NOT_PLAYABLE, False)
        return played[index]

    todo = [(0, ERAS.index(own)), (ERAS.index(own), len(ERAS) - 1)]
    if outcome(ERAS.index(own)).saved:
        todo = [(index, index) for index in range(len(ERAS))]
    while todo:
        first, last = todo.pop()
        if outcome(first) != outcome(last) and last - first > 1:
            middle = (first + last) // 2
            todo += [(first, middle), (middle, last)]
    return {ERAS[index]: played[index] for index in sorted(played)}


def _words(fate: RecordFate) -> str:
    """Return an outcome as text that can be compared between releases."""
    words = fate.outcome
    return f"{words}; other records are lost" if fate.saved and fate.also_lost else words


def release_rows(outcomes: Mapping[str, ReleaseOutcome]) -> list[dict[str, Any]]:
    """Return a row for each group of successive releases with the same outcome. Unplayable releases are left out."""
    rows = []
    for other, group in groupby(outcomes.items(), key=lambda item: item[1]):
        if other.outcome != NOT_PLAYABLE:
            played = [era.removeprefix("kafka-") for era, _ in group]
            rows.append({"played": played, "outcome": other.outcome, "saved": other.saved})
    return rows


def saving_rules(outcomes: Mapping[str, ReleaseOutcome], scenario: Scenario) -> Mapping[str, Switch]:
    """Return the rules that may have saved the record, with their values.

    These are the rules that changed with the nearest release that saves the record: the scenario's own release, or else
    a newer one, or else an older one. The result is empty if no release saves the record.
    """
    own = ERAS.index(scenario.profile)
    before = scenario.rules
    for index in (own, *range(own + 1, len(ERAS))):
        if _saves(outcomes, index):
            return PROFILES[ERAS[index]].unlike(before)
        before = PROFILES[ERAS[index]]
    older = next((index for index in reversed(range(own)) if _saves(outcomes, index)), None)
    return {} if older is None else PROFILES[ERAS[older]].unlike(PROFILES[ERAS[older + 1]])


def _saves(outcomes: Mapping[str, ReleaseOutcome], index: int) -> bool:
    return ERAS[index] in outcomes and outcomes[ERAS[index]].saved
