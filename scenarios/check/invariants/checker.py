"""The checker of the protocol's invariants (replica/RULES.md), which runs during a simulated or live run.

`InvariantChecker` listens to `replica.trace.TraceLog`, after `ClusterView` and `LogMirror`. Each invariant is a small
class in a module beside this one, and judges only what an event changed. No invariant is switched off because
configuration may break it: the committed log is re-based instead, that is, replaced by the new leader's log (truth.py).
Nor is it switched off because an old rule may break it: the violation then names the rule that the run lacks
(promises.py).

| judged at | invariants |
|---|---|
| every controller decision | S1 S12 S13 S18 S19 S20 |
| every registration of a broker | S21 |
| every append, truncation and recovery | S9 S10 (the end) S16 S17 S26 S27 (the end) S30 (the end) S31 |
| every move of a high watermark | S2 S3 S4 S6 S8 S14 S24 S25 |
| every start of a leadership | S5 S6 S12 S13 |
| every record sent, acked or read | S11 S25 S28 S29 S33 (the end) |
| every event of a group's coordinator | S34 S35 |
| every delivery to a share group | S36 S37 |
| every probe | S7 S15 S22 S23 S32 |
| the end of a run that ended quietly | L1 brokers, L2 ISR, L3 logs, L4 answers, L5 metadata |
| every request of a live run | L6 |
| every end of a process of a live run | L7 L8 |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

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

L = TypeVar("L", bound=Listener)

NEWS_US = 3_000_000
"""Time within which all brokers learn of a change of metadata (L5)."""


class LeaderSnapshot(NamedTuple):
    """The state of a broker that believes it leads a partition.

    Attributes:
        isr: the committed ISR as the broker knows it.
        maximal_isr: the committed ISR and the members that it has proposed.
        pending: whether a proposal is pending.
    """

    node: str
    topic_partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[str, ...]
    maximal_isr: tuple[str, ...]
    pending: bool


class FetcherSnapshot(NamedTuple):
    """A running broker's fetcher for one partition, and the leader from which it fetches."""

    node: str
    topic_partition: TopicPartition
    leader: str


class EpochCacheSnapshot(NamedTuple):
    """The leader-epoch cache of one open log.

    Attributes:
        entries: (epoch, start offset), oldest first.
    """

    node: str
    topic_partition: TopicPartition
    entries: tuple[tuple[int, int], ...]


class StableOffsetSnapshot(NamedTuple):
    """The offsets of a broker that believes it leads. Readers of committed records stop at `last_stable_offset`."""

    node: str
    topic_partition: TopicPartition
    high_watermark: int
    last_stable_offset: int


class MetadataLogSnapshot(NamedTuple):
    """A controller's copy of the metadata log.

    Attributes:
        entries: (epoch, start offset), oldest first.
        high_watermark: the end of the committed records as the controller knows it.
        log_start_offset: records before this offset exist only in a snapshot.
    """

    node: str
    entries: tuple[tuple[int, int], ...]
    end_offset: int
    high_watermark: int
    log_start_offset: int = 0


class CoresNow(Protocol):
    """State of leaders and of their clocks that is not in the trace, read from their state machines (cores).

    Handlers of events may call these methods within a step.
    """

    def min_isr(self, node: str, topic_partition: TopicPartition) -> int | None:
        """Return min.insync.replicas as the leader's log has it; None if the broker does not lead.

        The value is limited to the number of replicas if the leader's rules say so.
        """

    def partition_epoch(self, node: str, topic_partition: TopicPartition) -> int | None:
        """Return the partition epoch that the leader knows; None if the broker does not lead."""

    def clocks_apart_us(self) -> int:
        """Return the largest difference between two wall clocks that jumps may have caused so far."""


class Probe(Protocol):
    """State that is not in the trace, read from the cores of running brokers between two steps."""

    def leader_states(self) -> Sequence[LeaderSnapshot]: ...

    def fetchers(self) -> Sequence[FetcherSnapshot]: ...

    def epoch_caches(self) -> Sequence[EpochCacheSnapshot]: ...

    def stable_offsets(self) -> Sequence[StableOffsetSnapshot]: ...

    def committed_readers(self) -> Sequence[str]:
        """Return the consumers with isolation.level=read_committed."""

    def metadata_offsets(self) -> tuple[int, Mapping[str, int]]:
        """Return the end of the controllers' metadata log, and how far each running broker has applied it."""

    def metadata_logs(self) -> Sequence[MetadataLogSnapshot]:
        """Return the metadata log of every controller that was ever up, of a stopped controller from its disk."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold.

    Attributes:
        seq: sequence number in the trace of the event that showed it; -1 if there was none.
        missing_rules: reasons why the rules of the run do not promise the invariant; () if they promise it.
    """

    invariant: str
    sentence: str
    partition: TopicPartition | None
    seq: int
    at_us: int
    missing_rules: tuple[str, ...] = ()

    @property
    def event(self) -> InvariantBroken:
        return InvariantBroken(
            invariant=self.invariant,
            promised=not self.missing_rules,
            finding=self.sentence,
            missing_rules=self.missing_rules,
        )


