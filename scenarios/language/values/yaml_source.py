"""YAML text to a tree of nodes that know where they stand. Safe and bounded; every scalar stays text.

Built from the parser's events rather than from its loader: depth, node count, aliases, tags and duplicate keys are
judged while reading, before anything is built, and no scalar is typed by YAML 1.1 (where `on` is a key named True and
1:30 is ninety).
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scenarios.language.diagnostics import Diagnostic, Place, Problems, SourceText

FILE_BYTES_MAX = 1 << 20
DEPTH_MAX = 40
NODES_MAX = 50_000
SCALAR_CHARACTERS_MAX = 10_000

_PARSER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(slots=True)
class Scalar:
    """Text as written, quotes removed."""

    place: Place
    text: str
    quoted: bool = False

    @property
    def is_null(self) -> bool:
        return not self.quoted and self.text in ("~", "null")

    @property
    def is_empty(self) -> bool:
        return not self.quoted and self.text == ""

    @property
    def is_nothing(self) -> bool:
        return self.is_null or self.is_empty


@dataclass(slots=True)
class Sequence:
    place: Place
    items: list[Node] = field(default_factory=list)

    @property
    def is_nothing(self) -> bool:
        return not self.items


@dataclass(slots=True)
class Mapping:
    """Entries by key text, in file order; each keeps its key's node for its place."""

    place: Place
    entries: dict[str, tuple[Scalar, Node]] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        return not self.entries

    def get(self, key: str) -> Node | None:
        entry = self.entries.get(key)
        return None if entry is None else entry[1]


Node = Scalar | Sequence | Mapping


class _Stop(Exception):
    """The text cannot be read any further; the reason is among the problems."""


def read_text(path: Path, name: str, problems: Problems, *, follow: bool = True) -> str | None:
    """The file's text, its kind and size judged before a byte is read; None after noting why not.

    follow: whether it may be a link, or lie in a linked folder: not where a stranger has put it
    """

    def refuse(code: str, title: str, *notes: str) -> None:
        problems.add(Diagnostic(code=code, title=title, place=None, file=name, notes=notes))

    try:
        linked = None if follow else _link_in(path)
        if linked is not None:
            refuse("E101", f"`{name}` is not read: `{linked}` is a link, and shows what lies elsewhere")
            return None
        # A pipe without a writer is opened without waiting for one.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                refuse("E101", f"`{name}` is not a plain file")
                return None
            if status.st_size > FILE_BYTES_MAX:
                refuse("E102", f"`{name}` has {status.st_size:,} bytes; a scenario may have {FILE_BYTES_MAX:,}")
                return None
            data = stream.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        refuse("E101", f"cannot read `{name}`: {reason}")
        return None
    if len(data) > FILE_BYTES_MAX:
        refuse("E102", f"`{name}` grew beyond {FILE_BYTES_MAX:,} bytes while it was read")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        refuse("E101", f"`{name}` is not UTF-8 text (byte {error.start}, line {line})")
        return None


def _link_in(path: Path) -> Path | None:
    """The file itself, or a folder on the way to it as far as the path was given relative to this one."""
    given = [] if path.is_absolute() else [parent for parent in path.parents if parent != Path()]
    return next((place for place in (path, *given) if place.is_symlink()), None)


def parse(text: str, source: SourceText, problems: Problems) -> Node | None:
    """The one document of `text`, its places in `source`; None after noting what stops it."""
    builder = _Builder(source, problems)
    try:
        return builder.build(text)
    except _Stop:
        return None
    except yaml.YAMLError as error:
        problems.add(_syntax_error(error, source))
        return None


