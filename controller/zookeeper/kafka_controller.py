"""The controller of the ZooKeeper era: the broker that has created the znode /controller, until it loses the znode.

Each event is handled by a process: a generator that yields operations of the registry (the simulated ZooKeeper) and is
resumed with their results. The next event waits for the end of the process, as in Kafka's single controller thread,
which blocks on ZooKeeper. Requests to brokers and trace events become actions of the context.
Source: KafkaController.scala
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from controller.election import Election, Occasion
from controller.inputs import AlterPartition, AlterPartitionReply, ElectLeader, PlainReply
from controller.zookeeper import znodes
from controller.zookeeper.controller_context import (
    Answer,
    ControllerAction,
    ControllerContext,
    ControllerMoved,
    Process,
    Results,
)
from controller.zookeeper.partition_changes import PartitionChanges
from controller.zookeeper.registry import Create, Delete, GetChildren, GetData, Multi, Operation, RegistryError, SetData
from controller.zookeeper.znodes import LiveBroker
from replica.causes import FencingCause, OccasionKind, ResignationCause, UnfencingCause
from replica.errors import ErrorCode
from replica.ids import NO_BROKER, BrokerEpoch, BrokerId, Names, TopicPartition
from replica.rules import Rules
from replica.trace import events as trace
from replica.trace.events import Emit


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownReply:
    error: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


class KafkaController:
    """The part of a broker that can become the controller; `is_active` is True while the broker is the controller.

    Callers `post` events, `resume` them with the results of registry operations, and perform `take_actions`.
    """

    def __init__(self, *, broker_id: BrokerId, names: Names, rules: Rules, imbalance_percentage: int = 10) -> None:
        self.active_controller: BrokerId = NO_BROKER
        self._context = ControllerContext(broker_id, with_broker_epochs=rules.control_fencing == "broker-epoch")
        self._partitions = PartitionChanges(self._context, node=names(broker_id), names=names, rules=rules)
        self._broker_id = broker_id
        self._node = names(broker_id)
        self._names = names
        self._rules = rules
        self._imbalance_percentage = imbalance_percentage
        self._events: deque[Process] = deque()
        self._current: Process | None = None

    @property
    def live(self) -> Mapping[BrokerId, LiveBroker]:
        """Brokers in the registry, as far as this controller knows; empty while it is not active."""
        return self._context.live

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        return self._context.topic_ids

    def take_actions(self) -> list[ControllerAction]:
        """Return the requests, events and answers since the last call, in the order in which to send them."""
        taken, self._context.actions = self._context.actions, []
        return taken

    @property
    def is_active(self) -> bool:
        return self.active_controller == self._broker_id

    # ---------------------------------------------------------------------------------------------------------- events

    def post(self, process: Process) -> Operation | None:
        """Add an event. Return the next registry operation; None if there is none or another event is in progress."""
        self._events.append(process)
        return self._next(None) if self._current is None else None

    def resume(self, results: Results) -> Operation | None:
        """Continue with the results of the last operation. Return the next operation, None if no event is left."""
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
                if self.is_active:
                    self._context.send()
            except ControllerMoved:
                self._current = None
                self._resign(ResignationCause.WRITE_REFUSED)
                self._events.appendleft(self.elect())

    def session_expired(self) -> None:
        """Discard all waiting events and stop being the controller. Source: the Expire event"""
        self._current = None
        self._events.clear()
        self._resign(ResignationCause.SESSION_EXPIRED)
        self.active_controller = NO_BROKER

    def _resign(self, why: ResignationCause, other: str | None = None) -> None:
        """Stop being the controller. Source: onControllerResignation"""
        if self.is_active:
            epoch = self._context.epoch
            resigned = trace.ControllerResigned(node=self._node, controller_epoch=epoch, cause=why, other=other)
            self._context.actions.append(Emit(resigned))
        self.active_controller = NO_BROKER
        self._context.clear()

    # -------------------------------------------------------------------------------------------------------- election

    def elect(self) -> Process:
        """Become the controller if there is none. Source: elect, registerControllerAndIncrementControllerEpoch"""
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
        self._context.epoch, self._context.epoch_version = new_epoch, results[1].version
        self.active_controller = self._broker_id
        yield from self._take_over()

    def _follow(self, controller: BrokerId) -> None:
        if self.is_active and controller != self._broker_id:
            self._resign(ResignationCause.OTHER_CONTROLLER, self._names(controller))
        self.active_controller = controller

    def controller_changed(self) -> Process:
        """Handle a creation, change or deletion of /controller. Source: ControllerChange, Reelect"""
        (found,) = yield GetData(path=znodes.CONTROLLER, watch=True)
        if found.error is None:
            self._follow(znodes.controller_id(found.data))
            return
        if self.is_active:
            self._resign(ResignationCause.NODE_GONE)
        yield from self.elect()

    def _take_over(self) -> Process:
        """Read the state of the cluster and take over as the new controller. Source: onControllerFailover"""
        (changes,) = yield GetChildren(path=znodes.ISR_CHANGES)
        for child in changes.children:
            yield Delete(path=f"{znodes.ISR_CHANGES}/{child}")
        self._context.live = yield from self._read_brokers()
        for broker_id in self._context.live:
            self._tell_unfenced(broker_id, UnfencingCause.FOUND_LIVE)
        yield from self._read_topics()
        for name in list(self._context.assignment):
            yield from self._refresh(name)
        yield GetChildren(path=znodes.ISR_CHANGES, watch=True)
        self._context.batch.update_metadata(self._context.live, {})
        self._context.send()
        occasion = Occasion(OccasionKind.NEW_CONTROLLER)
        for name, registration in self._context.states.items():
            self._context.batch.leader_and_isr(self._context.live_of(registration.replicas), name, registration)
        self._context.batch.update_metadata(self._context.live, self._context.states)
        self._context.send()
        offline = {broker: None for replicas in self._context.assignment.values() for broker in replicas}
        dead = [broker for broker in offline if broker not in self._context.live]
        # Before KAFKA-3143 (2.3), a broker that died together with the controller was never removed from the ISRs.
        # This fix came one release after KIP-380 and shares the switch of KIP-380.
        if self._rules.control_fencing == "broker-epoch":
            yield from self._partitions.take_offline(dead, occasion)
            self._context.send()
        self._partitions.note_dead_leaders()
        yield from self._partitions.elect_leaderless(occasion)
        self._tell_fenced(dead)

    # ----------------------------------------------------------------------------------------------- registry contents

    def _read_brokers(self) -> Generator[Operation, Results, dict[BrokerId, LiveBroker]]:
        (ids,) = yield GetChildren(path=znodes.BROKER_IDS, watch=True)
        found: dict[BrokerId, LiveBroker] = {}
        for broker_id in sorted(map(int, ids.children)):
            (node,) = yield GetData(path=znodes.broker_path(broker_id))
            if node.error is None:
                found[broker_id] = znodes.live_broker(broker_id, node.data, node.czxid)
        return found

    def _read_topics(self) -> Generator[Operation, Results, list[TopicPartition]]:
        """Read all topics. Return the partitions that were not known before."""
        (topics,) = yield GetChildren(path=znodes.TOPICS, watch=True)
        new = []
        for topic in topics.children:
            (node,) = yield GetData(path=znodes.topic_path(topic))
            if node.error is not None or topic in self._context.topic_ids:
                continue
            yield GetData(path=znodes.config_path(topic), watch=True)
            self._context.topic_ids[topic], replicas = znodes.topic_of(node.data)
            for number, members in replicas.items():
                name = TopicPartition(topic, number)
                self._context.assignment[name] = members
                new.append(name)
        return new

    def _refresh(self, name: TopicPartition) -> Generator[Operation, Results, None]:
        (found,) = yield GetData(path=znodes.state_path(name))
        if found.error is None:
            state = znodes.state_of(found.data)
            self._context.states[name] = state.registration(self._context.assignment[name], found.version)

    # ---------------------------------------------------------------------------------------------- brokers come and go

    def brokers_changed(self) -> Process:
        """Handle brokers that have joined or left the registry.

        A broker that has left and joined since the last check has a new broker epoch (KIP-380).

        Source: processBrokerChange
        """
        if not self.is_active:
            return
        found = yield from self._read_brokers()
        known = self._context.live
        dead = [broker_id for broker_id in known if broker_id not in found]
        bounced = [
            broker_id
            for broker_id, broker in found.items()
            if broker_id in known
            and broker.broker_epoch > known[broker_id].broker_epoch
            and self._rules.control_fencing == "broker-epoch"
        ]
        new = [broker_id for broker_id in found if broker_id not in known]
        self._context.live = {broker_id: broker for broker_id, broker in known.items() if broker_id in found}
        for broker_id in bounced:
            del self._context.live[broker_id]
        if dead or bounced:
            yield from self._brokers_failed([*dead, *bounced])
        self._context.live.update({broker_id: found[broker_id] for broker_id in (*new, *bounced)})
        if new or bounced:
            yield from self._brokers_started([*new, *bounced])

    def _brokers_failed(self, dead: Sequence[BrokerId]) -> Process:
        """Remove dead brokers from leaderships and ISRs. Source: onBrokerFailure, onReplicasBecomeOffline"""
        for broker_id in dead:
            self._context.shutting_down.pop(broker_id, None)
        occasion = Occasion(OccasionKind.LEFT_REGISTRY, tuple(dead))
        self._partitions.note_dead_leaders()
        yield from self._partitions.elect_leaderless(occasion)
        self._context.send()
        yield from self._partitions.take_offline(dead, occasion)
        self._tell_fenced(dead)
        self._context.batch.update_metadata(self._context.live, {})
        self._context.send()

    def _brokers_started(self, new: Sequence[BrokerId]) -> Process:
        """Send new brokers their partitions, and elect leaders for leaderless partitions.

        Source: onBrokerStartup
        """
        for broker_id in new:
            self._tell_unfenced(broker_id, UnfencingCause.IN_REGISTRY)
        self._context.batch.update_metadata([broker_id for broker_id in self._context.live if broker_id not in new], {})
        self._context.batch.update_metadata(new, self._context.states)
        self._context.send()
        for name, registration in self._context.states.items():
            hosts = [broker_id for broker_id in new if broker_id in registration.replicas]
            self._context.batch.leader_and_isr(hosts, name, registration)
        self._context.send()
        yield from self._partitions.elect_leaderless(Occasion(OccasionKind.CAME, tuple(new)))
        self._context.send()

    def _tell_fenced(self, dead: Sequence[BrokerId]) -> None:
        """Emit a fencing event for each dead broker, although ZooKeeper-era brokers are not fenced."""
        for broker_id in dead:
            who, cause = self._names(broker_id), FencingCause.NOT_IN_REGISTRY
            self._context.actions.append(Emit(trace.BrokerFenced(node=self._node, broker=who, cause=cause)))

    def _tell_unfenced(self, broker_id: BrokerId, cause: UnfencingCause) -> None:
        who = self._names(broker_id)
        self._context.actions.append(Emit(trace.BrokerUnfenced(node=self._node, broker=who, cause=cause)))

    # ------------------------------------------------------------------------------------------------ partition states

    def topics_changed(self) -> Process:
        """Create the partitions of new topics. Source: processTopicChange, onNewPartitionCreation"""
        if not self.is_active:
            return
        for name in (yield from self._read_topics()):
            yield from self._partitions.create(name)

    # ----------------------------------------------------------------------------------------------------- ISR changes

    def topic_config_changed(self) -> Process:
        """Elect leaders of leaderless partitions, since the topic's new settings may allow unclean elections.

        Source: enableTopicUncleanLeaderElection
        """
        if self.is_active:
            yield from self._partitions.elect_leaderless(Occasion(OccasionKind.TOPIC_CONFIG))

    def isr_changed(self) -> Process:
        """Read the ISRs of the partitions in the notification znodes, and send the ISRs to the brokers.

        Source: processIsrChangeNotification
        """
        if not self.is_active:
            return
        (changes,) = yield GetChildren(path=znodes.ISR_CHANGES, watch=True)
        changed: dict[TopicPartition, None] = {}
        for child in changes.children:
            (note,) = yield GetData(path=f"{znodes.ISR_CHANGES}/{child}")
            if note.error is None:
                changed.update(dict.fromkeys(znodes.changed_partitions(note.data)))
        for name in changed:
            if name in self._context.assignment:
                yield from self._refresh(name)
        self._context.batch.update_metadata(
            self._context.live, {name: self._context.states[name] for name in changed if name in self._context.states}
        )
        self._context.send()
        for child in changes.children:
            yield Delete(path=f"{znodes.ISR_CHANGES}/{child}")

    def alter_partition(self, event: AlterPartition, answer: Answer) -> Process:
        """Write the ISRs that a leader proposes (KIP-497, 2.7). Source: processAlterPartition"""
        if not self.is_active:
            self._context.reply(answer, AlterPartitionReply(error=ErrorCode.NOT_CONTROLLER))
            return
        sender = self._context.live.get(event.broker_id)
        if sender is None or sender.broker_epoch != event.broker_epoch:
            self._context.reply(answer, AlterPartitionReply(error=ErrorCode.STALE_BROKER_EPOCH))
            return
        results = []
        for proposal in event.partitions:
            results.append((yield from self._partitions.alter(event.broker_id, proposal)))
        self._context.reply(answer, AlterPartitionReply(error=ErrorCode.NONE, partitions=tuple(results)))

    # ---------------------------------------------------------------------------------------------- controlled shutdown

    def controlled_shutdown(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, answer: Answer) -> Process:
        """Move leaderships away from a broker, and remove it from all other ISRs. Source: doControlledShutdown"""
        broker = self._context.live.get(broker_id)
        if not self.is_active or broker is None:
            error = ErrorCode.BROKER_NOT_AVAILABLE if self.is_active else ErrorCode.NOT_CONTROLLER
            self._context.reply(answer, ControlledShutdownReply(error=error))
            return
        if self._rules.control_fencing == "broker-epoch" and broker_epoch != broker.broker_epoch:
            self._context.reply(answer, ControlledShutdownReply(error=ErrorCode.STALE_BROKER_EPOCH))
            return
        self._context.shutting_down[broker_id] = None
        occasion = Occasion(OccasionKind.CONTROLLED_SHUTDOWN, (broker_id,))
        hosted = [
            name
            for name, state in self._context.states.items()
            if broker_id in state.replicas and len(state.replicas) > 1 and state.has_leader
        ]
        followed = [name for name in hosted if self._context.states[name].leader != broker_id]
        for name in hosted:
            if name not in followed:
                yield from self._partitions.elect(name, self._partitions.away_from_those_who_leave(occasion))
        for name in followed:
            self._context.batch.stop_replica(broker_id, name)
        self._context.send()
        for name in followed:
            if broker_id in self._context.states[name].in_sync_replicas:
                yield from self._partitions.remove_from_isr(name, broker_id, occasion)
        remaining = tuple(name for name in hosted if self._context.states[name].leader == broker_id)
        self._context.reply(answer, ControlledShutdownReply(error=ErrorCode.NONE, remaining=remaining))

    # ------------------------------------------------------------------------------------------------ preferred leaders

    def elect_leader(self, wanted: ElectLeader, answer: Answer) -> Process:
        """Elect a leader on an operator's request. A `desired` replica is first moved to the front of the assignment.

        Source: processReplicaLeaderElection
        """
        name, desired, unclean = (
            TopicPartition(wanted.topic, wanted.partition),
            wanted.desired,
            wanted.kind == "unclean",
        )
        known = self._context.states.get(name)
        if not self.is_active or known is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.is_active else ErrorCode.NOT_CONTROLLER
            self._refuse_election(name, answer, error, f"the controller {self._node} knows no partition {name}")
            return
        occasion = Occasion(OccasionKind.UNCLEAN_ASKED if unclean else OccasionKind.PREFERRED_ASKED)
        if desired is not None:
            # Simplified: the replicas are reordered by the same command; Kafka needs a reassignment for that.
            yield from self._reorder(name, desired)
            occasion = Occasion(OccasionKind.LEADER_ASKED, (desired,))
        election = Election.UNCLEAN if unclean else Election.PREFERRED
        if (yield from self._partitions.elect(name, self._partitions.preferred(election, occasion))):
            self._context.reply(answer, PlainReply(error=ErrorCode.NONE))
            return
        preferred = self._context.assignment[name][0]
        led = self._context.states[name].leader == preferred
        error = ErrorCode.ELECTION_NOT_NEEDED if led else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        why = "is already the leader" if led else "is not both live and in the ISR"
        self._refuse_election(name, answer, error, f"{self._names(preferred)} {why}")

    def _refuse_election(self, name: TopicPartition, answer: Answer, error: ErrorCode, message: str) -> None:
        self._context.actions.append(Emit(trace.ElectionRefused(self._node, *name, error=error.name, message=message)))
        self._context.reply(answer, PlainReply(error=error, message=message))

    def _reorder(self, name: TopicPartition, desired: BrokerId) -> Process:
        replicas = self._context.assignment[name]
        if desired not in replicas or replicas[0] == desired:
            return
        (found,) = yield GetData(path=znodes.topic_path(name.topic))
        ordered = (desired, *(broker_id for broker_id in replicas if broker_id != desired))
        data = znodes.with_replicas(found.data, name.partition, ordered)
        yield SetData(path=znodes.topic_path(name.topic), data=data)
        self._context.assignment[name] = ordered

    def rebalance(self) -> Process:
        """Elect preferred leaders on brokers that lead too few of the partitions for which they are preferred.

        Source: checkAndTriggerAutoLeaderRebalance
        """
        if not self.is_active:
            return
        led_by_preference: dict[BrokerId, list[TopicPartition]] = {}
        for name in sorted(self._context.states):
            led_by_preference.setdefault(self._context.assignment[name][0], []).append(name)
        for broker_id, names in sorted(led_by_preference.items()):
            elsewhere = [name for name in names if self._context.states[name].leader != broker_id]
            if broker_id in self._context.live and len(elsewhere) * 100 > len(names) * self._imbalance_percentage:
                for name in elsewhere:
                    plan = self._partitions.preferred(Election.PREFERRED, Occasion(OccasionKind.PREFERRED_CHECK))
                    yield from self._partitions.elect(name, plan)