class Invariant(Listener):
    """Base class of all invariants.

    An invariant receives events in the order of the trace. View, mirror and truth already include the event. A decision
    of the controller may cause several events at the same time. An invariant that judges such decisions calls
    `checker.unsettle`, after which `settled` is called before the first event of a later time. It reports what was true
    after the last of these events, because the view may have changed since.

    Attributes:
        NAME: name of the invariant in replica/RULES.md.
        view: the state of the cluster as the events show it.
        mirror: copies of all logs, made from the events.
        truth: the committed log of each partition.
    """

    NAME: ClassVar[str] = ""

    def __init__(self, checker: InvariantChecker) -> None:
        self.checker = checker
        self.view = checker.view
        self.mirror = checker.mirror
        self.truth = checker.truth

    def settled(self) -> None:
        """Report what was wrong after the last event of a moment."""

    def probed(self, probe: Probe) -> None:
        """Judge the state of brokers and controllers that is not in the trace."""

    def ended(self) -> None:
        """Judge the run as a whole. The final logs are in the trace by now."""

    def kept(self) -> tuple[dict[Any, Any], ...]:
        """Return the mappings whose keys begin with a topic. The entries of deleted topics are removed from them."""
        return ()

    def forget(self, is_gone: IsGone) -> None:
        """Forget deleted topics. See Forgetful."""
        drop(is_gone, *self.kept())

    def at_rest(self, now_us: int) -> bool:
        """Return whether the run may end early, because this invariant waits for no further event."""
        return True

    def broken(self, sentence: str, topic: str | None = None, number: int = 0, name: str = "") -> None:
        self.checker.report(name or self.NAME, sentence, None if topic is None else TopicPartition(topic, number))


