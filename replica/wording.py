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
