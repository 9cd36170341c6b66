"""Read a file that a student hands in. It is untrusted text, so its size is limited and nothing in it is executed."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from scenarios.language.diagnostics import Diagnostic, Problems, ScenarioInvalid, SourceText
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, Sequence, parse, read_text

BYTES_MAX = 32 * 1024
STUDENT_CHARACTERS_MAX = 60
_HEAD_LINES = 20
_STUDENT = re.compile(r"#[ \t]*student:(.*)")


class BadName(ValueError):
    """Raised if a text cannot be a student's name. The message is the reason."""


@dataclass(frozen=True, slots=True)
class HandIn:
    """A file that was handed in.

    Attributes:
        file: path of the file.
        text: content of the file.
        student: name in the head of the file; empty if there is none.
        digest: SHA-256 of the content.
    """

    file: str
    text: str
    student: str
    digest: str


def checked_name(student: str) -> str:
    """Return a student's name with single spaces.

    Raises:
        BadName: if the name is too long, or has characters that are not allowed.
    """
    name = " ".join(student.split())
    if len(name) > STUDENT_CHARACTERS_MAX:
        raise BadName(f"the name has {len(name)} characters; at most {STUDENT_CHARACTERS_MAX} are allowed")
    if not name.isprintable():
        raise BadName(
            "the name has characters that cannot be printed: use only letters, digits, spaces and punctuation"
        )
    if name.startswith(("=", "+", "-", "@")):  # A spreadsheet would read such a name as a formula.
        raise BadName(f"the name must not begin with `{name[0]}`")
    return name


def read_hand_in(path: Path) -> HandIn:
    """Read a file that was handed in.

    Raises:
        ScenarioInvalid: if the file is not text, or is too large.
    """
    problems = Problems()
    text = read_text(path, str(path), problems, follow=False)
    if text is not None and len(text.encode()) > BYTES_MAX:
        title = f"`{path}` has {len(text.encode()):,} bytes; at most {BYTES_MAX:,} are allowed"
        problems.add(Diagnostic(code="E102", title=title, place=None, file=str(path)))
    if text is None or problems.any_error:
        raise ScenarioInvalid(str(path), problems.sorted())
    return HandIn(str(path), text, _student(text), hashlib.sha256(text.encode()).hexdigest())


def _student(text: str) -> str:
    """Return the name in the line `# student: NAME` at the top of a file; empty if it is missing or not allowed."""
    for line in text.splitlines()[:_HEAD_LINES]:
        match = _STUDENT.fullmatch(line)
        if match is not None:
            try:
                return checked_name(match[1])
            except BadName:
                return ""
    return ""


def read_answers(hand_in: HandIn, known: tuple[str, ...]) -> dict[str, str]:
    """Return the `answers` of a sheet as text, by name, without empty answers.

    Args:
        known: names of the answers that the sheet asks for.

    Raises:
        ScenarioInvalid: if the sheet has no answers, or an unknown or unreadable one.
    """
    problems = Problems()
    root = parse(hand_in.text, SourceText.of(hand_in.file, hand_in.text), problems)
    node: Node | None = root.get("answers") if isinstance(root, Mapping) else None
    if not isinstance(node, Mapping):
        if not problems.any_error:
            title = "the sheet has no `answers:` with one answer on each line below it"
            index = None if root is None else root.place
            problems.add(Diagnostic(code="E105", title=title, place=index, file=hand_in.file))
        raise ScenarioInvalid(hand_in.file, problems.sorted())
    answers: dict[str, str] = {}
    for key, (key_node, value) in node.entries.items():
        if key not in known:
            title = f"unknown answer `{key[:60]}`; the sheet asks for {', '.join(known)}"
            problems.add(Diagnostic(code="E104", title=title, place=key_node.place))
        elif (text := _text_of(value)) is None:
            title = f"the answer `{key}` must be a word, a number or a list"
            problems.add(Diagnostic(code="E111", title=title, place=value.place))
        elif text:
            answers[key] = text
    if problems.any_error:
        raise ScenarioInvalid(hand_in.file, problems.sorted())
    return answers


def _text_of(node: Node) -> str | None:
    """Return the text of an answer, which may be a scalar, a list or a set in braces; None for any other node."""
    if isinstance(node, Scalar):
        return "" if node.is_nothing else node.text.strip()
    members = node.items if isinstance(node, Sequence) else [key for key, _ in node.entries.values()]
    values = [] if isinstance(node, Sequence) else [value for _, value in node.entries.values()]
    if not all(isinstance(member, Scalar) for member in members) or not all(value.is_nothing for value in values):
        return None
    return ", ".join(member.text for member in members if isinstance(member, Scalar)) or "none"


# -------------------------------------------------------------------------------------------- the meaning of an answer
#
# Different spellings of the same answer are equal: `r21..r25`, `21-25`, `R21…R25`, `r25, r24, r21-23`; or `none`, `0`;
# or `seventeen`, `17`.


