"""Checks the protocol's invariants (replica/RULES.md) while a simulated run goes on.

`InvariantChecker` is a listener of `replica.trace.TraceLog`, after `ClusterView` and `LogMirror`. Each property is one
small class of a module beside this one; each looks at what an event changed, never at
everything. Nothing is switched off where configuration may break a property: the committed log is re-based instead
(truth.py). Nor where an old rule may: a violation then names the rule that the run lacks (promises.py).

| how | which |
|---|---|
| every controller decision | S1 S12 S13 S18 S19 S20 |
| every registration of a broker | S21 |
| every append, truncation and recovery | S9 S10 (the end) S16 S17 S26 S27 (the end) S30 (the end) S31 |
| every move of a high watermark | S2 S3 S4 S6 S8 S14 S24 S25 |
| every start of a leadership | S5 S6 S12 S13 |
| every record sent, acked or read | S11 S25 S28 S29 S33 (the end) |
| every word of a group's coordinator | S34 S35 |
| through the probe | S7 S15 S22 S23 S32 |
| at the end of a run that ended quietly | L1 brokers, L2 ISR, L3 logs, L4 answers, L5 metadata |
| live, every request | L6 |
| live, every end of a process | L7 L8 |
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from replica.ids import TopicPartition
from replica.rules import Rules
from replica.trace import events as trace
from replica.trace.events import InvariantBroken, TraceEvent, TraceRow
from replica.trace.listening import Handler, Listener, on
from scenarios.check.promises import Circumstances, missing_rules, rules_after
from scenarios.observe.availability import IsGone, drop
from scenarios.observe.mirror import LogMirror
from scenarios.observe.truth import Truth
from scenarios.observe.view import ClusterView

NEWS_US = 3_000_000
"""All brokers have heard of what was written so long ago (L5)."""

EVENTS_KEPT = 20
"""events of a partition that a violation includes"""


class LeaderSnapshot(NamedTuple):
    """A broker that believes it leads. isr: committed as it knows it; maximal_isr: joined with its proposals."""

    node: str
    topic_partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[str, ...]
    maximal_isr: tuple[str, ...]
    pending: bool


class FetcherSnapshot(NamedTuple):
    """A running broker's fetcher for one partition, and the leader it asks."""

    node: str
    topic_partition: TopicPartition
    leader: str


class EpochCacheSnapshot(NamedTuple):
    """The leader-epoch cache of one open log: (epoch, start offset), oldest first."""

    node: str
    topic_partition: TopicPartition
    entries: tuple[tuple[int, int], ...]


class StableOffsetSnapshot(NamedTuple):
    """A broker that believes it leads. Readers of committed transactions get all below `last_stable_offset`."""

    node: str
    topic_partition: TopicPartition
    high_watermark: int
    last_stable_offset: int


class MetadataLogSnapshot(NamedTuple):
    """A controller's copy of the metadata log: (epoch, start offset), oldest first, and its known committed end.

    log_start_offset: records before it exist only in a snapshot
    """

    node: str
    entries: tuple[tuple[int, int], ...]
    end_offset: int
    high_watermark: int
    log_start_offset: int = 0


class CoresNow(Protocol):
    """What leaders know, read from their cores, and their clocks; it may be asked for within a step, by a handler."""

    def min_isr(self, node: str, topic_partition: TopicPartition) -> int | None:
        """min.insync.replicas as a leader's log has it, at most the number of replicas where it goes by that; None: it
        does not lead."""
        ...

    def partition_epoch(self, node: str, topic_partition: TopicPartition) -> int | None:
        """As a leader knows it; None: it does not lead."""
        ...

    def clocks_apart_us(self) -> int:
        """How far jumps have taken any wall clock, at most, from any other, then or now."""
        ...


class Probe(Protocol):
    """State that is not in the trace, read from the brokers' cores between two steps, without brokers that are down."""

    def leader_states(self) -> Sequence[LeaderSnapshot]: ...

    def fetchers(self) -> Sequence[FetcherSnapshot]: ...

    def epoch_caches(self) -> Sequence[EpochCacheSnapshot]: ...

    def stable_offsets(self) -> Sequence[StableOffsetSnapshot]: ...

    def committed_readers(self) -> Sequence[str]:
        """Consumers with isolation.level=read_committed."""
        ...

    def metadata_offsets(self) -> tuple[int, Mapping[str, int]]:
        """End of the controllers' metadata log, and how far each running broker has applied it."""
        ...

    def metadata_logs(self) -> Sequence[MetadataLogSnapshot]:
        """Of every controller of the quorum that was ever up; one that is down has the log on its disk."""
        ...


