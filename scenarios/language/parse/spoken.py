"""Suggest the correct line for a step that a user wrote in words, such as `kill b1 at 5s` or `pause: b1 5s`.

The words are read like those of the command `highwater fault`. Only valid lines are suggested.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingType
from collections.abc import Sequence as SequenceType
from dataclasses import replace

import yaml

from scenarios.language.diagnostics import Problems, SourceText, did_you_mean, other_spelling
from scenarios.language.steps import MODIFIERS, Payload
from scenarios.language.values.reading import Reader, parse_time
from scenarios.language.values.scope import Scope
from scenarios.language.values.synonyms import FIELD_SYNONYMS
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, Sequence, parse
from scenarios.language.verbs.command_words import ShorthandError, split
from scenarios.language.verbs.every import VERBS, step_of

_CHARACTERS_MAX = 200
_CALL = re.compile(r"\b(leader|followers|isr|replicas|rack|others|coordinator)\s+(?:of\s+)?([\w.-]+)", re.ASCII)
_VERB_CALL = re.compile(r"([a-z_]+)\(([^()]*(?:\([^()]*\)[^()]*)?)\)")
_FILLERS = ("for", "and", "to", "from", "of", "on", "by", "with", "the", "broker", "node", "between", "->", "<->")


def words_of(*nodes: Node) -> list[str]:
    """Return the words of YAML nodes. A list becomes one word with commas; mappings and long texts give no words."""
    texts: list[str] = []
    for node in nodes:
        items = node.items if isinstance(node, Sequence) else [node]
        if not all(isinstance(item, Scalar) for item in items) and not node.is_nothing:
            return []
        texts.append(",".join(item.text for item in items if isinstance(item, Scalar) and not item.is_nothing))
    text = _CALL.sub(r"\1(\2)", " ".join(texts))
    if (called := _VERB_CALL.fullmatch(text)) is not None and called[1] in VERBS:
        text = f"{called[1]} {called[2]}"
    return re.sub(r",(?=\s)", " ", text).split() if len(text) <= _CHARACTERS_MAX else []


def line_meant(scope: Scope, words: SequenceType[str], at: str = "") -> str | None:
    """Return the keys of the step that the words describe, such as `at: 5s, kill: b1`; None if they describe none.

    Args:
        at: the time to use if the words contain none; empty if the step already has `at` or `when`.
    """
    left = list(words)
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if word in ("at", "after", "@") and re.fullmatch(r"[0-9].*", following):
            at, left[index : index + 2] = following, []
            break
        if index == 0 and parse_time(word):
            at, left[:1] = word, []
            break
    at = f"{at}s" if at.isdigit() else at
    left = [word for index, word in enumerate(left) if not index or word not in _FILLERS]
    if not left or (at and not parse_time(at)):
        return None
    name, *arguments = left
    if name.lower() == "isolate" and arguments:
        sides = scope.cut_off(*split(",".join(arguments)))
        return None if sides is None else f"{f'at: {at}, ' if at else ''}partition: {sides}"
    verb = other_spelling(" ".join(left[:2]), tuple(VERBS), FIELD_SYNONYMS) if len(left) > 2 else None
    if verb is not None:
        del arguments[0]
    else:
        verb = (did_you_mean if arguments else other_spelling)(name.lower(), tuple(VERBS), FIELD_SYNONYMS)
    if verb is None:
        return None
    try:
        step = step_of([verb, *arguments], scope.nodes, None, None)
    except ShorthandError:
        return None
    text = _flow({**({"at": at} if at else {}), **step})
    node = parse(f"{{{text}}}", SourceText.of("", text), Problems())
    value = node.get(verb) if isinstance(node, Mapping) else None
    payload, problems = (None, Problems()) if value is None else _read(scope, verb, value)
    payload = None if problems.found else payload
    if payload is not None and "for" in step and not payload.undoable:
        return line_meant(scope, ["kill", *words[1:]], at) if verb == "restart" else None
    return None if payload is None else text


def value_meant(scope: Scope, verb: str, value: Node) -> str | None:
    """Return the correct keys for a verb with a wrong value, such as `pause: b1 5s` or `pause: {b1: 5s}`; else None."""
    if not isinstance(value, Mapping):
        return line_meant(scope, [verb, *words_of(value)])
    entries = list(value.entries.values())
    if len(entries) != 1:
        return None
    with_key = line_meant(scope, [verb, *words_of(*entries[0])])
    return with_key or line_meant(scope, [verb, *words_of(entries[0][1])])


def step_meant(scope: Scope, node: Mapping, at: str) -> str | None:
    """Return the keys of the step that a mapping describes if its keys and values are read as words; else None.

    In `{kill: b1, b2}` YAML reads `b2` as a key without a value, so such a key is joined to the words before it.
    """
    entries = [entry for key, entry in node.entries.items() if key not in MODIFIERS]
    spaced = words_of(*(part for entry in entries for part in entry))
    listed: list[str] = []
    for key, value in entries if spaced else []:
        words = words_of(key, value)
        listed += words if not (value.is_nothing and listed) else [f"{listed.pop()},{' '.join(words)}"]
    values = words_of(*(value for _, value in entries))
    verb = next((index for index, word in enumerate(values) if word in VERBS), 0)
    for words in (listed, spaced, values[verb:]):
        meant = line_meant(scope, words, at)
        if meant is not None:
            return meant
    return None


def renamed(scope: Scope, verb: str, value: Node) -> str | None:
    """Return advice on the value of a step whose verb was misnamed; None if the value is right or unclear.

    Args:
        verb: the correct name of the verb.
    """
    _, problems = _read(scope, verb, value)
    if not problems.any_error:
        return None
    label = problems.sorted()[0].label
    for word in ("write", "for example"):
        if label.startswith((f"{word} [", f"{word} {{")):
            return f"{word} `{verb}: {label.removeprefix(word).strip()}`"
    meant = value_meant(scope, verb, value)
    return None if meant is None else f"write `{meant}`"


def _read(scope: Scope, verb: str, value: Node) -> tuple[Payload, Problems]:
    problems = Problems()
    return VERBS[verb].read(replace(scope, reader=Reader(problems), topics=dict(scope.topics)), value, ""), problems


def _flow(step: MappingType[str, object]) -> str:
    text: str = yaml.safe_dump(step, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
    return re.sub(r"'(\d+)'", r"\1", text.strip()[1:-1])
