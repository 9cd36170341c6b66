"""How many objects are kept by something: for tests that nothing grows with what has come and gone."""

from __future__ import annotations

import gc
import sys
import types
from collections import Counter
from collections.abc import Iterable

_OF_THE_PROGRAM = (type, types.ModuleType, types.CodeType, types.BuiltinFunctionType, types.FrameType)


class Kept(Counter[str]):
    """Objects by the name of their type.     size_bytes: of all of them"""

    size_bytes = 0


def kept_by(roots: Iterable[object], but_not: Iterable[object] = ()) -> Kept:
    """All that can be reached from the roots: but through the globals of functions, and through `but_not`."""
    gc.collect()
    seen = {id(one) for one in but_not}
    todo: list[object] = [one for one in roots if id(one) not in seen]
    seen.update(map(id, todo))
    found = Kept()
    while todo:
        one = todo.pop()
        found[type(one).__name__] += 1
        found.size_bytes += sys.getsizeof(one)
        parts = one.__closure__ or () if isinstance(one, types.FunctionType) else gc.get_referents(one)
        for part in parts:
            if id(part) not in seen and not isinstance(part, _OF_THE_PROGRAM):
                seen.add(id(part))
                todo.append(part)
    return found


def objects_of(kinds: tuple[type, ...]) -> list[object]:
    """All that there are in this process."""
    return [one for one in gc.get_objects() if isinstance(one, kinds)]
