"""The timeline: triggers, modifiers, and the one verb of each step."""

from __future__ import annotations

from scenarios.language.diagnostics import did_you_mean
from scenarios.language.steps import At, Payload, Step, When
from scenarios.language.values.condition_reading import read_state
from scenarios.language.values.reading import Fields, Reader
from scenarios.language.values.scope import Scope
from scenarios.language.values.synonyms import FIELD_SYNONYMS
from scenarios.language.values.yaml_source import Mapping, Node, Scalar
from scenarios.language.verbs.every import VERBS

STEPS_MAX = 2_000
TIMES_MAX = 10_000
MODIFIERS = ("at", "when", "timeout", "every", "times", "for", "as")


def read_labels(scope: Scope, node: Node, path: str) -> None:
    """All `as` of the timeline, before its steps are read: `"@name"` may point to any step that fires earlier."""
    reader = scope.reader
    for item, item_path in reader.items(node, path, "`timeline`"):
        label = item.get("as") if isinstance(item, Mapping) else None
        if label is None or not isinstance(item, Mapping):
            continue
        name = reader.text(label, f"{item_path}.as", "`as`")
        if not reader.check_slug(name, label.place, f"{item_path}.as", "`as`"):
            continue
        if name in scope.labels or name == "all":
            reader.error("E134", f"the label `{name}` is taken", label.place, path=f"{item_path}.as")
            continue
        scope.labels[name] = next((verb for verb in item.entries if verb in VERBS), "")


def read_timeline(scope: Scope, node: Node, path: str) -> tuple[Step, ...]:
    """Steps in file order. `read_labels` has been here before."""
    items = scope.reader.items(node, path, "`timeline`")
    if len(items) > STEPS_MAX:
        scope.reader.error("E140", f"{len(items)} steps; allowed are {STEPS_MAX:,}", node.place, path=path)
        return ()
    steps = [_read_step(scope, index, item, item_path) for index, (item, item_path) in enumerate(items)]
    return tuple(step for step in steps if step is not None)


def _read_step(scope: Scope, index: int, node: Node, path: str) -> Step | None:
    reader = scope.reader
    what = f"step {index + 1}"
    reader.places[path] = node.place
    if not isinstance(node, Mapping):
        reader.error("E111", f"{what} must be a mapping such as {{at: 10.5s, kill: b1}}", node.place, path=path)
        return None
    known_as = (f"help: a step has one verb: {', '.join(VERBS)}", f"help: and beside it: {', '.join(MODIFIERS)}")
    fields = reader.fields(node, path, what, (*MODIFIERS, *VERBS), known_as=known_as)
    trigger = _read_trigger(scope, fields)
    payload = _read_payload(scope, fields)
    every_us, times = _read_repetition(reader, fields)
    for_us = fields.time("for", None, 1)
    if for_us is not None and payload is not None and not payload.undoable:
        reader.error("E135", f"`for` cannot undo `{payload.verb}`", fields.key_place("for"), path=f"{path}.for")
    label = fields.read("as", lambda n, p: n.text if isinstance(n, Scalar) else None, None)
    if trigger is None or payload is None:
        return None
    return Step(
        index=index,
        trigger=trigger,
        payload=payload,
        label=label,
        every_us=every_us,
        times=times,
        for_us=for_us,
        line=node.place.line + 1,
    )


def _read_trigger(scope: Scope, fields: Fields) -> At | When | None:
    reader = scope.reader
    if ("at" in fields) == ("when" in fields):
        both = "at" in fields
        # A misspelt trigger was reported as an unknown field.
        misspelt = fields.node is not None and any(
            did_you_mean(key, ("at", "when"), FIELD_SYNONYMS) for key in fields.node.entries if key not in MODIFIERS
        )
        if both or not misspelt:
            title = f"{fields.what} has both `at` and `when`" if both else f"{fields.what} has no `at` and no `when`"
            place = fields.key_place("when") if both else fields.place
            reader.error("E135", title, place, path=fields.path, label="" if both else "add `at: 10.5s`")
        return None
    timeout = fields.time("timeout", None, 1)
    if "at" in fields:
        if timeout is not None:
            reader.error(
                "E135", "`timeout` belongs to `when`", fields.key_place("timeout"), path=f"{fields.path}.timeout"
            )
        return At(fields.time("at", 0))
    found = fields.get("when")
    assert found is not None
    return When(read_state(scope, *found, "`when`"), timeout)


def _read_payload(scope: Scope, fields: Fields) -> Payload | None:
    reader = scope.reader
    assert fields.node is not None
    verbs = [key for key in fields.node.entries if key in VERBS]
    if not verbs:
        # An unknown field is very likely the verb, misspelt; that was reported.
        if all(key in MODIFIERS for key in fields.node.entries):
            reader.error(
                "E135",
                f"{fields.what} has no verb",
                fields.place,
                path=fields.path,
                label="add one, such as `kill: b1`",
            )
        return None
    if len(verbs) > 1:
        reader.error(
            "E135",
            f"{fields.what} has two verbs, `{verbs[0]}` and `{verbs[1]}`",
            fields.key_place(verbs[1]),
            path=f"{fields.path}.{verbs[1]}",
            label="make it a step of its own",
        )
    found = fields.get(verbs[0])
    assert found is not None
    return VERBS[verbs[0]].read(scope, *found)


def _read_repetition(reader: Reader, fields: Fields) -> tuple[int | None, int]:
    every_us = fields.time("every", None, 1)
    times = fields.integer("times", 1, 1, TIMES_MAX)
    for key, other in (("every", "times"), ("times", "every")):
        if key in fields and other not in fields:
            reader.error("E135", f"`{key}` needs `{other}`", fields.key_place(key), path=f"{fields.path}.{key}")
    return every_us, times
