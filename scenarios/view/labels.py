"""Creates labels for the runs on a page from their differences.

Examples are `acks=1` and `acks=all`; `rate=5/s` and `rate=50/s`; `seed 1` and `seed 2`; `kill b2 at 9 s` and
`without kill b2 at 9 s`. A variant keeps its name, as in `slow: rate=5/s`. If a page has only one run, its label is the
name of the variant. No two runs on a page have the same label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.language.spec import Scenario
from scenarios.language.write.describe import trigger_text, unlabelled_sentence
from scenarios.language.write.lock import as_tree

AS_WRITTEN = "as written"
DIFFERENCES_MAX, CHARACTERS_MAX = 3, 60
"""Largest number of differences, and of their characters, in a label. If there are more, the variant is the label."""
_NOT_A_SETTING = (
    *("schema", "id", "variant", "title", "question", "questions", "sources", "lesson", "tags"),
    *("seed", "timeline", "expect"),
)
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A run that needs a label. `scenario` is None if its lock file cannot be read."""

    summary: Mapping[str, Any]
    scenario: Scenario | None

    @property
    def variant(self) -> str:
        return self.summary["variant"] or AS_WRITTEN

    @property
    def number(self) -> str:
        """The number of the run's folder, such as `0003`."""
        return str(self.summary.get("run_dir") or "").rpartition("/")[2].partition("-")[0]

    def world(self) -> str:
        """Return text about unusual circumstances (cut short, or on real Kafka), "" if there are none."""
        found = [f"cut short at {self.summary['cut_short']['at_s']:g} s"] if "cut_short" in self.summary else []
        if "real_kafka" in self.summary:
            found.append(f"Kafka {self.summary['real_kafka']}")
        return ", ".join(found)


def labels_of(runs: Sequence[NamedRun]) -> list[str]:
    """Return the label of each run, in the order of the runs."""
    ids = [str(run.summary["scenario"]) for run in runs]
    differences = [
        _differences(run, [other for other in runs if other is not run and other.summary["scenario"] == name])
        for run, name in zip(runs, ids, strict=True)
    ]
    if len(set(ids)) > 1:
        alone = Counter(ids)
        differences = [
            name if alone[name] == 1 else f"{name}, {found or run.variant}"
            for run, name, found in zip(runs, ids, differences, strict=True)
        ]
    labels = [
        ", ".join(filter(None, (found or run.variant, run.world())))
        for run, found in zip(runs, differences, strict=True)
    ]
    variants, numbers = [run.variant for run in runs], [f"run {run.number}" if run.number else "" for run in runs]
    for more in (variants, numbers, [f"#{index}" for index in range(1, len(runs) + 1)]):
        labels = [
            label if labels.count(label) == 1 or item in ("", label) else f"{label}, {item}"
            for label, item in zip(labels, more, strict=True)
        ]
    return labels


def _differences(run: NamedRun, others: Sequence[NamedRun]) -> str:
    """Return the differences of a run from other runs of the same scenario as text, "" if there are none."""
    if not others:
        return ""
    found = []
    known = [other.scenario for other in others if other.scenario is not None]
    if run.scenario is not None:
        found = [*_settings(run.scenario, known), *_steps(run.scenario, known)]
        if len(found) > DIFFERENCES_MAX or len(", ".join(found)) > CHARACTERS_MAX:
            found = [run.variant]
    if any(other.variant != run.variant for other in others):
        found = _with_variant(run, ", ".join(found))
    if any(other.summary["seed"] != run.summary["seed"] for other in others):
        found.append(f"seed {run.summary['seed']}")
    return ", ".join(found)


def _with_variant(run: NamedRun, found: str) -> list[str]:
    """Return the differences with the name of the variant in front, as in `slow: rate=5/s`, in a list.

    If both are too long, only the name is returned. If the name says the same (`acks-all` for `acks=all`), only the
    differences are returned.
    """
    if found and (run.summary["variant"] is None or run.variant.replace("-", "") == re.sub(r"\W", "", found)):
        return [found]
    both = f"{run.variant}: {found}"
    return [both if found not in ("", run.variant) and len(both) <= CHARACTERS_MAX else run.variant]


def _settings(scenario: Scenario, others: Sequence[Scenario]) -> Iterator[str]:
    """Yield the settings that differ, such as `acks=1`, or `p1 acks=1` if several clients have different values."""
    trees = [_leaves(as_tree(item)) for item in (scenario, *others)]
    paths = _paths_that_differ(trees)
    owners = Counter(path[-1] for path in paths)
    for path in paths:
        key, value = path[-1], trees[0].get(path)
        if key.isdecimal() or owners[key] > 1:
            key = f"{path[1]} {key}"
        if path == ("profile",):
            yield str(value)
        elif any(tree.get(path) == {} for tree in trees):
            yield f"with {key}" if path in trees[0] else f"without {key}"
        else:
            yield f"{key} not set" if value is None else f"{key}={_text(value)}"


def _paths_that_differ(trees: Sequence[Mapping[Path, Any]]) -> list[Path]:
    """Return the paths of the settings that differ between the trees.

    If acks or the profile already distinguishes all runs, settings that follow from it are left out.
    """
    values = {path: [str(tree.get(path)) for tree in trees] for tree in trees for path in tree}
    found = [path for path, value in values.items() if len(set(value)) > 1]
    for decisive in (path for path in found if path[-1] in ("acks", "profile")):
        if len(set(values[decisive])) == len(trees):
            found = [path for path in found if not _follows(path, decisive)]
    return found


def _follows(path: Path, decisive: Path) -> bool:
    """Return True if a setting follows from the decisive one: idempotence from acks, or rules from the profile."""
    if decisive == ("profile",):
        return path[0] == "protocol"
    return path == (*decisive[:-1], "enable.idempotence")


def _leaves(tree: Mapping[str, Any], above: Path = ()) -> dict[Path, Any]:
    found: dict[Path, Any] = {}
    for key, value in tree.items():
        if not above and key in _NOT_A_SETTING:
            continue
        if isinstance(value, Mapping) and (value or key == "config"):
            found |= _leaves(value, (*above, str(key)))
        else:
            found[*above, str(key)] = value
    return found


def _text(value: object) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def _steps(scenario: Scenario, others: Sequence[Scenario]) -> list[str]:
    """Return the steps that another run lacks or, if there are none, `without ...` for each step only others have."""
    mine, *theirs = [
        [
            f"{unlabelled_sentence(step, item.timeline)} {_moment(trigger_text(step))}"
            for step in item.timeline
            if step.verb != "check"
        ]
        for item in (scenario, *others)
    ]
    own = [step for step in mine if any(step not in other for other in theirs)]
    lacking = [step for step in dict.fromkeys(step for other in theirs for step in other) if step not in mine]
    return own or [f"without {step}" for step in lacking]


def _moment(text: str) -> str:
    return text if text.startswith("when") else f"at {float(text):g} s"
