"""How much observers keep, counted in entries and not in bytes."""

from __future__ import annotations

from collections import deque
from typing import Any


def entries_in(roots: list[Any], seen: set[int]) -> int:
    """In dictionaries and lists, and in those that they lead to."""
    count, waiting = 0, roots
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, str | int | type | None):
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            count += len(one)
            waiting += one.values()
        elif isinstance(one, list | tuple | set | deque):
            count += len(one) * (not isinstance(one, tuple))
            waiting += one
        elif type(one).__module__.startswith("scenarios"):
            names = (*getattr(one, "__dict__", ()), *getattr(type(one), "__slots__", ()))
            waiting += [getattr(one, name) for name in names if hasattr(one, name)]
    return count
