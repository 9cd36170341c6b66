"""Heartbeats of members of streams groups (KIP-1071), by which they join, learn their tasks, and leave.

A heartbeat is handled in five steps: the member is created or changed; the first member's topology becomes the group's;
the topics of the topology are looked up, and missing internal topics are created; for a new group epoch, the target
assignment is computed; the member moves one step towards its target.

Static members came with 4.4. Members learn what is read at each endpoint of the group (application.server), for
interactive queries. Simplified: in all releases an endpoint that changes counts at once, as in 4.4.
Source: GroupMetadataManager.streamsGroupHeartbeat
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from cluster.groups.consumer_change import Change
from cluster.groups.consumer_membership import NOT_SAID_MS, check_epoch
from cluster.groups.consumer_steps import ConsumerSteps, hear, is_due, named, note_emptied, remove
from cluster.groups.desk import Departure, left
from cluster.groups.inputs import ConsumerHeartbeatResult, CreateTopics, StreamsHeartbeat
from cluster.groups.state.consumer_member import JOINS, LEAVES_FOR_A_WHILE, ConsumerMember
from cluster.groups.state.consumer_records import (
    MemberRecord,
    TopologyRecord,
)
from cluster.groups.state.group import State
from cluster.groups.state.streams_group import (
    NOT_VALIDATED,
    StreamsEpochRecord,
    StreamsGroup,
    StreamsMember,
)
from cluster.groups.state.tasks import Tasks, assign_sticky
from cluster.groups.state.topology import (
    ASSIGNMENT_DELAYED,
    SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY,
    Configured,
    Status,
    configure,
    required_topics,
    subtopologies,
)
from cluster.protocol.entities import Entity
from cluster.protocol.versions import STREAMS_GROUP_HEARTBEAT
from replica.errors import ErrorCode, KafkaError
from replica.wording import shown

STICKY = "sticky"
"""The only assignor of streams groups (group.streams.assignors)."""


class StreamsMembership(ConsumerSteps):
    """The members of all streams groups of one coordinator."""

    def heartbeat(self, event: StreamsHeartbeat) -> None:
        """Handle a heartbeat, and answer it when all in-sync replicas have its changes."""
        check = partial(_check, has_static=self._desk.settings.has_static_streams)
        hear(self._index, self._desk, event, check, self._stay, self._leave)

    def _stay(self, event: StreamsHeartbeat) -> None:
        joins = event.member_epoch == JOINS
        change, group = self._change_of(event.group_id, may_begin=joins)
        self._configs.check_room(group, event.member_id, event.instance_id)
        before = self.member(change, event.member_id, event.instance_id, may_join=joins)
        assert isinstance(before, StreamsMember), "the group is not a streams group"
        owned = _owned(event)
        if not joins:
            check_epoch(before, event.member_epoch, owned, group.TYPE)
        try:
            topology = _topology(group, event)
            configured = configure(topology, self._topics.partitions_of)
            _check_tasks(configured, owned or ())
            _check_endpoints(group, before, event, configured)
        except KafkaError:
            change.abandon()  # The former id of a static member may already be replaced.
            raise
        # All checks are done; the group changes from here on.
        classic = self._index.groups.get(group.group_id)
        if classic is not None:
            self._migration.take_over(change, classic)
        is_new = group.group_id not in self._index.consumer_groups
        self._index.consumer_groups[group.group_id] = group
        is_first = not change.kept.members
        self._subscribe(change, group, before, event, topology, configured)
        statuses = _statuses(group, group.members[before.member_id], topology)
        settings = self._desk.settings
        delay_ms, interval_ms = settings.streams_initial_rebalance_delay_ms, settings.streams_assignment_interval_ms
        if is_first and delay_ms and group.delay is None:
            group.delay = self._desk.after(delay_ms, lambda at_us: self._assign_late(group, at_us), event.now_us)
        if group.delay is not None:
            statuses.append((ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."))
        elif group.epoch > group.target_epoch and not is_due(self._desk, group, interval_ms, event.now_us):
            statuses.append((ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval."))
        elif group.epoch > group.target_epoch:
            self._assign_tasks(change, group, configured, event.now_us)
        self.reconcile(change, before.member_id, owned, event.now_us)
        after = group.members[before.member_id]
        self.begin_session(group, after.member_id, event.now_us)
        if event.shuts_down and group.shutdown_by is None:
            group.shutdown_by = after.member_id
        if configured.status is not None:
            statuses.append(configured.status)
        if group.shutdown_by is not None:
            who = f"Streams group member {shown(group.shutdown_by)} encountered a fatal error"
            statuses.append((SHUTDOWN_APPLICATION, f"{who} and requested a shutdown for the entire application."))
        assigned = after.assigned if joins or after.assigned != before.assigned else None
        # As in Kafka, a group's first heartbeat leaves the epoch at 0.
        if not is_new and (
            after.user_endpoint != before.user_endpoint
            or (after.assigned != before.assigned and after.user_endpoint is not None)
        ):
            group.endpoints_epoch += 1
        endpoints_epoch = group.endpoints_epoch
        is_known = event.endpoints_epoch == endpoints_epoch
        endpoints = None if is_known else group.endpoints(self._topics.partitions_of)
        heartbeat_ms = self._configs.heartbeat_interval_ms(group)

        def answer(error: ErrorCode, now_us: int) -> None:
            result = ConsumerHeartbeatResult(error)
            if error is ErrorCode.NONE:
                result = ConsumerHeartbeatResult(
                    error,
                    after.member_id,
                    after.epoch,
                    heartbeat_ms,
                    assigned,
                    statuses=tuple(statuses),
                    endpoints_epoch=endpoints_epoch,
                    endpoints=endpoints,
                )
                if configured.missing:
                    self._desk.want(CreateTopics(configured.missing))
            self._desk.answer(event.request, result)

        change.write(self._desk, answer, event.now_us)

    def _change_of(self, group_id: str, *, may_begin: bool) -> tuple[Change, StreamsGroup]:
        """Return a new change of the group, and the group, which is created if `may_begin`.

        Source: getOrCreateStreamsGroup
        """
        known, classic = self._index.find(group_id), self._index.groups.get(group_id)
        if known is None and not may_begin:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {shown(group_id)} not found.")
        if classic is not None and classic.state is State.EMPTY and may_begin:
            fresh = StreamsGroup(group_id)
            return self._migration.emptied(classic, fresh), fresh
        group = StreamsGroup(group_id) if known is None else known
        if not isinstance(group, StreamsGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {shown(group_id)} is not a streams group.")
        topology, validated, configs = group.topology, group.validated_epoch, group.configs

        def take_back(now_us: int) -> None:
            group.topology, group.validated_epoch, group.configs = topology, validated, configs

        change = Change(group)
        change.take_back_with(take_back)
        return change, group

    def _subscribe(
        self,
        change: Change,
        group: StreamsGroup,
        before: StreamsMember,
        event: StreamsHeartbeat,
        topology: Entity,
        configured: Configured,
    ) -> None:
        """Apply a member's new fields and the topology, which may raise the group epoch."""
        is_new = before.member_id not in group.members
        after = _as_it_says(before, event)
        if is_new or after != before:
            change.add(MemberRecord(after.member_id, after))
        raised = is_new or (_place(after) != _place(before) if event.instance_id is not None else after != before)
        if group.topology is None:
            change.add(TopologyRecord(topology))
        metadata_hash = self._topics.hash_of(required_topics(topology))
        validated = int(topology.epoch) if configured.status is None else NOT_VALIDATED
        configs = (("num.standby.replicas", str(self._configs.standby_replicas(group))),)
        now, then = (metadata_hash, validated, configs), (group.metadata_hash, group.validated_epoch, group.configs)
        if raised or now != then:
            change.add(StreamsEpochRecord(group.epoch + 1, *now))
        self.say_joined(change, after, STREAMS_GROUP_HEARTBEAT, group.subscribed)

    # ------------------------------------------------------------------------------------------------------ assignment

    def _assign_tasks(self, change: Change, group: StreamsGroup, configured: Configured, now_us: int) -> None:
        """Compute the target tasks of all members for the group epoch. Source: streams/TargetAssignmentBuilder"""
        targets: dict[str, Tasks] = dict.fromkeys(group.members, ())
        if configured.status is None:
            targets = assign_sticky(
                {member.member_id: member.process_id for member in group.members.values()},
                group.targets,
                configured.counts,
                frozenset(
                    subtopology.subtopology_id
                    for subtopology in subtopologies(group.topology)
                    if subtopology.state_changelog_topics
                ),
                self._configs.standby_replicas(group),
            )
        self.set_targets(change, targets, STICKY, self._desk.settings.streams_assignment_interval_ms, now_us)

    def _assign_late(self, group: StreamsGroup, now_us: int) -> None:
        """Compute the first target tasks of a group after its initial delay. Source: computeDelayedTargetAssignment"""
        group.delay = None
        if group.members and group.epoch > group.target_epoch:
            change = Change(group)
            self._assign_tasks(change, group, configure(group.topology, self._topics.partitions_of), now_us)
            # If the write fails, a later heartbeat computes the targets again.
            change.write(self._desk, lambda error, written_us: None, now_us)

    # --------------------------------------------------------------------------------------------------------- leaving

    def _leave(self, event: StreamsHeartbeat) -> None:
        """Handle a heartbeat by which a member leaves. Source: streamsGroupLeave"""
        change, group = self._change_of(event.group_id, may_begin=False)
        member = named(group, event.member_id, event.instance_id)
        if event.shuts_down and group.shutdown_by is None:
            group.shutdown_by = member.member_id
        self.leave(change, member, event)

    def fence(self, change: Change, members: Sequence[ConsumerMember], why: Departure, now_us: int) -> None:
        """Remove these members and raise the group epoch. Source: streamsGroupFenceMember"""
        group = change.group
        assert isinstance(group, StreamsGroup), "the group is not a streams group"
        for member in members:
            change.say(left(self._desk.node, group, member, why))
            remove(change, member.member_id)
            group.stop_timers_of(member.member_id)
        change.add(StreamsEpochRecord(group.epoch + 1, group.metadata_hash, group.validated_epoch, group.configs))
        note_emptied(change, self._desk.settings)


