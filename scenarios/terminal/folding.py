"""A text in lines."""

from __future__ import annotations

import textwrap


def folded(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """At least one line. A name stays whole: `kafka-east-1` is no compound of words.

    first, rest: what the first line and the others begin with, part of the width
    """
    lines = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return lines or [first]
