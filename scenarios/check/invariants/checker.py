"""Check the protocol's invariants (replica/RULES.md) during a simulated or live run.

`InvariantChecker` listens to `replica.trace.TraceLog`, after `ClusterView` and `LogMirror`. Each invariant is a small
class in a module of this package, and checks only what an event changed. An invariant is never switched off:

1. If the configuration may break it (unclean elections, disks that lose bytes), the committed log is re-based, that is,
   replaced by the new leader's log (truth.py).
2. If an old rule may break it, the violation names the newer rule that the run lacks (promises.py).
3. A paragraph `Weakened:` in its docstring says what it does not demand, and why.

| checked at | invariants |
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
        isr: committed ISR as the broker knows it.
        maximal_isr: `isr` and the members that the broker has proposed to add.
        pending: True if the controller has not answered a proposal yet.
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
    """The offsets of a partition on a broker that believes it leads. read_committed stops at `last_stable_offset`."""

    node: str
    topic_partition: TopicPartition
    high_watermark: int
    last_stable_offset: int


class MetadataLogSnapshot(NamedTuple):
    """A controller's copy of the metadata log.

    Attributes:
        entries: (epoch, start offset), oldest first.
        high_watermark: end of the committed records as this controller knows it.
        log_start_offset: records below this offset exist only in a snapshot.
    """

    node: str
    entries: tuple[tuple[int, int], ...]
    end_offset: int
    high_watermark: int
    log_start_offset: int = 0


class CoresNow(Protocol):
    """The present state of leaders and clocks, read from the brokers' state machines (cores), as the trace lacks it.

    Handlers of events may call these methods within a step of the simulation.
    """

    def min_isr(self, node: str, topic_partition: TopicPartition) -> int | None:
        """Return the min.insync.replicas that the leader uses, or None if the broker does not lead.

        The value is limited to the number of replicas if the leader's rules say so.
        """

    def partition_epoch(self, node: str, topic_partition: TopicPartition) -> int | None:
        """Return the partition epoch that the leader knows; None if the broker does not lead."""

    def clocks_apart_us(self) -> int:
        """Return the largest difference between two wall clocks that clock jumps may have caused, in microseconds."""


class Probe(Protocol):
    """State that is not in the trace, read from the state machines of running brokers between two steps."""

    def leader_states(self) -> Sequence[LeaderSnapshot]: ...

    def fetchers(self) -> Sequence[FetcherSnapshot]: ...

    def epoch_caches(self) -> Sequence[EpochCacheSnapshot]: ...

    def stable_offsets(self) -> Sequence[StableOffsetSnapshot]: ...

    def committed_readers(self) -> Sequence[str]:
        """Return the consumers with isolation.level=read_committed."""

    def metadata_offsets(self) -> tuple[int, Mapping[str, int]]:
        """Return the end of the metadata log, and the offset up to which each running broker has applied it."""

    def metadata_logs(self) -> Sequence[MetadataLogSnapshot]:
        """Return the metadata log of every controller that ever ran; that of a stopped one is read from its disk."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold.

    Attributes:
        seq: sequence number of the event that showed it, -1 if there was none.
        missing_rules: reasons why the rules of the run do not promise the invariant, () if they promise it.
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

    An invariant receives events in the order of the trace. View, mirror and truth already include the event.

    A decision of the controller may cause several events at the same time. An invariant about such decisions calls
    `checker.unsettle` and waits until `settled` is called, before the first event of a later time. By then the view may
    have changed, so the invariant must have stored what was wrong after the last of these events.

    Attributes:
        NAME: name of the invariant in replica/RULES.md.
        view: state of the cluster according to the events.
        mirror: content of all logs according to the events.
        truth: committed log of each partition.
    """

    NAME: ClassVar[str] = ""

    def __init__(self, checker: InvariantChecker) -> None:
        self.checker = checker
        self.view = checker.view
        self.mirror = checker.mirror
        self.truth = checker.truth

    def settled(self) -> None:
        """Report what was wrong after the last event of the same time. See the class."""

    def probed(self, probe: Probe) -> None:
        """Check state of brokers and controllers that is not in the trace."""

    def ended(self) -> None:
        """Check the run as a whole. The final logs are in the trace by now."""

    def kept(self) -> tuple[dict[Any, Any], ...]:
        """Return the dictionaries whose keys begin with a topic. `forget` removes gone topics from them."""
        return ()

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of topics that are gone (see Forgetful)."""
        drop(is_gone, *self.kept())

    def at_rest(self, now_us: int) -> bool:
        """Return whether the run may end early, as far as this invariant is concerned."""
        return True

    def broken(self, sentence: str, topic: str | None = None, number: int = 0, name: str = "") -> None:
        self.checker.report(name or self.NAME, sentence, None if topic is None else TopicPartition(topic, number))


