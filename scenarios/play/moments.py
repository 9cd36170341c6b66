"""The state of a run at one moment, and the reasons why a step would be impossible or have no effect at this moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replica.ids import TRANSACTIONS_TOPIC, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.wording import duration, listed
from scenarios.language.selectors import SelectorError, resolve
from scenarios.language.spec import Scenario
from scenarios.language.steps import Payload
from scenarios.language.verbs.network import Cut, Hold, PartitionNetwork
from scenarios.observe.view import ClusterView, PartitionView

Link = tuple[str, str]
"""(sender, receiver)."""


@dataclass(frozen=True, slots=True)
class _InForce:
    """A fault that has begun and has not ended.

    Attributes:
        payload: payload of the scenario's step, None if the fault has another origin.
        links: links that the fault cuts, or on which it holds messages.
    """

    verb: str
    payload: Payload | None
    links: frozenset[Link]


class Situation(Listener):
    """The state of a run at the time `at_us`, at which a viewer may add a step.

    Each public method checks a reason against a step. It returns a sentence if the reason applies, otherwise "".
    """

    def __init__(self, scenario: Scenario, rows: Sequence[TraceRow], at_us: int) -> None:
        self._scenario = scenario
        self._at_us = at_us
        self._view = ClusterView.of(scenario)
        self._payloads = {step.name: step.payload for step in scenario.timeline}
        self._captured: dict[str, tuple[str, ...]] = {}
        self._in_force: dict[str, _InForce] = {}
        self._stable: dict[TopicPartition, bool] = {}
        """True for partitions whose last stable offset has reached the high watermark, so no transaction is open."""
        for row in rows:
            if row.at_us > at_us:
                break
            self(row)
            self._view(row)

    @on(trace.FaultBegan)
    def _fault_began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        payload = self._payloads.get(event.fault)
        self._captured[event.fault] = event.targets
        links = frozenset(self._links_of(payload))
        self._in_force[event.fault] = _InForce(event.verb, payload, links)

    @on(trace.FaultEnded)
    def _fault_ended(self, row: TraceRow, event: trace.FaultEnded) -> None:
        self._in_force.pop(event.fault, None)

    @on(trace.LastStableOffsetMoved)
    def _stable_offset_moved(self, row: TraceRow, event: trace.LastStableOffsetMoved) -> None:
        name = TopicPartition(event.topic, event.partition)
        self._stable[name] = event.last_stable_offset >= event.high_watermark

    def _links_of(self, payload: Payload | None) -> Iterator[Link]:
        """Yield the links that a cut, a network partition or a hold affects, none if its selectors match no nodes."""
        try:
            match payload:
                case Cut():
                    item, two = (resolve(side, self._view, self._captured) for side in payload.between)
                    for a in item:
                        for b in two:
                            yield from [(a, b)] if payload.direction != "to" else []
                            yield from [(b, a)] if payload.direction != "from" else []
                case PartitionNetwork():
                    islands = [resolve(island, self._view, self._captured) for island in payload.islands]
                    for island in islands:
                        for other in islands:
                            yield from ((a, b) for a in island for b in other if island is not other)
                case Hold():
                    senders = resolve(payload.sender, self._view, self._captured)
                    receivers = resolve(payload.receiver, self._view, self._captured)
                    yield from ((a, b) for a in senders for b in receivers)
        except SelectorError:
            return

    def is_over(self) -> str:
        end_us = self._scenario.duration_us
        return f"The run ends at {duration(end_us)}." if self._at_us > end_us else ""

    # ----------------------------------------------------------------------------------------------------- processes

    def is_down(self, *nodes: str) -> str:
        down = [node for node in nodes if not self._view.running(node)]
        return f"{listed(down)} {'is' if len(down) == 1 else 'are'} not running now." if down else ""

    def is_not_down(self, node: str) -> str:
        if self._view.running(node):
            return f"{node} is running now."
        workload = self._scenario.workloads.get(node)
        is_early = workload is not None and workload.start_us > self._at_us
        return f"{node} has not started yet." if is_early else ""

    def is_frozen(self, node: str) -> str:
        return f"{node} is frozen already." if self._view.nodes[node].paused else ""

    def is_not_frozen(self, node: str) -> str:
        return "" if self._view.nodes[node].paused else f"{node} is not frozen now."

    def is_rolling(self) -> str:
        is_rolling = any(fault.verb == "rolling_restart" for fault in self._in_force.values())
        return "Another rolling restart has not ended." if is_rolling else ""

    # ------------------------------------------------------------------------------------------------------- network

    def is_cut(self, item: str, other: str) -> str:
        cut = {link for fault in self._in_force.values() if fault.verb in ("cut", "partition") for link in fault.links}
        return f"Nothing passes between {item} and {other} now." if {(item, other), (other, item)} <= cut else ""

    def is_held(self, sender: str, receiver: str, api: str, part: str) -> str:
        holds = [fault.payload for fault in self._in_force.values() if (sender, receiver) in fault.links]
        is_held = any(
            isinstance(hold, Hold) and hold.count is None and hold.api in (None, api) and hold.part in (None, part)
            for hold in holds
        )
        return "These messages are held already." if is_held else ""

    def has_none_of(self, verbs: Sequence[str], reason: str) -> str:
        return "" if any(fault.verb in verbs for fault in self._in_force.values()) else reason

    # ---------------------------------------------------------------------------------- topics, partitions and groups

    def no_controller(self) -> str:
        """Return a reason if no controller (or, in the ZooKeeper era, no registry) is running to serve an operator."""
        registry = () if self._view.has_controllers else self._view.controllers[:1]
        return self.is_down(*dict.fromkeys((*registry, self._view.controller)))

    def is_absent(self, name: TopicPartition) -> str:
        return "" if name in self._view.partitions else f"{name} does not exist now."

    def cannot_elect(self, name: TopicPartition, broker: str) -> str:
        partition = self._partition(name)
        if partition.leader == broker:
            return f"{broker} leads {name} already."
        if broker not in partition.assigned:
            return f"{broker} holds no replica of {name}."
        return "" if broker in partition.isr else f"{broker} is not in the ISR of {name}."

    def has_leader(self, name: TopicPartition) -> str:
        leader = self._partition(name).leader
        return f"{name} has a leader, {leader}, so no unclean election is needed." if leader else ""

    def has_no_replica_up(self, name: TopicPartition) -> str:
        is_up = any(map(self._view.running, self._partition(name).assigned))
        return "" if is_up else f"No broker with a replica of {name} is running now."

    def is_placed(self, name: TopicPartition, brokers: tuple[str, ...]) -> str:
        return f"{name} is on {', '.join(brokers)} already." if self._partition(name).assigned == brokers else ""

    def has_no_live_leader(self, name: TopicPartition) -> str:
        return "" if self._view.leading_replica(name) else f"{name} has no live leader now."

    def has_nothing_committed(self, name: TopicPartition) -> str:
        log = self._view.leading_replica(name)
        is_empty = log is not None and log.log_start_offset >= log.high_watermark
        return f"{name} holds no record below its high watermark." if is_empty else ""

    def has_no_open_transaction(self, name: TopicPartition) -> str:
        return f"{name} has no open transaction now." if self._stable.get(name, True) else ""

    def has_partitions(self, topic: str, count: int) -> str:
        found = sum(name.topic == topic for name in self._view.partitions)
        return f"{topic} has {found} partitions already." if found >= count else ""

    def has_min_isr(self, name: TopicPartition, minimum: int) -> str:
        is_same = self._partition(name).configured_min_isr == minimum
        return f"{name.topic} has min.insync.replicas={minimum} already." if is_same else ""

    def has_no_coordinator(self, key: str, topic: str = TRANSACTIONS_TOPIC) -> str:
        coordinator = self._view.coordinator(key, topic)
        return self.is_down(coordinator) if coordinator else f"{key} has no coordinator now."

    def _partition(self, name: TopicPartition) -> PartitionView:
        return self._view.partitions.get(name) or PartitionView(name)