class _Builder:
    """Turns parser events into nodes without recursion, so that depth costs nothing before it is refused."""

    def __init__(self, source: SourceText, problems: Problems) -> None:
        self._source = source
        self._problems = problems
        self._open: list[Sequence | Mapping] = []
        self._keys: list[Scalar | None] = []
        self._root: Node | None = None
        self._nodes = 0

    def build(self, text: str) -> Node | None:
        documents = 0
        for event in yaml.parse(text, Loader=_PARSER):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse(
                        "E103", "a second document begins here; one file holds one scenario", event, "remove this"
                    )
            elif isinstance(event, yaml.NodeEvent):
                self._node(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close(event)
        return self._root

    def _refuse(self, code: str, title: str, event: Any, label: str = "") -> None:
        self._problems.add(Diagnostic(code=code, title=title, place=self._place(event), label=label))
        raise _Stop

    def _place(self, event: Any) -> Place:
        start, end = event.start_mark, event.end_mark
        length = end.column - start.column if end.line == start.line else 1
        return Place(self._source, start.line, start.column, max(1, length))

    def _node(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._refuse("E108", f"alias `*{event.anchor}`: anchors and aliases are not allowed", event)
        if event.anchor is not None:
            self._refuse("E108", f"anchor `&{event.anchor}`: anchors and aliases are not allowed", event)
        if event.tag is not None:
            self._refuse("E109", f"tag `{event.tag[:60]}`: tags are not allowed", event)
        self._nodes += 1
        if self._nodes > NODES_MAX:
            self._refuse("E102", f"more than {NODES_MAX:,} nodes", event)
        place = self._place(event)
        if isinstance(event, yaml.ScalarEvent):
            if len(event.value) > SCALAR_CHARACTERS_MAX:
                self._refuse("E102", f"a value of {len(event.value):,} characters", event)
            self._attach(Scalar(place, event.value, quoted=bool(event.style)))
            return
        if len(self._open) >= DEPTH_MAX:
            self._refuse("E102", f"nested more than {DEPTH_MAX} levels deep", event)
        if self._open and isinstance(self._open[-1], Mapping) and self._keys[-1] is None:
            self._refuse("E111", "a key must be plain text", event)
        node: Sequence | Mapping = Sequence(place) if isinstance(event, yaml.SequenceStartEvent) else Mapping(place)
        self._open.append(node)
        self._keys.append(None)

    def _close(self, event: Any) -> None:
        node = self._open.pop()
        self._keys.pop()
        if node.place.line == event.end_mark.line:
            node.place = Place(
                self._source, node.place.line, node.place.column, max(1, event.end_mark.column - node.place.column)
            )
        self._attach(node)

    def _attach(self, node: Node) -> None:
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
            return
        key = self._keys[-1]
        if key is None:
            assert isinstance(node, Scalar)
            self._keys[-1] = node
            return
        self._keys[-1] = None
        if key.text in parent.entries:
            first = parent.entries[key.text][0].place.line + 1
            self._problems.add(
                Diagnostic(
                    code="E107",
                    title=f"key `{key.text}` is given twice",
                    place=key.place,
                    label=f"first given in line {first}",
                )
            )
            return
        parent.entries[key.text] = (key, node)


_TOO_DEEP = "exceeded maximum nesting depth"
"""The scanner of libyaml as of PyYAML 6.0.4 says so before there are events; earlier ones left it to DEPTH_MAX."""


def _syntax_error(error: yaml.YAMLError, source: SourceText) -> Diagnostic:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read")
    if mark is None:
        return Diagnostic(code="E103", title=f"not YAML: {problem}", place=None, file=source.name)
    line = min(mark.line, len(source.lines) - 1)
    text = source.lines[line]
    place = Place(source, line, min(mark.column, len(text)) if mark.line == line else len(text))
    if problem == _TOO_DEEP:
        return Diagnostic(code="E102", title=f"nested more than {DEPTH_MAX} levels deep", place=place)
    # libyaml reports a tab in several wordings; the test is whether one stands at the place.
    before = text[: mark.column + 1]
    if "\t" in before and not before.strip("\t -"):
        column = before.index("\t")
        return Diagnostic(
            code="E106", title="a tab where spaces are needed", place=Place(source, line, column), label="use spaces"
        )
    context = getattr(error, "context", None)
    title = f"not YAML: {problem}" + (f" ({context})" if context else "")
    return Diagnostic(code="E103", title=title, place=place, label=_usual_fix(problem, place, error) or "here")


_TWO_COLONS = "mapping values are not allowed in this context"
_NO_COLON = "could not find expected ':'"
_NOT_A_NEIGHBOUR = ("did not find expected key", "did not find expected '-' indicator")
_TEXTS = ("title", "question", "ref", "ask", "because")
"""Keys whose value is a sentence."""


def _usual_fix(problem: str, place: Place, error: yaml.YAMLError) -> str:
    """What usually went wrong, as far as the lines show it; else nothing."""
    text, column = place.source.lines[place.line], place.column
    indent, line_above = _indent_of(text), _line_above(place)
    above = None if line_above is None else _indent_of(line_above)
    if problem == _TWO_COLONS and (pair := _PAIR.fullmatch(text[:column])):
        key, value = pair.groups()
        rest = text[column:].partition(" #")[0].rstrip()
        if key in _TEXTS and '"' not in (whole := value + rest) and "\\" not in whole and len(whole) <= 40:
            return f'quote a text with a colon: {key}: "{whole}"'
        return "a second colon in one line: quote the text, or begin a new line for the next key"
    if problem == _TWO_COLONS and above is not None and above != indent and _KEY.fullmatch(text[:column]):
        begun = _PAIR.fullmatch(line_above or "")
        may_be_text = begun is None or begun[1] in _TEXTS
        return _indented(indent, above) + (", and a text with a colon is quoted" if may_be_text else "")
    if problem in _NOT_A_NEIGHBOUR and above is not None and above != indent and column == indent:
        return _indented(indent, above)
    mark = getattr(error, "context_mark", None)
    began = place.line if mark is None else min(mark.line, place.line)
    if problem == _NO_COLON and not re.search(r":(\s|$)", place.source.lines[began]):
        return f"line {began + 1} is no `key: value`: a colon with a space after it is missing"
    return ""


_PAIR = re.compile(r"""[ ]*(?:-[ ]+)*([A-Za-z0-9][A-Za-z0-9._-]*):[ ]+([^\s"'\[{|>].*)""")
_KEY = re.compile(r"[ ]*(?:-[ ]+)*[A-Za-z0-9][A-Za-z0-9._-]*")


def _line_above(place: Place) -> str | None:
    """The line above that is neither empty nor a comment."""
    for line in reversed(place.source.lines[: place.line]):
        if line.strip() and not line.lstrip().startswith("#"):
            return line
    return None


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _indented(indent: int, above: int) -> str:
    return f"{_spaces(indent)} before it, the line above has {above or 'none'}: neighbours begin in one column"


def _spaces(count: int) -> str:
    return f"{count or 'no'} space{'' if count == 1 else 's'}"
