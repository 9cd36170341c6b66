"""Operations, such as requests, that wait for events on one or more keys, such as partitions.

The caller handles timeouts. Source: DelayedOperationPurgatory
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Op = TypeVar("Op", bound=Hashable)


class Purgatory(Generic[Op]):
    """Waiting operations by key. Removing an operation removes it under all its keys.

    Operations are dict keys, so a dataclass needs `eq=False` unless equal operations are the same.
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
        """Add `operation` under all `keys`, after the operations that wait already."""
        assert operation not in self._keys, "an operation waits once"
        self._keys[operation] = dict.fromkeys(keys)
        for key in self._keys[operation]:
            self._watchers.setdefault(key, {})[operation] = None

    def watch_too(self, operation: Op, key: Hashable) -> None:
        """Add one more key to a waiting operation."""
        if key not in self._keys[operation]:
            self._keys[operation][key] = None
            self._watchers.setdefault(key, {})[operation] = None

    def operations(self, key: Hashable) -> tuple[Op, ...]:
        """Return the operations under `key` in order of arrival, as a copy, so that the caller may remove some."""
        return tuple(self._watchers.get(key, ()))

    def remove(self, operation: Op) -> bool:
        """Remove `operation` under all its keys. Return True if it was waiting, and must now be answered."""
        keys = self._keys.pop(operation, None)
        if keys is None:
            return False
        for key in keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
        return True
