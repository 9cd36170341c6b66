"""A YAML parser that builds a tree of nodes with their positions. It is safe and bounded, and every scalar stays text.

The tree is built from PyYAML's events instead of by PyYAML's loader. This way depth, number of nodes, aliases, tags and
duplicate keys are checked before anything is built. It also avoids the conversions of YAML 1.1, which reads `on` as
true and 1:30 as 90.
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
    """A scalar value as text, without quotes."""

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
class PropertyKey(Scalar):
    """A key of a .properties file, in which Kafka ignores keys that it does not know."""


@dataclass(slots=True)
class Sequence:
    place: Place
    items: list[Node] = field(default_factory=list)

    @property
    def is_nothing(self) -> bool:
        return not self.items


@dataclass(slots=True)
class Mapping:
    """The entries of a YAML mapping by key, in file order. Each entry also has its key's line and column."""

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
    """Raised if the text cannot be read any further. The reason has been reported."""


def read_text(path: Path, name: str, problems: Problems, *, follow: bool = True) -> str | None:
    """Return the text of a file. If it cannot be read, report the reason and return None.

    The type and size of the file are checked before anything is read.

    Args:
        name: name of the file in messages.
        follow: whether the file may be a link or lie in a linked folder. Must be False for names from untrusted input.
    """

    def refuse(code: str, title: str, *notes: str) -> None:
        problems.add(Diagnostic(code=code, title=title, place=None, file=name, notes=notes))

    try:
        linked = None if follow else _link_in(path)
        if linked is not None:
            refuse("E101", f"`{name}` is not read, because `{linked}` is a symbolic link")
            return None
        # O_NONBLOCK opens a pipe that has no writer without waiting for one.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                refuse("E101", f"`{name}` is not a plain file")
                return None
            if status.st_size > FILE_BYTES_MAX:
                refuse("E102", f"`{name}` has {status.st_size:,} bytes; at most {FILE_BYTES_MAX:,} are allowed")
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
    """Return the first symbolic link in the path of the file; None if there is none.

    The file itself is checked, and also its folders if the path is relative.
    """
    value = [] if path.is_absolute() else [parent for parent in path.parents if parent != Path()]
    return next((place for place in (path, *value) if place.is_symlink()), None)


def parse(text: str, source: SourceText, problems: Problems) -> Node | None:
    """Parse a text that contains one document. Report an error and return None if that fails.

    Args:
        source: the text with its name, for positions.
    """
    builder = _Builder(source, problems)
    try:
        return builder.build(text)
    except _Stop:
        return None
    except yaml.YAMLError as error:
        problems.add(_syntax_error(error, source))
        return None


class _Builder:
    """A builder of nodes from parser events. It does not recurse, so deep nesting is refused before it costs time."""

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
                        "E103", "a second document begins here, but a file has only one scenario", event, "remove this"
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
            self._refuse("E102", f"the file has more than {NODES_MAX:,} nodes", event)
        place = self._place(event)
        if isinstance(event, yaml.ScalarEvent):
            if len(event.value) > SCALAR_CHARACTERS_MAX:
                self._refuse(
                    "E102",
                    f"the value has {len(event.value):,} characters; at most {SCALAR_CHARACTERS_MAX:,} are allowed",
                    event,
                )
            self._attach(Scalar(place, event.value, quoted=bool(event.style)))
            return
        if len(self._open) >= DEPTH_MAX:
            self._refuse("E102", f"the file is nested more than {DEPTH_MAX} levels deep", event)
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
                    title=f"the key `{key.text}` is used twice",
                    place=key.place,
                    label=f"first used in line {first}",
                )
            )
            return
        parent.entries[key.text] = (key, node)


_TOO_DEEP = "exceeded maximum nesting depth"
"""Error of libyaml for deep nesting since PyYAML 6.0.4. With earlier versions, DEPTH_MAX is checked here."""


def _syntax_error(error: yaml.YAMLError, source: SourceText) -> Diagnostic:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read")
    if mark is None:
        return Diagnostic(code="E103", title=f"not YAML: {problem}", place=None, file=source.name)
    line = min(mark.line, len(source.lines) - 1)
    text = source.lines[line]
    place = Place(source, line, min(mark.column, len(text)) if mark.line == line else len(text))
    if problem == _TOO_DEEP:
        return Diagnostic(code="E102", title=f"the file is nested more than {DEPTH_MAX} levels deep", place=place)
    # libyaml has several messages about tabs, so look for a tab at the position instead.
    before = text[: mark.column + 1]
    if "\t" in before and not before.strip("\t -"):
        column = before.index("\t")
        return Diagnostic(
            code="E106",
            title="the line has a tab where spaces are needed",
            place=Place(source, line, column),
            label="use spaces",
        )
    context = getattr(error, "context", None)
    title = f"not YAML: {problem}" + (f" ({context})" if context else "")
    return Diagnostic(code="E103", title=title, place=place, label=_usual_fix(problem, place, error) or "here")


