"""Operations that wait: under which keys, and in which order they are looked at again.

Deadlines are the caller's business (timers of the core). source: DelayedOperationPurgatory
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Op = TypeVar("Op", bound=Hashable)


class Purgatory(Generic[Op]):
    """Each operation waits under one or more keys, and ends everywhere at once.

    Operations are compared by identity or by their own `__eq__`; a dataclass that waits wants `eq=False`.
    """

    __slots__ = ("_keys", "_watchers")

    def __init__(self) -> None:
        self._keys: dict[Op, dict[Hashable, None]] = {}
        self._watchers: dict[Hashable, dict[Op, None]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, operation: Op) -> bool:
        return operation in self._keys

    def watch(self, operation: Op, keys: Iterable[Hashable]) -> None:
        """Let `operation` wait under all `keys`, behind those already there."""
        assert operation not in self._keys, "an operation waits once"
        self._keys[operation] = dict.fromkeys(keys)
        for key in self._keys[operation]:
            self._watchers.setdefault(key, {})[operation] = None

    def watch_too(self, operation: Op, key: Hashable) -> None:
        """Let an operation that waits do so under one more key."""
        if key not in self._keys[operation]:
            self._keys[operation][key] = None
            self._watchers.setdefault(key, {})[operation] = None

    def operations(self, key: Hashable) -> tuple[Op, ...]:
        """The operations under `key`, in order of arrival; a snapshot, so completing one does not disturb the walk."""
        return tuple(self._watchers.get(key, ()))

    def remove(self, operation: Op) -> bool:
        """Forget `operation` under all its keys; whether it was waiting. Exactly one caller hears True, and answers."""
        keys = self._keys.pop(operation, None)
        if keys is None:
            return False
        for key in keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
        return True
