"""Converts the results of a search to plain data, for its page and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from scenarios.search.findings import FindingCause
from scenarios.search.search import FindingKind, Found

FORMAT = 3
_WORST_FIRST = list(FindingCause)


class Kept(NamedTuple):
    """The smallest schedule that shows a finding.

    Attributes:
        file: name of the schedule's file.
        shrunk: True if all steps were removed that the finding does not need.
    """

    file: str
    text: str
    shrunk: bool


def document_of(
    asked: Mapping[str, Any],
    seeds: range,
    played: int,
    found: Sequence[Found],
    kinds: Sequence[FindingKind],
    kept: Mapping[int, Kept],
) -> dict[str, Any]:
    """Return the results of a search as a JSON object, the most serious finding first.

    Args:
        asked: options of the search: `era`, `mode`, `safe`, and `seeds` as text.
        seeds: all requested seeds. Runs are numbered from 1 in this order.
        played: number of finished runs.
        found: runs with findings.
        kept: the smallest schedule of each kind, by the seed of `kind.first`.
    """
    findings = [_finding(kind, seeds.start, kept[kind.first.seed]) for kind in kinds]
    return {
        "format": FORMAT,
        **asked,
        "asked": len(seeds),
        "played": played,
        "broke_something": len(found),
        "findings": sorted(
            findings, key=lambda finding: (_WORST_FIRST.index(finding["cause"]), finding["runs"][0], finding["kind"])
        ),
    }


def _finding(kind: FindingKind, first_seed: int, kept: Kept) -> dict[str, Any]:
    return {
        "kind": kind.kind,
        "our_bug": kind.our_bug,
        "cause": kind.cause,
        "sentence": kind.sentence,
        "runs": [seed - first_seed + 1 for seed in kind.seeds],
        "first_seed": kind.seeds[0],
        "shown_seed": kind.first.seed,
        "settings": kind.first.schedule.settings,
        "file": kept.file,
        "shrunk": kept.shrunk,
        "steps": steps_of(kept.text),
    }


def steps_of(text: str) -> list[tuple[str, str]]:
    """Return (time, step) of each step of a schedule's timeline, in order of time."""
    steps = []
    for step in sorted(yaml.safe_load(text)["timeline"], key=_at_ms):
        rest = {key: value for key, value in step.items() if key != "at"}
        what = yaml.safe_dump(rest, default_flow_style=True, sort_keys=False, width=10_000).strip()
        steps.append((f"{_at_ms(step) / 1000:.3f} s", what.removeprefix("{").removesuffix("}")))
    return steps


def _at_ms(step: Mapping[str, Any]) -> int:
    return int(str(step["at"]).removesuffix("ms"))
