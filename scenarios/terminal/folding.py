"""A text in lines, and a table in columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Sequence

_COLOUR = re.compile("\x1b\\[[0-9;]*m")


def folded(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """At least one line. A name stays whole: `kafka-east-1` is no compound of words.

    first, rest: what the first line and the others begin with, part of the width
    """
    lines = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return lines or [first]


def table_lines(
    rows: Sequence[Sequence[str]], right: Collection[int] = (), *, indent: str = "  ", gap: str = "  "
) -> list[str]:
    """Align the cells in columns, each as wide as its widest cell; cells may be coloured.

    Args:
        rows: all with the same number of cells; heads are the first row.
        right: indexes of the columns that are aligned to the right.
    """
    lengths = [[len(_COLOUR.sub("", cell)) for cell in row] for row in rows]
    widths = [max(column) for column in zip(*lengths, strict=True)]
    lines = []
    for row, used in zip(rows, lengths, strict=True):
        rooms = [" " * (width - length) for width, length in zip(widths, used, strict=True)]
        cells = [
            room + cell if place in right else cell + room
            for place, (cell, room) in enumerate(zip(row, rooms, strict=True))
        ]
        lines.append(f"{indent}{gap.join(cells)}".rstrip())
    return lines
