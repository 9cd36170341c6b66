"""Readers of the timeline, with the trigger, modifiers and verb of each step, and of the `questions` block."""

from __future__ import annotations

from scenarios.language.diagnostics import Problems, did_you_mean, other_spelling
from scenarios.language.expect import RECORD_KINDS
from scenarios.language.parse.expect import event_name
from scenarios.language.steps import (
    ANSWER_KINDS,
    CHOICES_MAX,
    MODIFIERS,
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
from scenarios.language.values.reading import Fields, Reader, parse_time
from scenarios.language.values.scope import Scope
from scenarios.language.values.synonyms import FIELD_SYNONYMS
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, Sequence
from scenarios.language.verbs.every import VERBS

STEPS_MAX = 2_000
TIMES_MAX = 10_000
_TRANSACTIONS = "a producer with `transaction: {records: 10}` begins and ends transactions by itself"
_SEQUENCE = "steps do not wait for each other: give each its time since the start of the run, such as `at: 10.5s`"
_READERS = "a consumer in `workloads` reads by itself: `c1r: {kind: consumer, topic: t}`"
_TCP = "TCP never duplicates or reorders data; use `loss` or `latency` to delay messages"
_WAITS = dict.fromkeys(("wait", "sleep"), _SEQUENCE)
_NO_VERBS = {
    **_WAITS,
    **dict.fromkeys(("begin_transaction", "commit_transaction", "commit", "transaction"), _TRANSACTIONS),
    "rebalance": "a group rebalances when a member joins or leaves: write `stop: m1`",
    "fence": "the controller fences a broker that is down or cut off from it",
    "isolate": "list every side in `partition`: `partition: [[b1], [b2, b3, c1]]`",
    "unfence": "the controller unfences a broker when it hears from the broker again",
    "isr": "test the ISR with `check: {state: {t-0: {isr: [b1, b2]}}}`; set min.insync.replicas with `set_config`",
    "alter_topic": "use `set_config: {topic: t, config: {...}}`, or `create_partitions: {topic: t, count: 6}`",
    "commit_offsets": "members of a group commit by themselves; use `reset_offsets` to change committed offsets",
    **dict.fromkeys(("consume", "poll", "subscribe", "read"), _READERS),
    **dict.fromkeys(("duplicate", "reorder"), _TCP),
}
"""Words that are not verbs of the language, each with advice on how to get the effect."""
A_STEP = "write a list, such as `- {at: 10.5s, kill: b1}`"


def read_labels(scope: Scope, node: Node, path: str) -> None:
    """Read the labels (`as`) of all steps into `scope`. Call this before reading the steps, which may use `"@name"`."""
    reader = scope.reader
    for item, item_path in reader.items(node, path, "`timeline`", A_STEP):
        label = item.get("as") if isinstance(item, Mapping) else None
        if label is None or not isinstance(item, Mapping):
            continue
        name = reader.text(label, f"{item_path}.as", "`as`")
        if not reader.check_slug(name, label.place, f"{item_path}.as", "`as`"):
            continue
        if name in scope.labels or name == "all":
            reader.error("E134", f"the label `{name}` is already used", label.place, path=f"{item_path}.as")
            continue
        scope.labels[name] = next((verb for verb in item.entries if verb in VERBS), "")


def read_timeline(scope: Scope, node: Node, path: str) -> tuple[Step, ...]:
    """Return the steps in the order of the file. `read_labels` must have been called before."""
    items = scope.reader.items(node, path, "`timeline`", A_STEP)
    if len(items) > STEPS_MAX:
        scope.reader.error(
            "E140", f"the timeline has {len(items)} steps; at most {STEPS_MAX:,} are allowed", node.place, path=path
        )
        return ()
    steps = [_read_step(scope, index, item, item_path) for index, (item, item_path) in enumerate(items)]
    return tuple(step for step in steps if step is not None)


def _read_step(scope: Scope, index: int, node: Node, path: str) -> Step | None:
    reader = scope.reader
    what = f"step {index + 1}"
    reader.places[path] = node.place
    if not isinstance(node, Mapping):
        from scenarios.language.parse.spoken import line_meant, renamed, words_of

        words = words_of(*node.items) if isinstance(node, Sequence) else words_of(node)
        meant = line_meant(scope, words, "10.5s")
        named = other_spelling(" ".join(words), tuple(VERBS), FIELD_SYNONYMS)
        label = renamed(scope, named, Scalar(node.place, "")) if named else _NO_VERBS.get("".join(words[:1]))
        title = f"{what} must be a mapping such as {{at: 10.5s, kill: b1}}"
        reader.error("E111", title, node.place, path=path, label=f"write {{{meant}}}" if meant else label or "")
        return None
    verb = next((key for key in node.entries if key in VERBS), None)
    known_as = (
        f"help: a step has one verb: {', '.join(VERBS)}",
        f"help: and these keys beside the verb: {', '.join(MODIFIERS)}",
    )
    if _reads_as_another(scope, node, path, what, verb, known_as):
        return None
    beside = {**_NO_VERBS, **_without_verb(node)} if verb is None else {**_WAITS, **VERBS[verb].beside}
    if isinstance(node.get("wait"), Mapping):  # The user may mean a state, for which a step can wait: `when`.
        del beside["wait"]
    fields = reader.fields(node, path, what, (*MODIFIERS, *VERBS), known_as=known_as, elsewhere=beside)
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


def _reads_as_another(
    scope: Scope, node: Mapping, path: str, what: str, verb: str | None, known_as: tuple[str, ...]
) -> bool:
    """Report an unknown key with the step that the user probably meant. Return False if that is unclear.

    Examples are `{at: 5s, action: kill, target: b1}`, `5s: kill b1` and `{at: 5s, kill: b1, b2}`.
    """
    strange = {key: value for key, (_, value) in node.entries.items() if key not in (*MODIFIERS, *VERBS)}
    if not strange or (verb is not None and not all(value.is_nothing for value in strange.values())):
        return False
    from scenarios.language.parse.spoken import renamed, step_meant

    first, value = next(iter(strange.items()))
    spelling = other_spelling(first, tuple(VERBS), FIELD_SYNONYMS) if verb is None else None
    if spelling is not None and len(strange) == 1:
        label = renamed(scope, spelling, value)
    else:
        meant = step_meant(scope, node, "" if "at" in node.entries or "when" in node.entries else "10.5s")
        is_rest = verb is not None and node.entries[first][0].place.line == node.entries[verb][0].place.line
        unclear = (
            f"the comma ends the value of `{verb}`: put a list in brackets, and give each key a value"
            if is_rest
            else None
        )
        label = unclear if meant is None else f"write `{meant}`"
    if label is not None:
        title, place = f"unknown field `{first}` in {what}", node.entries[first][0].place
        field = f"{path}.{first}"
        scope.reader.error("E104", title, place, path=field, label=label, suggestion=spelling, notes=known_as)
    return label is not None


def _without_verb(node: Mapping) -> dict[str, str]:
    """Return hints, by key, for a step in which a time is a key or a verb is a value."""
    entries = {key: entry for key, entry in node.entries.items() if key not in MODIFIERS}
    times = {key: f"write `at: {key}`, and the verb as a key: `kill: b1`" for key in entries if parse_time(key)}
    texts = [value.text for _, value in entries.values() if isinstance(value, Scalar)]
    verb = next((text for text in texts if text in VERBS), None)
    return times or ({} if verb is None else dict.fromkeys(entries, f"write the verb as a key: `{verb}: ...`"))


def _read_trigger(scope: Scope, fields: Fields) -> At | When | None:
    reader = scope.reader
    if ("at" in fields) == ("when" in fields):
        both = "at" in fields
        # A misspelt trigger was already reported as an unknown field.
        misspelt = fields.node is not None and any(
            did_you_mean(key, ("at", "when"), FIELD_SYNONYMS) or parse_time(key.rpartition(" ")[2])
            for key in fields.node.entries
            if key not in MODIFIERS
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
                "E135",
                "`timeout` is allowed only in a step with `when`",
                fields.key_place("timeout"),
                path=f"{fields.path}.timeout",
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
        # An unknown field is probably the misspelt verb, which was already reported.
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
            label=VERBS[verbs[0]].beside.get(verbs[1], f"move `{verbs[1]}` to another step"),
        )
    found = fields.get(verbs[0])
    assert found is not None
    return _read_value(scope, verbs[0], *found)


def _read_value(scope: Scope, verb: str, node: Node, path: str) -> Payload | None:
    """Read the value of a verb. If a wrong value makes sense in words, report only the line that the user meant."""
    problems = scope.reader.problems
    before = len(problems.found)
    payload = VERBS[verb].read(scope, node, path)
    own = Problems(problems.found[before:])
    if not own.any_error:
        return payload
    first, *_ = own.sorted() or own.found
    takes_partition = any(key.name == "partition" for key in VERBS[verb].keys)
    has_line = first.label.startswith("write ") or (first.suggestion and not takes_partition)
    if has_line:
        return payload
    from scenarios.language.parse.spoken import value_meant

    meant = value_meant(scope, verb, node)
    if meant is None:
        return payload
    problems.take_back(before)
    scope.reader.error(first.code, first.title, node.place, path=path, label=f"write `{meant}`")
    return None


def _read_repetition(reader: Reader, fields: Fields) -> tuple[int | None, int]:
    every_us = fields.time("every", None, 1)
    times = fields.integer("times", 1, 1, TIMES_MAX)
    for key, other in (("every", "times"), ("times", "every")):
        if key in fields and other not in fields:
            place, label = fields.key_place(key), f"add `{other}: {'3' if other == 'times' else '5s'}`"
            reader.error("E135", f"`{key}` needs `{other}`", place, path=f"{fields.path}.{key}", label=label)
    return every_us, times


# ------------------------------------------------------------------------------------------------------------ questions
#
# Readers of the `questions` block.

_FIELDS = ("at", "before", "ask", "choices", "answer", "answer_from", "because")


def only_answered_from_the_trace(node: Node) -> Node:
    """Return only the questions whose answer is computed from the trace (`answer_from`).

    A variant inherits these from its file. An answer written in the file is about the file's own run.
    """
    if not isinstance(node, Sequence):
        return node
    return Sequence(node.place, [item for item in node.items if isinstance(item, Mapping) and item.get("answer_from")])


def read_questions(scope: Scope, node: Node, path: str) -> tuple[ScenarioQuestion, ...]:
    items = scope.reader.items(node, path, "`questions`")
    if len(items) > QUESTIONS_MAX:
        title = f"the scenario has {len(items)} questions; at most {QUESTIONS_MAX} are allowed"
        scope.reader.error("E140", title, items[QUESTIONS_MAX][0].place, path=path, label="drop this question")
        return ()
    return tuple(_question(scope, item, item_path) for item, item_path in items)


def _question(scope: Scope, node: Node, path: str) -> ScenarioQuestion:
    fields = scope.reader.fields(node, path, "a question", _FIELDS, {"ask": '"Who leads t-0 now?"'})
    _one_of(fields, "at", "before", "write `at: 10s`, or `before: leader_elected`")
    _one_of(fields, "answer", "answer_from", "write `answer: ...`, or `answer_from: {leader: t-0}`")
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


def _one_of(fields: Fields, item: str, other: str, label: str) -> None:
    if (item in fields) == (other in fields):
        title = f"{fields.what} needs exactly one of `{item}` and `{other}`"
        place = fields.key_place(other) if item in fields else fields.place
        fields.reader.error("E105", title, place, path=fields.path, label=label)


def _written_answer(fields: Fields, choices: tuple[str, ...], answer: str | None) -> None:
    reader, path = fields.reader, fields.path
    if answer is None:
        if "choices" in fields:
            label = "drop `choices`, or add `answer`"
            title = "`choices` needs `answer`; with `answer_from`, the choices come from the trace"
            reader.error("E105", title, fields.key_place("choices"), path=f"{path}.choices", label=label)
        return
    if "because" not in fields:
        title = f"missing `because` in {fields.what}: `answer` needs a reason"
        reader.error("E105", title, fields.place, path=path, label="add `because: ...`")
    if answer not in choices:
        label = f"choose one of {', '.join(choices)}" if choices else "add `choices: [..., ...]`"
        reader.error("E110", "`answer` is not one of `choices`", fields.key_place("answer"), path=path, label=label)


def _choices(scope: Scope, node: Node, path: str) -> tuple[str, ...]:
    items = scope.reader.items(node, path, "`choices`")
    found = tuple(_bounded(scope, item, item_path, "a choice") for item, item_path in items[: CHOICES_MAX + 1])
    if not 2 <= len(items) <= CHOICES_MAX or len(set(found)) < len(found):
        title = f"`choices` must be 2 to {CHOICES_MAX} different texts"
        scope.reader.error("E112", title, node.place, path=path, label=f"the list has {len(items)}")
    return found


def _short_text(fields: Fields, key: str) -> str | None:
    scope = Scope(fields.reader)
    return fields.read(key, lambda node, path: _bounded(scope, node, path, f"`{key}`"), None)


def _bounded(scope: Scope, node: Node, path: str, what: str) -> str:
    text = scope.reader.text(node, path, what)
    if len(text) > QUESTION_CHARACTERS_MAX or not text.strip():
        title = f"{what} has {len(text)} characters; 1 to {QUESTION_CHARACTERS_MAX} are allowed"
        scope.reader.error("E112", title, node.place, path=path)
    return text


def _answer_from(scope: Scope, node: Node, path: str) -> AnswerFromTrace | None:
    fields = scope.reader.fields(node, path, "`answer_from`", (*ANSWER_KINDS, "by"))
    kinds = [kind for kind in ANSWER_KINDS if kind in fields]
    if len(kinds) != 1:
        title = f"`answer_from` needs exactly one of {', '.join(f'`{kind}`' for kind in ANSWER_KINDS)}"
        scope.reader.error("E105", title, node.place, path=path, label="for example {leader: t-0}")
        return None
    declared = ANSWER_KINDS[kinds[0]]
    if "by" in fields and not declared.has_moment:
        title = f"`{kinds[0]}` is always judged at the end of the run"
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
        scope.reader.error("E124", f"`fate` needs exactly one record, not {len(records)}", node.place, path=path)
        return ""
    return records[0]
