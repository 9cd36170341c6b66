"""Small phrases that the sentences in the trace share."""

from __future__ import annotations

from collections.abc import Sequence


def listed(words: Sequence[str]) -> str:
    """`b1`, `b1 and b2`, `b1, b2 and b3`."""
    if len(words) < 2:
        return "".join(words)
    return ", ".join(words[:-1]) + " and " + words[-1]


def duration(microseconds: int) -> str:
    """`34.5 s`, `30 s`, `250 ms`: rounded for reading."""
    if abs(microseconds) >= 1_000_000:
        return f"{round(microseconds / 1_000_000, 1):g} s"
    return f"{round(microseconds / 1_000, 1):g} ms"


SHOWN_MAX = 100


def shown(text: str) -> str:
    """A name chosen by a client or a file, fit for a trace and a screen: only printable characters, bounded."""
    cut = text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."
    return spelt_out(cut)


def spelt_out(text: str) -> str:
    """`text` with what a terminal would obey, or would not show, in letters: `\\x1b`, `\\n`."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