class InvariantChecker(Listener):
    """The checker of all invariants in one run.

    `violations` grows. Between two steps the runner emits the events that `take_new` returns.

    Attributes:
        rules: the rules in force, which change with the levels of features.
        producer_expiration_us: the shortest producer.id.expiration.ms of all brokers at the start; None for Kafka's
            default.
        fetch_wait_us: the longest replica.fetch.wait.max.ms of all brokers.
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
        """The brokers' cores, which must be asked within a step; None if they are not in this process."""
        self._reported = 0
        self._said: dict[tuple[str, TopicPartition | None], int] = {}
        self.touched: dict[tuple[str, int], None] = {}
        """Partitions of the events since this was last emptied (probe.PartitionRounds)."""
        self._row: TraceRow | None = None
        self._unsettled_at_us: int | None = None
        self._shared: dict[type[Listener], Any] = {}
        self.invariants = [kind(self) for kind in (all_invariants() if invariants is None else invariants)]
        self.parts = (self.truth, self.circumstances, *self._shared.values(), *self.invariants)

    def shared(self, kind: type[L]) -> L:
        """Return the listener of this kind that several invariants share. It gets each event before they do."""
        if kind not in self._shared:
            self._shared[kind] = kind(self)  # type: ignore[call-arg]
        found: L = self._shared[kind]
        return found

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        is_of_partition = hasattr(kind, "topic") and hasattr(kind, "partition")
        return (self._note_of_partition if is_of_partition else self._note, *super().handlers_of(kind))

    def _note(self, row: TraceRow, event: TraceEvent) -> None:
        if self._unsettled_at_us is not None and row.at_us > self._unsettled_at_us:
            self._settle()
        self._row = row

    def _note_of_partition(self, row: TraceRow, event: Any) -> None:
        """Handle an event of a partition. It repeats `_note` to save a call, since most events are of this kind."""
        if self._unsettled_at_us is not None and row.at_us > self._unsettled_at_us:
            self._settle()
        self._row = row
        self.touched[event.topic, event.partition] = None

    @on(trace.ConfigAltered)
    def _follow(self, row: TraceRow, event: trace.ConfigAltered) -> None:
        changed = rules_after(event, self._rules_so_far[0], self.rules)
        if changed != self.rules:
            self.rules = changed
            self._rules_so_far.append(changed)
            self.truth.rules = changed

    def is_enough_by_earlier_config(self, node: str, partition: TopicPartition, in_sync: int) -> bool:
        """Return whether `in_sync` replicas are enough for an earlier min.insync.replicas that the leader may use.

        Return False if the high watermark moves regardless of the size of the ISR.
        """
        if self.rules.hw_advance != "min-isr":
            return False
        known = self.known_min_isr(node, partition)
        state = self.view.partitions[partition]
        if known is None and self.at_us - state.min_isr_changed_us < NEWS_US:
            known = state.min_isr_before
        return known is not None and known <= in_sync < state.min_isr

    def known_min_isr(self, node: str, partition: TopicPartition) -> int | None:
        """Return the leader's min.insync.replicas; None if `node` does not lead or its core is not in this process."""
        return None if self.cores is None else self.cores.min_isr(node, partition)

    def known_partition_epoch(self, node: str, partition: TopicPartition) -> int | None:
        """Return the leader's partition epoch; None if `node` does not lead or its core is not in this process."""
        return None if self.cores is None else self.cores.partition_epoch(node, partition)

    @property
    def at_us(self) -> int:
        """Return the virtual time of the latest event."""
        return 0 if self._row is None else self._row.at_us

    def forget(self, is_gone: IsGone) -> None:
        """Forget deleted topics, about which nothing is reported any more. See Forgetful."""
        drop(is_gone, self.truth.committed, self.touched)
        for invariant in self.invariants:
            invariant.forget(is_gone)

    def unsettle(self, at_us: int) -> None:
        """Request that `settled` is called on all invariants before the first event that is later than `at_us`."""
        self._unsettled_at_us = at_us

    def _settle(self) -> None:
        self._unsettled_at_us = None
        for invariant in self.invariants:
            invariant.settled()

    def probe(self, probe: Probe) -> None:
        """Let all invariants judge the brokers' cores. Call this between two steps, as often as its cost allows."""
        for invariant in self.invariants:
            invariant.probed(probe)

    def end(self) -> None:
        """Let all invariants judge the finished run. The final logs must be in the trace."""
        self._settle()
        for invariant in self.invariants:
            invariant.ended()

    def at_rest(self, now_us: int) -> bool:
        """Return whether the run may end early, because no invariant waits for a further event."""
        return all(invariant.at_rest(now_us) for invariant in self.invariants)

    def take_new(self) -> list[InvariantBroken]:
        """Return events for the violations that were not returned before, for the runner to emit."""
        new = self.violations[self._reported :]
        self._reported = len(self.violations)
        return [violation.event for violation in new]

    def report(self, name: str, sentence: str, partition: TopicPartition | None) -> None:
        """Record a violation, once for each invariant and partition.

        Weakened: a deleted topic is no longer judged, nor a new topic with its name. Events name topics, and a broker
        may not know yet which of the two it has.
        """
        if (name, partition) in self._said or (partition is not None and partition.topic in self.view.deleted_topics):
            return
        row = self._row
        seq, at_us = (row.seq, row.at_us) if row is not None else (-1, 0)
        self._said[name, partition] = seq
        # Damage from a time with other rules may show only now, so look at all rules so far.
        happened = self.circumstances.seen
        missing = next(filter(None, (missing_rules(one, name, happened) for one in self._rules_so_far)), ())
        self.violations.append(Violation(name, sentence, partition, seq, at_us, missing))


def all_invariants() -> list[type[Invariant]]:
    """Return every invariant in the order of the names."""
    from scenarios.check.invariants import control as invariants_control
    from scenarios.check.invariants import elr as invariants_elr
    from scenarios.check.invariants import groups as invariants_groups
    from scenarios.check.invariants import liveness
    from scenarios.check.invariants import log as invariants_log
    from scenarios.check.invariants import records as invariants_records
    from scenarios.check.invariants import shares as invariants_shares
    from scenarios.check.invariants import transactions as invariants_transactions

    found = [
        *invariants_control.INVARIANTS,
        *invariants_elr.INVARIANTS,
        *invariants_log.INVARIANTS,
        *invariants_records.INVARIANTS,
        *invariants_transactions.INVARIANTS,
        *invariants_groups.INVARIANTS,
        *invariants_shares.INVARIANTS,
        *liveness.INVARIANTS,
    ]
    return sorted(found, key=lambda kind: (kind.NAME[0] != "S", int(kind.NAME[1:].split()[0])))