def _topology(group: StreamsGroup, event: StreamsHeartbeat) -> Entity:
    """Return the group's topology, or that in the heartbeat if the group has none. Source: maybeUpdateTopology

    Raises:
        KafkaError: if both are missing, or if the heartbeat would change the topology.
    """
    known, said = group.topology, event.topology
    if known is None and said is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The topology is null and the group topology is also null.")
    if known is None or said is None or known.epoch > said.epoch:
        return said if known is None else known
    if (known.epoch, subtopologies(known)) != (said.epoch, subtopologies(said)):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return known


def _statuses(group: StreamsGroup, member: StreamsMember, topology: Entity) -> list[Status]:
    if member.topology_epoch >= topology.epoch:
        return []
    epochs = f"topology epoch {member.topology_epoch} is behind the group's topology epoch {topology.epoch}."
    return [(STALE_TOPOLOGY, f"The member's {epochs}")]


def _as_it_says(member: StreamsMember, event: StreamsHeartbeat) -> StreamsMember:
    """Return the member with the fields of a heartbeat; fields that the heartbeat leaves out stay as they are."""
    timeout_ms = event.rebalance_timeout_ms
    keeps_endpoint = event.user_endpoint is None and event.member_epoch != JOINS
    return replace(
        member,
        instance_id=member.instance_id if event.instance_id is None else event.instance_id,
        rack_id=member.rack_id if event.rack_id is None else event.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_SAID_MS else timeout_ms,
        topology_epoch=member.topology_epoch if event.topology is None else int(event.topology.epoch),
        process_id=member.process_id if event.process_id is None else event.process_id,
        user_endpoint=member.user_endpoint if keeps_endpoint else event.user_endpoint,
        client_tags=member.client_tags if event.client_tags is None else event.client_tags,
        client_id=event.client_id,
        client_host=event.client_host,
    )


