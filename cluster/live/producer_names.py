"""Which of the producers that share a client.id a request is from: many applications keep their library's default.

Each has a name of its own while it is there: the first the client's, the others with `#2`, `#3` and so on behind it. An
idempotent producer says by its producer id who it is. Of others only this shows: two connections to one broker that are
open, and over both of which records have come, are two producers; the second over one broker counts as the second over
another.
"""

from __future__ import annotations

from itertools import count

from replica.ids import SAME_CLIENT_MARK


class ProducerNames:
    """Names of the producers that have connections now."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[int, int]] = {}
        """By client and key of a producer: its producer id; without one -1, -2 and so on."""
        self._connections: dict[tuple[str, int], int] = {}
        self._anonymous: dict[tuple[str, str], set[int]] = {}
        """By client and broker: keys below 0 that are taken there."""

    def enter(self, client: str, node: str, producer_id: int) -> int:
        """The first records of a producer come over a connection. returns: its key"""
        key = producer_id
        if key < 0:
            taken = self._anonymous.setdefault((client, node), set())
            key = next(one for one in count(-1, -1) if one not in taken)
            taken.add(key)
        numbers = self._numbers.setdefault(client, {})
        if key not in numbers:
            numbers[key] = next(number for number in count(1) if number not in numbers.values())
        self._connections[client, key] = self._connections.get((client, key), 0) + 1
        return key

    def name(self, client: str, key: int) -> str:
        number = self._numbers[client][key]
        return client if number == 1 else f"{client}{SAME_CLIENT_MARK}{number}"

    def leave(self, client: str, node: str, key: int) -> None:
        """The connection has ended, or another producer sends over it."""
        if key < 0:
            self._anonymous[client, node].discard(key)
            if not self._anonymous[client, node]:
                del self._anonymous[client, node]
        self._connections[client, key] -= 1
        if not self._connections[client, key]:
            del self._connections[client, key], self._numbers[client][key]
            if not self._numbers[client]:
                del self._numbers[client]
