"""A voter's connections to the other voters: one request at a time on each, and a wait after each failure.

Source: RequestManager, KafkaRaftManager.buildNetworkClient
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from replica.ids import BrokerId

RETRY_BACKOFF_US = 20_000
"""controller.quorum.retry.backoff.ms"""
RECONNECT_BACKOFF_US, RECONNECT_BACKOFF_MAX_US = 50_000, 500_000
"""Of a voter that cannot be reached. Simplified: without jitter."""


@dataclass(slots=True)
class _Connection:
    busy: bool = False
    ready_us: int = 0
    failures: int = 0


class VoterConnections:
    """`others` in the order of the voters; iterating and `in` are about them."""

    def __init__(self, others: Iterable[BrokerId]) -> None:
        self._to = {voter: _Connection() for voter in others}

    def __iter__(self) -> Iterator[BrokerId]:
        return iter(self._to)

    def __len__(self) -> int:
        return len(self._to)

    def __contains__(self, voter: object) -> bool:
        return voter in self._to

    def next_send_us(self, voters: Iterable[BrokerId], never_us: int) -> int:
        """When the first of these can be sent a request; those that have one under way cannot."""
        return min((self._to[voter].ready_us for voter in voters if not self._to[voter].busy), default=never_us)

    def begin(self, voter: BrokerId, now_us: int) -> bool:
        """Whether a request can go out now; if so, one has."""
        connection = self._to[voter]
        if connection.busy or connection.ready_us > now_us:
            return False
        connection.busy = True
        return True

    def answered(self, voter: BrokerId) -> None:
        connection = self._to[voter]
        connection.busy, connection.failures = False, 0

    def refused(self, voter: BrokerId, now_us: int) -> None:
        """The answer was an error: the next request waits."""
        self._to[voter].ready_us = now_us + RETRY_BACKOFF_US

    def failed(self, voter: BrokerId, now_us: int) -> None:
        """The request could not be sent, or there was no answer in time."""
        connection = self._to[voter]
        wait_us = min(RECONNECT_BACKOFF_US << min(connection.failures, 10), RECONNECT_BACKOFF_MAX_US)
        connection.busy, connection.ready_us = False, now_us + wait_us
        connection.failures += 1
