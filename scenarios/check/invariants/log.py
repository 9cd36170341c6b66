"""Invariants of logs and high watermarks: committed records stay, on every replica that may become leader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import on
from scenarios.check.invariants.checker import Invariant, InvariantChecker
from scenarios.check.invariants.forgotten import IsrHistory
from scenarios.observe.truth import CommittedLog, same_batch
from scenarios.observe.view import PartitionView


class CommittedOnIsr(Invariant):
    """S2, S3, S6: below a leader's high watermark, every ISR member has the leader's records.

    * S6: so has every replica that may become leader (ISR and ELR), also when it joins, and after a crash.
    * S3 (strong) and S6 use the controller's ISR, and only leaders of the controller's epoch are checked.
    * S2 (weak) is about the leader's own ISR, which the trace does not report. So it is enough if all members of any
      ISR of the leader's epoch have the records.
    * Members that a reassignment has removed are excepted: they may delete their logs before their leader learns of it.

    Some failures have separate names, and the replica is excused afterwards:

    * `S6 forgotten-proposal`: the replica joined by a proposal that its leader has forgotten (forgotten.py).
    * `S3 forgotten-proposal`: such a replica lacks records while the leader does not know that it has joined.
    * `S6 earlier-min-isr`: a member of the ELR lacks what a leader has committed by an earlier, smaller
      min.insync.replicas.
    * `S6 removed-eligible`: a member of the ELR was removed as a replica, deleted its log, was added again and is
      elected.

    Weakened: a replica whose disk lost bytes is excused until it has caught up (truth.py). For leaders of the epoch of
    the damage or earlier it is always excused in S2: a fetch from before the damage may have waited while that leader
    was paused. A replica that was removed, deleted its log and was added again is excused in the same way.
    """

    NAME = "S3"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.isrs = checker.shared(IsrHistory)
        self.advanced_at: dict[tuple[str, int, str], int] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.advanced_at, *self.isrs.kept)

    @on(trace.HighWatermarkAdvanced)
    def _advanced(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        if event.role != "leader":
            return
        committed = self.truth.of(event.topic, event.partition)
        state = self.truth.partition(event.topic, event.partition)
        if state is None or event.leader_epoch < committed.rebased_epoch:
            return
        hw = event.high_watermark
        self.advanced_at[event.topic, event.partition, event.node] = row.seq
        if event.leader_epoch == state.leader_epoch:
            for node in state.isr:
                if self._lacks(committed, node, hw):
                    is_forgotten = self.isrs.is_unknown(event, node)
                    where = f"below the high watermark {hw} of {event.node}"
                    self._tell("S3 forgotten-proposal" if is_forgotten else "S3", event, node, where)
                    if is_forgotten:
                        committed.excused[node] = None
            for node in state.eligible:
                if self._lacks(committed, node, hw):
                    self._eligible_lacks(event, state, node)
        elif not any(
            all(
                not self._lacks(committed, node, hw) or committed.damaged_in.get(node, -1) >= event.leader_epoch
                for node in isr
                if node in state.assigned
            )
            for isr in self.isrs.of(event.topic, event.partition, event.leader_epoch)
        ):
            what = f"{event.node} moved the high watermark of {event.topic}-{event.partition} to {hw}"
            why = "although in every ISR of its epoch some replica lacked committed records"
            self.broken(f"{what} {why}", event.topic, event.partition, "S2")

    def _eligible_lacks(self, event: trace.HighWatermarkAdvanced, state: PartitionView, node: str) -> None:
        partition = TopicPartition(event.topic, event.partition)
        is_earlier = self.checker.is_enough_by_earlier_config(event.node, partition, len(state.isr))
        where = f"below the high watermark {event.high_watermark} of {event.node}, but is in the ELR"
        self._tell("S6 earlier-min-isr" if is_earlier else "S6", event, node, where)
        if is_earlier:
            self.truth.of(event.topic, event.partition).excused[node] = None

    @on(trace.LeaderElected)
    def _elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        committed = self.truth.of(event.topic, event.partition)
        if (
            event.clean
            and event.broker in self.view.partitions[TopicPartition(event.topic, event.partition)].strays
            and self._lacks(committed, event.broker, committed.end)
        ):
            where = f"below {committed.end} when it was elected: while it was in the ELR, it had ceased to be a replica"
            self._tell("S6 removed-eligible", event, event.broker, where)
            committed.excused[event.broker] = None

    @on(trace.IsrCommitted)
    def _committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        committed = self.truth.of(event.topic, event.partition)
        if committed.awaits_rebasing(event.leader_epoch):
            return  # After an unclean election the committed log is re-based when the new leader begins.
        for node in event.isr:
            if node not in event.previous_isr and self._lacks(committed, node, committed.end):
                is_forgotten = self._is_forgotten(event, node)
                name = "S6 forgotten-proposal" if is_forgotten else "S6"
                self._tell(name, event, node, f"below {committed.end} when it joined the ISR")
                if is_forgotten:
                    committed.excused[node] = None

    def _is_forgotten(self, event: trace.IsrCommitted, node: str) -> bool:
        """Return whether the leader may have forgotten its proposal of the node and has moved its high watermark."""
        since = self.isrs.since(event, node)
        advanced_at = self.advanced_at.get((event.topic, event.partition, str(event.proposed_by)), -1)
        return since is not None and since < advanced_at

    @on(trace.ElrCommitted)
    def _eligible(self, row: TraceRow, event: trace.ElrCommitted) -> None:
        committed = self.truth.of(event.topic, event.partition)
        if committed.awaits_rebasing(event.leader_epoch):
            return
        for node in event.elr:
            if node not in event.previous_elr and self._lacks(committed, node, committed.end):
                self._tell("S6", event, node, f"below {committed.end} when it joined the ELR")

    @on(trace.LogRecovered)
    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        committed = self.truth.of(event.topic, event.partition)
        state = self.truth.partition(event.topic, event.partition)
        if state is None or committed.awaits_rebasing(state.leader_epoch):
            return
        if (event.node in state.isr or event.node in state.eligible) and self._lacks(
            committed, event.node, committed.end
        ):
            self._tell("S6", event, event.node, f"below {committed.end} after its restart, but is in the ISR or ELR")

    @staticmethod
    def _lacks(committed: CommittedLog, node: str, hw: int) -> bool:
        return committed.matched.get(node, 0) < min(hw, committed.end) and node not in committed.excused

    def _tell(
        self,
        name: str,
        event: trace.HighWatermarkAdvanced
        | trace.IsrCommitted
        | trace.ElrCommitted
        | trace.LogRecovered
        | trace.LeaderElected,
        node: str,
        what: str,
    ) -> None:
        where = f"{event.topic}-{event.partition}"
        self.broken(f"{node} lacks committed records of {where} {what}", event.topic, event.partition, name)


class AcknowledgedByIsr(Invariant):
    """S4, S25: a leader moves its high watermark only over records that the ISR has acknowledged by its fetches.

    * S4: every member of the controller's ISR has fetched in the leader's epoch from the new high watermark or above.
      Only leaders of the controller's epoch are checked.
    * S25: so have all members of some committed ISR of the leader's epoch. The trace does not report the leader's own.
    * `S25 min-isr` (second half of S25, since 3.7): that ISR has at least min.insync.replicas members. A leader that
      has not learned yet of a larger min.insync.replicas, or of more replicas, may use the old values; S6 checks the
      consequences.
    * `S4 forgotten-proposal`: a member that joined by a proposal which the leader has forgotten has not fetched
      (forgotten.py).

    The high watermark with which a leader begins does not depend on fetches. A broker that still leads in a new epoch
    knows the followers' fetches of the old one (Partition.makeLeader).
    """

    NAME = "S4"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.fetched: dict[tuple[str, int, str], dict[str, int]] = {}
        self.isrs = checker.shared(IsrHistory)

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.fetched, *self.isrs.kept)

    @on(trace.LeadershipBegan)
    def _began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        self.fetched.setdefault((event.topic, event.partition, event.node), {})

    @on(trace.FollowingBegan)
    def _ended(self, row: TraceRow, event: trace.FollowingBegan) -> None:
        self.fetched.pop((event.topic, event.partition, event.node), None)

    @on(trace.NodeStarted)
    def _started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        self.fetched = {key: known for key, known in self.fetched.items() if key[2] != event.node}

    @on(trace.FollowerFetched)
    def _fetched(self, row: TraceRow, event: trace.FollowerFetched) -> None:
        known = self.fetched.get((event.topic, event.partition, event.node))
        if known is not None and event.fetch_offset > known.get(event.peer, -1):
            known[event.peer] = event.fetch_offset

    @on(trace.HighWatermarkAdvanced)
    def _advanced(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        state = self.truth.partition(event.topic, event.partition)
        if event.role != "leader" or state is None:
            return
        known = self.fetched.get((event.topic, event.partition, event.node), {})
        hw = event.high_watermark
        if event.leader_epoch == state.leader_epoch:
            for node in state.isr:
                if node != event.node and known.get(node, -1) < hw:
                    name = "S4 forgotten-proposal" if self.isrs.is_unknown(event, node) else "S4"
                    self._tell(name, event, f"although {node} had only fetched up to {max(known.get(node, 0), 0)}")
        sizes = [len(isr) for isr in self._fetched_so_far(event, known)]
        if not sizes:
            self._tell("S25", event, "although no ISR of its epoch had fetched up to it")
        elif (
            max(sizes) < state.min_isr
            and not self._has_enough_of_known(event, state, max(sizes))
            and not self.checker.is_enough_by_earlier_config(event.node, state.topic_partition, max(sizes))
        ):
            why = f"although no ISR of {state.min_isr} or more replicas had fetched up to it"
            self._tell("S25 min-isr", event, why)

    def _has_enough_of_known(self, event: trace.HighWatermarkAdvanced, state: PartitionView, in_sync: int) -> bool:
        """Return whether `in_sync` replicas are enough for the former number of replicas, which the leader may assume.

        The leader may not have learned of the last change of replicas, or that is unknown here.
        """
        if self.checker.rules.hw_advance != "min-isr":
            return False
        partition_epoch = self.checker.known_partition_epoch(event.node, state.topic_partition)
        has_heard = partition_epoch is not None and partition_epoch >= state.assigned_since
        return not has_heard and in_sync >= min(state.configured_min_isr, len(state.assigned_before))

    def _fetched_so_far(
        self, event: trace.HighWatermarkAdvanced, known: Mapping[str, int]
    ) -> Iterator[tuple[str, ...]]:
        for isr in self.isrs.of(event.topic, event.partition, event.leader_epoch):
            if all(node == event.node or known.get(node, -1) >= event.high_watermark for node in isr):
                yield isr

    def _tell(self, name: str, event: trace.HighWatermarkAdvanced, why: str) -> None:
        where = f"{event.topic}-{event.partition}"
        sentence = f"{event.node} moved the high watermark of {where} to {event.high_watermark} {why}"
        self.broken(sentence, event.topic, event.partition, name)


class LeaderIsComplete(Invariant):
    """S5: a leader of the controller's leader epoch begins with every committed record.

    Weakened: after an unclean election, or if the disk of the new leader lost bytes before it had caught up, its log
    replaces the committed log (truth.py).
    """

    NAME = "S5"

    @on(trace.LeadershipBegan)
    def _began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        shortfall = self.truth.of(event.topic, event.partition).shortfall
        if shortfall:
            where = f"{event.topic}-{event.partition} in epoch {event.leader_epoch}"
            sentence = f"{event.node} began to lead {where} without {shortfall} committed records"
            self.broken(sentence, event.topic, event.partition)


class LogsMatchBelowHighWatermark(Invariant):
    """S8: a replica's log equals the committed log below its high watermark, so any two replicas agree there.

    This is checked whenever a replica's high watermark moves, but not when it falls: a former leader truncates its log
    in several rounds, and its high watermark falls with it.

    Weakened: leaders of epochs before a re-basing are not checked. They keep their high watermarks until they follow.
    """

    NAME = "S8"

    @on(trace.HighWatermarkAdvanced, trace.HighWatermarkLearned)
    def _moved(self, row: TraceRow, event: trace.HighWatermarkAdvanced | trace.HighWatermarkLearned) -> None:
        committed = self.truth.of(event.topic, event.partition)
        if event.leader_epoch < committed.rebased_epoch or event.high_watermark < event.previous_high_watermark:
            return
        matched = committed.matched.get(event.node, 0)
        if matched < min(event.high_watermark, committed.end):
            sentence = (
                f"{event.node} has the high watermark {event.high_watermark} for {event.topic}-{event.partition}, "
                f"but its log differs from the committed log at {matched}"
            )
            self.broken(sentence, event.topic, event.partition)


class EpochsMatch(Invariant):
    """S9: two replicas that have the same leader epoch at an offset have the same batch there.

    Source: KIP-101, KIP-279
    """

    NAME = "S9"

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        base, crc = event.base_offset, event.crc
        compacted = self.mirror.sent.compacted
        if compacted.are_any:
            crc = compacted.crc_as_appended(TopicPartition(event.topic, event.partition), base, crc)
        logs = self.mirror.logs[event.topic, event.partition]  # type: ignore[index]
        own, columns = logs[event.node].place_at(-1), logs[event.node].columns
        for node, log in logs.items():
            if node == event.node or log.end <= base:
                continue
            index = log.place_holding(base)
            if index in (own, -1):  # It is the very same batch, or there is none.
                continue
            if columns.leader_epoch(index) == event.leader_epoch and columns.crc(index) != crc:
                sentence = (
                    f"{event.node} and {node} hold different batches of epoch {event.leader_epoch} at offset {base} of "
                    f"{event.topic}-{event.partition}"
                )
                self.broken(sentence, event.topic, event.partition)


class HighWatermarkBounds(Invariant):
    """S14, S24: high watermarks stay within their bounds.

    * S14: a leader's high watermark never falls within its epoch. No high watermark is below the start of its log.
    * S14 and S24: no high watermark is above the end of its log.
    * S24: no follower's high watermark is above the highest trueHW ever, before any re-basing.
    """

    NAME = "S14"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.reached: dict[tuple[str, int, str], tuple[int, int]] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.reached,)

    @on(trace.LeadershipBegan)
    def _began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        self.reached[event.topic, event.partition, event.node] = (event.leader_epoch, event.high_watermark)

    @on(trace.HighWatermarkAdvanced)
    def _advanced(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        key = (event.topic, event.partition, event.node)
        epoch, reached = self.reached.get(key, (-1, 0))
        if event.role == "leader":
            if epoch == event.leader_epoch and event.high_watermark < reached:
                self._tell("S14", event, f"fell from {reached} to {event.high_watermark} in epoch {epoch}")
            self.reached[key] = (event.leader_epoch, event.high_watermark)
        if event.high_watermark > event.log_end_offset:
            self._tell("S14", event, f"{event.high_watermark} is above its log's end {event.log_end_offset}")

    @on(trace.HighWatermarkLearned)
    def _learned(self, row: TraceRow, event: trace.HighWatermarkLearned) -> None:
        if event.high_watermark > event.log_end_offset:
            self._tell("S24", event, f"{event.high_watermark} is above its log's end {event.log_end_offset}")
        peak = self.truth.of(event.topic, event.partition).peak
        if event.high_watermark > peak:
            self._tell("S24", event, f"{event.high_watermark} is above {peak}, the highest of any leader")

    @on(trace.LogRecovered, trace.ReplicaFound)
    def _bounded(self, row: TraceRow, event: trace.LogRecovered | trace.ReplicaFound) -> None:
        if not event.log_start_offset <= event.high_watermark <= event.log_end_offset:
            bounds = f"{event.log_start_offset} to {event.log_end_offset}"
            self._tell("S14", event, f"{event.high_watermark} is outside its log, {bounds}")

    @on(trace.RecordsExpired)
    def _expired(self, row: TraceRow, event: trace.RecordsExpired) -> None:
        state = self.truth.partition(event.topic, event.partition)
        replica = None if state is None else state.replicas.get(event.node)
        if replica is not None and replica.role is not None and event.log_start_offset > replica.high_watermark:
            self._tell("S14", event, f"{replica.high_watermark} is below its log's new start {event.log_start_offset}")

    def _tell(self, name: str, event: trace.TraceEvent, what: str) -> None:
        node, topic, number = event.node, event.topic, event.partition  # type: ignore[attr-defined]
        self.broken(f"the high watermark of {topic}-{number} on {node} {what}", topic, number, name)


class LogIsOrdered(Invariant):
    """S16: in a log, offsets have no gap except where the log was compacted, and epochs never fall."""

    NAME = "S16"

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        log = self.mirror.logs[event.topic, event.partition][event.node]  # type: ignore[index]
        if event.last_offset < event.base_offset or event.log_end_offset != event.last_offset + 1:
            self._tell(event, f"ends at {event.log_end_offset} after offsets {event.base_offset}..{event.last_offset}")
        if len(log) < 2:
            return
        before = log.place_at(-2)
        last_offset, epoch = log.columns.last_offset(before), log.columns.leader_epoch(before)
        if event.base_offset != last_offset + 1:
            partition = TopicPartition(event.topic, event.partition)
            if not self.mirror.sent.compacted.are_gone(partition, last_offset + 1, event.base_offset):
                self._tell(event, f"continues at offset {event.base_offset} after {last_offset}")
        if event.leader_epoch < epoch:
            self._tell(event, f"goes back from epoch {epoch} to {event.leader_epoch}")

    def _tell(self, event: trace.BatchAppended, what: str) -> None:
        sentence = f"the log of {event.topic}-{event.partition} on {event.node} {what}"
        self.broken(sentence, event.topic, event.partition)


class TruncationSparesCommitted(Invariant):
    """S17: no replica truncates a record that is committed at its offset.

    A member of ISR or ELR never truncates below trueHW, and a leader never truncates.

    Weakened:
    * Records that a re-basing removed from the committed log may be truncated (truth.py).
    * A log that is emptied to start beyond its end (R34) is not checked.
    * An excused replica may end below trueHW.
    * Records that were deleted on the leader or the follower may be truncated: a crash can remove the entries of the
      epoch cache that a deletion has moved, and such a follower truncates to its high watermark.
    """

    NAME = "S17"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.deleted_below: dict[tuple[str, int, str], int] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.deleted_below,)

    @on(trace.LogStartOffsetAdvanced)
    def _deleted(self, row: TraceRow, event: trace.LogStartOffsetAdvanced) -> None:
        self.deleted_below[event.topic, event.partition, event.node] = event.log_start_offset

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        self.deleted_below.pop((event.topic, event.partition, event.node), None)

    @on(trace.LogTruncated)
    def _truncated(self, row: TraceRow, event: trace.LogTruncated) -> None:
        if event.log_end_offset > event.previous_log_end_offset:
            return
        committed = self.truth.of(event.topic, event.partition)
        state = self.truth.partition(event.topic, event.partition)
        where = f"{event.topic}-{event.partition}"
        leading = state.replicas.get(state.leader) if state is not None and state.leader is not None else None
        own = self.deleted_below.get((event.topic, event.partition, event.node), 0)
        kept_from = max(own, 0 if leading is None else leading.log_start_offset)
        for batch in self.mirror.dropped:
            known = committed.at(batch.base_offset)
            if known is not None and same_batch(known, batch) and batch.last_offset >= kept_from:
                sentence = f"{event.node} truncated {where} at {event.log_end_offset}, below the committed record at "
                self.broken(f"{sentence}{batch.base_offset}", event.topic, event.partition)
                break
        if state is None:
            return
        replica = state.replicas.get(event.node)
        if replica is not None and replica.role == "leader":
            self.broken(f"{event.node} leads {where}, but truncated it", event.topic, event.partition)
        short = event.log_end_offset < committed.end and event.node not in committed.excused
        if short and (event.node in state.isr or event.node in state.eligible):
            below = f"truncated it to {event.log_end_offset}, below the committed end {committed.end}"
            sentence = f"{event.node}, in the ISR or ELR of {where}, {below}"
            self.broken(sentence, event.topic, event.partition)


INVARIANTS: tuple[type[Invariant], ...] = (
    CommittedOnIsr,
    AcknowledgedByIsr,
    LeaderIsComplete,
    LogsMatchBelowHighWatermark,
    EpochsMatch,
    HighWatermarkBounds,
    LogIsOrdered,
    TruncationSparesCommitted,
)
