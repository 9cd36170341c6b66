"""Sets and sequences of record names as text: `r0..r9, r15..r19`, `none`. Both ways."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

RECORDS_MAX = 1_000_000

_ITEM = re.compile(r"([a-z]{1,8})(\d{1,7})(?:\s*\.\.\s*([a-z]{1,8})(\d{1,7}))?", re.ASCII)


class RecordSetError(ValueError):
    """The text is not a set of records."""


def parse_record_names(text: str) -> tuple[str, ...]:
    """`r0..r2, s5` -> (r0, r1, r2, s5), order and repetition kept. raises: RecordSetError"""
    if text.strip() in ("none", ""):
        return ()
    names: list[str] = []
    for item in text.split(","):
        names.extend(_names_of(item.strip(), RECORDS_MAX - len(names)))
    return tuple(names)


def _names_of(item: str, room: int) -> Iterator[str]:
    found = _ITEM.fullmatch(item)
    if found is None:
        raise RecordSetError(f"`{item[:60]}` is not a record or a range such as r0..r9")
    prefix, first, end_prefix, end = found.groups()
    if end is None:
        last = int(first)
    elif end_prefix != prefix:
        raise RecordSetError(f"`{item}` begins with {prefix} and ends with {end_prefix}")
    else:
        last = int(end)
    if last < int(first):
        raise RecordSetError(f"`{item}` runs backwards")
    if last - int(first) >= room:
        raise RecordSetError(f"`{item}` stands for too many records")
    return (f"{prefix}{number}" for number in range(int(first), last + 1))


def split_record_name(name: str) -> tuple[str, int]:
    """`r12` -> ("r", 12); a name without number sorts as itself, number -1. Zeros before it are part of the name."""
    digits = name[len(name.rstrip("0123456789")) :]
    number = digits.lstrip("0") or digits[-1:]
    return (name.removesuffix(number), int(number)) if number else (name, -1)


def format_record_names(names: Sequence[str]) -> str:
    """(r0, r1, r2, s5) -> `r0..r2, s5`; parsing it gives the same names in the same order."""
    if not names:
        return "none"
    runs: list[tuple[str, int, int]] = []
    for name in names:
        prefix, number = split_record_name(name)
        if runs and number >= 0 and runs[-1][0] == prefix and runs[-1][2] + 1 == number:
            runs[-1] = (prefix, runs[-1][1], number)
        else:
            runs.append((prefix, number, number))
    return ", ".join(_run_text(*run) for run in runs)


def _run_text(prefix: str, first: int, last: int) -> str:
    if first < 0:
        return prefix
    return f"{prefix}{first}" if first == last else f"{prefix}{first}..{prefix}{last}"