@dataclass(frozen=True, slots=True)
class Violation:
    """A property that did not hold; `last_events` are the latest events of its partition, oldest first.

    missing_rules: why the rules of the run do not promise it, () when they do
    """

    invariant: str
    sentence: str
    partition: TopicPartition | None
    seq: int
    at_us: int
    missing_rules: tuple[str, ...] = ()
    last_events: tuple[TraceRow, ...] = ()

    @property
    def event(self) -> InvariantBroken:
        return InvariantBroken(
            invariant=self.invariant,
            promised=not self.missing_rules,
            finding=self.sentence,
            missing_rules=self.missing_rules,
        )


class Invariant(Listener):
    """Base of all properties: events it listens to, and where it reports.

    It takes events in trace order, with view, mirror and truth already after the event. A controller's decision is
    several events of one instant: `settled` is called once time has moved on after `checker.unsettle`, and reports what
    stood at the end of that instant (by then the view may have moved on).
    """

    NAME: ClassVar[str] = ""

    def __init__(self, checker: InvariantChecker) -> None:
        self.checker = checker
        self.view = checker.view
        self.mirror = checker.mirror
        self.truth = checker.truth

    def settled(self) -> None:
        """Judge what the last instant left behind."""

    def probed(self, probe: Probe) -> None:
        """Judge what the brokers' cores show."""

    def ended(self) -> None:
        """Judge the run as a whole; the final logs are in the trace by now."""

    def kept(self) -> tuple[dict[Any, Any], ...]:
        """What is known of single partitions, for as long as their topic is not gone: by keys that begin with it."""
        return ()

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful."""
        drop(is_gone, *self.kept())

    def at_rest(self, now_us: int) -> bool:
        """Whether nothing that this property waits for is still to come."""
        return True

    def broken(self, sentence: str, topic: str | None = None, number: int = 0, name: str = "") -> None:
        self.checker.report(name or self.NAME, sentence, None if topic is None else TopicPartition(topic, number))


class InvariantChecker(Listener):
    """All properties over one run. `violations` grows; the runner emits `take_new()` between two steps.

    rules: those that are in force, for the level of a feature can be changed (features.py)
    producer_expiration_us: the shortest producer.id.expiration.ms of all brokers at the start, None for Kafka's default
    fetch_wait_us: the longest replica.fetch.wait.max.ms of all brokers
    """

    def __init__(
        self,
        view: ClusterView,
        mirror: LogMirror,
        rules: Rules,
        invariants: Sequence[type[Invariant]] | None = None,
        *,
        producer_expiration_us: int | None = None,
        fetch_wait_us: int = 0,
    ) -> None:
        self.rules = rules
        self.fetch_wait_us = fetch_wait_us
        self.producer_expiration_us = producer_expiration_us
        self._rules_so_far = [rules]
        self.view = view
        self.mirror = mirror
        self.truth = Truth(view, mirror, rules)
        self.circumstances = Circumstances()
        self.violations: list[Violation] = []
        self.cores: CoresNow | None = None
        """For what has to be known within a step; None: nothing is known then."""
        self._reported = 0
        self._said: dict[tuple[str, TopicPartition | None], int] = {}
        self.touched: dict[tuple[str, int], None] = {}
        """Partitions of the events since it was last emptied (probe.PartitionRounds)."""
        self._recent: defaultdict[tuple[str, int], deque[TraceRow]] = defaultdict(lambda: deque(maxlen=EVENTS_KEPT))
        self._row: TraceRow | None = None
        self._unsettled_at_us: int | None = None
        self.invariants = [kind(self) for kind in (all_invariants() if invariants is None else invariants)]
        self.parts = (self.truth, self.circumstances, *self.invariants)

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        is_of_partition = hasattr(kind, "topic") and hasattr(kind, "partition")
        return (self._note_of_partition if is_of_partition else self._note, *super().handlers_of(kind))

    def _note(self, row: TraceRow, event: TraceEvent) -> None:
        if self._unsettled_at_us is not None and row.at_us > self._unsettled_at_us:
            self._settle()
        self._row = row

    def _note_of_partition(self, row: TraceRow, event: Any) -> None:
        """Nearly every event is of a partition: one call, not two."""
        if self._unsettled_at_us is not None and row.at_us > self._unsettled_at_us:
            self._settle()
        self._row = row
        key = (event.topic, event.partition)
        self._recent[key].append(row)
        self.touched[key] = None

    @on(trace.ConfigAltered)
    def _follow(self, row: TraceRow, event: trace.ConfigAltered) -> None:
        changed = rules_after(event, self._rules_so_far[0], self.rules)
        if changed != self.rules:
            self.rules = changed
            self._rules_so_far.append(changed)
            self.truth.rules = changed

    def is_enough_by_earlier_config(self, node: str, partition: TopicPartition, in_sync: int) -> bool:
        """Whether a leader does not know a larger min.insync.replicas yet, and by the one it knows these are enough.

        Not where the high watermark moves whatever the size of the ISR.
        """
        if self.rules.hw_advance != "min-isr":
            return False
        known = self.known_min_isr(node, partition)
        state = self.view.partitions[partition]
        if known is None and self.at_us - state.min_isr_changed_us < NEWS_US:
            known = state.min_isr_before
        return known is not None and known <= in_sync < state.min_isr

    def known_min_isr(self, node: str, partition: TopicPartition) -> int | None:
        """As the leader knows it; None: its core is not in this process, or it does not lead."""
        return None if self.cores is None else self.cores.min_isr(node, partition)

    def known_partition_epoch(self, node: str, partition: TopicPartition) -> int | None:
        """As the leader knows it; None: its core is not in this process, or it does not lead."""
        return None if self.cores is None else self.cores.partition_epoch(node, partition)

    @property
    def at_us(self) -> int:
        """Virtual time of the latest event."""
        return 0 if self._row is None else self._row.at_us

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful: nothing is reported of such a topic."""
        drop(is_gone, self.truth.committed, self._recent, self.touched)
        for invariant in self.invariants:
            invariant.forget(is_gone)

    def unsettle(self, at_us: int) -> None:
        """Ask for `settled` once time has moved past `at_us`."""
        self._unsettled_at_us = at_us

    def _settle(self) -> None:
        self._unsettled_at_us = None
        for invariant in self.invariants:
            invariant.settled()

    def probe(self, probe: Probe) -> None:
        """Look into the brokers' cores; call it between two steps, as often as its cost allows."""
        for invariant in self.invariants:
            invariant.probed(probe)

    def end(self) -> None:
        """The run is over and the final logs have been found."""
        self._settle()
        for invariant in self.invariants:
            invariant.ended()

    def at_rest(self, now_us: int) -> bool:
        """Whether no property waits for anything that is still to come."""
        return all(invariant.at_rest(now_us) for invariant in self.invariants)

    def take_new(self) -> list[InvariantBroken]:
        """Events about violations not taken before, for the runner to emit; one for each partition and rule."""
        new = self.violations[self._reported :]
        self._reported = len(self.violations)
        return [violation.event for violation in new]

    def report(self, name: str, sentence: str, partition: TopicPartition | None) -> None:
        """Once for each property and partition. Weakened: a deleted topic is no longer judged, nor is a new topic with
        its name: events name topics, and a broker may not know yet which of the two it holds."""
        if (name, partition) in self._said or (partition is not None and partition.topic in self.view.deleted_topics):
            return
        row = self._row
        seq, at_us = (row.seq, row.at_us) if row is not None else (-1, 0)
        self._said[name, partition] = seq
        recent = self._recent.get(partition, ()) if partition is not None else ()
        # What was never promised by the rules before may be found out later.
        happened = self.circumstances.seen
        missing = next(filter(None, (missing_rules(one, name, happened) for one in self._rules_so_far)), ())
        self.violations.append(Violation(name, sentence, partition, seq, at_us, missing, tuple(recent)))


def all_invariants() -> list[type[Invariant]]:
    """Every property, in the order of their names."""
    from scenarios.check.invariants import control as invariants_control
    from scenarios.check.invariants import elr as invariants_elr
    from scenarios.check.invariants import groups as invariants_groups
    from scenarios.check.invariants import liveness
    from scenarios.check.invariants import log as invariants_log
    from scenarios.check.invariants import records as invariants_records
    from scenarios.check.invariants import transactions as invariants_transactions

    found = [
        *invariants_control.INVARIANTS,
        *invariants_elr.INVARIANTS,
        *invariants_log.INVARIANTS,
        *invariants_records.INVARIANTS,
        *invariants_transactions.INVARIANTS,
        *invariants_groups.INVARIANTS,
        *liveness.INVARIANTS,
    ]
    return sorted(found, key=lambda kind: (kind.NAME[0] != "S", int(kind.NAME[1:].split()[0])))
