"""Leaders and ISRs of all partitions, and how changes of brokers and requests of leaders and operators affect them.

Source: ReplicationControlManager (generateLeaderAndIsrUpdates, alterPartition, electLeaders,
maybeBalancePartitionLeaders, maybeElectUncleanLeaders).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.alter_partition import Refusal, check_proposal
from controller.changes import UNCHANGED, Journal, PartitionChange, Target, build_change
from controller.election import Election, Occasion
from controller.features import is_elr_enabled
from controller.image import PartitionRegistration
from controller.inputs import (
    AlterPartition,
    AlterPartitionReply,
    AlterReassignment,
    ElectLeader,
    IsrProposal,
    IsrResult,
    PlainReply,
)
from controller.metadata import ClearElrRecord, ReplicaDirectoryRecord
from controller.placement import begin, revert
from controller.topics import assignment_problem
from replica.causes import ElrCause, IsrCommitCause, OccasionKind
from replica.errors import ErrorCode
from replica.ids import BrokerId, TopicPartition, without
from replica.rules import Rules
from replica.trace import events as trace

MAX_ELECTIONS_PER_SWEEP = 1000
"""Limit for the elections of one periodic task. Source: ReplicationControlManager.MAX_ELECTIONS_PER_IMBALANCE"""


class Partitions:
    __slots__ = ("_image", "_journal", "_names", "_rules")

    def __init__(self, journal: Journal, rules: Rules) -> None:
        self._journal = journal
        self._rules = rules
        self._image = journal.image
        self._names = journal.names

    @property
    def has_elr(self) -> bool:
        return is_elr_enabled(self._rules, self._image.feature_levels)

    # ------------------------------------------------------------------------------------------ brokers come and go

    def has_leaderships(self, broker_id: BrokerId) -> bool:
        topics = self._image.topics.values()
        return any(partition.leader == broker_id for topic in topics for partition in topic.partitions.values())

    def _registered(self, names: Iterable[TopicPartition]) -> list[tuple[TopicPartition, PartitionRegistration]]:
        """Return partitions with their registrations, sorted by topic name and number."""
        topics = self._image.topics
        return [(name, topics[name.topic].partitions[name.partition]) for name in sorted(names)]

    def remove_broker(self, broker_id: BrokerId, occasion: Occasion, cause: int | None) -> None:
        """Remove a broker that becomes inactive from every ISR, and elect other leaders.

        Without ELR, the last member of an ISR stays in it.
        """
        for topic_partition, partition in list(self._image.partitions()):
            if broker_id in partition.in_sync_replicas:
                target = tuple(member for member in partition.in_sync_replicas if member != broker_id)
                change = self._build(topic_partition, partition, Target(in_sync_replicas=target), without=broker_id)
                if change is not None:
                    self._journal.change_partition(topic_partition, change, occasion, cause)

    def remove_from_dirs(self, broker_id: BrokerId, lost: Sequence[str], occasion: Occasion) -> None:
        """Remove an active broker from the ISRs of its replicas in failed log directories.

        Source: handleDirectoriesOffline
        """
        for topic_partition, partition in list(self._image.partitions()):
            if self._image.directories.get((broker_id, topic_partition)) in lost:
                target = tuple(member for member in partition.in_sync_replicas if member != broker_id)
                change = self._build(topic_partition, partition, Target(in_sync_replicas=target), without=broker_id)
                if change is not None:
                    self._journal.change_partition(topic_partition, change, occasion)

    def elect_leaderless(self, occasion: Occasion, cause: int | None) -> None:
        """Elect leaders for leaderless partitions, after a broker has become active."""
        for topic_partition, partition in self._registered(self._image.leaderless):
            change = self._build(topic_partition, partition)
            if change is not None:
                self._journal.change_partition(topic_partition, change, occasion, cause)

    def strike_out(self, broker_id: BrokerId, occasion: Occasion) -> None:
        """Remove a returning broker that may have lost records from all ISRs and ELRs.

        Source: ReplicationControlManager.handleBrokerShutdown
        """
        for topic_partition, partition in list(self._image.partitions()):
            if broker_id in partition.in_sync_replicas or broker_id in partition.elr:
                target = tuple(member for member in partition.in_sync_replicas if member != broker_id)
                change = self._build(
                    topic_partition, partition, Target(in_sync_replicas=target), without=broker_id, struck_out=broker_id
                )
                if change is not None:
                    self._journal.change_partition(topic_partition, change, occasion)

    def min_isr_changed(self, topics: Sequence[str]) -> None:
        """Clear the ELRs of topics whose min.insync.replicas changed, since the ELRs depended on the old value.

        Source: ConfigurationControlManager.createClearElrRecordsAsNeeded
        """
        if not self.has_elr:
            return
        for topic in topics:
            before = dict(self._image.topics[topic].partitions)
            self._journal.append(ClearElrRecord(topic=topic))
            for number, partition in sorted(before.items()):
                after = self._image.topics[topic].partitions[number]
                if after != partition:
                    name, cause = TopicPartition(topic, number), ElrCause.MIN_ISR_CHANGED
                    for event in self._journal.teller.elr_committed(name, partition, after, cause=cause):
                        self._journal.tell(event)

    def report_directory(self, broker_id: BrokerId, topic_partition: TopicPartition, log_dir: str) -> None:
        """Record the log directory of a broker's replica.

        As in Kafka, this may also elect a leader or complete a reassignment. Before 4.3 it clears the partition's ELR.
        Source: ReplicationControlManager.handleAssignReplicasToDirs
        """
        partition = self._image.partition(*topic_partition)
        if partition is None or broker_id not in partition.replicas:
            return
        has_elr = self.has_elr and self._rules.elr_on_directory_report == "kept"
        change = self._build(topic_partition, partition, election=Election.ONLINE, has_elr=has_elr)
        self._journal.append(
            ReplicaDirectoryRecord(
                broker_id=broker_id, topic=topic_partition.topic, partition=topic_partition.partition, log_dir=log_dir
            )
        )
        if change is not None:
            self._journal.change_partition(
                topic_partition, change, Occasion(OccasionKind.DIRECTORY_REPORTED, (broker_id,))
            )

    def _build(
        self,
        topic_partition: TopicPartition,
        partition: PartitionRegistration,
        target: Target = UNCHANGED,
        *,
        election: Election | None = None,
        without: BrokerId | None = None,
        struck_out: BrokerId | None = None,
        has_elr: bool | None = None,
    ) -> PartitionChange | None:
        """Return the change that brings a partition to its target, or None if it needs no change.

        Args:
            election: None for ONLINE or UNCLEAN, by the topic's unclean.leader.election.enable.
            without: a broker that may not lead.
            struck_out: a broker that is no longer an eligible leader.
            has_elr: True to keep the ELR, False to clear it; None to keep it if the cluster has ELR.
        """
        topic = self._image.topics[topic_partition.topic]
        if election is None:
            unclean = topic.log_config.unclean_leader_election_enable
            election = Election.UNCLEAN if unclean else Election.ONLINE
        return build_change(
            topic_partition,
            partition,
            is_acceptable=lambda broker_id: (
                broker_id != without
                and self._image.is_active(broker_id)
                and self._image.has_online_dir(broker_id, topic_partition)
            ),
            election=election,
            target=target,
            elr_min_isr=topic.effective_min_isr if (self.has_elr if has_elr is None else has_elr) else None,
            struck_out=struck_out,
            reassignment_done=self._rules.reassignment_done,
        )

    # ----------------------------------------------------------------------------------------------- AlterPartition

    def alter(self, event: AlterPartition) -> None:
        """Change ISRs as a leader proposes. If its broker epoch is stale, the whole request fails."""
        stale = self._journal.stale_epoch(event.broker_id, event.broker_epoch)
        if stale is not None:
            refusal = Refusal(ErrorCode.STALE_BROKER_EPOCH, stale)
            for proposal in event.partitions:
                self._tell_rejected(event.broker_id, proposal, refusal)
            self._journal.reply(AlterPartitionReply(error=refusal.error, message=refusal.reason))
            return
        results = tuple(self._alter_one(event.broker_id, proposal) for proposal in event.partitions)
        self._journal.reply(AlterPartitionReply(error=ErrorCode.NONE, partitions=results))

    def _alter_one(self, sender: BrokerId, proposal: IsrProposal) -> IsrResult:
        refusal = check_proposal(self._image, sender, proposal, self._names, self._rules)
        if refusal is not None:
            self._tell_rejected(sender, proposal, refusal)
            return IsrResult(topic=proposal.topic, partition=proposal.partition, error=refusal.error)
        topic_partition = TopicPartition(proposal.topic, proposal.partition)
        partition = self._image.topics[proposal.topic].partitions[proposal.partition]
        change = self._build(
            topic_partition,
            partition,
            Target(in_sync_replicas=proposal.in_sync_replicas, recovering=proposal.recovering),
        )
        if change is not None:
            before, partition = self._journal.append_change(topic_partition, change)
            self._tell_accepted(sender, topic_partition, before, partition)
            if before.is_reassigning and not partition.is_reassigning:
                self._tell_reassigned(topic_partition, before, partition, change)
            if partition.leader != sender:
                # The proposal has completed a reassignment that removes the leader.
                error = ErrorCode.NEW_LEADER_ELECTED
                return IsrResult(topic=proposal.topic, partition=proposal.partition, error=error)
        return IsrResult(
            topic=proposal.topic,
            partition=proposal.partition,
            error=ErrorCode.NONE,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            in_sync_replicas=partition.in_sync_replicas,
            partition_epoch=partition.partition_epoch,
            recovering=partition.recovering,
        )

    def _tell_accepted(
        self,
        sender: BrokerId,
        topic_partition: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
    ) -> None:
        teller, cause, leader = self._journal.teller, IsrCommitCause.PROPOSED, self._names(sender)
        self._journal.tell(teller.isr_committed(topic_partition, before, after, cause, proposed_by=leader))
        for event in teller.elr_committed(topic_partition, before, after, has_elr=self.has_elr):
            self._journal.tell(event)

    def _tell_reassigned(
        self,
        topic_partition: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
        change: PartitionChange,
    ) -> None:
        teller = self._journal.teller
        if after.leader_epoch != before.leader_epoch:
            occasion = Occasion(OccasionKind.REASSIGNMENT)
            self._journal.tell(teller.elected(topic_partition, before, after, change.choice, occasion))
        self._journal.tell(teller.reassigned(topic_partition, before, after))

    def _tell_rejected(self, sender: BrokerId, proposal: IsrProposal, refusal: Refusal) -> None:
        known = self._image.partition(proposal.topic, proposal.partition)
        self._journal.tell(
            trace.IsrRejected(
                self._journal.node,
                proposal.topic,
                proposal.partition,
                broker=self._names(sender),
                leader_epoch=known.leader_epoch if known else proposal.leader_epoch,
                partition_epoch=known.partition_epoch if known else proposal.partition_epoch,
                isr=self._journal.teller.named(proposal.in_sync_replicas),
                error=refusal.error.name,
                message=refusal.reason,
            )
        )

    # --------------------------------------------------------------------------------------- elections on request

    def elect(self, event: ElectLeader) -> None:
        topic_partition = TopicPartition(event.topic, event.partition)
        refusal = self._elect_one(topic_partition, event)
        if refusal is None:
            self._journal.reply(PlainReply(error=ErrorCode.NONE))
        else:
            self._tell_refused(topic_partition, refusal)
            self._journal.reply(PlainReply(error=refusal.error, message=refusal.reason))

    def _elect_one(self, topic_partition: TopicPartition, event: ElectLeader) -> Refusal | None:
        partition = self._image.partition(event.topic, event.partition)
        if partition is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_partition}")
        unclean = event.kind == "unclean"
        refusal = self._not_needed(partition, event) or self._not_available(partition, event)
        if refusal is not None:
            return refusal
        replicas = None
        occasion = Occasion(OccasionKind.UNCLEAN_ASKED if unclean else OccasionKind.PREFERRED_ASKED)
        if event.desired is not None:
            # Simplified: one decision reorders the replicas and elects; Kafka's tools need a reassignment and then
            # a preferred election for that.
            others = tuple(broker_id for broker_id in partition.replicas if broker_id != event.desired)
            replicas = (event.desired, *others)
            occasion = Occasion(OccasionKind.LEADER_ASKED, (event.desired,))
        election = Election.UNCLEAN if unclean else Election.PREFERRED
        change = self._build(topic_partition, partition, Target(replicas=replicas), election=election)
        if change is None:
            return self._unsuccessful(partition, event)
        self._journal.change_partition(topic_partition, change, occasion)
        return None

    def _not_needed(self, partition: PartitionRegistration, event: ElectLeader) -> Refusal | None:
        leader = self._names(partition.leader)
        if event.kind == "unclean":
            needed, why = not partition.has_leader, f"the partition has a leader, {leader}"
        elif event.desired is not None:
            needed, why = partition.leader != event.desired, f"{leader} is already the leader"
        else:
            needed, why = not partition.has_preferred_leader, f"the preferred leader {leader} is already the leader"
        return None if needed else Refusal(ErrorCode.ELECTION_NOT_NEEDED, why)

    def _not_available(self, partition: PartitionRegistration, event: ElectLeader) -> Refusal | None:
        """Return a refusal if the desired leader cannot lead. No other replica may be elected in its place."""
        if event.desired is None:
            return None
        unclean = event.kind == "unclean"
        why = self._why_not(partition, event.desired, must_be_in_sync=not unclean)
        if why is None:
            return None
        error = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        return Refusal(error, why)

    def _unsuccessful(self, partition: PartitionRegistration, event: ElectLeader) -> Refusal:
        if event.kind == "unclean":
            return self._no_live_replica(partition)
        why = self._why_not(partition, partition.replicas[0], must_be_in_sync=True)
        return Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"{why}; it is the preferred leader")

    def _no_live_replica(self, partition: PartitionRegistration) -> Refusal:
        reason = f"no replica of {self._names.set_of(partition.replicas)} counts as live"
        return Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, reason)

    def _why_not(self, partition: PartitionRegistration, broker_id: BrokerId, *, must_be_in_sync: bool) -> str | None:
        """Return why the broker may not lead the partition, or None if it may."""
        who, broker = self._names(broker_id), self._image.brokers.get(broker_id)
        if broker_id not in partition.replicas:
            return f"{who} is not in the replicas {self._names.set_of(partition.replicas)}"
        if broker is None:
            return f"{who} is not registered"
        if broker.fenced:
            return f"{who} is fenced"
        if broker.in_controlled_shutdown:
            return f"{who} is shutting down"
        if must_be_in_sync and broker_id not in partition.in_sync_replicas:
            return f"{who} is not in the ISR {self._names.set_of(partition.in_sync_replicas)}"
        return None

    def _tell_refused(self, topic_partition: TopicPartition, refusal: Refusal) -> None:
        self._journal.tell(
            trace.ElectionRefused(
                self._journal.node, *topic_partition, error=refusal.error.name, message=refusal.reason
            )
        )

    # ------------------------------------------------------------------------------------------------ reassignments

    def reassign(self, event: AlterReassignment) -> None:
        """Begin or cancel a reassignment (KIP-455). Source: ReplicationControlManager.alterPartitionReassignment"""
        topic_partition = TopicPartition(event.topic, event.partition)
        partition = self._image.partition(event.topic, event.partition)
        refusal: Refusal | None
        if partition is None:
            refusal = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_partition}")
        elif event.replicas is None:
            refusal = self._cancel_reassignment(topic_partition, partition)
        else:
            refusal = self._changes_factor(partition, event) or self._begin_reassignment(
                topic_partition, partition, event.replicas
            )
        if refusal is None:
            self._journal.reply(PlainReply(error=ErrorCode.NONE))
        else:
            self._journal.reply(PlainReply(error=refusal.error, message=refusal.reason))

    @staticmethod
    def _changes_factor(partition: PartitionRegistration, event: AlterReassignment) -> Refusal | None:
        """Return a refusal if a reassignment changes the replication factor and the request forbids that (KIP-860).

        The old factor is that after any reassignment in progress. Source: validatePartitionReplicationFactorUnchanged
        """
        assert event.replicas is not None
        before, after = len(without(partition.replicas, partition.removing_replicas)), len(event.replicas)
        if event.may_change_factor or before == after:
            return None
        reason = f"the request forbids that the replication factor changes from {before} to {after}"
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, reason)

    def _begin_reassignment(
        self, topic_partition: TopicPartition, partition: PartitionRegistration, target: tuple[BrokerId, ...]
    ) -> Refusal | None:
        problem = assignment_problem(self._image, target, self._names)
        if problem is not None:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        reassignment = begin(partition, target)
        change = self._build(
            topic_partition,
            partition,
            Target(replicas=reassignment.replicas, adding=reassignment.adding, removing=reassignment.removing),
        )
        if change is None:
            return None
        self._journal.tell(
            trace.ReassignmentBegan(
                self._journal.node,
                *topic_partition,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch + 1,
                replicas=self._journal.teller.named(reassignment.replicas),
                adding=self._journal.teller.named(reassignment.adding),
                removing=self._journal.teller.named(reassignment.removing),
            )
        )
        self._journal.change_partition(topic_partition, change, Occasion(OccasionKind.REASSIGNMENT))
        after = self._image.topics[topic_partition.topic].partitions[topic_partition.partition]
        if not partition.is_reassigning and not after.is_reassigning:
            self._journal.tell(self._journal.teller.reassigned(topic_partition, partition, after))
        return None

    def _cancel_reassignment(self, topic_partition: TopicPartition, partition: PartitionRegistration) -> Refusal | None:
        if not partition.is_reassigning:
            reason = f"no reassignment of {topic_partition} is in progress"
            return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, reason)
        back = revert(partition)
        unclean = self._image.topics[topic_partition.topic].log_config.unclean_leader_election_enable
        if back.unclean and not unclean:
            reason = "only added replicas are in the ISR, so going back would need an unclean leader election"
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        change = self._build(
            topic_partition,
            partition,
            Target(in_sync_replicas=back.in_sync_replicas, replicas=back.replicas, adding=(), removing=()),
        )
        assert change is not None, "a reassignment that ends changes the partition"
        self._journal.change_partition(topic_partition, change, Occasion(OccasionKind.REASSIGNMENT_CANCELLED))
        return None

    # --------------------------------------------------------------------------------------------- periodic sweeps

    @property
    def are_leaders_imbalanced(self) -> bool:
        return bool(self._image.imbalanced)

    @property
    def are_some_leaderless(self) -> bool:
        return bool(self._image.leaderless)

    def rebalance(self) -> bool:
        """Elect preferred leaders where they are valid. Return True if the limit of elections was reached."""
        # Kafka's KRaft controller has no leader.imbalance.per.broker.percentage: any imbalance counts.
        elections = 0
        for topic_partition, partition in self._registered(self._image.imbalanced):
            if elections >= MAX_ELECTIONS_PER_SWEEP:
                break
            change = self._build(topic_partition, partition, election=Election.PREFERRED)
            if change is not None:
                self._journal.change_partition(topic_partition, change, Occasion(OccasionKind.PREFERRED_CHECK))
                elections += 1
        return elections >= MAX_ELECTIONS_PER_SWEEP

    def elect_unclean(self) -> bool:
        """Elect leaders for leaderless partitions of topics that allow unclean election.

        Returns:
            True if the limit of elections was reached.
        """
        elections = 0
        for topic_partition, partition in self._registered(self._image.leaderless):
            unclean = self._image.topics[topic_partition.topic].log_config.unclean_leader_election_enable
            if unclean and elections < MAX_ELECTIONS_PER_SWEEP:
                change = self._build(topic_partition, partition)
                if change is None:
                    self._tell_refused(topic_partition, self._no_live_replica(partition))
                else:
                    self._journal.change_partition(topic_partition, change, Occasion(OccasionKind.UNCLEAN_CHECK))
                    elections += 1
        return elections >= MAX_ELECTIONS_PER_SWEEP
