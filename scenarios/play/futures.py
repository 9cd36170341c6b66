"""The futures of a scenario: a tree of scenarios, each of which differs from its parent by one change.

1. A future has one step more or less than its parent, or a step at another time, or another setting. It runs with the
   same seed, so both runs have identical events until the change.
2. An added step comes last in the timeline and is performed in the next millisecond after the moment that the page
   shows, so the events that the viewer has already seen do not change.
3. Steps that the change makes impossible are left out, such as the start of a broker that is no longer killed. The name
   of the future lists them.
4. The expectations of the original scenario are left out, because they may not apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replica.trace.events import FaultBegan, FaultEnded, NodeStopped, TraceRow
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.expect import Expect
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario
from scenarios.language.steps import At, Step
from scenarios.language.values.trees import time_text
from scenarios.language.verbs.process import Kill
from scenarios.language.write.describe import unlabelled_sentence
from scenarios.language.write.lock import as_tree, dump_tree

FUTURES_MAX = 200
_MS = 1_000
_STEP = re.compile(r"timeline\.(\d+)\b")
"""Matches the path of a diagnostic about a step. Steps count from 1."""


class NoSuchFuture(LookupError):
    """Raised if a request of the page refers to a future or step that does not exist, or is otherwise impossible."""


@dataclass(frozen=True, slots=True)
class Future:
    """A scenario in the tree.

    Attributes:
        parent: number of the parent future, None for the original scenario.
        name: the difference from the parent in words.
        at_us: earliest time at which the run can differ from the parent's run.
    """

    number: int
    parent: int | None
    name: str
    at_us: int
    scenario: Scenario

    @property
    def text(self) -> str:
        """The scenario as YAML for `highwater run`."""
        return dump_tree(as_tree(self.scenario), f"{self.scenario.title}\n{self.name}")

    def as_json(self, rows: Sequence[TraceRow]) -> dict[str, Any]:
        """Return the future as a JSON object. `rows` is its trace, which shows the steps without effect."""
        timeline, needless = self.scenario.timeline, _needless(rows)
        steps = [
            [_at(step), unlabelled_sentence(step, timeline), _length(step), needless.get(step.name, "")]
            for step in timeline
        ]
        return {
            "number": self.number,
            "parent": self.parent,
            "name": self.name,
            "at_us": self.at_us,
            "steps": steps,
            "text": self.text,
        }


def without_expectations(scenario: Scenario) -> Scenario:
    """Return the scenario without its expectations and questions, which may not apply after a change."""
    return replace(scenario, expect=Expect(), questions=())


class Futures:
    """The tree of futures.

    Methods that change a scenario add the result as a child of the future `parent` and return it. They raise
    ScenarioInvalid if the result is not a valid scenario, and NoSuchFuture if the parent or step does not exist.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._all = {0: Future(0, None, scenario.variant or "as written", 0, without_expectations(scenario))}
        self._next = 1

    def __getitem__(self, number: int) -> Future:
        """Return the future with this number. Raises NoSuchFuture."""
        try:
            return self._all[number]
        except KeyError:
            raise NoSuchFuture(f"there is no future {number}; it may have been deleted") from None

    def add_step(self, parent: int, now_us: int, step: Mapping[str, Any]) -> Future:
        """Add a step to the timeline of `parent`, one millisecond after the moment that the page shows.

        Args:
            now_us: the moment that the page shows.
            step: a step without its time, such as {"kill": "b1", "for": "2s"}.
        """
        at_us = next_step_us(now_us)

        def added(tree: dict[str, Any]) -> None:
            tree["timeline"] = [*tree.get("timeline", ()), {"at": time_text(at_us), **step}]

        made, lost = self._made(parent, added, len(self[parent].scenario.timeline))
        return self._add(parent, f"+ {_said(made, -1)}{lost}", at_us, made)

    def move_step(self, parent: int, index: int, at_us: int) -> Future:
        """Move the step at `index` of the timeline to the time `at_us`."""
        before = self._step_at(parent, index)
        at_us = max(0, round(at_us / _MS) * _MS)
        end_us = self[parent].scenario.duration_us
        if at_us > end_us:
            raise NoSuchFuture(f"the run ends at {_moment(end_us)}: a step at {_moment(at_us)} would never happen")

        def moved(tree: dict[str, Any]) -> None:
            tree["timeline"][index]["at"] = time_text(at_us)

        made, lost = self._made(parent, moved, index)
        name = f"{_said(self[parent].scenario, index, at_us)} instead of {_moment(before)}{lost}"
        return self._add(parent, name, min(at_us, before), made)

    def change_length(self, parent: int, index: int, for_us: int | None) -> Future:
        """Change the time `for` after which a step is undone. None removes it, so the step is never undone."""
        at_us = self._step_at(parent, index)

        def changed(tree: dict[str, Any]) -> None:
            tree["timeline"][index].pop("for", None)
            if for_us is not None:
                tree["timeline"][index]["for"] = time_text(for_us)

        made, lost = self._made(parent, changed, index)
        step = made.timeline[index]
        what = unlabelled_sentence(replace(step, for_us=None), made.timeline)
        name = f"{what} at {_moment(at_us)} lasts {_length(step) or 'to the end'}{lost}"
        return self._add(parent, name, at_us, made)

    def remove_step(self, parent: int, index: int) -> Future:
        at_us = self._step_at(parent, index)

        def removed(tree: dict[str, Any]) -> None:
            del tree["timeline"][index]

        made, lost = self._made(parent, removed)
        return self._add(parent, f"without {_said(self[parent].scenario, index)}{lost}", at_us, made)

    def change_setting(self, parent: int, setting: str) -> Future:
        """Change a setting of the whole run, given as `path=value` as for `--set`."""
        text = self[parent].text
        made = load_text(text, "the setting", [setting]).scenario
        return self._add(parent, f"{setting.removeprefix('workloads.').replace('.config.', ' ')}", 0, made)

    def edit(self, parent: int, text: str) -> Future:
        """Replace the whole scenario by YAML text that the viewer has edited."""
        made = load_text(text, "scenario.yaml").scenario
        return self._add(parent, "edited", 0, without_expectations(made))

    def delete(self, number: int) -> list[Future]:
        """Delete a future and all its descendants. Return them, parents before children.

        Raises:
            NoSuchFuture: the future does not exist, or is the original scenario, which cannot be deleted.
        """
        if number == 0:
            raise NoSuchFuture("the original scenario cannot be deleted")
        gone = {number: self[number]}
        for future in self._all.values():  # A child has a larger number than its parent.
            if future.parent in gone:
                gone[future.number] = future
        for item in gone:
            del self._all[item]
        return list(gone.values())

    def restore(self, futures: Sequence[Future]) -> None:
        """Add futures again that were deleted together. Raises NoSuchFuture if there would be too many."""
        self._check_room(len(futures))
        self._all.update((future.number, future) for future in futures)

    def _step_at(self, parent: int, index: int) -> int:
        timeline = self[parent].scenario.timeline
        if not 0 <= index < len(timeline):
            raise NoSuchFuture(f"future {parent} has no step {index + 1}")
        trigger = timeline[index].trigger
        if not isinstance(trigger, At):
            raise NoSuchFuture(f"step {index + 1} waits for a state, so it has no time that can be moved")
        return trigger.at_us

    def _made(
        self, parent: int, change: Callable[[dict[str, Any]], None], index: int | None = None
    ) -> tuple[Scenario, str]:
        """Change the scenario of `parent`, and leave out steps that the change makes impossible.

        Args:
            change: modifies the tree of the scenario in place.
            index: index of the changed step, which is never left out.

        Returns:
            The new scenario, and text about the steps that were left out, "" if there are none.

        Raises:
            ScenarioInvalid: the change itself is impossible.
        """
        before = self[parent].scenario
        tree = as_tree(before)
        entries = list(tree.get("timeline", ()))
        change(tree)
        made, places = load_possible(tree, "the step", index)
        kept = [tree["timeline"][position] for position in places]
        changed = [entry for entry in tree["timeline"] if all(entry is not item for item in kept)]
        lost = [position for position, entry in enumerate(entries) if any(entry is item for item in changed)]
        return made, "".join(f", without {_said(before, position)}" for position in lost)

    def _add(self, parent: int, name: str, at_us: int, scenario: Scenario) -> Future:
        self._check_room(1)
        future = self._all[self._next] = Future(self._next, parent, name, at_us, scenario)
        self._next += 1
        return future

    def _check_room(self, more: int) -> None:
        if len(self._all) + more > FUTURES_MAX:
            raise NoSuchFuture(f"there can be {FUTURES_MAX} futures at most: delete a future first")


