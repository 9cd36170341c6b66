"""Descriptions of a scenario as text: steps, expectations, a sketch of the timeline, and the tables of LANGUAGE.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from replica.trace.ranges import format_record_names
from replica.trace.signs import SIGNS
from scenarios.language.expect import EventTest, Expect, NumberTest
from scenarios.language.spec import Scenario
from scenarios.language.steps import At, Step, When
from scenarios.language.values.trees import records_text, state_sentence, time_text, window_text
from scenarios.language.verbs.checks import Check
from scenarios.language.verbs.clients import Produce
from scenarios.language.verbs.network import Heal, Release
from scenarios.language.verbs.process import Resume, Start

_SKETCH_WIDTH = 64
_CAPTURED = re.compile(r"@([\w-]+)")


def step_sentence(step: Step, records: str = "") -> str:
    """Return a description of a step, such as `kill leader(t-0)  (victim)`.

    Args:
        records: names of the records that a `produce` step sends, if known.
    """
    text = step.payload.sentence()
    if records and isinstance(step.payload, Produce):
        text += f": {records}"
    if step.every_us is not None:
        text += f", {step.times} times, every {time_text(step.every_us)}"
    if step.for_us is not None:
        text += f", for {time_text(step.for_us)}"
    return text + (f"  ({step.label})" if step.label else "")


def unlabelled_sentence(step: Step, timeline: Sequence[Step], targets: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a description of a step without labels, for a reader who does not know the scenario file.

    Each `@label` is replaced by a text such as ``the target of `kill leader(t-0)` ``, or by the nodes themselves.

    Args:
        timeline: all steps of the scenario.
        targets: the nodes that a labelled step matched, by label, if known.
    """
    others = [other for other in timeline if other is not step]

    def quoted(label: str) -> str | None:
        named = next((other for other in others if other.label == label), None)
        return None if named is None else f"`{unlabelled_sentence(named, others, targets)}`"

    def target(label: re.Match[str]) -> str:
        sentence = None if label[1] in targets else quoted(label[1])
        return targets.get(label[1], label[0] if sentence is None else f"the target of {sentence}")

    payload = step.payload
    if isinstance(payload, Heal | Release):
        payload = replace(payload, names=tuple(quoted(name) or name for name in payload.names))
    return _CAPTURED.sub(target, step_sentence(replace(step, label=None, payload=payload)))


def trigger_text(step: Step) -> str:
    """Return the trigger of a step: `10.500` for a time, `when t-0 is led by b2` for a condition."""
    if isinstance(step.trigger, At):
        return f"{step.trigger.at_us / 1_000_000:.3f}"
    return f"when {state_sentence(step.trigger.state)}"


# -------------------------------------------------------------------------------------------------------- expectations


def expect_lines(expect: Expect) -> list[str]:
    """Return one line for each expectation: the verdict first, then records, logs and events."""
    if expect.verdict is None:
        return ["nothing"]
    lines = ["verdict " + (", ".join(expect.verdict) or "ok")]
    shown = [test for test in expect.records if test.kind in ("lost", "missing", "duplicated", "reordered", "failed")]
    for test in shown:
        if test.at_most != () or test.at_least != () or test.count is not None:
            lines.append(f"{test.kind} {records_text(test.at_least, test.at_most, test.count)}")
    for log in expect.logs:
        lines.append(f"{log.partition}{f' on {log.node}' if log.node else ''}: {format_record_names(log.records)}")
    return lines + [event_sentence(test) for test in expect.events]


def event_sentence(test: EventTest) -> str:
    """Return a description such as `leader_elected t-0 broker=b2 leader_epoch=1 between 17s and 20s`."""
    where = dict(test.where)
    topic, partition = where.pop("topic", None), where.pop("partition", None)
    words = ["never" if test.never else "", test.event]
    if isinstance(partition, NumberTest):
        words.append(f"{topic}-{partition.low}")
    for column, value in where.items():
        shown = "{" + ", ".join(value) + "}" if isinstance(value, tuple) else value
        words.append(f"{column}={str(shown).lower() if isinstance(shown, bool) else shown}")
    if test.between is not None:
        words.append(window_text(test.between))
    if test.count is not None:
        words.append(f"({test.count} times)")
    return " ".join(word for word in words if word)


