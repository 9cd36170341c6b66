"""The outcome of a lost record by the rules of Kafka releases: which are played, and what changed between them.

1. The oldest and the newest release are played, and the scenario's own.
2. If two releases differ in the outcome, the release in the middle is played, until the change is between neighbours.
3. If the scenario's own release saves the record, because the file changes a rule, every release is played.
4. Nothing is said about a release that was not played: sometimes a single release differs from all others.
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
    """The outcome by the rules of one release as text; NOT_PLAYABLE if the release lacks what the scenario needs."""

    outcome: str
    saved: bool


def outcomes_by_release(own: str, play: Callable[[str], RecordFate | None]) -> dict[str, ReleaseOutcome]:
    """Return the outcome of each release that is played, by era, in order.

    Args:
        own: the era of the scenario.
        play: returns the outcome by the rules of an era, None if the scenario cannot be played by them.
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
    """Return an outcome as text without durations, which differ from release to release."""
    words = fate.outcome.removesuffix(" all the same")
    return f"{words}; other records are lost" if fate.saved and fate.also_lost else words


def release_rows(outcomes: Mapping[str, ReleaseOutcome]) -> list[dict[str, Any]]:
    """Return a row for each sequence of played releases with the same outcome, without unplayable releases."""
    rows = []
    for one, group in groupby(outcomes.items(), key=lambda item: item[1]):
        if one.outcome != NOT_PLAYABLE:
            played = [era.removeprefix("kafka-") for era, _ in group]
            rows.append({"played": played, "outcome": one.outcome, "saved": one.saved})
    return rows


def saving_rules(outcomes: Mapping[str, ReleaseOutcome], scenario: Scenario) -> Mapping[str, Switch]:
    """Return the rules, with their values, that the nearest release that saves the record has changed.

    That is the scenario's own release, else a newer one, else an older one. Without any, the result is empty.
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
