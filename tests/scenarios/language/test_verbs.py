"""The declarations of the verbs: their examples are steps, their schema and the parser agree, all can be performed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest
import yaml
from scenario_schema import schema
from small_scenario import HEAD, errors_of, file_of

from scenarios.language.diagnostics import Problems, SourceText
from scenarios.language.parse.steps import read_timeline
from scenarios.language.values.reading import Reader
from scenarios.language.values.scope import Scope
from scenarios.language.values.yaml_source import Sequence, parse
from scenarios.language.verbs.checks import Check
from scenarios.language.verbs.clients import Produce
from scenarios.language.verbs.declaration import Declaration, Lasts
from scenarios.language.verbs.every import VERBS
from scenarios.run.disk_faults import DiskFaults
from scenarios.run.faults import Faults
from scenarios.run.request_faults import RequestFaultSteps

HEAD_OF_EXAMPLES = HEAD.replace("b1: {rack: A}", "b1: {rack: A, config: {log.dirs: 'd1,d2'}}").replace(
    "b3: {rack: B}}",
    "b3: {rack: B}, b4: {}}\n  controllers: [c1, c2, c3, c4, c5]\n  initial_controllers: [c1, c2, c3]",
)
EARLIER = ("{at: 1s, cut: {between: [b1, b2]}, as: isolation}", "{at: 2s, hold: {from: b1, to: b2}, as: freeze}")

OF_MEANING = ("E112", "E120", "E125", "E126", "E130", "E131", "E132", "E133", "E134", "E135", "W214")
"""Rules that the schema cannot express: bounds of values with a unit, names, fields that exclude each other."""

VALUES: tuple[Any, ...] = (
    None, True, 0, 5, -1, "", "fast", "none", "all", "both", "200ms", "-2s", "0s", "1.5kB", "50kB/s", "10%", "101%",
    "b1", "t-0", "t", "p1", "c1r", "r0..r9", "end", "Fetch", "body", "preferred",
    [], ["b1"], ["b1", "b2"], [["b1"], ["b2"]], [5], {}, {"x": 1}, {"at_least": 1}, {"b1": "b2"},
    {"min.insync.replicas": 1}, {"min.insync.replicas": None},
)  # fmt: skip


def trees(verb: Declaration) -> Iterator[Any]:
    """Possible arguments of a verb: its examples, and these with one value taken away, changed or added."""
    yield from VALUES
    for example in verb.examples:
        tree = yaml.safe_load(example)
        yield tree
        if not isinstance(tree, dict):
            continue
        for key in verb.keys:
            yield {name: value for name, value in tree.items() if name != key.name}
            yield from ({**tree, key.name: value} for value in (*VALUES, yaml.safe_load(key.kind.example)))
        yield {**tree, "no_such_key": 1}


@cache
def validator() -> jsonschema.Draft202012Validator:
    document = json.loads(json.dumps(schema()))
    return jsonschema.Draft202012Validator({"$ref": "#/$defs/step", "$defs": document["$defs"]})


def codes_of(step: str) -> list[str]:
    """The parser's problems with one step, in a cluster that has the names of the examples."""
    problems = Problems()
    scope = Scope(
        Reader(problems),
        brokers=["b1", "b2", "b3", "b4"],
        log_dirs={"b1": ("d1", "d2")},
        controllers=["c1"],
        topics={"t": 1},
        producers={"p1": "t"},
        consumers={"c1r": ("t",)},
        prefixes={"r": "p1"},
        labels={"isolation": "cut", "freeze": "hold"},
    )
    node = parse(step, SourceText.of("step", step), problems)
    assert node is not None
    read_timeline(scope, Sequence(node.place, [node]), "timeline")
    return [found.code for found in problems.found]


@pytest.mark.soak
@pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.name)
def test_parser_and_schema_agree_on_what_a_verb_may_say(verb: Declaration) -> None:
    differences = []
    for tree in trees(verb):
        step = {"at": "5s", verb.name: tree}
        codes = codes_of(json.dumps(step))
        has_shape = all(code in OF_MEANING for code in codes)
        if not (has_shape if validator().is_valid(step) else codes):
            differences.append((tree, codes))
    assert differences == []


def test_a_difference_would_be_found() -> None:
    assert codes_of("{at: 1s, cut: {between: [b1, b2], direction: up}}") == ["E110"]
    assert not validator().is_valid({"at": "1s", "cut": {"between": ["b1", "b2"], "direction": "up"}})


@pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.name)
def test_every_example_is_a_step(verb: Declaration) -> None:
    down = {"start": "{at: 3s, kill: b1}", "wipe": "{at: 3s, kill: b1}", "tear": "{at: 3s, kill: b3}"}
    for example in verb.examples:
        steps = (*EARLIER, *([down[verb.name]] if verb.name in down else []), f"{{at: 5s, {verb.name}: {example}}}")
        assert errors_of(file_of(*steps, head=HEAD_OF_EXAMPLES)) == ()


def test_every_verb_is_performed() -> None:
    methods = (*vars(Faults).values(), *vars(DiskFaults).values(), *vars(RequestFaultSteps).values())
    performed = {method.performs for method in methods if hasattr(method, "performs")}
    assert performed | {Check, Produce} == {verb.made for verb in VERBS.values()}


def test_what_lasts_until_it_is_ended_can_be_undone() -> None:
    assert [
        verb.name for verb in VERBS.values() if verb.effect.lasts is Lasts.UNTIL_ENDED and not verb.effect.undoable
    ] == []
