"""Checks the conditions of `highwater watch --fail-on`: states that must not last longer than a given time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from replica.wording import duration
from scenarios.watch.cluster_watch import ClusterWatch
from scenarios.watch.holds import HELD_FROM_US
from scenarios.watch.watched import broker_name

SAID: Final = {
    "offline": "{} had no leader",
    "under-min-isr": "the ISR of {} was below min.insync.replicas",
    "under-replicated": "{} had replicas outside the ISR",
    "hw-stalled": "the high watermark of {} did not move although records were above it",
    "no-answer": "{} did not answer",
}
"""For each kind of condition, the sentence about a partition or broker for which it was true too long."""


class Condition(NamedTuple):
    """A condition that fails the watch if it is true for `for_us` or longer."""

    kind: str
    for_us: int


def shortest_us(kind: str) -> int:
    """Return the smallest `for_us` that makes sense. A high watermark normally stands still between two fetches."""
    return HELD_FROM_US if kind == "hw-stalled" else 0


class Conditions:
    """The conditions of a watch, with the time since which each has been true for each partition or broker."""

    def __init__(self, wanted: Sequence[Condition]) -> None:
        self._wanted = wanted
        self._since: dict[tuple[str, str], int] = {}

    def look(self, watch: ClusterWatch, now_us: int) -> str | None:
        """Update the times. Return a sentence about the first condition that was true too long, None if none was."""
        failed, since = None, {}
        for condition in self._wanted:
            for what, true_since_us in _true(condition.kind, watch, now_us):
                key = (condition.kind, what)
                since[key] = min(true_since_us, self._since.get(key, true_since_us))
                lasted_us = now_us - since[key]
                if failed is None and lasted_us >= condition.for_us:
                    lasted = f" for {duration(lasted_us)}" if condition.for_us else ""
                    failed = f"{SAID[condition.kind].format(what)}{lasted}"
        self._since = since
        return failed


def _true(kind: str, watch: ClusterWatch, now_us: int) -> Iterator[tuple[str, int]]:
    """Yield (partition or broker, time since which it is known) for everything of which a condition is true."""
    if kind == "no-answer":
        silent = ((broker.broker_id, broker.silent_since_us) for broker in watch.brokers.values())
        yield from ((broker_name(broker), since_us) for broker, since_us in silent if since_us is not None)
        return
    for name, known in watch.partitions.items():
        answer, hold = known.answer, watch.holds.now.get(name)
        if kind == "hw-stalled":
            if hold is not None:
                yield str(name), now_us - hold.length_us
        elif (
            (kind == "offline" and answer.leader < 0)
            or (kind == "under-min-isr" and known.under_min_isr)
            or (kind == "under-replicated" and len(answer.isr) < len(answer.replicas))
        ):
            yield str(name), now_us
