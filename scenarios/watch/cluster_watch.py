"""Turns the responses of a watched cluster's brokers into trace events, one for each change.

`ClusterWatch` has no I/O. An event has the time of the first response that showed the change; the change itself took
place at some time after the previous response. The events are the same as for Highwater's own clusters. Brokers are
named `b<ID>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from replica.causes import FencingCause, UnfencingCause
from replica.ids import UNKNOWN_OFFSET, BrokerId, Offset, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceEvent, TraceLog
from replica.wording import duration
from scenarios.observe.wording import count_of
from scenarios.watch import statements
from scenarios.watch.holds import Holds
from scenarios.watch.questions import ClusterAnswer, ListedBroker, PartitionAnswer, ReplicaAnswer
from scenarios.watch.statements import CONTROLLER
from scenarios.watch.watched import LeaderEnds, WatchedBroker, WatchedPartition, WatchedReplica, broker_name, names_of

SILENT, HOLDS_BACK = "no_answer", "holds_high_watermark"
"""Verbs of two faults that a watch writes to the trace: a broker does not answer, or holds back a high watermark."""
HOLD_TOLD_FROM_US = 1_000_000


class ClusterWatch:
    """The state of a watched cluster, which emits an event for each change.

    Attributes:
        brokers: last known state by broker id.
        partitions: last known state by name.
        holds: high watermarks that do not advance.
        left_out: number of topics and partitions that are not watched (see ClusterAnswer).
        cluster_id: None if unknown.
    """

    def __init__(self, recorder: TraceLog) -> None:
        self.brokers: dict[BrokerId, WatchedBroker] = {}
        self.partitions: dict[TopicPartition, WatchedPartition] = {}
        self.holds = Holds()
        self.left_out = 0
        self.cluster_id: str | None = None
        self._trace = recorder
        self._min_isr: dict[str, int] = {}
        self._holding: dict[BrokerId, int] = {}
        """Brokers that hold back high watermarks according to the trace, with the time at which each of them began."""

    @property
    def title(self) -> str:
        """The name and size of the cluster as text: `Cluster 5L6g3nShT-eMCtK--X86sw: 3 brokers, 12 partitions`."""
        away = sum(not known.listed for known in self.brokers.values())
        brokers = count_of(len(self.brokers), "broker") + (f" ({away} not listed)" if away else "")
        sizes = f"{brokers}, {count_of(len(self.partitions), 'partition')}"
        return f"A cluster of {sizes}" if self.cluster_id is None else f"Cluster {self.cluster_id}: {sizes}"

    # ------------------------------------------------------------------------------------------------------ brokers

    def brokers_answered(self, now_us: int, asked: str, addresses: Sequence[ListedBroker]) -> None:
        """Process the list of live brokers that the broker `asked` has returned."""
        self._enter(now_us)
        listed_now = {address.broker_id: address for address in addresses}
        for broker_id, address in listed_now.items():
            known = self._broker(broker_id)
            if not known.listed:
                self._came(known)
            known.address, known.listed = address, True
        for known in self.brokers.values():
            if known.listed and known.broker_id not in listed_now:
                known.listed = False
                name = broker_name(known.broker_id)
                self._emit(trace.BrokerFenced(node=CONTROLLER, broker=name, cause=FencingCause.NOT_LISTED))

    def may_describe(self, broker_id: BrokerId, listed: Sequence[ListedBroker] | None = None) -> bool:
        """Return True if a broker's metadata can be trusted.

        A broker that other brokers no longer list may be cut off from the controllers and have old metadata. A broker
        that does not list itself is fenced or has just started. If no other broker answers, any metadata is accepted.

        Args:
            listed: brokers that this broker has returned, None before it is asked.
        """
        known = self.brokers.get(broker_id)
        is_in = known is not None and known.listed
        lists_itself = listed is None or any(item.broker_id == broker_id for item in listed)
        others = (broker for broker in self.brokers.values() if broker.broker_id != broker_id)
        return (is_in and lists_itself) or not any(
            other.listed and other.answered_us is not None and other.silent_since_us is None for other in others
        )

    def _came(self, known: WatchedBroker) -> None:
        name = broker_name(known.broker_id)
        if known.address is None:
            self._emit(trace.NodeStarted(node=name, role="broker"))
            self._emit(trace.BrokerRegistered(node=CONTROLLER, broker=name, broker_epoch=0))
        self._emit(trace.BrokerUnfenced(node=CONTROLLER, broker=name, cause=UnfencingCause.LISTED))

    def _broker(self, broker_id: BrokerId) -> WatchedBroker:
        return self.brokers.setdefault(broker_id, WatchedBroker(broker_id))

    def answered(self, now_us: int, broker_id: BrokerId) -> None:
        """Record that a broker has answered. If it was silent, emit the end of this fault."""
        known = self._broker(broker_id)
        known.answered_us = now_us
        if known.silent_since_us is not None:
            self._enter(now_us)
            name, lasted = broker_name(broker_id), duration(now_us - known.silent_since_us)
            self._ended(f"silent-{name}", SILENT, name, f"{name} answers again, after {lasted}")
            known.silent_since_us, known.silence = None, ""

    def silent(self, now_us: int, broker_id: BrokerId, since_us: int, why: str) -> None:
        """Record that a broker has not answered since `since_us`, and emit a fault if this is new."""
        known = self._broker(broker_id)
        known.silence = why
        if known.silent_since_us is None:
            self._enter(now_us)
            known.silent_since_us = since_us
            name = broker_name(broker_id)
            self._began(f"silent-{name}", SILENT, name, f"{name} has not answered since {since_us / 1e6:.1f} s ({why})")

    def look(self, now_us: int) -> None:
        """Emit the begin or end of a fault for each broker that has begun or ceased to hold back high watermarks."""
        self._enter(now_us)
        holding: dict[BrokerId, list[TopicPartition]] = {}
        for name, hold in self.holds.now.items():
            if hold.length_us >= HOLD_TOLD_FROM_US:
                for broker_id in hold.holders:
                    holding.setdefault(broker_id, []).append(name)
        for broker_id in [item for item in self._holding if item not in holding]:
            broker, lasted = broker_name(broker_id), duration(now_us - self._holding.pop(broker_id))
            reason = f"{broker} no longer holds back a high watermark, after {lasted}"
            self._ended(f"held-by-{broker}", HOLDS_BACK, broker, reason)
        for broker_id, names in holding.items():
            if broker_id not in self._holding:
                since_us = self._holding[broker_id] = min(self.holds.now[name].from_us for name in names)
                broker, first, others = broker_name(broker_id), names[0], len(names) - 1
                where = f"{first} at {self.holds.now[first].high_watermark}" + (
                    f" and of {others} more" if others else ""
                )
                reason = f"{broker} has held back the high watermark of {where} since {since_us / 1e6:.1f} s"
                self._began(f"held-by-{broker}", HOLDS_BACK, broker, reason)

    # ---------------------------------------------------------------------------------------------------- partitions

    def cluster_answered(self, now_us: int, answer: ClusterAnswer) -> None:
        """Process one broker's metadata of all partitions: emit the differences from the last known state."""
        self._enter(now_us)
        self.left_out = answer.left_out
        there = {partition.name: partition for partition in answer.partitions}
        self._forget(there)
        for name, item in there.items():
            known = self.partitions.get(name)
            if known is None:
                self._created(item)
            elif item != known.answer:
                self._changed(known, item)

    def min_isr_of(self, topic: str) -> int | None:
        """Return a topic's min.insync.replicas, None if it is unknown."""
        return self._min_isr.get(topic)

    def min_isrs_answered(self, now_us: int, found: Mapping[str, int]) -> None:
        """Process the values of min.insync.replicas by topic: emit those that have changed."""
        self._enter(now_us)
        changed = {topic: value for topic, value in found.items() if self._min_isr.get(topic) != value}
        self._min_isr.update(changed)
        there: dict[str, None] = {}
        for known in self.partitions.values():
            if known.name.topic in changed:
                there[known.name.topic] = None
                known.configured_min_isr = changed[known.name.topic]
        for topic in there:
            value = changed[topic]
            self._emit(
                trace.ConfigAltered(
                    node=CONTROLLER,
                    topic=topic,
                    key="min.insync.replicas",
                    value=str(value),
                    min_isr=value,
                )
            )

    def _forget(self, there: Mapping[TopicPartition, PartitionAnswer]) -> None:
        """Forget topics that no longer exist or were created again, and emit their deletion.

        Args:
            there: partitions in the latest metadata.
        """
        gone: dict[str, None] = {}
        for name, known in self.partitions.items():
            item = there.get(name)
            if item is None or (item.topic_id is not None and item.topic_id != known.answer.topic_id):
                gone[name.topic] = None
        for topic in gone:
            for name in [name for name in self.partitions if name.topic == topic]:
                self.holds.ended(name)
                del self.partitions[name]
            self._min_isr.pop(topic, None)
            self._emit(trace.TopicDeleted(node=CONTROLLER, topic=topic))

    def _created(self, partition_answer: PartitionAnswer) -> None:
        known = self.partitions[partition_answer.name] = WatchedPartition(
            partition_answer.name, partition_answer, max(partition_answer.leader_epoch, 0)
        )
        known.configured_min_isr = self._min_isr.get(partition_answer.name.topic)
        for event in statements.created(known):
            self._emit(event)

    def _changed(self, known: WatchedPartition, partition_answer: PartitionAnswer) -> None:
        before = known.answer
        if 0 <= partition_answer.leader_epoch < known.leader_epoch:
            return  # The answering broker has old metadata.
        known.answer = partition_answer
        known.partition_epoch += 1
        if partition_answer.replicas != before.replicas:
            self._emit(statements.reassigned(known, before))
        if partition_answer.leader != before.leader or partition_answer.leader_epoch > known.leader_epoch:
            # Before version 7 Metadata has no leader epoch, so leader changes are counted.
            known.leader_epoch = (
                partition_answer.leader_epoch if partition_answer.leader_epoch >= 0 else known.leader_epoch + 1
            )
            self.holds.ended(known.name)
            known.ends = LeaderEnds()
            self._emit(statements.elected(known, before))
        elif sorted(partition_answer.isr) != sorted(before.isr):
            self._emit(statements.isr_changed(known, before))
        if partition_answer.elr is not None and sorted(partition_answer.elr) != sorted(before.elr or ()):
            self._emit(statements.elr_changed(known, before.elr or ()))

    # ------------------------------------------------------------------------------------------------------ replicas

    def replicas_answered(self, now_us: int, broker_id: BrokerId, answers: Iterable[ReplicaAnswer]) -> None:
        """Process a broker's response about its own replicas: emit what has changed in their logs."""
        self.answered(now_us, broker_id)
        self._enter(now_us)
        for answer in answers:
            known = self.partitions.get(answer.name)
            if known is not None and broker_id in known.answer.replicas:
                self._stated(now_us, known, broker_id, answer)

    def _stated(self, now_us: int, known: WatchedPartition, broker_id: BrokerId, answer: ReplicaAnswer) -> None:
        replica = known.replica(broker_id)
        replica.error, end = answer.error, answer.log_end_offset
        if end is None:
            return
        leads = broker_id == known.answer.leader
        high_watermark = answer.high_watermark
        if high_watermark is None:
            high_watermark = UNKNOWN_OFFSET if replica.high_watermark is None else replica.high_watermark
        else:
            # The end was requested before the high watermark, and the log has grown at least to the latter since.
            end = max(end, high_watermark)
        before_end, before_hw = replica.log_end_offset, replica.high_watermark
        replica.log_end_offset, replica.high_watermark, replica.answered_us = end, high_watermark, now_us
        if before_end is not None and end < before_end:
            self._emit(statements.truncated(known, broker_id, replica, before_end, before_hw))
        if replica.leader_epoch != known.leader_epoch:
            replica.leader_epoch, replica.stated = known.leader_epoch, None
            self._emit(statements.began(known, broker_id, replica))
        else:
            if before_end is not None and end > before_end:
                self._emit(statements.appended(known, broker_id, before_end, end))
            if before_hw is not None and high_watermark != before_hw:
                self._emit(statements.high_watermark_moved(known, broker_id, replica, before_hw))
        if leads:
            self._leader_stated(now_us, known, end, high_watermark)
        else:
            self._follower_stated(known, broker_id, replica, end)

    def _leader_stated(self, now_us: int, known: WatchedPartition, end: Offset, high_watermark: Offset) -> None:
        slowest = [replica.log_end_offset for replica in known.replicas.values() if replica.log_end_offset is not None]
        known.ends.add(now_us, end, min(slowest))
        if high_watermark >= 0:
            self.holds.stands(
                now_us,
                known.name,
                known.leader_epoch,
                high_watermark,
                end,
                known.behind(high_watermark),
                under_min_isr=known.under_min_isr,
            )

    def _follower_stated(
        self, known: WatchedPartition, broker_id: BrokerId, replica: WatchedReplica, end: Offset
    ) -> None:
        leading = known.leading
        if leading is None or leading.log_end_offset is None or leading.high_watermark is None:
            return
        # The leader's log end may be older than the follower's.
        state = (end, max(end, leading.log_end_offset))
        if state != replica.stated:
            replica.stated = state
            self._emit(statements.fetched(known, broker_id, *state, leading.high_watermark))

    # ----------------------------------------------------------------------------------------------------- the trace

    def begin(self, how: str, profile: str) -> None:
        """Emit the first events of the trace.

        Args:
            how: title of the run, since the cluster's own title is not known yet.
        """
        self._emit(trace.RunStarted(scenario="watch", variant=None, seed=0, profile=profile, title=how))
        self._emit(trace.NodeStarted(node=CONTROLLER, role="controller"))
        self._emit(trace.ControllerActivated(node=CONTROLLER, controller_epoch=0))

    def finish(self, now_us: int) -> None:
        """Emit the last events of the trace: the last known state of every replica whose offsets are known."""
        self._enter(now_us)
        for known in self.partitions.values():
            for broker_id, replica in known.replicas.items():
                if replica.log_end_offset is not None and replica.high_watermark is not None:
                    running = self._broker(broker_id).listed
                    self._emit(statements.found(known, broker_id, replica, running=running))
        self._emit(trace.RunFinished(lasted_us=now_us))

    def _began(self, name: str, verb: str, broker: str, effect: str) -> None:
        self._emit(trace.FaultBegan(fault=name, verb=verb, targets=(broker,), effect=effect))

    def _ended(self, name: str, verb: str, broker: str, effect: str) -> None:
        self._emit(trace.FaultEnded(fault=name, verb=verb, targets=(broker,), effect=effect))

    def _enter(self, now_us: int) -> None:
        self._trace.at_us = now_us

    def _emit(self, event: TraceEvent) -> None:
        """Emit an event without a cause, since causes cannot be observed."""
        self._trace.cause = None
        self._trace.emit(event)


# -------------------------------------------------------------------------------------------------------------- outcome
#
# The result of a watch as JSON values: which brokers held back high watermarks, and for how long.


def outcome_of(watch: ClusterWatch, bootstrap: str, now_us: int) -> dict[str, Any]:
    """Return the content of `watched` in summary.json. Times are in microseconds since the watch began."""
    return {
        "cluster_id": watch.cluster_id,
        "bootstrap": bootstrap,
        "lasted_us": now_us,
        "holders": {
            broker_name(broker_id): {"us": holder.us, "partitions": len(holder.partitions)}
            for broker_id, holder in sorted(watch.holds.by_broker.items())
        },
        "holds": [
            {
                "partition": str(hold.name),
                "high_watermark": hold.high_watermark,
                "from_us": hold.from_us,
                "until_us": hold.until_us,
                "waiting_records": hold.waiting,
                "held_by": list(names_of(hold.holders)),
                "under_min_isr_us": hold.under_min_isr_us,
            }
            for hold in watch.holds.longest()
        ],
    }
