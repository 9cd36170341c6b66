"""A search as plain data: for its page, and for the page of a later search that is compared with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import yaml

from scenarios.search.covered import KINDS, Covered
from scenarios.search.findings import Cause
from scenarios.search.mutation import at_ms
from scenarios.search.search import FindingKind, Found

FORMAT = 2
MODES = ("guided", "swarm", "blind")
_WORST_FIRST = list(Cause)


class Kept(NamedTuple):
    """The smallest schedule of a finding, and its file. shrunk: to the steps it needs"""

    file: str
    text: str
    shrunk: bool


def mode_of(*, guided: bool, swarm: bool) -> str:
    return "guided" if guided else "swarm" if swarm else "blind"


def document_of(
    asked: Mapping[str, Any],
    covered: Covered,
    found: Sequence[Found],
    kinds: Sequence[FindingKind],
    kept: Mapping[int, Kept],
) -> dict[str, Any]:
    """asked: `era`, `mode`, `safe`, `seeds` in words, `asked`: how many     kept: by the seed of a kind's first run

    All runs are named by their number, from 1 in the order of their seeds.
    """
    number_of = covered.number_of()
    findings = [_finding(kind, number_of, kept[kind.first.seed]) for kind in kinds]
    return {
        "format": FORMAT,
        **asked,
        "played": len(number_of),
        "broke_something": len(found),
        "kinds_of_names": list(KINDS),
        "covered": [asdict(name) for name in covered.reached()],
        "findings": sorted(findings, key=lambda one: (_WORST_FIRST.index(one["cause"]), one["runs"][0], one["kind"])),
    }


def _finding(kind: FindingKind, number_of: Mapping[int, int], kept: Kept) -> dict[str, Any]:
    return {
        "kind": kind.kind,
        "our_bug": kind.our_bug,
        "cause": kind.cause,
        "sentence": kind.sentence,
        "runs": [number_of[seed] for seed in kind.seeds],
        "first_seed": kind.seeds[0],
        "shown_seed": kind.first.seed,
        "settings": kind.first.schedule.settings,
        "file": kept.file,
        "shrunk": kept.shrunk,
        "steps": steps_of(kept.text),
    }


def steps_of(text: str) -> list[tuple[str, str]]:
    """(when, what) of each step of a schedule's timeline, in order of time."""
    steps = []
    for step in sorted(yaml.safe_load(text)["timeline"], key=at_ms):
        rest = {key: value for key, value in step.items() if key != "at"}
        what = yaml.safe_dump(rest, default_flow_style=True, sort_keys=False, width=10_000).strip()
        steps.append((f"{at_ms(step) / 1000:.3f} s", what.removeprefix("{").removesuffix("}")))
    return steps
