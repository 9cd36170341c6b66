"""A file that a student hands in: text from a stranger, read with bounds. Nothing in it is run here."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from scenarios.language.diagnostics import Diagnostic, Problems, ScenarioInvalid, SourceText
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, parse, read_text

BYTES_MAX = 32 * 1024
STUDENT_CHARACTERS_MAX = 60
_HEAD_LINES = 20
_STUDENT = re.compile(r"#[ \t]*student:(.*)")


class BadName(ValueError):
    """No name of a student; the text says why."""


@dataclass(frozen=True, slots=True)
class HandIn:
    """student: as the file's head says, "" without a name     digest: sha256 of the bytes"""

    file: str
    text: str
    student: str
    digest: str


def checked_name(student: str) -> str:
    """raises: BadName"""
    name = " ".join(student.split())
    if len(name) > STUDENT_CHARACTERS_MAX:
        raise BadName(f"a name has at most {STUDENT_CHARACTERS_MAX} characters")
    if not name.isprintable():
        raise BadName("a name has letters, digits and signs only")
    if name.startswith(("=", "+", "-", "@")):  # A spreadsheet would take the teacher's column for a formula.
        raise BadName(f"a name does not begin with `{name[0]}`")
    return name


def read_hand_in(path: Path) -> HandIn:
    """raises: ScenarioInvalid when there is no text to judge"""
    problems = Problems()
    text = read_text(path, str(path), problems, follow=False)
    if text is not None and len(text.encode()) > BYTES_MAX:
        title = f"`{path}` has {len(text.encode()):,} bytes; an answer may have {BYTES_MAX:,}"
        problems.add(Diagnostic(code="E102", title=title, place=None, file=str(path)))
    if text is None or problems.any_error:
        raise ScenarioInvalid(str(path), problems.sorted())
    return HandIn(str(path), text, _student(text), hashlib.sha256(text.encode()).hexdigest())


def _student(text: str) -> str:
    """Of the first line `# student: NAME` of the head; a name that cannot be shown counts as none."""
    for line in text.splitlines()[:_HEAD_LINES]:
        found = _STUDENT.fullmatch(line)
        if found is not None:
            try:
                return checked_name(found[1])
            except BadName:
                return ""
    return ""


def read_answers(hand_in: HandIn, known: tuple[str, ...]) -> dict[str, str]:
    """The `answers` of a sheet, as text; those left empty are left out. raises: ScenarioInvalid"""
    problems = Problems()
    root = parse(hand_in.text, SourceText.of(hand_in.file, hand_in.text), problems)
    node: Node | None = root.get("answers") if isinstance(root, Mapping) else None
    if not isinstance(node, Mapping):
        if not problems.any_error:
            title = "the sheet has no `answers`: each on a line of its own, as `start` wrote it"
            place = None if root is None else root.place
            problems.add(Diagnostic(code="E105", title=title, place=place, file=hand_in.file))
        raise ScenarioInvalid(hand_in.file, problems.sorted())
    for key, (key_node, value) in node.entries.items():
        if key not in known:
            title = f"unknown answer `{key[:60]}`; the sheet asks for {', '.join(known)}"
            problems.add(Diagnostic(code="E104", title=title, place=key_node.place))
        elif not isinstance(value, Scalar):
            title = f"the answer `{key}` is one word or number"
            problems.add(Diagnostic(code="E111", title=title, place=value.place))
    if problems.any_error:
        raise ScenarioInvalid(hand_in.file, problems.sorted())
    answers = {key: value for key, (_, value) in node.entries.items() if isinstance(value, Scalar)}
    return {key: value.text.strip() for key, value in answers.items() if not value.is_nothing}
