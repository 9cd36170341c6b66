"""The controller of the ZooKeeper era: a broker that was first to make /controller, and decides until it loses it.

Every event is a process: it yields operations for the registry and is resumed with their results, while the next event
waits (Kafka's single controller thread, which blocks on ZooKeeper). What it wants told to brokers and to the trace goes
to `actions`. source: KafkaController.scala, ZkPartitionStateMachine, ZkReplicaStateMachine, Election.scala
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from controller import znodes
from controller.control_requests import ControlRequest, RequestBatch
from controller.election import Candidates, Choice, Election, elect
from controller.events import AlterPartition, AlterPartitionReply, ElectReply, IsrProposal, IsrResult
from controller.image import PartitionRegistration
from controller.registry import (
    Check,
    Create,
    Delete,
    GetChildren,
    GetData,
    Multi,
    Operation,
    RegistryError,
    Result,
    SetData,
)
from controller.znodes import LiveBroker
from replica import trace
from replica.config import TopicConfig
from replica.errors import ErrorCode
from replica.ids import NO_BROKER, BrokerEpoch, BrokerId, Names, TopicPartition
from replica.rules import Rules

Results = Sequence[Result]
Process = Generator[Operation, Results, None]
Answer = Callable[[Any], None]


class ControllerMoved(Exception):
    """The registry says that somebody else is the controller by now."""


@dataclass(frozen=True, slots=True)
class Tell:
    """A fact for the trace."""

    event: trace.TraceEvent


@dataclass(frozen=True, slots=True)
class Reply:
    """What a process answers to whoever asked for it."""

    answer: Answer
    value: object


ControllerAction = ControlRequest | Tell | Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownReply:
    error: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """One change of a partition: what it becomes, how that was chosen, and on what occasion."""

    after: PartitionRegistration
    choice: Choice
    occasion: str


Plan = Callable[[PartitionRegistration], Planned | None]


class KafkaController:
    """One per broker; `is_active` while it is the controller. `post` an event, perform `actions`, feed `resume`.

    live, topic_ids, states: the controller's own picture of the registry (ControllerContext); a partition that the
    controller has not decided about yet has no state
    """

    def __init__(self, *, broker_id: BrokerId, names: Names, rules: Rules, imbalance_percentage: int = 10) -> None:
        self.actions: list[ControllerAction] = []
        self.active_controller: BrokerId = NO_BROKER
        self.epoch = 0
        self.live: dict[BrokerId, LiveBroker] = {}
        self.states: dict[TopicPartition, PartitionRegistration] = {}
        self.topic_ids: dict[str, UUID] = {}
        self._assignment: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self._shutting_down: dict[BrokerId, None] = {}
        self._epoch_version = 0
        self._broker_id = broker_id
        self._node = names(broker_id)
        self._names = names
        self._rules = rules
        self._imbalance_percentage = imbalance_percentage
        self._batch = RequestBatch()
        self._events: deque[Process] = deque()
        self._current: Process | None = None

    @property
    def is_active(self) -> bool:
        return self.active_controller == self._broker_id

    # --------------------------------------------------------------------------------------------------- one at a time

    def post(self, process: Process) -> Operation | None:
        """returns: what to ask the registry now, if nothing was going on"""
        self._events.append(process)
        return self._next(None) if self._current is None else None

    def resume(self, results: Results) -> Operation | None:
        """The answer to the last operation; returns the next one."""
        return self._next(results)

    def _next(self, results: Results | None) -> Operation | None:
        while True:
            if self._current is None:
                if not self._events:
                    return None
                self._current, results = self._events.popleft(), None
            try:
                return next(self._current) if results is None else self._current.send(results)
            except StopIteration:
                self._current = None
                self._send()
            except ControllerMoved:
                self._current = None
                self._resign()
                self._events.appendleft(self.elect())

    def _send(self) -> None:
        """Whatever the event wants told goes out when it is over."""
        if self.is_active:
            self.actions += self._batch.requests(
                controller_id=self._broker_id,
                controller_epoch=self.epoch,
                live=self.live,
                topic_ids=self.topic_ids,
                with_broker_epochs=self._rules.control_fencing == "broker-epoch",
            )

    def session_expired(self) -> None:
        """What waited to be decided is void, and so is being the controller. source: the Expire event"""
        self._current = None
        self._events.clear()
        self._resign()
        self.active_controller = NO_BROKER

    def _resign(self) -> None:
        """source: onControllerResignation"""
        self.active_controller = NO_BROKER
        self.live.clear()
        self.states.clear()
        self.topic_ids.clear()
        self._assignment.clear()
        self._shutting_down.clear()
        self._batch = RequestBatch()

    # -------------------------------------------------------------------------------------------------------- election

    def elect(self) -> Process:
        """Become the controller if there is none. source: elect, registerControllerAndIncrementControllerEpoch"""
        (found,) = yield GetData(path=znodes.CONTROLLER, watch=True)
        if found.error is None:
            self._follow(znodes.controller_id(found.data))
            return
        (epoch,) = yield GetData(path=znodes.CONTROLLER_EPOCH)
        if epoch.error is RegistryError.NO_NODE:
            yield Create(path=znodes.CONTROLLER_EPOCH, data="0")
            (epoch,) = yield GetData(path=znodes.CONTROLLER_EPOCH)
        new_epoch = int(epoch.data) + 1
        data = znodes.controller_data(self._broker_id)
        take_over = Multi(
            ops=(
                Create(path=znodes.CONTROLLER, data=data, ephemeral=True),
                SetData(path=znodes.CONTROLLER_EPOCH, data=str(new_epoch), version=epoch.version),
            )
        )
        results = yield take_over
        if results[0].error is not None:
            (found,) = yield GetData(path=znodes.CONTROLLER, watch=True)
            if found.error is None:
                self._follow(znodes.controller_id(found.data))
            else:
                yield from self.elect()
            return
        self.epoch, self._epoch_version = new_epoch, results[1].version
        self.active_controller = self._broker_id
        yield from self._take_over()

    def _follow(self, controller: BrokerId) -> None:
        if self.is_active and controller != self._broker_id:
            self._resign()
        self.active_controller = controller

    def controller_changed(self) -> Process:
        """/controller was made, changed or deleted. source: ControllerChange, Reelect"""
        (found,) = yield GetData(path=znodes.CONTROLLER, watch=True)
        if found.error is None:
            self._follow(znodes.controller_id(found.data))
            return
        if self.is_active:
            self._resign()
        yield from self.elect()

    def _take_over(self) -> Process:
        """source: onControllerFailover"""
        (changes,) = yield GetChildren(path=znodes.ISR_CHANGES)
        for child in changes.children:
            yield Delete(path=f"{znodes.ISR_CHANGES}/{child}")
        self.live = yield from self._read_brokers()
        for broker_id in self.live:
            self._tell_unfenced(broker_id, f"{self._node} finds it alive as it becomes the controller")
        yield from self._read_topics()
        for name in list(self._assignment):
            yield from self._refresh(name)
        yield GetChildren(path=znodes.ISR_CHANGES, watch=True)
        self._batch.update_metadata(self.live, {})
        self._send()
        occasion = f" after {self._node} became the controller"
        for name, registration in self.states.items():
            self._batch.leader_and_isr(self._live_of(registration.replicas), name, registration)
        self._batch.update_metadata(self.live, self.states)
        yield from self._elect_leaderless(occasion)
        offline = {broker: None for replicas in self._assignment.values() for broker in replicas}
        yield from self._take_offline([broker for broker in offline if broker not in self.live], occasion)

    # ------------------------------------------------------------------------------------------- what the registry says

    def _read_brokers(self) -> Generator[Operation, Results, dict[BrokerId, LiveBroker]]:
        (ids,) = yield GetChildren(path=znodes.BROKER_IDS, watch=True)
        found: dict[BrokerId, LiveBroker] = {}
        for broker_id in sorted(map(int, ids.children)):
            (node,) = yield GetData(path=znodes.broker_path(broker_id))
            if node.error is None:
                found[broker_id] = znodes.live_broker(broker_id, node.data, node.czxid)
        return found

    def _read_topics(self) -> Generator[Operation, Results, list[TopicPartition]]:
        """returns: the partitions that were not known before"""
        (topics,) = yield GetChildren(path=znodes.TOPICS, watch=True)
        new = []
        for topic in topics.children:
            (node,) = yield GetData(path=znodes.topic_path(topic))
            if node.error is not None or topic in self.topic_ids:
                continue
            self.topic_ids[topic], replicas = znodes.topic_of(node.data)
            for number, members in replicas.items():
                name = TopicPartition(topic, number)
                self._assignment[name] = members
                new.append(name)
        return new

    def _refresh(self, name: TopicPartition) -> Generator[Operation, Results, None]:
        (found,) = yield GetData(path=znodes.state_path(name))
        if found.error is None:
            state = znodes.state_of(found.data)
            self.states[name] = state.registration(self._assignment[name], found.version)

    def _unclean_allowed(self, name: TopicPartition) -> Generator[Operation, Results, bool]:
        (found,) = yield GetData(path=znodes.config_path(name.topic))
        if found.error is not None:
            return False
        return TopicConfig.from_mapping(znodes.config_of(found.data)).unclean_leader_election_enable

    # ---------------------------------------------------------------------------------------------- brokers come and go

    def brokers_changed(self) -> Process:
        """source: processBrokerChange; a bounce that one look does not show is seen by the broker epoch (KIP-380)"""
        if not self.is_active:
            return
        found = yield from self._read_brokers()
        known = self.live
        dead = [broker_id for broker_id in known if broker_id not in found]
        bounced = [
            broker_id
            for broker_id, broker in found.items()
            if broker_id in known
            and broker.broker_epoch > known[broker_id].broker_epoch
            and self._rules.control_fencing == "broker-epoch"
        ]
        new = [broker_id for broker_id in found if broker_id not in known]
        self.live = {broker_id: broker for broker_id, broker in known.items() if broker_id in found}
        for broker_id in bounced:
            del self.live[broker_id]
        if dead or bounced:
            yield from self._brokers_failed([*dead, *bounced])
        self.live.update({broker_id: found[broker_id] for broker_id in (*new, *bounced)})
        if new or bounced:
            yield from self._brokers_started([*new, *bounced])

    def _brokers_failed(self, dead: Sequence[BrokerId]) -> Process:
        """source: onBrokerFailure, onReplicasBecomeOffline"""
        for broker_id in dead:
            self._shutting_down.pop(broker_id, None)
            reason = f"{self._names(broker_id)} was fenced: its session with the registry is over"
            self.actions.append(Tell(trace.BrokerFenced(node=self._node, broker=self._names(broker_id), reason=reason)))
        occasion = f" after {self._names.set_of(list(dead)).strip('{}')} left the registry"
        yield from self._elect_leaderless(occasion)
        yield from self._take_offline(dead, occasion)
        self._batch.update_metadata(self.live, {})
        self._send()

    def _brokers_started(self, new: Sequence[BrokerId]) -> Process:
        """source: onBrokerStartup"""
        for broker_id in new:
            self._tell_unfenced(broker_id, f"{self._names(broker_id)} is in the registry")
        self._batch.update_metadata([broker_id for broker_id in self.live if broker_id not in new], {})
        self._batch.update_metadata(new, self.states)
        self._send()
        for name, registration in self.states.items():
            hosts = [broker_id for broker_id in new if broker_id in registration.replicas]
            self._batch.leader_and_isr(hosts, name, registration)
        who = self._names.set_of(list(new)).strip("{}")
        yield from self._elect_leaderless(f" after {who} came")
        self._send()

    def _tell_unfenced(self, broker_id: BrokerId, reason: str) -> None:
        who = self._names(broker_id)
        self.actions.append(Tell(trace.BrokerUnfenced(node=self._node, broker=who, reason=reason)))

    def _elect_leaderless(self, occasion: str) -> Process:
        """Partitions that are new or whose leader is not alive. source: triggerOnlinePartitionStateChange"""
        for name in sorted(self._assignment):
            state = self.states.get(name)
            if state is None:
                yield from self._create(name)
            elif state.leader not in self.live:
                yield from self._elect_offline(name, occasion)

    def _take_offline(self, dead: Sequence[BrokerId], occasion: str) -> Process:
        """Out of every ISR, except as its last member. source: the OfflineReplica transition, removeReplicasFromIsr"""
        for name in sorted(self.states):
            for broker_id in dead:
                if broker_id in self.states[name].in_sync_replicas or broker_id == self.states[name].leader:
                    yield from self._remove_from_isr(name, broker_id, occasion)

    # ------------------------------------------------------------------------------------------------ partition states

    def topics_changed(self) -> Process:
        """source: processTopicChange, onNewPartitionCreation"""
        if not self.is_active:
            return
        for name in (yield from self._read_topics()):
            yield from self._create(name)

    def _create(self, name: TopicPartition) -> Process:
        """New -> Online: the first live replica leads, and all that live are in sync. None lives: it stays new.

        source: initializeLeaderAndIsrForPartitions
        """
        replicas = self._assignment[name]
        live = self._online_of(replicas)
        if not live:
            return
        registration = PartitionRegistration(
            replicas=replicas, in_sync_replicas=live, leader=live[0], leader_epoch=0, partition_epoch=0
        )
        why = f"replicas as assigned; {self._names(live[0])} leads, the first that is live"
        data = znodes.state_data(registration, self.epoch)
        results = yield from self._write(Create(path=znodes.state_path(name), data=data, note={"why": why}))
        if results[-1].error is None:
            self.states[name] = registration
            self._announce(name)

    def _elect_offline(self, name: TopicPartition, occasion: str) -> Process:
        """source: OfflinePartitionLeaderElectionStrategy, Election.leaderForOffline"""
        isr = self.states[name].in_sync_replicas
        unclean = False
        if not self._online_of(isr):
            unclean = yield from self._unclean_allowed(name)

        def plan(before: PartitionRegistration) -> Planned | None:
            election = Election.UNCLEAN if unclean else Election.ONLINE
            choice = elect(election, self._candidates(before, self._is_online))
            if choice.leader in (NO_BROKER, before.leader):
                return None
            isr = self._online_of(before.in_sync_replicas) if choice.clean else (choice.leader,)
            return Planned(_next_term(before, choice.leader, isr), choice, occasion)

        yield from self._change(name, plan)

    def _remove_from_isr(self, name: TopicPartition, broker_id: BrokerId, occasion: str) -> Process:
        """The leader epoch rises although the leader may stay: a ZooKeeper controller has no other way to be heard."""

        def plan(before: PartitionRegistration) -> Planned | None:
            if broker_id not in before.in_sync_replicas and broker_id != before.leader:
                return None
            leader = NO_BROKER if before.leader == broker_id else before.leader
            rest = tuple(member for member in before.in_sync_replicas if member != broker_id)
            isr = rest if len(before.in_sync_replicas) > 1 else before.in_sync_replicas
            if leader == NO_BROKER and before.leader == NO_BROKER and isr == before.in_sync_replicas:
                return None
            why = f"{self._node} takes {self._names(broker_id)} offline"
            if leader == NO_BROKER:
                why = f"no leader: no member of the ISR {self._names.set_of(before.in_sync_replicas)} is live"
            return Planned(_next_term(before, leader, isr), Choice(leader, True, why), occasion)

        yield from self._change(name, plan, without=broker_id)

    def _candidates(self, partition: PartitionRegistration, is_acceptable: Callable[[BrokerId], bool]) -> Candidates:
        return Candidates(
            partition=partition,
            replicas=partition.replicas,
            in_sync_replicas=partition.in_sync_replicas,
            is_acceptable=is_acceptable,
            names=self._names,
        )

    def _live_of(self, brokers: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Those that can be told something."""
        return tuple(broker_id for broker_id in brokers if broker_id in self.live)

    def _online_of(self, brokers: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Those that may lead or be in sync. source: ControllerContext.isReplicaOnline"""
        return tuple(filter(self._is_online, brokers))

    def _is_online(self, broker_id: BrokerId) -> bool:
        return broker_id in self.live and broker_id not in self._shutting_down

    def _change(
        self, name: TopicPartition, plan: Plan, *, without: BrokerId = NO_BROKER
    ) -> Generator[Operation, Results, bool]:
        """Read the partition's state, decide, and write it in the version that was read; again if somebody was faster.

        A state that a newer controller has written is left alone. without: a replica that need not hear of it
        source: doElectLeaderForPartitions, removeReplicasFromIsr
        """
        while True:
            (found,) = yield GetData(path=znodes.state_path(name))
            state = znodes.state_of(found.data)
            before = state.registration(self._assignment[name], found.version)
            planned = plan(before) if state.controller_epoch <= self.epoch else None
            if planned is None:
                self.states[name] = before
                return False
            note = {"why": planned.choice.why, "clean": planned.choice.clean, "occasion": planned.occasion}
            data = znodes.state_data(planned.after, self.epoch)
            path = znodes.state_path(name)
            results = yield from self._write(SetData(path=path, data=data, version=found.version, note=note))
            if results[-1].error is None:
                self.states[name] = replace(planned.after, partition_epoch=results[-1].version)
                self._announce(name, without=without)
                return True

    def _write(self, operation: Create | SetData) -> Generator[Operation, Results, Results]:
        """KAFKA-6082: a write of a controller holds only while the epoch is the one it was elected with.

        raises: ControllerMoved
        """
        if self._rules.control_fencing != "broker-epoch":
            return (yield operation)
        check = Check(path=znodes.CONTROLLER_EPOCH, version=self._epoch_version)
        results = yield Multi(ops=(check, operation))
        if results[0].error is RegistryError.BAD_VERSION and results[0].path == znodes.CONTROLLER_EPOCH:
            raise ControllerMoved
        return results

    def _announce(self, name: TopicPartition, *, without: BrokerId = NO_BROKER) -> None:
        """To the partition's replicas, and to everybody's metadata."""
        registration = self.states[name]
        told = [broker_id for broker_id in self._live_of(registration.replicas) if broker_id != without]
        self._batch.leader_and_isr(told, name, registration)
        self._batch.update_metadata(self.live, {name: registration})

    # ----------------------------------------------------------------------------------------------------- ISR changes

    def isr_changed(self) -> Process:
        """Leaders have written ISRs and left a note of it. source: processIsrChangeNotification"""
        if not self.is_active:
            return
        (changes,) = yield GetChildren(path=znodes.ISR_CHANGES, watch=True)
        changed: dict[TopicPartition, None] = {}
        for child in changes.children:
            (note,) = yield GetData(path=f"{znodes.ISR_CHANGES}/{child}")
            if note.error is None:
                changed.update(dict.fromkeys(znodes.changed_partitions(note.data)))
        for name in changed:
            if name in self._assignment:
                yield from self._refresh(name)
        self._batch.update_metadata(self.live, {name: self.states[name] for name in changed if name in self.states})
        self._send()
        for child in changes.children:
            yield Delete(path=f"{znodes.ISR_CHANGES}/{child}")

    def alter_partition(self, event: AlterPartition, answer: Answer) -> Process:
        """KIP-497 (2.7): leaders ask, the controller writes. source: processAlterPartition"""
        if not self.is_active:
            self._reply(answer, AlterPartitionReply(error=ErrorCode.NOT_CONTROLLER))
            return
        sender = self.live.get(event.broker_id)
        if sender is None or sender.broker_epoch != event.broker_epoch:
            self._reply(answer, AlterPartitionReply(error=ErrorCode.STALE_BROKER_EPOCH))
            return
        results = []
        for proposal in event.partitions:
            results.append((yield from self._alter_one(event.broker_id, proposal)))
        self._reply(answer, AlterPartitionReply(error=ErrorCode.NONE, partitions=tuple(results)))

    def _alter_one(self, sender: BrokerId, proposal: IsrProposal) -> Generator[Operation, Results, IsrResult]:
        name = TopicPartition(proposal.topic, proposal.partition)
        known = self.states.get(name)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else _proposal_error(known, proposal)
        after = None
        if known is not None and error is ErrorCode.NONE:
            after = replace(known, in_sync_replicas=proposal.in_sync_replicas)
            data = znodes.state_data(after, self.epoch)
            note = {"why": f"{self._names(sender)} proposed it as leader"}
            path = znodes.state_path(name)
            written = yield from self._write(SetData(path=path, data=data, version=known.partition_epoch, note=note))
            if written[-1].error is None:
                after = self.states[name] = replace(after, partition_epoch=written[-1].version)
                self._batch.update_metadata(self.live, {name: after})
            else:
                error = ErrorCode.INVALID_UPDATE_VERSION
        if error is not ErrorCode.NONE or after is None:
            self._tell_rejected(sender, proposal, known, error)
            return IsrResult(topic=proposal.topic, partition=proposal.partition, error=error)
        return IsrResult(
            topic=proposal.topic,
            partition=proposal.partition,
            error=ErrorCode.NONE,
            leader=after.leader,
            leader_epoch=after.leader_epoch,
            in_sync_replicas=after.in_sync_replicas,
            partition_epoch=after.partition_epoch,
        )

    def _tell_rejected(
        self, sender: BrokerId, proposal: IsrProposal, known: PartitionRegistration | None, error: ErrorCode
    ) -> None:
        at = "" if known is None else f"; it is at {known.leader_epoch}/{known.partition_epoch}"
        reason = (
            f"{self._names(sender)} proposed at leader epoch {proposal.leader_epoch} and version "
            f"{proposal.partition_epoch}{at}"
        )
        event = trace.IsrRejected(
            node=self._node,
            broker=self._names(sender),
            topic=proposal.topic,
            partition=proposal.partition,
            leader_epoch=known.leader_epoch if known else proposal.leader_epoch,
            partition_epoch=known.partition_epoch if known else proposal.partition_epoch,
            isr=tuple(map(self._names, proposal.in_sync_replicas)),
            error=error.name,
            reason=reason,
        )
        self.actions.append(Tell(event))

    def _reply(self, answer: Answer, value: object) -> None:
        """After what the process wants told to brokers: an answer never says more than has been sent."""
        self._send()
        self.actions.append(Reply(answer, value))

    # ---------------------------------------------------------------------------------------------- controlled shutdown

    def controlled_shutdown(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, answer: Answer) -> Process:
        """Take leaderships away, and followers out of the ISR. source: doControlledShutdown"""
        broker = self.live.get(broker_id)
        if not self.is_active or broker is None:
            error = ErrorCode.BROKER_NOT_AVAILABLE if self.is_active else ErrorCode.NOT_CONTROLLER
            self._reply(answer, ControlledShutdownReply(error=error))
            return
        if self._rules.control_fencing == "broker-epoch" and broker_epoch != broker.broker_epoch:
            self._reply(answer, ControlledShutdownReply(error=ErrorCode.STALE_BROKER_EPOCH))
            return
        self._shutting_down[broker_id] = None
        occasion = f" after {self._names(broker_id)} began a controlled shutdown"
        hosted = [
            name
            for name, state in self.states.items()
            if broker_id in state.replicas and len(state.replicas) > 1 and state.has_leader
        ]
        followed = [name for name in hosted if self.states[name].leader != broker_id]
        for name in hosted:
            if name not in followed:
                yield from self._change(name, self._away_from_those_who_leave(occasion))
        for name in followed:
            self._batch.stop_replica(broker_id, name)
        self._send()
        for name in followed:
            if broker_id in self.states[name].in_sync_replicas:
                yield from self._remove_from_isr(name, broker_id, occasion)
        remaining = tuple(name for name in hosted if self.states[name].leader == broker_id)
        self._reply(answer, ControlledShutdownReply(error=ErrorCode.NONE, remaining=remaining))

    def _away_from_those_who_leave(self, occasion: str) -> Plan:
        """source: Election.leaderForControlledShutdown"""

        def plan(before: PartitionRegistration) -> Planned | None:
            choice = elect(Election.ONLINE, self._candidates(before, self._is_online))
            if choice.leader in (NO_BROKER, before.leader):
                return None
            isr = tuple(member for member in before.in_sync_replicas if member not in self._shutting_down)
            return Planned(_next_term(before, choice.leader, isr), choice, occasion)

        return plan

    # ------------------------------------------------------------------------------------------------ preferred leaders

    def elect_leader(self, name: TopicPartition, desired: BrokerId | None, unclean: bool, answer: Answer) -> Process:
        """An operator asks. source: processReplicaLeaderElection; `desired` first becomes the first replica"""
        known = self.states.get(name)
        if not self.is_active or known is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.is_active else ErrorCode.NOT_CONTROLLER
            self._refuse_election(name, answer, error, f"{self._node} knows no partition {name}")
            return
        wanted = f"{'an unclean' if unclean else 'a preferred'} election"
        if desired is not None:
            # Simplified: the replicas are reordered by the same command; Kafka needs a reassignment for that.
            yield from self._reorder(name, desired)
            wanted = f"{self._names(desired)} as leader"
        election = Election.UNCLEAN if unclean else Election.PREFERRED
        occasion = f"; an operator asked for {wanted}"
        if (yield from self._change(name, self._preferred(election, occasion))):
            self._reply(answer, ElectReply(error=ErrorCode.NONE))
            return
        preferred = self._assignment[name][0]
        led = self.states[name].leader == preferred
        error = ErrorCode.ELECTION_NOT_NEEDED if led else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        why = "leads already" if led else "is not live and in the ISR"
        self._refuse_election(name, answer, error, f"{self._names(preferred)} {why}")

    def _refuse_election(self, name: TopicPartition, answer: Answer, error: ErrorCode, reason: str) -> None:
        refused = trace.ElectionRefused(
            node=self._node, topic=name.topic, partition=name.partition, error=error.name, reason=reason
        )
        self.actions.append(Tell(refused))
        self._reply(answer, ElectReply(error=error, message=reason))

    def _reorder(self, name: TopicPartition, desired: BrokerId) -> Process:
        replicas = self._assignment[name]
        if desired not in replicas or replicas[0] == desired:
            return
        (found,) = yield GetData(path=znodes.topic_path(name.topic))
        ordered = (desired, *(broker_id for broker_id in replicas if broker_id != desired))
        data = znodes.with_replicas(found.data, name.partition, ordered)
        yield SetData(path=znodes.topic_path(name.topic), data=data)
        self._assignment[name] = ordered

    def _preferred(self, election: Election, occasion: str) -> Plan:
        """source: Election.leaderForPreferredReplica"""

        def plan(before: PartitionRegistration) -> Planned | None:
            choice = elect(election, self._candidates(before, self._is_online))
            is_wanted = choice.leader == before.replicas[0] or election is Election.UNCLEAN
            if choice.leader in (NO_BROKER, before.leader) or not is_wanted:
                return None
            isr = before.in_sync_replicas if choice.clean else (choice.leader,)
            return Planned(_next_term(before, choice.leader, isr), choice, occasion)

        return plan

    def rebalance(self) -> Process:
        """source: checkAndTriggerAutoLeaderRebalance"""
        if not self.is_active:
            return
        led_by_preference: dict[BrokerId, list[TopicPartition]] = {}
        for name in sorted(self.states):
            led_by_preference.setdefault(self._assignment[name][0], []).append(name)
        for broker_id, names in sorted(led_by_preference.items()):
            elsewhere = [name for name in names if self.states[name].leader != broker_id]
            if broker_id in self.live and len(elsewhere) * 100 > len(names) * self._imbalance_percentage:
                for name in elsewhere:
                    plan = self._preferred(Election.PREFERRED, "; the periodic preferred-leader check found it")
                    yield from self._change(name, plan)


def _next_term(before: PartitionRegistration, leader: BrokerId, isr: tuple[BrokerId, ...]) -> PartitionRegistration:
    """source: LeaderAndIsr.newLeaderAndIsr: the leader epoch rises with every change that a controller makes"""
    return replace(before, leader=leader, in_sync_replicas=isr, leader_epoch=before.leader_epoch + 1)


def _proposal_error(known: PartitionRegistration, proposal: IsrProposal) -> ErrorCode:
    if proposal.leader_epoch < known.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.leader_epoch > known.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.partition_epoch != known.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return ErrorCode.NONE