def _place(member: StreamsMember) -> tuple[object, ...]:
    """Return the fields of a static member that concern the assignment. Source: hasEpochRelevantMemberConfigChanged"""
    return member.topology_epoch, member.rack_id, member.client_tags, member.process_id


def _owned(event: StreamsHeartbeat) -> Tasks | None:
    lists = [item for item in event.owned if item is not None]
    return tuple(task for item in lists for task in item) if lists else None


def _check_tasks(configured: Configured, owned: Tasks) -> None:
    """Raise INVALID_REQUEST if a reported task does not exist. Source: throwIfRequestContainsInvalidTasks"""
    for _, name, number in owned if configured.status is None else ():
        count = configured.counts.get(name)
        if count is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Subtopology {shown(name)} does not exist in the topology.")
        if not 0 <= number < count:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Task {number} for subtopology {shown(name)} is invalid. Number of tasks for this subtopology: "
                f"{count}",
            )


def _check_endpoints(
    group: StreamsGroup, before: StreamsMember, event: StreamsHeartbeat, configured: Configured
) -> None:
    """Raise UNKNOWN_SERVER_ERROR where Kafka cannot list the endpoints because the topology has no tasks.

    Without endpoints, the member would learn that topics are missing. Source: EndpointToPartitionsManager
    """
    ours = event.user_endpoint or before.user_endpoint
    has_endpoints = ours is not None or any(member.user_endpoint is not None for member in group.members.values())
    changes = event.endpoints_epoch != group.endpoints_epoch or (ours is not None and bool(before.assigned))
    if not configured.counts and has_endpoints and changes:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _check(event: StreamsHeartbeat, *, has_static: bool) -> None:
    """Raise a KafkaError if a field of a heartbeat is invalid. Source: throwIfStreamsGroupHeartbeatRequestIsInvalid"""
    wrong = ""
    parts = () if event.topology is None else event.topology.subtopologies
    active, standby, warmup = event.owned
    if event.instance_id is not None and not has_static:
        wrong = "Static membership is not yet supported."
    elif warmup and not has_static:
        wrong = "WarmupTasks are not supported yet."
    elif any(part.source_topic_regex for part in parts):
        wrong = "Regular expressions for source topics are not supported yet."
    elif not event.member_id.strip():
        wrong = "MemberId can't be empty."
    elif not event.group_id.strip():
        wrong = "GroupId can't be empty."
    elif event.instance_id is not None and not event.instance_id.strip():
        wrong = "InstanceId can't be empty."
    elif event.rack_id is not None and not event.rack_id.strip():
        wrong = "RackId can't be empty."
    elif event.member_epoch == JOINS and event.rebalance_timeout_ms == NOT_SAID_MS:
        wrong = "RebalanceTimeoutMs must be provided in first request."
    elif event.member_epoch == JOINS and (active or standby or warmup):
        kind = "ActiveTasks" if active else "StandbyTasks" if standby else "WarmupTasks"
        wrong = f"{kind} must be empty when (re-)joining."
    elif event.member_epoch == JOINS and event.topology is None:
        wrong = "Topology must be non-null when (re-)joining."
    elif event.member_epoch == LEAVES_FOR_A_WHILE and event.instance_id is None:
        wrong = "InstanceId can't be null."
    elif event.member_epoch < LEAVES_FOR_A_WHILE:
        wrong = f"MemberEpoch is {event.member_epoch}, but must be greater than or equal to -2."
    elif None in event.owned and any(item is not None for item in event.owned):
        wrong = "If one task-type is non-null, all must be non-null."
    elif event.member_epoch != JOINS and event.topology is not None:
        wrong = "Topology can only be provided when (re-)joining."
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, wrong)
    if event.topology is not None and event.topology.epoch < 0:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Topology epoch must be non-negative.")
    for topic in (topic for part in parts for topic in part.state_changelog_topics):
        if topic.partitions:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"Changelog topic {shown(str(topic.name))} must have an undefined partition count, but it is set to "
                f"{topic.partitions}.",
            )
