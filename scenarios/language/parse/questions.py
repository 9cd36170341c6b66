"""The `questions` block."""

from __future__ import annotations

from scenarios.language.expect import RECORD_KINDS
from scenarios.language.parse.expect import event_name
from scenarios.language.steps import (
    ANSWER_KINDS,
    CHOICES_MAX,
    QUESTION_CHARACTERS_MAX,
    QUESTIONS_MAX,
    AnswerFromTrace,
    NamedThing,
    ScenarioQuestion,
)
from scenarios.language.values.reading import Fields
from scenarios.language.values.scope import Scope
from scenarios.language.values.yaml_source import Mapping, Node, Sequence

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
