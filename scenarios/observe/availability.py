"""Times in which a partition could not be written to or read from.

Writes are judged by demand: a window is a stretch without a single ack while some record waited for one. It begins
when the first such record was sent (or at the last ack before, if that is later) and ends with the next ack; if none
follows, when the producer gave up the last waiting record, or with the run. Reads are judged by service: a window is
a stretch in which no running broker leads the partition.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import islice, pairwise, zip_longest
from typing import Any, NamedTuple

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.observe.gone_topics import IsGone, drop
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.record_table import RecordEntry

PATIENCE_US = 1_000_000
"""Shorter waits are latency, not unavailability."""


class Window(NamedTuple):
    from_us: int
    to_us: int

    @property
    def length_us(self) -> int:
        return self.to_us - self.from_us


class Demand(NamedTuple):
    """The requests of producers to one partition, in microseconds; of neighbours that are the same in both, one.

    sent: ascending     answered: of the same records     acks: as they came, after one at 0
    """

    sent: array[int]
    answered: array[int]
    acks: array[int]


def write_windows(ledger: RecordLedger, partition: TopicPartition, end_us: int) -> list[Window]:
    """Stretches of at least PATIENCE_US in which records waited for an ack and none came; acks=0 never waits."""
    entries = (entry for entry in ledger if entry.topic_partition == partition)
    return _windows(_demands(entries, end_us).get(partition), end_us)


def all_write_windows(ledger: RecordLedger, end_us: int) -> dict[TopicPartition, list[Window]]:
    """The same of every partition that was written to."""
    return {partition: _windows(demand, end_us) for partition, demand in _demands(ledger, end_us).items()}


def _demands(entries: Iterable[RecordEntry], end_us: int) -> dict[TopicPartition, Demand]:
    demands: dict[TopicPartition, Demand] = {}
    for entry in entries:
        if entry.handed_over_us is not None:
            continue
        demand = demands.get(entry.topic_partition)
        if demand is None:
            demand = demands[entry.topic_partition] = Demand(array("q"), array("q"), array("q", [0]))
        sent_us, acked_us, failed_us = entry.sent_us, entry.acked_us, entry.failed_us
        if acked_us is not None and acked_us != demand.acks[-1]:
            demand.acks.append(acked_us)
        answered_us = acked_us if acked_us is not None else end_us if failed_us is None else failed_us
        if not demand.sent or (sent_us, answered_us) != (demand.sent[-1], demand.answered[-1]):
            demand.sent.append(sent_us)
            demand.answered.append(answered_us)
    return demands


def _windows(demand: Demand | None, end_us: int) -> list[Window]:
    if demand is None:
        return []
    sent, answered, acks = demand
    windows = []
    done = 0  # all before this place were answered by the latest ack looked at
    if any(one > other for one, other in pairwise(acks)):
        acks = array("q", sorted(acks))
    for last_ack, next_ack in zip_longest(acks, islice(acks, 1, None)):
        if next_ack is not None and next_ack - last_ack < PATIENCE_US:
            continue
        while done < len(sent) and answered[done] <= last_ack:
            done += 1
        window = _window_between(sent, answered, done, last_ack, next_ack, end_us)
        if window is not None and window.length_us >= PATIENCE_US:
            windows.append(window)
    return windows


def _window_between(
    sent: array[int], answered: array[int], first: int, last_ack: int, next_ack: int | None, end_us: int
) -> Window | None:
    """sent: ascending; answered: `end_us` if never. Records before place `first` waited no longer at `last_ack`."""
    close = end_us if next_ack is None else next_ack
    first_us, given_up_us = None, 0
    for place in range(first, bisect_left(sent, close)):
        if answered[place] > last_ack:
            first_us = sent[place] if first_us is None else first_us
            given_up_us = max(given_up_us, answered[place])
    if first_us is None:
        return None
    return Window(max(last_ack, first_us), min(given_up_us, end_us) if next_ack is None else next_ack)


class ServiceTimes:
    """Listener: when some running broker led each partition; `read_windows` are the gaps after the first time."""

    def __init__(self) -> None:
        self._leading: dict[TopicPartition, dict[str, None]] = {}
        self._gaps: dict[TopicPartition, list[Window]] = {}
        self._unserved_since: dict[TopicPartition, int] = {}
        self._handlers: dict[type, Callable[[TraceRow, Any], None]] = {
            trace.LeadershipBegan: self._leadership_began,
            trace.FollowingBegan: self._following_began,
            trace.NodeStopped: self._node_stopped,
        }

    def wants(self, kind: type) -> bool:
        return kind in self._handlers

    def __call__(self, row: TraceRow) -> None:
        handler = self._handlers.get(type(row.event))
        if handler is not None:
            handler(row, row.event)

    def read_windows(self, partition: TopicPartition, end_us: int) -> list[Window]:
        """Stretches of at least PATIENCE_US without a running leader."""
        gaps = list(self._gaps.get(partition, ()))
        since = self._unserved_since.get(partition)
        if since is not None:
            gaps.append(Window(since, end_us))
        return [gap for gap in gaps if gap.length_us >= PATIENCE_US]

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful."""
        drop(is_gone, self._leading, self._gaps, self._unserved_since)

    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        partition = TopicPartition(event.topic, event.partition)
        self._leading.setdefault(partition, {})[event.node] = None
        since = self._unserved_since.pop(partition, None)
        if since is not None:
            self._gaps.setdefault(partition, []).append(Window(since, row.at_us))

    def _following_began(self, row: TraceRow, event: trace.FollowingBegan) -> None:
        self._leads_no_more(TopicPartition(event.topic, event.partition), event.node, row.at_us)

    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        for partition in self._leading:
            self._leads_no_more(partition, event.node, row.at_us)

    def _leads_no_more(self, partition: TopicPartition, node: str, at_us: int) -> None:
        leading = self._leading.get(partition, {})
        if node in leading:
            del leading[node]
            if not leading:
                self._unserved_since[partition] = at_us
