"""Metrics of running clusters: which followers hold back each high watermark, acked records at risk, request times."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.trace.ranges import OffsetRanges
from scenarios.metrics.gauges import ClusterGauges, GroupLags
from scenarios.observe.view import ClusterView, PartitionView

TIMES_KEPT = 1_028
"""Number of request times kept for quantiles, as many as in Kafka's histograms."""


class HeldBack(NamedTuple):
    """A partition whose leader has records above its high watermark.

    Attributes:
        holders: members of the ISR that have not fetched beyond the high watermark; empty if another reason holds it
            back, such as an ISR below min.insync.replicas.
        since_us: time since which records have been above this high watermark.
    """

    partition: TopicPartition
    holders: tuple[str, ...]
    since_us: int


@dataclass(slots=True)
class RequestTallies:
    """The counts and times of completed requests of one kind at one broker.

    # Differs from Kafka: quantiles are of the latest requests, not of a sample that favours the last five minutes.
    """

    by_version: dict[int, int] = field(default_factory=dict)
    total_us: deque[int] = field(default_factory=lambda: deque(maxlen=TIMES_KEPT))


@dataclass(slots=True)
class _Term:
    """The term of a partition's current leader.

    Attributes:
        fetched: offset of each follower's latest fetch.
        held_since_us: time since which records have been above the current high watermark, None if there are none.
    """

    start_offset: int = 0
    fetched: dict[str, int] = field(default_factory=dict)
    held_since_us: int | None = None


class LiveMetrics(Listener):
    """Listener that computes the metrics of a running cluster. `view` must get each event before this listener.

    Attributes:
        gone: lost acked records of each partition, updated by the caller.
        requests: counts and times of requests, by broker and Kafka's name for the kind of request.
    """

    def __init__(
        self,
        view: ClusterView,
        gone: Mapping[TopicPartition, Collection[str]],
        *,
        is_sampled: bool = False,
    ) -> None:
        self.view = view
        self.gauges = ClusterGauges(view, is_sampled=is_sampled)
        self.lags = GroupLags(view)
        self.parts = (self.gauges, self.lags)
        self.gone = gone
        self.requests: dict[tuple[str, str], RequestTallies] = {}
        self._terms: dict[TopicPartition, _Term] = {}
        self._acked: dict[TopicPartition, OffsetRanges] = {}

    def _term(self, event: trace.OnPartition) -> _Term | None:
        """Return the term of the leader that emitted an event, or None if its node does not lead the partition."""
        partition = TopicPartition(event.topic, event.partition)
        if self.view.leader(partition) != event.node:
            return None
        return self._terms.setdefault(partition, _Term())

    # --------------------------------------------------------------------------------------------- high watermarks

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        partition, end = TopicPartition(event.topic, event.partition), event.log_end_offset
        since_us = row.at_us if end > event.high_watermark else None
        self._terms[partition] = _Term(end, held_since_us=since_us)
        kept = OffsetRanges()  # Records that the new leader lacks are lost, and no longer at risk.
        for low, high in self._acked.pop(partition, ()):
            if low < end:
                kept.add(low, min(high, end - 1))
        self._acked[partition] = kept

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        if event.role == "leader" and (term := self._term(event)) is not None and term.held_since_us is None:
            term.held_since_us = row.at_us

    @on(trace.HighWatermarkAdvanced)
    def _advanced(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        if (term := self._term(event)) is not None:
            term.held_since_us = row.at_us if event.log_end_offset > event.high_watermark else None

    @on(trace.FollowerFetched)
    def _fetched(self, row: TraceRow, event: trace.FollowerFetched) -> None:
        if (term := self._term(event)) is not None:
            term.fetched[event.peer] = event.fetch_offset

    def holds(self) -> Iterator[HeldBack]:
        """Yield the partitions whose leader has records above the high watermark."""
        for partition, state in self.view.partitions.items():
            term, leading = self._terms.get(partition), self.view.leading_replica(partition)
            if term is None or leading is None or term.held_since_us is None:
                continue
            others = (name for name in state.isr if name != state.leader)
            holders = tuple(name for name in others if term.fetched.get(name, 0) <= leading.high_watermark)
            yield HeldBack(partition, holders, term.held_since_us)

    # --------------------------------------------------------------------------------------------------- acked records

    @on(trace.RecordAcked)
    def _record_acked(self, row: TraceRow, event: trace.RecordAcked) -> None:
        partition = TopicPartition(event.topic, event.partition)
        if event.offset >= 0 and self.view.leader(partition) == event.peer:
            self._acked.setdefault(partition, OffsetRanges()).add(event.offset, event.offset)

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        for known in (self._acked, self._terms):
            for partition in [name for name in known if name.topic == event.topic]:
                del known[partition]

    def at_risk(self) -> Iterator[tuple[TopicPartition, int]]:
        """Yield each partition with acked records, and how many of them one more failure or election could lose."""
        for partition, acked in self._acked.items():
            state = self.view.partitions.get(partition)
            if state is not None:
                safe = self._safe_below(state)
                yield partition, sum(high - max(low, safe) + 1 for low, high in acked if high >= safe)

    def _safe_below(self, state: PartitionView) -> int:
        """Return the offset below which no record is at risk.

        Records from the high watermark on are at risk: a member of the ISR lacks them, and a clean election may choose
        that member. So are records that fewer than two running replicas have.

        # Simplified: only log ends are compared. A replica that does not follow the current leader yet counts up to the
        log end with which that leader began.
        """
        term = self._terms.get(state.topic_partition, _Term())
        ends = [
            replica.log_end_offset
            if replica.leader_epoch == state.leader_epoch
            else min(replica.log_end_offset, term.start_offset)
            for replica in state.replicas.values()
            if self.view.running(replica.node)
        ]
        starts = [replica.log_start_offset for replica in state.replicas.values()]
        second = sorted(ends)[-2] if len(ends) > 1 else 0
        leading = self.view.leading_replica(state.topic_partition)
        safe = second if leading is None else min(second, leading.high_watermark)
        return max(safe, *starts, 0)

    # -------------------------------------------------------------------------------------------------------- requests

    @on(trace.RequestCompleted)
    def _completed(self, row: TraceRow, event: trace.RequestCompleted) -> None:
        names = [event.api]
        if event.api == "Fetch":  # Source: RequestChannel.updateRequestMetrics
            names.append("FetchFollower" if event.peer in self.view.brokers else "FetchConsumer")
        for name in names:
            times = self.requests.setdefault((event.node, name), RequestTallies())
            times.by_version[event.api_version] = times.by_version.get(event.api_version, 0) + 1
            times.total_us.append(event.total_time_us)
