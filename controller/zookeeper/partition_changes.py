"""Changes of leaders and ISRs by a ZooKeeper-era controller, which reads, decides, writes and notifies brokers.
Source: ZkPartitionStateMachine, ZkReplicaStateMachine, Election.scala
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

from controller.election import Candidates, Choice, Election, Occasion, elect
from controller.image import PartitionRegistration
from controller.inputs import IsrProposal, IsrResult
from controller.zookeeper import znodes
from controller.zookeeper.controller_context import ControllerContext, ControllerMoved, Process, Results
from controller.zookeeper.registry import CheckVersion, Create, GetData, Multi, Operation, RegistryError, SetData
from replica.causes import ElectionCause, IsrCommitCause, PlacementCause
from replica.config import TopicConfig
from replica.errors import ErrorCode
from replica.ids import NO_BROKER, BrokerId, Names, TopicPartition
from replica.rules import Rules
from replica.trace import events as trace
from replica.trace.events import Emit


@dataclass(frozen=True, slots=True)
class Planned:
    """One planned change of a partition: the new state, the election, and the reason.

    Attributes:
        elects: True if a leader was chosen, even if the leader stays the same.
    """

    after: PartitionRegistration
    choice: Choice
    occasion: Occasion
    elects: bool = True


Plan = Callable[[PartitionRegistration], Planned | None]


class PartitionChanges:
    """Generators (`Process`) that change partitions. Each write has a note with the cause, for the trace."""

    def __init__(self, context: ControllerContext, *, node: str, names: Names, rules: Rules) -> None:
        self._context = context
        self._node = node
        self._names = names
        self._rules = rules

    def elect_leaderless(self, occasion: Occasion) -> Process:
        """Elect leaders for new and offline partitions. Source: triggerOnlinePartitionStateChange"""
        for name in sorted(self._context.assignment):
            if name not in self._context.states:
                yield from self.create(name)
            elif name in self._context.offline:
                yield from self._elect_offline(name, occasion)

    def note_dead_leaders(self) -> None:
        """Mark online partitions as offline if their leader is not alive.

        Source: initializePartitionState, onReplicasBecomeOffline
        """
        for name, state in self._context.states.items():
            if not self._context.is_online(state.leader):
                self._context.offline[name] = None

    def take_offline(self, dead: Sequence[BrokerId], occasion: Occasion) -> Process:
        """Remove dead brokers as leaders, and from every ISR of which they are not the last member.

        Source: the OfflineReplica transition, removeReplicasFromIsr
        """
        for name in sorted(self._context.states):
            for broker_id in dead:
                if (
                    broker_id in self._context.states[name].in_sync_replicas
                    or broker_id == self._context.states[name].leader
                ):
                    yield from self.remove_from_isr(name, broker_id, occasion)

    def create(self, name: TopicPartition) -> Process:
        """Bring a new partition online: the first live replica leads, and all live replicas are in the ISR.

        Without a live replica, the partition stays new. Source: initializeLeaderAndIsrForPartitions
        """
        replicas = self._context.assignment[name]
        live = self._context.online_of(replicas)
        if not live:
            return
        registration = PartitionRegistration(
            replicas=replicas, in_sync_replicas=live, leader=live[0], leader_epoch=0, partition_epoch=0
        )
        data, note = znodes.state_data(registration, self._context.epoch), {"cause": PlacementCause.ASSIGNED}
        results = yield from self._write(Create(path=znodes.state_path(name), data=data, note=note))
        if results[-1].error is None:
            self._context.states[name] = registration
            self._announce(name)

    def _elect_offline(self, name: TopicPartition, occasion: Occasion) -> Process:
        """Elect a leader of an offline partition, in a new leader epoch even if the leader is the same.

        In the old epoch, followers that know of the leader's death would never fetch from this leader again.

        Source: OfflinePartitionLeaderElectionStrategy, leaderForOffline
        """
        isr = self._context.states[name].in_sync_replicas
        unclean = False
        if not self._context.online_of(isr):
            unclean = yield from self._unclean_allowed(name)

        def plan(before: PartitionRegistration) -> Planned | None:
            election = Election.UNCLEAN if unclean else Election.ONLINE
            leaderless = replace(before, leader=NO_BROKER)
            choice = elect(election, self._candidates(leaderless, self._context.is_online))
            if choice.leader == NO_BROKER:
                return None
            isr = self._context.online_of(before.in_sync_replicas) if choice.clean else (choice.leader,)
            return Planned(_next_term(before, choice.leader, isr), choice, occasion)

        yield from self.elect(name, plan)

    def elect(self, name: TopicPartition, plan: Plan) -> Generator[Operation, Results, bool]:
        """Bring a new or offline partition online if the plan finds a leader. Return True if it is online.

        Source: electLeaderForPartitions
        """
        elected = yield from self.change(name, plan)
        if elected:
            self._context.offline.pop(name, None)
        return elected

    def _unclean_allowed(self, name: TopicPartition) -> Generator[Operation, Results, bool]:
        (found,) = yield GetData(path=znodes.config_path(name.topic))
        if found.error is not None:
            return False
        return TopicConfig().with_own(znodes.config_of(found.data)).unclean_leader_election_enable

    def remove_from_isr(self, name: TopicPartition, broker_id: BrokerId, occasion: Occasion) -> Process:
        """Remove a broker from the ISR of a partition.

        The leader epoch rises even if the leader stays, since brokers ignore a controller's change without a new epoch.
        """

        def plan(before: PartitionRegistration) -> Planned | None:
            if broker_id not in before.in_sync_replicas and broker_id != before.leader:
                return None
            leader = NO_BROKER if before.leader == broker_id else before.leader
            rest = tuple(member for member in before.in_sync_replicas if member != broker_id)
            isr = rest if len(before.in_sync_replicas) > 1 else before.in_sync_replicas
            if leader == NO_BROKER and before.leader == NO_BROKER and isr == before.in_sync_replicas:
                return None
            cause = ElectionCause.NO_LIVE_MEMBER if leader == NO_BROKER else None
            return Planned(_next_term(before, leader, isr), Choice(leader, True, cause), occasion, elects=False)

        yield from self.change(name, plan, without=broker_id)

    def _candidates(self, partition: PartitionRegistration, is_acceptable: Callable[[BrokerId], bool]) -> Candidates:
        return Candidates(
            partition=partition,
            replicas=partition.replicas,
            in_sync_replicas=partition.in_sync_replicas,
            is_acceptable=is_acceptable,
        )

    def change(
        self, name: TopicPartition, plan: Plan, *, without: BrokerId = NO_BROKER
    ) -> Generator[Operation, Results, bool]:
        """Read a partition's state, apply the plan, and write the result; repeat if the state has changed meanwhile.

        Args:
            without: a replica that is not notified.

        Returns:
            True if a change was written. A state that was written by a newer controller is never changed.

        Source: doElectLeaderForPartitions, removeReplicasFromIsr
        """
        while True:
            (found,) = yield GetData(path=znodes.state_path(name))
            state = znodes.state_of(found.data)
            before = state.registration(self._context.assignment[name], found.version)
            planned = plan(before) if state.controller_epoch <= self._context.epoch else None
            if planned is None:
                self._context.states[name] = before
                return False
            choice, (kind, brokers, *_) = planned.choice, planned.occasion
            note = {
                "cause": choice.cause,
                "clean": choice.clean,
                "elects": planned.elects,
                "occasion": kind,
                "brokers": brokers,
            }
            data = znodes.state_data(planned.after, self._context.epoch)
            path = znodes.state_path(name)
            results = yield from self._write(SetData(path=path, data=data, version=found.version, note=note))
            if results[-1].error is None:
                self._context.states[name] = replace(planned.after, partition_epoch=results[-1].version)
                self._announce(name, without=without)
                return True

    def _write(self, operation: Create | SetData) -> Generator[Operation, Results, Results]:
        """Write to the registry, unless the controller epoch has changed since this controller's election (KAFKA-6082).

        Raises:
            ControllerMoved: if the epoch has changed.
        """
        if self._rules.control_fencing != "broker-epoch":
            return (yield operation)
        check = CheckVersion(path=znodes.CONTROLLER_EPOCH, version=self._context.epoch_version)
        results = yield Multi(ops=(check, operation))
        if results[0].error is RegistryError.BAD_VERSION and results[0].path == znodes.CONTROLLER_EPOCH:
            raise ControllerMoved
        return results

    def _announce(self, name: TopicPartition, *, without: BrokerId = NO_BROKER) -> None:
        """Add a partition's state to the next LeaderAndIsr requests to replicas and UpdateMetadata requests to all."""
        registration = self._context.states[name]
        notified = [broker_id for broker_id in self._context.live_of(registration.replicas) if broker_id != without]
        self._context.batch.leader_and_isr(notified, name, registration)
        self._context.batch.update_metadata(self._context.live, {name: registration})

    def alter(self, sender: BrokerId, proposal: IsrProposal) -> Generator[Operation, Results, IsrResult]:
        name = TopicPartition(proposal.topic, proposal.partition)
        known = self._context.states.get(name)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else _proposal_error(known, proposal)
        after = None
        if known is not None and error is ErrorCode.NONE:
            after = replace(known, in_sync_replicas=proposal.in_sync_replicas)
            data = znodes.state_data(after, self._context.epoch)
            leader = self._names(sender)
            note = {"cause": IsrCommitCause.PROPOSED, "proposed_by": leader}
            path = znodes.state_path(name)
            written = yield from self._write(SetData(path=path, data=data, version=known.partition_epoch, note=note))
            if written[-1].error is None:
                after = self._context.states[name] = replace(after, partition_epoch=written[-1].version)
                self._context.batch.update_metadata(self._context.live, {name: after})
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
        event = trace.IsrRejected(
            self._node,
            proposal.topic,
            proposal.partition,
            broker=self._names(sender),
            leader_epoch=known.leader_epoch if known else proposal.leader_epoch,
            partition_epoch=known.partition_epoch if known else proposal.partition_epoch,
            isr=tuple(map(self._names, proposal.in_sync_replicas)),
            error=error.name,
            proposed_leader_epoch=proposal.leader_epoch,
            proposed_partition_epoch=proposal.partition_epoch,
        )
        self._context.actions.append(Emit(event))

    def away_from_those_who_leave(self, occasion: Occasion) -> Plan:
        """Return the plan that moves a leadership away from a broker in controlled shutdown.

        Source: Election.leaderForControlledShutdown
        """

        def plan(before: PartitionRegistration) -> Planned | None:
            choice = elect(Election.ONLINE, self._candidates(before, self._context.is_online))
            if choice.leader in (NO_BROKER, before.leader):
                return None
            isr = tuple(member for member in before.in_sync_replicas if member not in self._context.shutting_down)
            return Planned(_next_term(before, choice.leader, isr), choice, occasion)

        return plan

    def preferred(self, election: Election, occasion: Occasion) -> Plan:
        """Return the plan that elects the preferred leader. Source: Election.leaderForPreferredReplica"""

        def plan(before: PartitionRegistration) -> Planned | None:
            choice = elect(election, self._candidates(before, self._context.is_online))
            is_wanted = choice.leader == before.replicas[0] or election is Election.UNCLEAN
            if choice.leader in (NO_BROKER, before.leader) or not is_wanted:
                return None
            isr = before.in_sync_replicas if choice.clean else (choice.leader,)
            return Planned(_next_term(before, choice.leader, isr), choice, occasion)

        return plan


def _next_term(before: PartitionRegistration, leader: BrokerId, isr: tuple[BrokerId, ...]) -> PartitionRegistration:
    """Return the partition after a controller's change, which always raises the leader epoch.

    Source: LeaderAndIsr.newLeaderAndIsr
    """
    return replace(before, leader=leader, in_sync_replicas=isr, leader_epoch=before.leader_epoch + 1)


def _proposal_error(known: PartitionRegistration, proposal: IsrProposal) -> ErrorCode:
    if proposal.leader_epoch < known.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.leader_epoch > known.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.partition_epoch != known.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return ErrorCode.NONE
