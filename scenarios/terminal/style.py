"""The style of a terminal: with or without colours, Unicode signs or plain ASCII, and the width."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TextIO

from replica.trace.signs import BROKER_MARKS, SIGNS

_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_WORDS: Mapping[str, str] = {
    "fault": "FAULT",
    "undone": "UNDONE",
    "isr": "ISR",
    "elected": "LEADER",
    "offline": "OFFLINE",
    "truncated": "TRUNCATE",
    "lost": "LOST",
    "down": "DOWN",
    "ended": "ENDED",
    "up": "UP",
    "refused": "REFUSED",
    "note": "NOTE",
    "bad": "FAIL",
}
_SIGNS: Mapping[str, tuple[str, str]] = {
    **{name: (sign, _WORDS[name]) for name, sign in SIGNS.items()},
    "good": ("✓", "ok"),
    "dot": ("·", "-"),
    "arrow": ("→", "->"),
    "rule": ("─", "-"),
    "step": ("○", "o"),
    "decisive": ("●", "*"),
    "bar": ("│", "|"),
    "leads": ("♛", "L"),
    "in": ("█", "#"),
    "out": ("·", "."),
    "frozen-in": ("≀", "="),
    "frozen-out": ("~", "~"),
    "gone-in": ("▼", "X"),
    "gone": ("╌", "x"),
    "good-record": ("✓", "+"),
    "gone-record": ("✕", "x"),
    "unseen-record": ("?", "?"),
    "no-ack-record": ("→", "-"),
    "missing-record": ("○", "o"),
    "none": ("–", "-"),
}
_COLOURS: Mapping[str, str] = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}
_LEVELS = ("▁▂▃▄▅▆▇█", "12345678")


@dataclass(frozen=True, slots=True)
class Style:
    """The style of a terminal.

    Attributes:
        colour: True to use colours.
        plain: True to use ASCII and words instead of Unicode signs.
        width: number of columns, between 80 and 100.
    """

    colour: bool = False
    plain: bool = False
    width: int = 100

    @classmethod
    def of(cls, stream: TextIO, environment: Mapping[str, str], *, plain: bool = False) -> Style:
        """Return the style of a stream.

        There is no colour if NO_COLOR or TERM=dumb is set, or if the stream is not a terminal. The style is plain if
        TERM=dumb is set or if the stream's encoding is not Unicode.
        """
        terminal = stream.isatty() and environment.get("TERM") != "dumb"
        unicode = (stream.encoding or "ascii").lower().replace("-", "") in ("utf8", "utf16", "utf32")
        asked = environment.get("COLUMNS", "")
        # Only the first digits count, because int() refuses more than 4300 digits.
        width = int(asked[:4]) if asked.isdecimal() else 100
        if terminal:
            width = shutil.get_terminal_size((100, 24)).columns
        plain = plain or environment.get("TERM") == "dumb" or not unicode
        colour = terminal and not plain and not environment.get("NO_COLOR")
        return cls(colour, plain, min(max(width, 80), 100))

    def sign(self, name: str) -> str:
        return _SIGNS[name][self.plain]

    def level(self, part: float) -> str:
        """Return a sign for a level between 0 and 1: a bar of this height, or a digit in plain style."""
        levels = _LEVELS[self.plain]
        return levels[min(int(part * len(levels)), len(levels) - 1)]

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.colour else text

    def broker(self, text: str, mark_index: int) -> str:
        """Return text in a broker's colour. `mark_index` is the broker's index from `mark_places`."""
        if not self.colour:
            return text
        # The colour must be readable on a light and on a dark background, because the background is unknown.
        return f"\x1b[38;5;{_of_256(BROKER_MARKS[mark_index].light)}m{text}\x1b[0m"

    def bold(self, text: str) -> str:
        return self.paint(text, "bold")

    def packed(self, parts: Sequence[str], between: str, indent: int) -> list[str]:
        """Join parts into lines, with as many parts on a line as fit."""
        lines = [" " * indent + parts[0]]
        for part in parts[1:]:
            if len(lines[-1]) + len(between) + len(part) <= self.width:
                lines[-1] += between + part
            else:
                lines.append(" " * indent + part)
        return lines


def _of_256(colour: str) -> int:
    """Return the number of the nearest colour in a terminal's 6 x 6 x 6 cube, whose first number is 16."""
    values = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    red, green, blue = (min(range(6), key=lambda level: abs(_LEVELS_OF_256[level] - value)) for value in values)
    return 16 + 36 * red + 6 * green + blue


_LEVELS_OF_256 = (0, 95, 135, 175, 215, 255)


# -------------------------------------------------------------------------------------------------------------- folding
#
# Functions that split and align texts.


def folded(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Split a text into one or more lines, without breaking names such as `kafka-east-1` at their hyphens.

    Args:
        first, rest: beginning of the first line and of all later lines, included in the width.
    """
    lines = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return lines or [first]


def table_lines(
    rows: Sequence[Sequence[str] | str],
    right: Collection[int] = (),
    *,
    indent: str = "  ",
    gap: str = "  ",
    widest: int | None = None,
) -> list[str]:
    """Return lines with the cells of a table aligned in columns. Cells may be coloured and may have several lines.

    Args:
        rows: the heads and the rows, with the same number of cells each. A string is a line of its own between rows.
        right: indexes of the columns that are aligned to the right.
        widest: largest width of a column, None for no limit. A longer cell shifts the rest of its line.
    """
    whole = [row for row in rows if not isinstance(row, str)]
    widths = [max(map(_width, column)) for column in zip(*whole, strict=True)]
    if widest is not None:
        widths = [min(width, widest) for width in widths]
    lines = []
    for row in rows:
        if isinstance(row, str):
            lines.append(row)
            continue
        for cells in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
            rooms = [" " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)]
            aligned = [
                room + cell if column in right else cell + room
                for column, (cell, room) in enumerate(zip(cells, rooms, strict=True))
            ]
            lines.append(f"{indent}{gap.join(aligned)}".rstrip())
    return lines


def _width(cell: str) -> int:
    return max(len(line) for line in _COLOUR.sub("", cell).split("\n"))


def pair_lines(names: tuple[str, str], texts: tuple[str, str], width: int, indent: str = "  ") -> list[str]:
    """Return lines with two texts, each beside its name. An empty text is left out."""
    longest = max(map(len, names))
    return [
        line
        for name, text in zip(names, texts, strict=True)
        if text
        for line in beside(f"{indent}{name:<{longest}}  ", text, width)
    ]


def beside(head: str, text: str, width: int) -> list[str]:
    """Return lines with a text beside its head, or below a long head that leaves too little space."""
    if len(head) + len(text) <= width:
        return [(head + text).rstrip()]
    if len(head) <= width // 2:
        return folded(text, width, head, " " * len(head))
    return [head.rstrip(), *folded(text, width, " " * 6, " " * 6)]