_TWO_COLONS = "mapping values are not allowed in this context"
_NO_COLON = "could not find expected ':'"
_NO_DOCUMENT = "did not find expected <document start>"
_NOT_A_NEIGHBOUR = ("did not find expected key", "did not find expected '-' indicator")
_TEXTS = ("title", "question", "ref", "ask", "because")
"""Keys of a scenario whose value is a sentence, which may need quotes."""


def _usual_fix(problem: str, place: Place, error: yaml.YAMLError) -> str:
    """Return advice on a syntax error if the lines around it show a common mistake; empty otherwise."""
    text, column = place.source.lines[place.line], place.column
    lines = place.source.lines
    indent, before = _indent_of(text), _line_above(place)
    line_above = None if before is None else lines[before]
    above = None if line_above is None else _indent_of(line_above)
    is_bare = above == indent and _BARE.fullmatch(line_above or "")
    if before is not None and is_bare and problem in (_TWO_COLONS, _NO_DOCUMENT):
        return _no_pair(before)
    if problem in _NOT_A_NEIGHBOUR and column == indent and _BARE.fullmatch(text):
        return _no_pair(place.line)
    if problem == _TWO_COLONS and (pair := _PAIR.fullmatch(text[:column])):
        key, value = pair.groups()
        rest = text[column:].partition(" #")[0].rstrip()
        if advice := described(text):
            return advice
        if key in _TEXTS and '"' not in (whole := value + rest) and "\\" not in whole and len(whole) <= 40:
            return f'quote a text with a colon: {key}: "{whole}"'
        return "this is a second colon in one line: quote the text, or put the next key on a new line"
    if problem == _TWO_COLONS and above is not None and above != indent and _KEY.fullmatch(text[:column]):
        begun = _PAIR.fullmatch(line_above or "")
        may_be_text = begun is None or begun[1] in _TEXTS
        return _indented(indent, above) + ("; quote a text with a colon" if may_be_text else "")
    if problem in _NOT_A_NEIGHBOUR and above is not None and above != indent and column == indent:
        return _indented(indent, above)
    mark = getattr(error, "context_mark", None)
    began = place.line if mark is None else min(mark.line, place.line)
    if problem == _NO_COLON and not re.search(r":(\s|$)", lines[began]):
        return _no_pair(began)
    return ""


_DESCRIBED = re.compile(
    r"^[^#!\n]*?(?:Topic:\s*([A-Za-z0-9._-]{1,249}).*?PartitionCount:\s*(\d+).*?ReplicationFactor:\s*(\d+).*?)?Configs:",
    re.MULTILINE,
)
_OF_KAFKA_CONFIGS = re.compile(r"^[^#!\n]* sensitive=\w+ synonyms=\{", re.MULTILINE)


def described(text: str) -> str:
    """Return advice on pasting if the text is output of `--describe` of Kafka's tools; empty for any other text."""
    if _OF_KAFKA_CONFIGS.search(text):
        return "keep only `key=value` of each line, and drop the text from ` sensitive=` on"
    match = _DESCRIBED.search(text)
    if match is None:
        return ""
    name, partitions, replicas = match.groups()
    if name is None:
        return "paste only the text after `Configs:`, in quotes"
    topic = f'`{name}: {{partitions: {partitions}, replication_factor: {replicas}, config: "..."}}`'
    return f"write {topic}, with the text after `Configs:` in the quotes"


_PAIR = re.compile(r"""[ ]*(?:-[ ]+)*([A-Za-z0-9][A-Za-z0-9._-]*):[ ]+([^\s"'\[{|>].*)""")
_KEY = re.compile(r"[ ]*(?:-[ ]+)*[A-Za-z0-9][A-Za-z0-9._-]*")


_BARE = re.compile(r"""\s*\w(?:(?!:\s|:$)[^"'{}\[\]])*""")
"""A line that is no `key: value`, such as a comment without `#`."""


def _no_pair(line: int) -> str:
    return f"line {line + 1} is not `key: value`: add the colon and a space, or the `#` of a comment"


def _line_above(place: Place) -> int | None:
    """Return the number, from 0, of the last line above that is neither empty nor a comment."""
    above = range(place.line - 1, -1, -1)
    return next((line for line in above if (text := place.source.lines[line].strip()) and text[0] != "#"), None)


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _indented(indent: int, above: int) -> str:
    return f"this line is indented by {_spaces(indent)}, the line above by {above or 'none'}: align them"


def _spaces(count: int) -> str:
    return f"{count or 'no'} space{'' if count == 1 else 's'}"
