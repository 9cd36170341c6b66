"""Find the times in which clients waited for writes or reads without success, and the cause of each part of a wait.

A wait lasts at least PATIENCE_US. In a wait for writes, a record of the client was pending and none was acknowledged.
In a wait for reads, there was an acknowledged record after the reader's position, and the reader read nothing. All
members of a consumer group are one reader.

While a wait lasts, its possible causes are kept: attempts until the next success, and the latest changes of the
cluster, the connections and the groups.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from replica.causes import DataLossCause, FailureCause, LeaveCause
from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from scenarios.language.spec import Scenario
from scenarios.observe.availability import PATIENCE_US, Attempts, IsGone, drop
from scenarios.observe.groups import GROUP_CHANGES, Groups
from scenarios.observe.view import ClusterView, PartitionView
from scenarios.observe.wait_causes import (
    MAX_POLL_INTERVAL,
    NEVER,
    SESSION_TIMEOUT,
    SHORTEST_US,
    Attempt,
    Evidence,
    Led,
    NodeSpan,
    Owned,
    PartitionEvidence,
    PartitionReader,
    ReadCauses,
    Settings,
    Stable,
    WriteCauses,
    latest,
)
from scenarios.observe.waits import DiskLoss, Stretch, Wait

WAITS_MAX = 50
"""Number of waits that are kept; the shortest ones are dropped first."""
PROCESS_VERBS = (
    "kill", "power_off", "stop", "start", "restart", "rolling_restart", "pause", "resume", "wipe", "produce", "flush"
)  # fmt: skip


@dataclass(slots=True)
class _Writer:
    client: str
    times: Attempts = field(default_factory=Attempts)
    attempts: deque[Attempt] = field(default_factory=latest)
    in_flight: dict[int, Attempt] = field(default_factory=dict)
    reported: int = 0


class WaitTimes(Listener):
    """Listener that finds the waits of clients and their causes. It must be called after the view.

    Attributes:
        waits: waits that have ended; after `settle`, all waits.
    """

    def __init__(self, view: ClusterView, scenario: Scenario | None = None) -> None:
        self.waits: list[Wait] = []
        self._view = view
        self.seen = Evidence(Settings(scenario))
        self._partitions = self.seen.partitions
        self._writers: dict[tuple[str, str, int], _Writer] = {}
        self._readers: dict[TopicPartition, dict[str, PartitionReader]] = {}
        self._groups = Groups()
        self._group_of = self.seen.members
        self.parts = (self._groups,)

    # ------------------------------------------------------------------------------------------------------- writes

    def _writer(self, client: str, topic: str, partition: int) -> _Writer:
        key = (client, topic, partition)
        known = self._writers.get(key)
        if known is None:
            known = self._writers[key] = _Writer(client)
        return known

    @on(trace.RecordSent)
    def _sent(self, row: TraceRow, event: trace.RecordSent) -> None:
        pending = self._writer(event.client, event.topic, event.partition).times.pending
        pending.setdefault(event.client, {}).setdefault(event.record, row.at_us)

    @on(trace.BatchSent)
    def _batch_sent(self, row: TraceRow, event: trace.BatchSent) -> None:
        writer = self._writer(event.client, event.topic, event.partition)
        attempt = Attempt(event.peer, event.attempt, event.acks, event.records, row.at_us)
        writer.attempts.append(attempt)
        writer.in_flight[event.crc] = attempt
        if event.producer_id >= 0:
            self.seen.producer_ids[event.client] = event.producer_id

    @on(trace.BatchRefused)
    def _refused(self, row: TraceRow, event: trace.BatchRefused) -> None:
        attempt = self._writer(event.client, event.topic, event.partition).in_flight.pop(event.crc, None)
        if attempt is not None:
            attempt.ended_us, attempt.end, attempt.error = row.at_us, event.cause, event.answered or event.error

    @on(trace.RecordAcked, trace.RecordHandedOver)
    def _succeeded(self, row: TraceRow, event: trace.RecordAcked | trace.RecordHandedOver) -> None:
        writer, at_us = self._writer(event.client, event.topic, event.partition), row.at_us
        sent_us, waited = self._taken(event, at_us), at_us - writer.times.succeeded_us >= PATIENCE_US
        writer.times.succeed(sent_us, at_us)
        acked = next((crc for crc, item in writer.in_flight.items() if event.record in item.records), None)
        if acked is not None:
            writer.in_flight.pop(acked).ended_us = at_us
        if waited:
            self._tell_writes(writer, TopicPartition(event.topic, event.partition), "success")
        if acked is not None:
            writer.attempts.clear()
            writer.attempts.extend(writer.in_flight.values())
        if isinstance(event, trace.RecordAcked) and event.offset >= 0:
            self._may_be_read(event, at_us)

    @on(trace.RecordFailed)
    def _failed(self, row: TraceRow, event: trace.RecordFailed) -> None:
        writer = self._writer(event.client, event.topic, event.partition)
        writer.times.end_in_vain(self._taken(event, row.at_us), row.at_us)

    def _taken(self, event: trace.RecordAcked | trace.RecordHandedOver | trace.RecordFailed, at_us: int) -> int:
        """Remove a pending record, and return its send time, or `at_us` if the record is unknown."""
        for partition in (event.partition, -1):  # -1: sent before the client knew the partition.
            writer = self._writers.get((event.client, event.topic, partition))
            sent = None if writer is None else writer.times.pending.get(event.client)
            if sent and event.record in sent:
                return sent.pop(event.record)
        return at_us

    def _tell_writes(self, writer: _Writer, partition: TopicPartition, ended_by: str) -> None:
        for window in writer.times.windows[writer.reported :]:
            self._find_behind_now(partition, window.to_us)
            causes = WriteCauses(self.seen, writer.client, self._partition(*partition), tuple(writer.attempts))
            self._tell("writes", writer.client, partition, causes.stretches(window.from_us, window.to_us), ended_by)
        writer.reported = len(writer.times.windows)

    # -------------------------------------------------------------------------------------------------------- reads

    def _reader(self, client: str, topic: str, partition: int) -> PartitionReader:
        group = self._group_of.get(client)
        there = self._readers.get((topic, partition))  # type: ignore[call-overload]
        if there is None:
            there = self._readers[TopicPartition(topic, partition)] = {}
        known: PartitionReader | None = there.get(group or client)
        if known is None:
            known = there[group or client] = PartitionReader(client, group)
        return known

    @on(trace.RecordRead)
    def _read(self, row: TraceRow, event: trace.RecordRead) -> None:
        reader, at_us = self._reader(event.client, event.topic, event.partition), row.at_us
        if at_us - reader.since_us >= PATIENCE_US:
            self._tell_reads(reader, TopicPartition(event.topic, event.partition), at_us, "success")
        reader.client, reader.position, reader.peer = event.client, event.offset + 1, event.peer
        reader.since_us = at_us if self._has_more(reader, event.topic, event.partition) else NEVER
        reader.failures.clear()

    @on(trace.PositionReset)
    def _reset(self, row: TraceRow, event: trace.PositionReset) -> None:
        reader = self._reader(event.client, event.topic, event.partition)
        reader.client, reader.position, reader.peer = event.client, event.offset, event.peer
        if not self._has_more(reader, event.topic, event.partition):
            reader.since_us = NEVER
        elif reader.since_us == NEVER:
            reader.since_us = row.at_us

    @on(trace.FetchFailed)
    def _fetch_failed(self, row: TraceRow, event: trace.FetchFailed) -> None:
        reader = self._reader(event.client, event.topic, event.partition)
        reader.failures.append(NodeSpan(row.at_us, row.at_us, event.peer, event.error))

    def _may_be_read(self, event: trace.RecordAcked, at_us: int) -> None:
        its = self._partition(event.topic, event.partition)
        its.newest[event.client] = event.offset
        its.acked.append(event.offset)
        self._wake_readers(event.topic, event.partition, at_us)

    def _wake_readers(self, topic: str, partition: int, at_us: int) -> None:
        """Update `since_us` of each reader of a partition, after records to read were added or removed."""
        for reader in self._readers.get((topic, partition), {}).values():  # type: ignore[call-overload]
            if not self._has_more(reader, topic, partition):
                reader.since_us = NEVER
            elif reader.since_us == NEVER:
                reader.since_us = at_us

    def _has_more(self, reader: PartitionReader, topic: str, partition: int) -> bool:
        """Return True if there are clients' records below the high watermark that the reader has not read."""
        its = self._partition(topic, partition)
        return min(max(its.newest.values(), default=-1), its.high_watermark - 1) >= reader.position

    @on(trace.TransactionMarkerWritten)
    def _marker_written(self, row: TraceRow, event: trace.TransactionMarkerWritten) -> None:
        """Drop the newest records of an aborted producer, because no reader waits for them."""
        if event.committed:
            return
        newest = self._partition(event.topic, event.partition).newest
        for client in [item for item in newest if self.seen.producer_ids.get(item) == event.producer_id]:
            del newest[client]
        self._wake_readers(event.topic, event.partition, row.at_us)

    def _tell_reads(self, reader: PartitionReader, partition: TopicPartition, at_us: int, ended_by: str) -> None:
        self._find_behind_now(partition, at_us)
        causes = ReadCauses(self.seen, reader, str(partition), self._partition(*partition))
        self._tell(
            "reads", reader.group or reader.client, partition, causes.stretches(reader.since_us, at_us), ended_by
        )

    def _tell(
        self, what: str, client: str, partition: TopicPartition, stretches: tuple[Stretch, ...], ended_by: str
    ) -> None:
        if not stretches:
            return
        wait = Wait(what=what, client=client, partition=partition, stretches=stretches, ended_by=ended_by)
        self.waits.append(wait)
        if len(self.waits) > 2 * WAITS_MAX:
            self._drop_short()

    def _drop_short(self) -> None:
        longest = sorted(self.waits, key=lambda wait: wait.from_us - wait.to_us)[:WAITS_MAX]
        self.waits = sorted(longest, key=lambda wait: (wait.from_us, wait.what, wait.client, wait.partition))

    def settle(self, end_us: int) -> None:
        """Add the waits that still last at `end_us`, the end of the run."""
        for (_, topic, number), writer in self._writers.items():
            is_pending = any(writer.times.pending.values())
            writer.times.windows += writer.times.stretches(end_us)
            self._tell_writes(writer, TopicPartition(topic, number), "run" if is_pending else "given_up")
        for name, readers in self._readers.items():
            for reader in readers.values():
                if end_us - reader.since_us >= PATIENCE_US:
                    self._tell_reads(reader, name, end_us, "run")
        self._drop_short()

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of topics that are gone (see Forgetful), except writers with pending records."""
        drop(is_gone, self._partitions, self._readers)
        for key, writer in list(self._writers.items()):
            if is_gone(key[1]) and not any(writer.times.pending.values()):
                del self._writers[key]

    # ------------------------------------------------------------------------------------------------------ clients

    @on(trace.ClientTimedOut)
    def _timed_out(self, row: TraceRow, event: trace.ClientTimedOut) -> None:
        what = event.api or ""
        span = NodeSpan(row.at_us - event.waited_us, row.at_us, event.peer, what)
        self.seen.timeouts.setdefault(event.client, latest()).append(span)
        self._connection_ended(event.client, event.peer, row.at_us, event.cause)

    @on(trace.ConnectionLost)
    def _connection_lost(self, row: TraceRow, event: trace.ConnectionLost) -> None:
        self._connection_ended(event.node, event.peer, row.at_us, FailureCause.CONNECTION_LOST)

    def _connection_ended(self, client: str, peer: str, at_us: int, cause: FailureCause) -> None:
        """End the attempts on a lost connection, since no later event says that their batches failed."""
        for (name, _, _), writer in self._writers.items():
            if name == client:
                for attempt in writer.in_flight.values():
                    if attempt.peer == peer and attempt.end is None:
                        attempt.ended_us, attempt.end = at_us, cause

    @on(trace.RequestCompleted)
    def _answered(self, row: TraceRow, event: trace.RequestCompleted) -> None:
        """Keep slow and throttled requests. Only runs that measure request times have these events."""
        if event.throttle_time_us:
            self._throttle(event.peer, event.node, row.at_us, event.throttle_time_us, "")
        if event.total_time_us >= SHORTEST_US and event.api != "Fetch":
            self.seen.answers.setdefault(event.peer, latest()).append((row.at_us, event))

    @on(trace.ClientThrottled)
    def _throttled(self, row: TraceRow, event: trace.ClientThrottled) -> None:
        self._throttle(event.peer, event.node, row.at_us, event.throttle_time_us, event.key)

    def _throttle(self, client: str, node: str, at_us: int, throttle_us: int, key: str) -> None:
        span = NodeSpan(at_us, at_us + throttle_us, node, key)
        self.seen.throttled.setdefault(client, latest()).append(span)

    @on(trace.TransactionRefused)
    def _transaction_refused(self, row: TraceRow, event: trace.TransactionRefused) -> None:
        refused = NodeSpan(row.at_us, row.at_us, event.node, f"{event.api} with {event.error}")
        self.seen.refusals.setdefault(event.transactional_id, latest()).append(refused)

    @on(trace.TransactionStateChanged)
    def _transaction_changed(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        self.seen.transactions[event.producer_id] = event
        # A producer sends this request when no other request of the transaction waits any more.
        if event.state == "PrepareCommit":
            self.seen.refusals.pop(event.transactional_id, None)

    # ------------------------------------------------------------------------------------------------------ cluster

    def _partition(self, topic: str, number: int) -> PartitionEvidence:
        # This is called for every record. A plain tuple equals the TopicPartition and is faster to create.
        known: PartitionEvidence | None = self._partitions.get((topic, number))  # type: ignore[call-overload]
        if known is None:
            known = self._partitions[TopicPartition(topic, number)] = PartitionEvidence()
        return known

    @on(
        trace.PartitionCreated,
        trace.LeaderElected,
        trace.PartitionWentOffline,
        trace.IsrCommitted,
        trace.ElrCommitted,
        trace.LeadershipBegan,
        trace.FollowingBegan,
    )
    def _led(self, row: TraceRow, event: Any) -> None:
        self._look(TopicPartition(event.topic, event.partition), row.at_us)
        if isinstance(event, trace.LeadershipBegan):
            its = self._partition(event.topic, event.partition)
            self._stall_ends(its, row.at_us)
            its.end, its.high_watermark, its.fetched = event.log_end_offset, event.high_watermark, {}
            its.stalled_us = row.at_us if its.end > its.high_watermark else NEVER
            # Records that the new leader does not have are lost, so no reader waits for them.
            its.newest = {client: min(offset, its.end - 1) for client, offset in its.newest.items()}
            self._wake_readers(event.topic, event.partition, row.at_us)

    @on(trace.ConfigAltered)
    def _altered(self, row: TraceRow, event: trace.ConfigAltered) -> None:
        for name in [partition for partition in self._partitions if partition.topic == event.topic]:
            self._look(name, row.at_us)

    def _look(self, name: TopicPartition, at_us: int) -> None:
        view = self._view.partitions.get(name)
        if view is None:
            return
        replica = None if view.leader is None else view.replicas.get(view.leader)
        serves = replica is not None and replica.role == "leader" and replica.leader_epoch == view.leader_epoch
        its = self._partition(*name)
        led = Led(view.leader, serves, view.isr, view.min_isr, None if view.leader else self._disk_loss(view, its))
        known = its.led
        if not known or known[-1][1] != led:
            known.append((at_us, led))

    def _disk_loss(self, view: PartitionView, its: PartitionEvidence) -> DiskLoss | None:
        ends = {node: view.replica(node).log_end_offset for node in view.assigned}
        longest = max(ends, key=ends.__getitem__, default="")
        nodes = view.isr or view.eligible or tuple(its.lost)
        if not nodes or any(ends.get(node, 0) > min(its.lost.get(node, -1), ends[longest] - 1) for node in nodes):
            return None
        is_back = any(self._view.nodes[item].running and not self._view.nodes[item].fenced for item in view.isr)
        return DiskLoss(nodes, max(ends.get(node, 0) for node in nodes), is_back, longest, ends[longest], its.end)

    @on(trace.DataLost)
    def _data_lost(self, row: TraceRow, event: trace.DataLost) -> None:
        if event.cause is not DataLossCause.DISK_FAILED:
            name = TopicPartition(event.topic, event.partition)
            self._partition(*name).lost[event.node] = event.log_end_offset
            self._look(name, row.at_us)

    @on(trace.BrokerUnfenced)
    def _unfenced(self, row: TraceRow, event: trace.BrokerUnfenced) -> None:
        for name in self._partitions:
            self._look(name, row.at_us)

    @on(trace.NodeStopped)
    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self._goes_down(event.node, event.how, row.at_us)
        for name in self._partitions:
            self._look(name, row.at_us)
        for (client, topic, number), writer in self._writers.items():
            if client == event.node:
                sent = writer.times.pending.pop(client, None)
                if sent:
                    writer.times.end_in_vain(next(iter(sent.values())), row.at_us)
                    writer.times.windows += writer.times.stretches(row.at_us)
                    self._tell_writes(writer, TopicPartition(topic, number), "stopped")
                    writer.times.vain.clear()
                writer.attempts.clear()
                writer.in_flight.clear()
        for name, readers in self._readers.items():
            reader = readers.get(event.node)
            if reader is not None:
                if row.at_us - reader.since_us >= PATIENCE_US:
                    self._tell_reads(reader, name, row.at_us, "stopped")
                reader.since_us = NEVER

    @on(trace.NodeStarted)
    def _node_started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        self._comes_back(event.node, row.at_us)

    @on(trace.FaultBegan)
    def _fault_began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        for node in event.targets:
            if event.verb == "pause":
                self._goes_down(node, event.verb, row.at_us)
            elif event.verb == "resume":
                self._comes_back(node, row.at_us)
        if event.verb not in PROCESS_VERBS:
            self.seen.faults[event.fault] = NodeSpan(row.at_us, NEVER, ",".join(event.targets), event.effect)

    @on(trace.FaultEnded)
    def _fault_ended(self, row: TraceRow, event: trace.FaultEnded) -> None:
        if event.verb == "pause":
            for node in event.targets:
                self._comes_back(node, row.at_us)
        if event.fault in self.seen.faults:
            self.seen.faults[event.fault] = self.seen.faults[event.fault]._replace(to_us=row.at_us)

    def _goes_down(self, node: str, how: str, at_us: int) -> None:
        self._comes_back(node, at_us)
        self.seen.down.setdefault(node, latest()).append(NodeSpan(at_us, NEVER, node, how))

    def _comes_back(self, node: str, at_us: int) -> None:
        known = self.seen.down.get(node)
        if known and known[-1].to_us == NEVER:
            known[-1] = known[-1]._replace(to_us=at_us)

    @on(trace.ControllerActivated, trace.ControllerResigned)
    def _controller_changed(self, row: TraceRow, event: trace.ControllerActivated | trace.ControllerResigned) -> None:
        known = self.seen.controllers
        if isinstance(event, trace.ControllerActivated):
            known.append((row.at_us, event.node))
        elif known and known[-1][1] == event.node:
            known.append((row.at_us, None))

    @on(trace.BrokerFenced)
    def _fenced(self, row: TraceRow, event: trace.BrokerFenced) -> None:
        if event.broker is not None and event.silent_us is not None:
            self.seen.silent.append(NodeSpan(row.at_us - event.silent_us, row.at_us, event.broker))

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        if event.role == "leader":
            its = self._partition(event.topic, event.partition)
            its.end = event.log_end_offset
            if its.stalled_us == NEVER:
                its.stalled_us = row.at_us

    @on(trace.FollowerFetched)
    def _follower_fetched(self, row: TraceRow, event: trace.FollowerFetched) -> None:
        its = self._partition(event.topic, event.partition)
        if row.at_us - its.stalled_us >= SHORTEST_US:
            self._find_behind(event.topic, event.partition, its)
        its.fetched[event.peer] = event.fetch_offset

    @on(trace.IsrProposed)
    def _isr_proposed(self, row: TraceRow, event: trace.IsrProposed) -> None:
        """Handle a proposed ISR, and note the followers that lack records before they leave the ISR."""
        its = self._partition(event.topic, event.partition)
        its.proposals.append((row.at_us, event.isr))
        if row.at_us - its.stalled_us >= SHORTEST_US:
            self._find_behind(event.topic, event.partition, its)

    def _find_behind_now(self, name: TopicPartition, at_us: int) -> None:
        its = self._partition(*name)
        if at_us - its.stalled_us >= SHORTEST_US:
            self._find_behind(*name, its)

    def _find_behind(self, topic: str, partition: int, its: PartitionEvidence) -> None:
        view = self._view.partitions.get(TopicPartition(topic, partition))
        if view is None:
            return
        behind = [
            node for node in view.assigned
            if node != view.leader and its.fetched.get(node, -1) <= its.high_watermark
        ]  # fmt: skip
        # A leader also waits for a replica outside the ISR that had caught up (Partition.maybeIncrementLeaderHW).
        of_isr = [node for node in behind if node in view.isr]
        its.behind.update(dict.fromkeys(of_isr or (behind if len(view.isr) >= view.min_isr else ())))

    @on(trace.HighWatermarkAdvanced)
    def _advanced(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        if event.role != "leader":
            return
        its = self._partition(event.topic, event.partition)
        self._stall_ends(its, row.at_us)
        its.high_watermark = event.high_watermark
        its.stalled_us = row.at_us if its.end > event.high_watermark else NEVER
        self._wake_readers(event.topic, event.partition, row.at_us)

    def _stall_ends(self, its: PartitionEvidence, at_us: int) -> None:
        if at_us - its.stalled_us >= SHORTEST_US:
            its.stalls.append((its.stalled_us, at_us, tuple(its.behind)))
        its.behind = {}

    @on(trace.LastStableOffsetMoved)
    def _stable_moved(self, row: TraceRow, event: trace.LastStableOffsetMoved) -> None:
        held = event.last_stable_offset < event.high_watermark
        stable = Stable(event.last_stable_offset, event.producer_id) if held else Stable()
        self._partition(event.topic, event.partition).stable.append((row.at_us, stable))

    # ------------------------------------------------------------------------------------------------------- groups

    @on(*GROUP_CHANGES)
    def _group_changed(self, row: TraceRow, event: Any) -> None:
        group = self._groups.changed
        if group is None:
            return
        if isinstance(event, trace.GroupRemoved):
            return self._forget_group(group.name, row.at_us)
        if isinstance(event, trace.GroupMemberLeft):
            if event.cause is LeaveCause.SESSION_TIMEOUT:
                self.seen.sessions[event.client_id] = (event.config or SESSION_TIMEOUT, event.timeout_ms, row.at_us)
            elif event.cause is LeaveCause.JOIN_TIMEOUT:
                self.seen.sessions[event.client_id] = (MAX_POLL_INTERVAL, event.timeout_ms, row.at_us)
        for member in group.members.values():
            self._group_of[member.client_id] = group.name
        for name, owner in group.owners.items():
            client, instance = (None, None) if owner is None else (
                group.members[owner].client_id, group.members[owner].instance
            )  # fmt: skip
            owned = Owned(group.is_rebalancing, client, instance)
            known = self.seen.owned.setdefault((group.name, name), latest())
            if not known or known[-1][1] != owned:
                known.append((row.at_us, owned))

    def _forget_group(self, group: str, at_us: int) -> None:
        """Record the waits of a removed group, and drop its state."""
        for name, readers in self._readers.items():
            reader = readers.pop(group, None)
            if reader is not None and at_us - reader.since_us >= PATIENCE_US:
                self._tell_reads(reader, name, at_us, "stopped")
        for key in [key for key in self.seen.owned if key[0] == group]:
            del self.seen.owned[key]
        for client in [client for client, its in self._group_of.items() if its == group]:
            del self._group_of[client]