class AnswerForm(Enum):
    """The form of an answer. Each member's value is a hint on how to write such an answer."""

    RECORDS = "records such as r3..r9, or none"
    BROKER = "a broker such as b1"
    COUNT = "a number such as 7, or none"
    OFFSET = "an offset such as 7"
    MOMENT = "seconds such as 12.3"


Meaning = tuple[tuple[str, int, int], ...] | int | float
MOMENTS_APART_S = 0.5
ANSWER_CHARACTERS_MAX = 2000
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212~", "-"))
_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_NUMBER_WORD = re.compile(rf"(?<![\w-])(?<!twenty )(?:{'|'.join(_WORDS)})(?![\w-])")
"""A number up to twenty in words, but not a part of a larger number such as `twenty-one`."""
_IS_LOST = r"(?: (?:is|are|was|were))?(?: lost)?"
_NONE = re.compile(r"(?:0|no|none|nothing|nil|\u2205)(?: of (?:them|the records))?(?: acked)?(?: records?)?" + _IS_LOST)
_RANGE = re.compile(r" ?(?:\.{2,}|-+>?|\u2192|:|\b(?:up )?to\b|\bthrough\b|\buntil\b) ?")
_RECORDS = re.compile(r"([a-z]*)(\d{1,7})(?:\.\.([a-z]*)(\d{1,7}))?")
_COUNT = re.compile(r"(\d{1,9})(?:\.0+)?(?: acked)?(?: records?)?" + _IS_LOST)
_OFFSET = re.compile(r"(?:back )?(?:(?:to|at) )?(?:(?:the )?(?:offset|leo|hw) )?(\d{1,9})(?:\.0+)?")
_BROKER = re.compile(r"(?:the )?(?:(?:new )?leader )?(?:is )?(?:broker |node )?(?:b[-_ ]?)?(\d{1,3})(?: leads)?")
_MOMENT = re.compile(r"(?:at )?(?:(\d{1,3}):)?(\d{1,6}(?:[.,]\d{1,9})?) ?(m?s|(?:milli)?sec(?:ond)?s?)?")


def is_same(kind: AnswerForm, said: str, right: str) -> bool:
    meant, wanted = meaning(kind, said), meaning(kind, right)
    if isinstance(meant, float) and isinstance(wanted, float):
        return abs(meant - wanted) <= MOMENTS_APART_S
    return meant is not None and meant == wanted


def meaning(kind: AnswerForm, said: str) -> Meaning | None:
    """Return a canonical form of an answer, the same for all spellings; None if the answer cannot be read as `kind`.

    Records are returned as merged ranges, so that an answer of a million records costs no more than a single record.
    """
    text = " ".join(unicodedata.normalize("NFKC", said[:ANSWER_CHARACTERS_MAX]).casefold().translate(_DASHES).split())
    text = text.strip(" .'\"`\u201c\u201d\u2018\u2019\u00ab\u00bb")
    text = _NUMBER_WORD.sub(lambda word: str(_WORDS.index(word[0])), text)
    match kind:
        case AnswerForm.RECORDS:
            return () if _NONE.fullmatch(text) else _ranges(text)
        case AnswerForm.COUNT:
            return 0 if _NONE.fullmatch(text) else _number(_COUNT, text)
        case AnswerForm.OFFSET:
            return _number(_OFFSET, text)
        case AnswerForm.BROKER:
            return _number(_BROKER, text)
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    seconds = float(match[2].replace(",", ".")) / (1000 if (match[3] or "s").startswith("m") else 1)
    return seconds + 60.0 * int(match[1] or 0)


def _number(form: re.Pattern[str], text: str) -> int | None:
    match = form.fullmatch(text)
    return None if match is None else int(match[1])


def _ranges(text: str) -> tuple[tuple[str, int, int], ...] | None:
    """Return the merged ranges of record names in a text, such as ((r, 21, 25),) for `r21-23, 24 and r25`.

    A number without a letter gets the prefix `r`, as the exercises have only one producer. Return None if the text
    cannot be read.
    """
    words = _RANGE.sub("..", re.sub(r"^(?:the )?(?:(?:\d+ )?records?\b)?:? ?(?:from\b)?", "", text))
    words = re.sub(r"\b([a-z]) (?=\d)", r"\1", words)
    ranges: list[tuple[str, int, int]] = []
    for word in re.split(r"(?:[\s,;&+/{}()\[\]]|\band\b)+", words):
        match = _RECORDS.fullmatch(word)
        if match is None and word:
            return None
        if match is not None:
            prefix, first, other, last = match[1] or "r", int(match[2]), match[3], int(match[4] or match[2])
            if (other or prefix) != prefix:
                return None
            ranges.append((prefix, min(first, last), max(first, last)))
    merged: list[tuple[str, int, int]] = []
    for prefix, first, last in sorted(ranges):
        if merged and merged[-1][0] == prefix and first <= merged[-1][2] + 1:
            merged[-1] = (prefix, merged[-1][1], max(last, merged[-1][2]))
        else:
            merged.append((prefix, first, last))
    return tuple(merged) or None