# ------------------------------------------------------------------------------------------------------------ timeline


def record_names(scenario: Scenario) -> dict[int, str]:
    """Return the records that each `produce` step sends, by the index of the step.

    Steps are left out if their records are unknown before the run: if the producer also sends at a rate, or if any but
    its last step waits for a condition or is repeated.
    """
    names: dict[int, str] = {}
    for producer in scenario.producers:
        steps = [
            step
            for step in scenario.timeline
            if isinstance(step.payload, Produce) and step.payload.producer == producer.name
        ]
        if producer.arrival is not None or any(isinstance(step.trigger, When) or step.times > 1 for step in steps[:-1]):
            continue
        sent = 0
        for step in sorted(steps, key=lambda step: (_at_us(step), step.index)):
            assert isinstance(step.payload, Produce)
            count = step.payload.count * step.times
            last = sent + count - 1
            first = f"{producer.prefix}{sent}"
            names[step.index] = first if count == 1 else f"{first}..{producer.prefix}{last}"
            sent += count
    return names


def _at_us(step: Step) -> int:
    return step.trigger.at_us if isinstance(step.trigger, At) else 2**62


def timeline_lines(scenario: Scenario) -> list[str]:
    """Return one line for each step, in the order of the file."""
    records = record_names(scenario)
    lines = []
    for step in scenario.timeline:
        trigger = trigger_text(step)
        sentence = step_sentence(step, records.get(step.index, ""))
        lines.append(f"{trigger:>8}  {sentence}" if isinstance(step.trigger, At) else f"{'':>8}  {trigger}: {sentence}")
    return lines


def sketch(scenario: Scenario, *, plain: bool = False) -> list[str]:
    """Return a sketch of the timeline: an axis, and rows for sent records, faults, and steps that undo or check.

    Args:
        plain: use only ASCII characters.
    """
    fault, undo, check, send = ("x", "o", "?", ".") if plain else (SIGNS["fault"], SIGNS["undone"], "?", "●")
    rows = {"sends": [" "] * _SKETCH_WIDTH, "faults": [" "] * _SKETCH_WIDTH, "undone": [" "] * _SKETCH_WIDTH}
    for workload in scenario.producers:
        if workload.arrival is not None:
            stop_us = scenario.sends_until_us(workload)
            for cell in range(_cell(workload.start_us, scenario), _cell(stop_us, scenario) + 1):
                rows["sends"][cell] = "─" if not plain else "-"
    for step in scenario.timeline:
        if not isinstance(step.trigger, At):
            continue
        payload = step.payload
        row, mark = ("faults", fault)
        if isinstance(payload, Produce):
            row, mark = "sends", send
        elif isinstance(payload, (Start, Resume, Heal, Release)):
            row, mark = "undone", undo
        elif isinstance(payload, Check):
            row, mark = "undone", check
        for time in range(step.times):
            at_us = step.trigger.at_us + time * (step.every_us or 0)
            if at_us <= scenario.duration_us:
                rows[row][_cell(at_us, scenario)] = mark
        if step.for_us is not None and step.trigger.at_us + step.for_us <= scenario.duration_us:
            rows["undone"][_cell(step.trigger.at_us + step.for_us, scenario)] = undo
    lines = [
        f"{name:>8}  {''.join(cells).rstrip()}" for name, cells in rows.items() if any(cell != " " for cell in cells)
    ]
    return [_axis(scenario), *lines]


def _cell(at_us: int, scenario: Scenario) -> int:
    return min(_SKETCH_WIDTH - 1, at_us * _SKETCH_WIDTH // scenario.duration_us)


def _axis(scenario: Scenario) -> str:
    """Return the time axis, such as `0        15s       30s       45s       60s`."""
    cells = [" "] * (_SKETCH_WIDTH + 8)
    for quarter in range(5):
        at_us = scenario.duration_us * quarter // 4
        label = time_text(at_us) if quarter else "0"
        start = min(_SKETCH_WIDTH, quarter * _SKETCH_WIDTH // 4)
        cells[start : start + len(label)] = list(label)
    return f"{'':>8}  {''.join(cells).rstrip()}"
