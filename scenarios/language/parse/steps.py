"""The timeline: triggers, modifiers, and the one verb of each step."""

from __future__ import annotations

from scenarios.language.diagnostics import did_you_mean
from scenarios.language.expect import RECORD_KINDS
from scenarios.language.parse.expect import event_name
from scenarios.language.steps import (
    ANSWER_KINDS,
    CHOICES_MAX,
    QUESTION_CHARACTERS_MAX,
    QUESTIONS_MAX,
    AnswerFromTrace,
    At,
    NamedThing,
    Payload,
    ScenarioQuestion,
    Step,
    When,
)
from scenarios.language.values.condition_reading import read_state
from scenarios.language.values.reading import Fields, Reader
from scenarios.language.values.scope import Scope
from scenarios.language.values.synonyms import FIELD_SYNONYMS
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, Sequence
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


# ------------------------------------------------------------------------------------------------------------ questions
#
# The `questions` block.

_FIELDS = ("at", "before", "ask", "choices", "answer", "answer_from", "because")


def only_answered_from_the_trace(node: Node) -> Node:
    """The questions that a variant takes over from its file: a written answer is about the file's own run."""
    if not isinstance(node, Sequence):
        return node
    return Sequence(node.place, [item for item in node.items if isinstance(item, Mapping) and item.get("answer_from")])


def read_questions(scope: Scope, node: Node, path: str) -> tuple[ScenarioQuestion, ...]:
    items = scope.reader.items(node, path, "`questions`")
    if len(items) > QUESTIONS_MAX:
        title = f"{len(items)} questions; allowed are {QUESTIONS_MAX}"
        scope.reader.error("E140", title, items[QUESTIONS_MAX][0].place, path=path, label="drop this one")
        return ()
    return tuple(_question(scope, item, item_path) for item, item_path in items)


def _question(scope: Scope, node: Node, path: str) -> ScenarioQuestion:
    fields = scope.reader.fields(node, path, "a question", _FIELDS, {"ask": '"Who leads t-0 now?"'})
    _one_of(fields, "at", "before", "write `at: 10s`, or `before: leader_elected`")
    _one_of(fields, "answer", "answer_from", "write one of `choices`, or `answer_from: {leader: t-0}`")
    choices = fields.read("choices", lambda n, p: _choices(scope, n, p), ())
    answer = _short_text(fields, "answer")
    _written_answer(fields, choices, answer)
    return ScenarioQuestion(
        ask=_short_text(fields, "ask") or "",
        at_us=fields.time("at", None),
        before=fields.read("before", lambda n, p: event_name(scope, n, p), None),
        choices=choices,
        answer=answer,
        answer_from=fields.read("answer_from", lambda n, p: _answer_from(scope, n, p), None),
        because=_short_text(fields, "because"),
    )


def _one_of(fields: Fields, one: str, other: str, label: str) -> None:
    if (one in fields) == (other in fields):
        title = f"{fields.what} needs exactly one of `{one}`, `{other}`"
        place = fields.key_place(other) if one in fields else fields.place
        fields.reader.error("E105", title, place, path=fields.path, label=label)


def _written_answer(fields: Fields, choices: tuple[str, ...], answer: str | None) -> None:
    reader, path = fields.reader, fields.path
    if answer is None:
        if "choices" in fields:
            label = "drop them, or write `answer`"
            title = "`choices` belong to a written `answer`: those of `answer_from` come from the trace"
            reader.error("E105", title, fields.key_place("choices"), path=f"{path}.choices", label=label)
        return
    if "because" not in fields:
        title = f"missing `because` in {fields.what}: a written answer gives its reason"
        reader.error("E105", title, fields.place, path=path, label="add `because: ...`")
    if answer not in choices:
        label = f"one of: {', '.join(choices)}" if choices else "add `choices: [..., ...]`"
        reader.error("E110", "`answer` is none of `choices`", fields.key_place("answer"), path=path, label=label)


def _choices(scope: Scope, node: Node, path: str) -> tuple[str, ...]:
    items = scope.reader.items(node, path, "`choices`")
    found = tuple(_bounded(scope, item, item_path, "a choice") for item, item_path in items[: CHOICES_MAX + 1])
    if not 2 <= len(items) <= CHOICES_MAX or len(set(found)) < len(found):
        title = f"`choices` are 2 to {CHOICES_MAX} different texts"
        scope.reader.error("E112", title, node.place, path=path, label=f"here are {len(items)}")
    return found


def _short_text(fields: Fields, key: str) -> str | None:
    scope = Scope(fields.reader)
    return fields.read(key, lambda node, path: _bounded(scope, node, path, f"`{key}`"), None)


def _bounded(scope: Scope, node: Node, path: str, what: str) -> str:
    text = scope.reader.text(node, path, what)
    if len(text) > QUESTION_CHARACTERS_MAX or not text.strip():
        title = f"{what} has {len(text)} characters; allowed are 1 to {QUESTION_CHARACTERS_MAX}"
        scope.reader.error("E112", title, node.place, path=path)
    return text


def _answer_from(scope: Scope, node: Node, path: str) -> AnswerFromTrace | None:
    fields = scope.reader.fields(node, path, "`answer_from`", (*ANSWER_KINDS, "by"))
    kinds = [kind for kind in ANSWER_KINDS if kind in fields]
    if len(kinds) != 1:
        title = f"`answer_from` needs exactly one of {', '.join(f'`{kind}`' for kind in ANSWER_KINDS)}"
        scope.reader.error("E105", title, node.place, path=path, label="such as {leader: t-0}")
        return None
    declared = ANSWER_KINDS[kinds[0]]
    if "by" in fields and not declared.has_moment:
        title = f"`{kinds[0]}` is judged at the end of the run"
        scope.reader.error("E110", title, fields.key_place("by"), path=f"{path}.by", label="drop `by`")
    found = fields.get(kinds[0])
    assert found is not None
    return AnswerFromTrace(kinds[0], _named(scope, declared.names, *found), fields.time("by", None))


def _named(scope: Scope, names: NamedThing, node: Node, path: str) -> str:
    if names is NamedThing.PARTITION:
        return str(scope.partition(node, path, names.value))
    if names is NamedThing.RECORDS:
        return scope.reader.choice(node, path, names.value, RECORD_KINDS)
    records = scope.records(node, path, names.value)
    if len(records) != 1:
        scope.reader.error("E124", f"`fate` is that of one record, not of {len(records)}", node.place, path=path)
        return ""
    return records[0]
