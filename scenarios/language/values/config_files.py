"""Kafka's own configuration files: a file that a scenario names, or its lines pasted into the scenario.

A `server.properties` has the syntax of java.util.Properties: `key=value`, `key: value` or `key value`, comments that
begin with `#` or `!`, and lines that continue after a backslash. It is read into the same tree as a YAML mapping, in
which each key has its position in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from scenarios.language.diagnostics import Diagnostic, Place, Problems, SourceText
from scenarios.language.values.yaml_source import Mapping, Node, PropertyKey, Scalar, described, read_text

PROPERTIES_BYTES_MAX = 1 << 18
KEYS_MAX = 2_000

_ENTRY = re.compile(r"((?:\\.|[^\\=: \t\f])*)([ \t\f]*[=:]?[ \t\f]*)(.*)", re.DOTALL)
_LISTED = re.compile(r"([a-z][\w.]*=)([^\s=]*?)(?:,[ ]?(?=[a-z][\w.]*=)|$)")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(slots=True)
class ConfigFiles:
    """The configuration files that a scenario names in `config_file`, in or below its folder. Each is read once."""

    folder: Path | None = None
    """The folder of the scenario's file; None if the scenario is not a file."""
    texts: dict[str, str] = field(default_factory=dict)
    """Texts of the files read so far, by name. Without a folder, only files that are here at the start can be read."""

    def read(self, node: Scalar, path: str, problems: Problems) -> Mapping | None:
        """Read the keys of the file that `node` names. If it cannot be read, report the reason and return None."""

        def refuse(code: str, title: str, label: str = "") -> None:
            problems.add(Diagnostic(code=code, title=title, place=node.place, path=path, label=label))

        name = node.text
        text = self.texts.get(name)
        if text is None:
            file = self._inside(name)
            if file is None:
                why = "name a file below the folder of the scenario, such as server.properties"
                title = f"`config_file` cannot be `{name[:80]}`"
                if self.folder is None:
                    title, why = (
                        "`config_file` works only in a scenario file",
                        "paste the lines of the file below `config: |`",
                    )
                refuse("E101", title, why)
                return None
            found = Problems()
            text = read_text(file, name, found, follow=False)
            for problem in found.found:
                problems.add(replace(problem, place=node.place, path=path))
            if text is None:
                return None
            if advice := described(text):
                refuse("E111", f"`{name}` is the output of `--describe`, not a properties file", advice)
                return None
            self.texts[name] = text
        mapping = properties(text, SourceText.of(self._shown(name), text))
        if len(text) > PROPERTIES_BYTES_MAX or len(mapping.entries) > KEYS_MAX:
            refuse("E102", f"`{name}` is larger than any server.properties ({KEYS_MAX:,} keys, 256 KiB)")
            return None
        return mapping

    def _inside(self, name: str) -> Path | None:
        """Return the resolved path of a file; None if it is outside the folder, also through a symbolic link."""
        value = PurePosixPath(name)
        if self.folder is None or not name.isprintable() or value.is_absolute() or ".." in value.parts:
            return None
        try:
            folder = self.folder.resolve()
            file = (folder / value).resolve()
        except (OSError, RuntimeError):
            return None
        return file if file.is_relative_to(folder) and file != folder else None

    def _shown(self, name: str) -> str:
        return name if self.folder is None or self.folder == Path() else str(self.folder / name)


def pasted_properties(node: Scalar) -> Mapping | None:
    """Return the keys and values of a text pasted as `config`; None if the text cannot be read as settings.

    The text is either lines of a properties file below `config: |`, or one line as kafka-topics prints it, such as
    `cleanup.policy=compact,retention.ms=1`.
    """
    source, first = node.place.source, node.place.line + 1
    if described(node.text):
        return None
    if source.lines[node.place.line][node.place.column : node.place.column + 1] != "|":
        return _listed_properties(node)
    written = next((line for line in source.lines[first:] if line.strip()), "")
    return properties(node.text, source, first, len(written) - len(written.lstrip()))


def unpasted(config: Node) -> Node:
    """Return a pasted text as a mapping of its keys (see pasted_properties). Return any other node unchanged."""
    pasted = pasted_properties(config) if isinstance(config, Scalar) and "=" in config.text else None
    return pasted or config


def _listed_properties(node: Scalar) -> Mapping | None:
    found = list(_LISTED.finditer(node.text))
    if "".join(item[0] for item in found) != node.text:
        return None
    place = node.place
    begins = max(place.column, place.source.lines[place.line].find(node.text, place.column))  # After a quote, if any.
    mapping = Mapping(place)
    for item in found:
        key = replace(place, column=begins + item.start(1), length=len(item[1]) - 1)
        value = replace(place, column=begins + item.start(2), length=max(1, len(item[2])))
        mapping.entries[item[1][:-1]] = Scalar(key, item[1][:-1]), Scalar(value, item[2])
    return mapping


def properties(text: str, source: SourceText, line: int = 0, column: int = 0) -> Mapping:
    """Parse a properties text. If a key is given twice, the last value counts, as in Java.

    Args:
        line: line of `source` at which the text begins.
        column: column of `source` at which the text begins.
    """
    mapping = Mapping(Place(source, line, column))
    for number, start, logical in _logical_lines(SourceText.of("", text).lines):
        entry = _ENTRY.match(logical)
        assert entry is not None
        key, separator, value = entry.groups()
        place = Place(source, line + number, column + start, max(1, len(key)))
        value_place = replace(place, column=place.column + len(key) + len(separator), length=max(1, len(value)))
        name = _unescaped(key)
        mapping.entries[name] = (
            PropertyKey(place, name),
            Scalar(value_place if value else place, _unescaped(value).strip()),
        )
    return mapping


def _logical_lines(lines: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    """Yield (line number, indentation, text) of each logical line, which includes its continuation lines."""
    number = 0
    while number < len(lines):
        text = lines[number].lstrip(" \t\f")
        first, start = number, len(lines[number]) - len(text)
        number += 1
        if not text or text[0] in "#!":
            continue
        while (len(text) - len(text.rstrip("\\"))) % 2 and number < len(lines):
            text = text[:-1] + lines[number].lstrip(" \t\f")
            number += 1
        yield first, start, text


def _unescaped(text: str) -> str:
    def of(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _ESCAPED.get(match[2], match[2])

    return _ESCAPE.sub(of, text)
