"""Injected faults that delay, fail or drop the next requests of an API at some brokers.

All brokers of a process share one table. It outlives restarts of the brokers, and counts the requests that each fault
has affected. If each node has its own process, each process has its own table, so each broker counts separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import TopicPartition

Closing = Literal["after", "instead"]
"""When a connection is closed: after the response has left, or instead of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFault:
    """A fault that affects the next requests of one API.

    Attributes:
        fault: name of the scenario's step.
        brokers: names of the affected brokers.
        spared: names of the nodes whose requests are not affected.
        partitions: partitions that get the errors; empty for all.
        errors: the errors of the first request, the second and so on; empty for none.
        rounds: how often all `errors` are used, None for no limit.
        is_applied: True if the broker carries the request out before it answers with the error.
        close: None to leave the connection open.
        number: distinguishes faults that one step of the scenario has begun.
    """

    fault: str
    api: int
    brokers: Sequence[str]
    spared: Sequence[str]
    partitions: Sequence[TopicPartition] = ()
    errors: Sequence[ErrorCode] = ()
    rounds: int | None = 1
    is_applied: bool = False
    delay_us: int = 0
    throttle_ms: int = 0
    close: Closing | None = None
    number: int = 0

    @property
    def requests(self) -> int | None:
        """The number of requests that the fault affects; None for all."""
        return None if self.rounds is None else self.rounds * max(1, len(self.errors))

    def hits(self, partition: TopicPartition) -> bool:
        return not self.partitions or partition in self.partitions


class MetRequest(NamedTuple):
    """The fault that affects a request, and the error that the request gets, NONE if it gets none."""

    rule: RequestFault
    error: ErrorCode


class RequestFaults:
    """All injected faults of requests, the oldest first."""

    def __init__(self) -> None:
        self.rules: list[RequestFault] = []
        self._met: dict[RequestFault, int] = {}

    def meet(self, broker: str, peer: str, api: int, partitions: Iterable[TopicPartition] | None) -> MetRequest | None:
        """Return the fault that affects a request, and count the request; return None if there is none.

        Args:
            partitions: partitions in the request; None if this API has none.
        """
        for rule in self.rules:
            if rule.api != api or broker not in rule.brokers or peer in rule.spared:
                continue
            if rule.partitions and partitions is not None and not any(map(rule.hits, partitions)):
                continue
            met = self._met.get(rule, 0)
            if rule.requests is not None and met >= rule.requests:
                continue
            self._met = {known: count for known, count in self._met.items() if known in self.rules}
            self._met[rule] = met + 1
            return MetRequest(rule, rule.errors[met % len(rule.errors)] if rule.errors else ErrorCode.NONE)
        return None