def next_step_us(now_us: int) -> int:
    """Return the time in microseconds of a step that is added at the moment `now_us`: the next full millisecond."""
    return (now_us // _MS + 1) * _MS


def load_possible(tree: dict[str, Any], name: str, index: int | None = None) -> tuple[Scenario, list[int]]:
    """Load a scenario without the steps that are invalid in it.

    Args:
        name: name of the file in messages.
        index: index of a step that must be valid.

    Returns:
        The scenario, and the indexes of the steps that were kept.

    Raises:
        ScenarioInvalid: the step at `index` is invalid, or there are errors outside of the steps.
    """
    timeline = tree.get("timeline", ())
    places = list(range(len(timeline)))
    while True:
        try:
            text = dump_tree({**tree, "timeline": [timeline[position] for position in places]})
            return load_text(text, name).scenario, places
        except ScenarioInvalid as invalid:
            paths = [
                _STEP.match(diagnostic.path or "")
                for diagnostic in invalid.diagnostics
                if diagnostic.severity == "error"
            ]
            refused = {places[int(path[1]) - 1] for path in paths if path} if all(paths) else set()
            if not refused or index in refused:
                raise
            places = [position for position in places if position not in refused]


def _said(scenario: Scenario, index: int, at_us: int | None = None) -> str:
    """Return a step in words with its time, or with the time `at_us` instead."""
    step = scenario.timeline[index]
    sentence = unlabelled_sentence(step, scenario.timeline)
    if not isinstance(step.trigger, At):
        return sentence
    return f"{sentence} at {_moment(step.trigger.at_us if at_us is None else at_us)}"


def _needless(rows: Sequence[TraceRow]) -> dict[str, str]:
    """Return text about each step without effect, by name: steps that killed only nodes that were already down."""
    stopped = {(row.at_us, row.event.node) for row in rows if isinstance(row.event, NodeStopped)}
    found, useful = {}, set()
    for row in rows:
        event = row.event
        if isinstance(event, FaultBegan) and event.verb == Kill.verb:
            found[event.fault] = f"no effect, {event.effect}"
            if any((row.at_us, node) in stopped for node in event.targets):
                useful.add(event.fault)
        elif isinstance(event, FaultEnded):
            useful.add(event.fault)  # The end of the fault has started its nodes.
    return {name: why for name, why in found.items() if name not in useful}


def _at(step: Step) -> int | None:
    return step.trigger.at_us if isinstance(step.trigger, At) else None


def _length(step: Step) -> str | None:
    """Return the `for` of a step as text, "" if the step has none, None if its verb cannot have `for`."""
    if not step.payload.undoable:
        return None
    return "" if step.for_us is None else time_text(step.for_us)


def _moment(at_us: int) -> str:
    return f"{at_us / 1_000_000:.3f}".rstrip("0").rstrip(".") + " s"
