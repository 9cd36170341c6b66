"""Frozen dataclasses that are made for every record, fetch or delivery.

mypy reads `dataclass` of this module as that of the standard library, so nothing may assign to a field of a class with
`frozen=True`. At run time the class is an ordinary one: to make a frozen one calls `object.__setattr__` for each field,
which takes four times as long.

    from replica.frozen import dataclass

    @dataclass(frozen=True, slots=True)
    class FetchReceived: ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, eq: bool = True, **options: Any) -> Callable[[type], type]:
        """As dataclasses.dataclass; equal values have equal hashes."""

        def made(cls: type) -> type:
            has_own_hash = "__hash__" in vars(cls)
            return dataclasses.dataclass(eq=eq, unsafe_hash=frozen and eq and not has_own_hash, **options)(cls)

        return made
