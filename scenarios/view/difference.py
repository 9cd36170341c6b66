"""Where two runs part: the first event that one has and the other has not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scenarios.observe.wording import played_by, settings_of
from scenarios.view.places import NOTHING
from scenarios.view.tape import Tape

_OF_THE_RUN = ("run_started", "node_started")
"""Events that name the run, or that every run begins with."""

_SETTING = re.compile(r", acks=\w+")
"""In a sentence: what was set differently is no event in which two runs differ."""


@dataclass(frozen=True, slots=True)
class Difference:
    """same: events that both have, from the beginning. A run that ended there has no time and no sentence"""

    same: int
    at_us: tuple[int | None, int | None]
    sentences: tuple[str, str]


def first_difference(one: Tape, other: Tape) -> Difference | None:
    """None: the same events at the same times, in the same words but for the settings that they quote."""
    left, right = _told(one), _told(other)
    for place in range(max(len(left), len(right))):
        mine = left[place] if place < len(left) else (None, "", "")
        theirs = right[place] if place < len(right) else (None, "", "")
        if _but_for_settings(mine) != _but_for_settings(theirs):
            return Difference(place, (mine[0], theirs[0]), (mine[2], theirs[2]))
    return None


def _told(tape: Tape) -> list[tuple[int | None, str, str]]:
    nodes, kinds, texts = map(list, (tape.nodes, tape.kinds, tape.texts))
    found: list[tuple[int | None, str, str]] = []
    for place, at_us in enumerate(tape.at_us):
        if kinds[tape.kind[place]] not in _OF_THE_RUN:
            node = tape.node[place]
            found.append((at_us, nodes[node] if node != NOTHING else "", texts[tape.text[place]]))
    return found


def _but_for_settings(event: tuple[int | None, str, str]) -> tuple[int | None, str, str]:
    at_us, node, text = event
    return at_us, node, _SETTING.sub("", text)


def settings_that_differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The differences between the settings of two summaries, as pairs of lines; empty where one has none."""
    left, right = ([*settings_of(summary), *_rules(summary)] for summary in (one, other))
    only_left = [line for line in left if line not in right]
    only_right = [line for line in right if line not in left]
    width = max(len(only_left), len(only_right))
    return [
        (only_left[place] if place < len(only_left) else "", only_right[place] if place < len(only_right) else "")
        for place in range(width)
    ]


def _rules(summary: Mapping[str, Any]) -> list[str]:
    world = "live, by the clock" if summary.get("live") else "simulated"
    if "cut_short" in summary:
        world += f", cut short at {summary['cut_short']['at_s']:g} s"
    rules = [f"scenario {summary['scenario']}", f"rules of {played_by(summary)}", f"seed {summary['seed']}"]
    return [*rules, world]