class InvariantChecker(Listener):
    """Listener that checks all invariants of one run and collects `violations`.

    Between two steps the runner emits the events that `take_new` returns.

    Attributes:
        rules: rules in force. They change with the levels of features.
        producer_expiration_us: shortest producer.id.expiration.ms of all brokers at the start, in microseconds; None
            for Kafka's default.
        fetch_wait_us: longest replica.fetch.wait.max.ms of all brokers, in microseconds.
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
        """Access to the brokers' state machines within a step; None if they are not in this process."""
        self._reported = 0
        self._said: dict[tuple[str, TopicPartition | None], int] = {}
        self.touched: dict[tuple[str, int], None] = {}
        """Partitions (topic, number) of the latest events. probe.PartitionRounds empties this."""
        self._row: TraceRow | None = None
        self._unsettled_at_us: int | None = None
        self._shared: dict[type[Listener], Any] = {}
        self.invariants = [kind(self) for kind in (all_invariants() if invariants is None else invariants)]
        self.parts = (self.truth, self.circumstances, *self._shared.values(), *self.invariants)

    def shared(self, kind: type[L]) -> L:
        """Return the one listener of this class, which several invariants share. It gets each event before they do."""
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
        """Handle an event of a partition. This repeats the code of `_note`, because most events are of this kind."""
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

        Return False under rules by which the high watermark moves regardless of the size of the ISR.
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
        """Return the time of the latest event in microseconds."""
        return 0 if self._row is None else self._row.at_us

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of gone topics (see Forgetful), for which no violation is reported any more."""
        drop(is_gone, self.truth.committed, self.touched)
        for invariant in self.invariants:
            invariant.forget(is_gone)

    def unsettle(self, at_us: int) -> None:
        """Ask for a call of `settled` on all invariants before the first event later than `at_us`."""
        self._unsettled_at_us = at_us

    def _settle(self) -> None:
        self._unsettled_at_us = None
        for invariant in self.invariants:
            invariant.settled()

    def probe(self, probe: Probe) -> None:
        """Let all invariants check the state that the trace lacks. Call this between two steps, not too often."""
        for invariant in self.invariants:
            invariant.probed(probe)

    def end(self) -> None:
        """Let all invariants check the finished run. The final logs must be in the trace."""
        self._settle()
        for invariant in self.invariants:
            invariant.ended()

    def at_rest(self, now_us: int) -> bool:
        """Return whether the run may end early, because no invariant waits for further events."""
        return all(invariant.at_rest(now_us) for invariant in self.invariants)

    def take_new(self) -> list[InvariantBroken]:
        """Return an event for each violation since the last call, for the runner to emit."""
        new = self.violations[self._reported :]
        self._reported = len(self.violations)
        return [violation.event for violation in new]

    def report(self, name: str, sentence: str, partition: TopicPartition | None) -> None:
        """Record a violation, once for each invariant and partition.

        Weakened: nothing is reported about a deleted topic or a new topic of the same name. Events have only the name,
        and a broker may not know yet which of the two topics it has.
        """
        if (name, partition) in self._said or (partition is not None and partition.topic in self.view.deleted_topics):
            return
        row = self._row
        seq, at_us = (row.seq, row.at_us) if row is not None else (-1, 0)
        self._said[name, partition] = seq
        # Damage from a time with other rules may show only now, so look at all rules so far.
        happened = self.circumstances.seen
        missing = next(filter(None, (missing_rules(rule, name, happened) for rule in self._rules_so_far)), ())
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
