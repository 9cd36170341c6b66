"""The tables of steps in LANGUAGE.md, made of the declarations of the verbs."""

from __future__ import annotations

from collections.abc import Iterable

from scenarios.language.verbs.declaration import Declaration, Key

HEAD = "| step | what it does | may be left out | `for` |\n|---|---|---|---|\n"


def step_table(verbs: Iterable[Declaration]) -> str:
    return HEAD + "".join(row for verb in verbs for row in _rows(verb))


def _rows(verb: Declaration) -> Iterable[str]:
    may_miss = [key for key in verb.keys if not key.required and not key.bare and key.name not in verb.one_of]
    optional = ", ".join(map(_optional, may_miss))
    for number, (example, doc) in enumerate(verb.examples.items()):
        notes = (optional, "undoes it" if verb.undoable else "") if number == 0 else ("", "")
        yield f"| `{verb.name}: {example}` | {doc} | {notes[0]} | {notes[1]} |\n"


def _optional(key: Key) -> str:
    """`direction: both`, or only its name where nothing stands for it."""
    return f"`{key.name}: {key.kind.write(key.default)}`" if key.default and not key.default_of else f"`{key.name}`"
