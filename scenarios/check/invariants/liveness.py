"""Conditions that must hold at the end of a run that ended quietly (replica/RULES.md, L1-L5).

A run ended quietly if every broker and controller was running, none was paused, no network fault was in force, and the
last disturbance and the last produced record were long enough ago. Other runs are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from replica.causes import DataLossCause
from replica.errors import ErrorCode
from replica.ids import ACKS_ALL, OUTSIDE, TRANSACTIONS_TOPIC, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.wording import listed
from scenarios.check.invariants.checker import NEWS_US, Invariant, InvariantChecker, Probe
from scenarios.language.verbs.every import QUIET, STAYING
from scenarios.observe.taken_records import PREPARED
from scenarios.observe.view import PartitionView

SETTLE_US = 60_000_000
"""Time within which every node reacts. It covers a session (9 s) and 1.5 x replica.lag.time.max.ms (45 s)."""

IDLE_US = NEWS_US
"""Time within which followers learn the last high watermark by fetches, each of which waits at most 500 ms."""

_ANSWER_US = 2_500_000
"""Time within which a delayed fetch response arrives over a slow network."""

REFUSED_US = 10_000_000
"""A client whose refusals span this time has not given up: it retries each second (retry.backoff.max.ms)."""

REST_US = 12_000_000
"""Quiet time after which a converged run may end early: longer than sessions, lag times and backoffs in a search."""


class Quiescence(Listener):
    """Listener that keeps the times of the last disturbance of the cluster and of the last produced record.

    Attributes:
        idle_us: time within which followers learn the last high watermark after the last record.
        produced_us: time of the last produced record, set by the owner of this object.
        in_force: faults that are in force.
    """

    def __init__(self, checker: InvariantChecker) -> None:
        self.view = checker.view
        self.idle_us = max(IDLE_US, checker.fetch_wait_us + _ANSWER_US)
        self.disturbed_us = 0
        self.produced_us = 0
        self.in_force: dict[str, None] = {}

    @on(trace.NodeStarted, trace.NodeStopped, trace.BrokerUnfenced)
    def disturbed(self, row: TraceRow, event: Any) -> None:
        node = event.broker if isinstance(event, trace.BrokerUnfenced) else event.node
        if node not in self.view.clients:
            self.disturbed_us = row.at_us

    @on(trace.FaultBegan)
    def _began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        if event.verb in QUIET:
            return
        self.disturbed_us = row.at_us
        if event.verb in STAYING:  # The view knows which nodes are down or paused.
            self.in_force[event.fault] = None

    @on(trace.FaultEnded)
    def _ended(self, row: TraceRow, event: trace.FaultEnded) -> None:
        self.disturbed_us = row.at_us
        self.in_force.pop(event.fault, None)

    def reached(self, now_us: int, settle_us: int = SETTLE_US) -> bool:
        servers = (*self.view.brokers, *self.view.controllers)
        return (
            not self.in_force
            and all(self.view.running(name) and not self.view.nodes[name].paused for name in servers)
            and now_us - self.disturbed_us >= settle_us
            and now_us - self.produced_us >= min(settle_us, self.idle_us)
        )


class Unsettled(NamedTuple):
    """A condition of L1 to L5 that does not hold yet, or does not hold at the end."""

    name: str
    sentence: str
    partition: TopicPartition | None = None


class _Refused(NamedTuple):
    """A leader's refusals of one client's batches since it last accepted a batch of that client.

    Attributes:
        since_us: time of the first refusal.
        until_us: time of the last refusal.
        record: first record of the batch that was refused last.
    """

    since_us: int
    until_us: int
    record: str

    def lasts(self, now_us: int, quiescence: Quiescence) -> bool:
        since_us = max(self.since_us, quiescence.disturbed_us)
        return now_us - self.until_us <= REFUSED_US <= self.until_us - since_us


class Converges(Invariant):
    """L1 to L5: after a quiet end all nodes and partitions of the cluster have recovered.

    L1: every broker is unfenced. L2: every partition has a leader and a full ISR. L3: all replicas of a partition end
    at the same offset and everything is committed, unless the leader has just appended. L4: every record that can be
    written has an answer. L5: at the last probe brokers know all metadata, except what was written in the last IDLE_US.

    Exceptions of L4:

    * If the ISR is smaller than min.insync.replicas, producers get retriable errors until delivery.timeout.ms. The
      small ISR is reported as L2.
    * A batch may be out of order for good, so that later batches wait for it: a leader that did not know the producer
      accepted later batches first (ProducerAppendInfo.checkSequence), and the producer retries the batch because its
      sequence is not the next one (TransactionManager.canRetry).
    * An external client that got a retriable error, or lost its connection, may have given up. Its records need no
      answer unless it sends them again. But if a leader has refused the client for long and until now, the client still
      retries, so its first record needs an answer. CORRUPT_MESSAGE is the client's own fault.
    * A transactional producer needs no answer while a partition of the transactions' topic has no leader or too small
      an ISR. The same holds if its previous transaction needs a marker in such a partition, because the coordinator
      answers CONCURRENT_TRANSACTIONS until all markers are written (TransactionCoordinator).
    * A paused client needs no answer, nor does one that has exceeded a quota, which may have to wait for any time.

    Exceptions of L1 to L3:

    * Replicas that an operator throttles may lag (L2, L3). The throttle of a reassignment stays after its end.
    * A broker that an operator has unregistered stays fenced and out of every ISR while it runs. A partition that no
      other broker may lead stays without a leader (KIP-631).

    Some failures have separate names:

    * `L4 unaware-leader`: a running broker does not know that the controller has made it the leader of the record's
      partition, or of a partition of the transactions' topic.
    * `L3 untaken-hw`: a follower ignored the response with its leader's high watermark, because it said where their
      logs diverge, or was requested in an earlier epoch of the same leader (promises.py).
    * `L3 follower-hw`: only a follower's high watermark is too low.
    * `L2 cleared-elr`: the ELR was cleared while the ISR was empty, or was switched on or off too late.
    * `L2 new-disk`: no broker is eligible, and the last leader has come back with an empty disk.
    * `L2 removed-eligible`: the ELR has only brokers that are no longer replicas.
    """

    NAME = "L1"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.quiescence = Quiescence(checker)
        self.parts = (self.quiescence,)
        self.unanswered: dict[str, trace.RecordSent] = {}
        self.out_of_order: dict[str, bool] = {}
        self.given_up: dict[str, None] = {}
        """Records of external clients whose last attempt was refused, or ended without an answer."""
        self.refused: dict[tuple[str, str, int], _Refused] = {}
        """Refusals of external clients since the leader last accepted a record, by (client, topic, partition)."""
        self.transactional: dict[str, str] = {}
        """transactional.id of each producer that has begun a transaction."""
        self.marked: dict[str, tuple[str, ...]] = {}
        """Partitions of a transaction that has ended and does not have all its markers yet, by transactional.id."""
        self.throttled: dict[str, None] = {}
        """Clients that have exceeded a quota since the last removal of any quota."""
        self.rates: dict[tuple[str | None, str], None] = {}
        """Replication quotas in force, by broker (None for all brokers) and key."""
        self.throttled_topics: dict[tuple[str, str], None] = {}
        self.appended_us: dict[TopicPartition, int] = {}
        self.followed: dict[tuple[str, int, str], str] = {}
        """Leader of each follower. While it stays the same, the fetch session continues."""
        self.untaken: dict[tuple[str, int, str], tuple[str, int]] = {}
        """(leader, its high watermark then) for each follower that has ignored a fetch response.

        A follower is removed when it learns a high watermark.
        """
        self.elr_cleared: dict[TopicPartition, bool] = {}
        """True for a partition whose last change left neither an eligible replica nor an electable last leader."""
        self.last_leaders: dict[TopicPartition, str] = {}
        """The last known leader of each partition that has no eligible leader."""
        self.on_new_disks: dict[tuple[str, int, str], None] = {}
        """Replicas whose broker got an empty disk."""
        self.metadata: tuple[int, dict[str, int]] = (0, {})
        self.metadata_grew_us = 0
        """Time at which a probe last found more metadata."""

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.appended_us, self.followed, self.untaken, self.elr_cleared, self.last_leaders, self.on_new_disks)

    @on(trace.IsrCommitted)
    def _isr(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        """Note whether the ELR is empty when the last member leaves the ISR. A changed ELR has a later event."""
        partition = TopicPartition(event.topic, event.partition)
        if not event.isr:
            self.elr_cleared[partition] = not self.view.partitions[partition].elr

    @on(trace.ElrCommitted)
    def _elr(self, row: TraceRow, event: trace.ElrCommitted) -> None:
        partition = TopicPartition(event.topic, event.partition)
        cleared = not event.elr and (event.last_known_leader is None or not self.checker.rules.elr)
        self.elr_cleared[partition] = cleared
        if event.elr or event.last_known_leader is None:
            self.last_leaders.pop(partition, None)
        else:
            self.last_leaders[partition] = event.last_known_leader

    @on(trace.DataLost)
    def _lost(self, row: TraceRow, event: trace.DataLost) -> None:
        if event.cause is DataLossCause.DISK_REPLACED:
            self.on_new_disks[event.topic, event.partition, event.node] = None

    @on(trace.TransactionBegan)
    def _began(self, row: TraceRow, event: trace.TransactionBegan) -> None:
        self.transactional[event.client] = event.transactional_id

    @on(trace.TransactionStateChanged)
    def _transaction(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        if event.state in PREPARED:
            self.marked[event.transactional_id] = event.partitions
        else:
            self.marked.pop(event.transactional_id, None)

    @on(trace.RecordSent)
    def _sent(self, row: TraceRow, event: trace.RecordSent) -> None:
        self.quiescence.produced_us = row.at_us
        self.unanswered[event.record] = event

    @on(trace.RecordAcked, trace.RecordHandedOver, trace.RecordFailed)
    def _answered(self, row: TraceRow, event: Any) -> None:
        """Count an answer as production: while a producer gets answers, its records are still being replicated."""
        self.quiescence.produced_us = row.at_us
        self.unanswered.pop(event.record, None)
        self.given_up.pop(event.record, None)
        if isinstance(event, trace.RecordAcked):
            self.refused.pop((event.client, event.topic, event.partition), None)

    @on(trace.BatchSent)
    def _sent_again(self, row: TraceRow, event: trace.BatchSent) -> None:
        if self.given_up:
            for record in event.records:
                self.given_up.pop(record, None)

    @on(trace.BatchRefused)
    def _refused(self, row: TraceRow, event: trace.BatchRefused) -> None:
        is_outside = event.client.startswith(OUTSIDE)
        for record in event.records:
            self.out_of_order[record] = event.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name
            if is_outside:
                self.given_up[record] = None
        state = self.view.partitions.get(TopicPartition(event.topic, event.partition))
        is_own_fault = event.error in (ErrorCode.NETWORK_EXCEPTION.name, ErrorCode.CORRUPT_MESSAGE.name)
        if is_outside and event.will_retry and not is_own_fault and state is not None and state.leader == event.peer:
            queue = event.client, event.topic, event.partition
            since = self.refused[queue].since_us if queue in self.refused else row.at_us
            self.refused[queue] = _Refused(since, row.at_us, event.records[0])

    @on(trace.ClientThrottled)
    def _client_throttled(self, row: TraceRow, event: trace.ClientThrottled) -> None:
        self.throttled[event.peer] = None

    @on(trace.ClientQuotaAltered)
    def _quota_altered(self, row: TraceRow, event: trace.ClientQuotaAltered) -> None:
        if event.value is None:
            self.throttled.clear()
            self.quiescence.disturbed_us = row.at_us

    @on(trace.ConfigAltered)
    def _altered(self, row: TraceRow, event: trace.ConfigAltered) -> None:
        """Update which brokers and topics have replication quotas (KIP-73)."""
        kept: dict[Any, None] = self.rates
        whose = event.broker
        if event.topic is not None and event.key.endswith("replication.throttled.replicas"):
            kept, whose = self.throttled_topics, event.topic
        elif not event.key.endswith("replication.throttled.rate"):
            return
        if event.value:
            kept[whose, event.key] = None
        elif (whose, event.key) in kept:
            del kept[whose, event.key]
            self.quiescence.disturbed_us = row.at_us

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        """Note the time of a leader's append, because appends of live clients may come without events about records."""
        if event.role == "leader":
            self.appended_us[TopicPartition(event.topic, event.partition)] = row.at_us

    @on(trace.DivergenceFound)
    def _diverged(self, row: TraceRow, event: trace.DivergenceFound) -> None:
        self._leaves_out(event.topic, event.partition, follower=event.peer, leader=event.node)

    @on(trace.FollowingBegan)
    def _follows(self, row: TraceRow, event: trace.FollowingBegan) -> None:
        follower = event.topic, event.partition, event.node
        if event.broker is None:
            self.followed.pop(follower, None)
            return
        if self.followed.get(follower) == event.broker and self.checker.rules.fetch_fencing != "none":
            self._leaves_out(*follower, leader=event.broker)
        self.followed[follower] = event.broker

    def _leaves_out(self, topic: str, partition: int, follower: str, leader: str) -> None:
        state = self.view.partitions.get(TopicPartition(topic, partition))  # It is None if the topic is deleted.
        if state is not None:
            self.untaken[topic, partition, follower] = leader, state.replica(leader).high_watermark

    @on(trace.HighWatermarkLearned)
    def _learned(self, row: TraceRow, event: trace.HighWatermarkLearned) -> None:
        self.untaken.pop((event.topic, event.partition, event.node), None)

    @on(trace.NodeStopped)
    def _stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        """Drop the unanswered records of a stopped client, and the fetch sessions of a stopped node."""
        self.followed = {key: leader for key, leader in self.followed.items() if event.node not in (key[2], leader)}
        if event.node in self.view.clients:
            self.unanswered = {record: sent for record, sent in self.unanswered.items() if sent.client != event.node}

    def probed(self, probe: Probe) -> None:
        end, applied = probe.metadata_offsets()
        if end != self.metadata[0]:
            self.metadata_grew_us = self.checker.at_us
        self.metadata = (end, dict(applied))

    def ended(self) -> None:
        if not self.quiescence.reached(self.checker.at_us):
            return
        # The final logs are reported last, so at_us is the end of the run.
        for name, sentence, partition in self._unsettled(self.checker.at_us):
            if name == "L5" and self.checker.at_us - self.metadata_grew_us < IDLE_US:
                continue  # Requests of clients may still write metadata (ACLs, quotas, users).
            topic, number = partition or (None, 0)
            self.broken(sentence, topic, number, name)

    def at_rest(self, now_us: int) -> bool:
        return (
            self.quiescence.reached(now_us, REST_US)
            and not self.unanswered
            and next(self._unsettled(now_us), None) is None
        )

    def _unsettled(self, now_us: int) -> Iterator[Unsettled]:
        for name in self.view.brokers:
            if self.view.nodes[name].fenced and not self.view.nodes[name].unregistered:
                yield Unsettled("L1", f"{name} runs undisturbed, but is still fenced")
        for partition in self.view.partitions:
            yield from self._unsettled_replicas(partition, now_us)
        stuck = [_queue_of(sent) for sent in self.unanswered.values() if self.out_of_order.get(sent.record, False)]
        waiting = [sent for sent in self.unanswered.values() if _queue_of(sent) not in stuck]
        unanswered = [sent for sent in waiting if self._is_waited_for(sent, now_us) and self._can_be_written(sent)]
        first_of = {self._name_of_unanswered(sent): sent for sent in reversed(unanswered)}
        for name in sorted(first_of):
            yield Unsettled(name, f"{first_of[name].client} never learned the result of {first_of[name].record}")
        end, applied = self.metadata
        for node, offset in applied.items():
            if offset != end:
                yield Unsettled("L5", f"{node} knows the metadata only up to {offset} of {end}")

    def _is_waited_for(self, sent: trace.RecordSent, now_us: int) -> bool:
        client = self.view.nodes.get(sent.client)
        if (client is not None and client.paused) or sent.client in self.throttled:
            return False
        if sent.record not in self.given_up:
            return True
        refused = self.refused.get(_queue_of(sent))
        return refused is not None and refused.record == sent.record and refused.lasts(now_us, self.quiescence)

    def _can_be_written(self, sent: trace.RecordSent) -> bool:
        state = self.view.partitions.get(TopicPartition(sent.topic, sent.partition))
        if state is None or state.leader is None:
            return False
        if sent.client in self.transactional:
            marked = self.marked.get(self.transactional[sent.client], ())
            needed = [name for name in self.view.partitions if name.topic == TRANSACTIONS_TOPIC or str(name) in marked]
            if not all(self._takes_writes(self.view.partitions[name]) for name in needed):
                return False
        return sent.acks != ACKS_ALL or self._takes_writes(state)

    def _takes_writes(self, state: PartitionView) -> bool:
        """Return True if the partition has a leader and enough in-sync replicas for acks=all."""
        return state.leader is not None and len(state.isr) >= self._asked_for(state)

    def _asked_for(self, state: PartitionView) -> int:
        """Return min.insync.replicas, or the value that the leader still uses if that is larger."""
        known = None if state.leader is None else self.checker.known_min_isr(state.leader, state.topic_partition)
        return max(state.min_isr, known or 1)

    def _name_of_unanswered(self, sent: trace.RecordSent) -> str:
        coordinating = (name for name in self.view.partitions if name.topic == TRANSACTIONS_TOPIC)
        needed = [TopicPartition(sent.topic, sent.partition), *coordinating]
        return "L4 unaware-leader" if any(map(self._is_led_unawares, needed)) else "L4"

    def _is_led_unawares(self, partition: TopicPartition) -> bool:
        state = self.view.partitions[partition]
        if state.leader is None or not self.view.running(state.leader):
            return False
        replica = state.replica(state.leader)
        return (replica.role, replica.leader_epoch) != ("leader", state.leader_epoch)

    def _unsettled_replicas(self, partition: TopicPartition, now_us: int) -> Iterator[Unsettled]:
        state = self.view.partitions[partition]
        expected = [node for node in state.assigned if not self.view.nodes[node].unregistered]
        if (
            state.leader is None
            and len(expected) < len(state.assigned)
            and not set(expected) & {*state.isr, *state.elr}
        ):
            return
        is_throttled = bool(self.rates) and any(topic == partition.topic for topic, _ in self.throttled_topics)
        if state.leader is not None and is_throttled:
            return
        if state.leader is None or sorted(state.isr) != sorted(expected):
            isr = ", ".join(state.isr)
            leader = state.leader or "no broker"
            name = "L2"
            if state.leader is None and not state.isr and self.elr_cleared.get(partition, False):
                name = "L2 cleared-elr"
            elif state.leader is None and not state.isr and state.elr and not set(state.elr) & set(state.assigned):
                name = "L2 removed-eligible"
            elif state.leader is None and (*partition, self.last_leaders.get(partition)) in self.on_new_disks:
                name = "L2 new-disk"
            yield Unsettled(name, f"at rest {partition} is led by {leader} with ISR {{{isr}}}", partition)
            return
        appended_us = self.appended_us.get(partition)
        if appended_us is not None and now_us - appended_us < self.quiescence.idle_us:
            return
        replicas = [state.replicas[node] for node in expected]
        ends = {(replica.log_end_offset, replica.high_watermark) for replica in replicas}
        stands_still = self.checker.rules.hw_advance == "min-isr" and len(state.isr) < self._asked_for(state)
        if stands_still and len({leo for leo, _ in ends}) == 1:
            return  # One of the partition's brokers is unregistered.
        if len(ends) > 1 or any(leo != hw for leo, hw in ends):
            leader_end = state.replicas[state.leader].log_end_offset
            is_committed = state.replicas[state.leader].high_watermark == leader_end
            same_ends = all(replica.log_end_offset == leader_end for replica in replicas)
            name = "L3"
            if is_committed and same_ends:
                behind = [replica.node for replica in replicas if replica.high_watermark != leader_end]
                standing = state.leader, leader_end
                untaken = all(self.untaken.get((*partition, node)) == standing for node in behind)
                name = "L3 untaken-hw" if untaken else "L3 follower-hw"
            shown = ", ".join(
                f"{replica.node} {replica.high_watermark}/{replica.log_end_offset}" for replica in replicas
            )
            yield Unsettled(name, f"at rest the replicas of {partition} have HW/LEO {shown}", partition)


def _queue_of(sent: trace.RecordSent) -> tuple[str, str, int]:
    """Return (client, topic, partition) of a record. Records with an equal result are sent in order."""
    return sent.client, sent.topic, sent.partition


class RequestsAreHandled(Invariant):
    """L6: no client's request fails because of a bug in Highwater. In a simulated run such a bug ends the run."""

    NAME = "L6"

    @on(trace.RequestCrashed)
    def _crashed(self, row: TraceRow, event: trace.RequestCrashed) -> None:
        self.broken(event.sentence())


class NodesLive(Invariant):
    """L7: no node's process ends because of a bug in Highwater. L8: never have all nodes ended without an order."""

    NAME = "L7"

    @on(trace.NodeStopped)
    def _stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        if event.how == "crash":
            self.broken(event.sentence())
        servers = (*self.view.controllers, *self.view.brokers)
        if event.how in ("crash", "died") and not any(map(self.view.running, servers)):
            self.broken(f"none of {listed(servers)} is running; {event.node} was the last", name="L8")


INVARIANTS: tuple[type[Invariant], ...] = (Converges, RequestsAreHandled, NodesLive)
