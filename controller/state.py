"""The controller as a state machine over the metadata log: registrations, sessions, elections and ISRs.

The records of each input are one batch. They are applied to the controller's image immediately; the reply comes last.
Source: QuorumController
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from controller.brokers import BrokerControl
from controller.changes import Journal
from controller.client_quotas import ClientQuotaControl
from controller.config_control import ConfigControl
from controller.image import MetadataImage
from controller.inputs import (
    Action,
    AllocateProducerIds,
    AlterClientQuota,
    AlterPartition,
    AlterReassignment,
    AlterScramCredential,
    AppendRecord,
    AssignReplicas,
    Bootstrap,
    BrokerHeartbeat,
    ChangeBrokerConfig,
    ChangeConfig,
    ChangeFeatureLevels,
    ChangeGroupConfig,
    ControllerInput,
    CreateAcl,
    CreatePartitions,
    CreateTopic,
    DeleteAcls,
    DeleteTopic,
    ElectLeader,
    EmitNumbered,
    ProducerIdsReply,
    RebalanceDue,
    RegisterBroker,
    SessionCheckDue,
    Several,
    SeveralReply,
    SingleInput,
    UncleanSweepDue,
    UnregisterBroker,
)
from controller.metadata import MetadataRecord, ProducerIdsRecord, VotersRecord
from controller.partitions import Partitions
from controller.scram import ScramControl
from controller.sessions import CHECKS_PER_SESSION, BrokerSessions, PeriodicCheck, until_next_us
from controller.topic_control import TopicControl
from replica.config import INT32_MAX, KAFKAS_OWN, NodeSettings
from replica.errors import ErrorCode
from replica.ids import BrokerId, Names, Offset
from replica.rules import Rules

if TYPE_CHECKING:
    from controller.acl_control import AclControl
    from controller.snapshot import Snapshot

UNCLEAN_ELECTION_INTERVAL_US = 300_000_000
"""Interval of unclean elections, 5 minutes (unclean.leader.election.interval.ms, an internal key of Kafka)."""

PRODUCER_IDS_PER_BLOCK = 1000
"""The number of producer ids in a block. Source: ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE"""

_RESUME_SWEEP_US = 10_000
"""Delay until a sweep that stopped at its limit is continued, 10 ms."""


class Sweep:
    """The schedule of a sweep, a task over all partitions that runs only if there is work for it.

    Args:
        interval_us: None if the sweep never runs.
        is_periodic: True to run a whole number of intervals after the controller became active; False to run one
            interval after work was found.

    Source: QuorumController.ImbalanceSchedule; since 4.0 PeriodicTaskControlManager (KAFKA-17793, KAFKA-20075)
    """

    __slots__ = ("_phase_us", "due_us", "interval_us")

    def __init__(self, interval_us: int | None, *, is_periodic: bool) -> None:
        self.interval_us = interval_us
        self._phase_us = 0 if is_periodic else None
        self.due_us: int | None = None

    def begin(self, now_us: int) -> None:
        """Start the first interval; called when the controller becomes active."""
        if self._phase_us is not None:
            self._phase_us = now_us

    def plan(self, now_us: int) -> None:
        if self.due_us is None and self.interval_us is not None:
            self.due_us = now_us + until_next_us(now_us, self.interval_us, self._phase_us)

    def ran(self, now_us: int, stopped_at_limit: bool) -> None:
        self.due_us = now_us + _RESUME_SWEEP_US if stopped_at_limit else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerLimits:
    """Limits and intervals of a controller.

    Attributes:
        session_check_phase_us: time of the checks for expired sessions within their interval, if they are periodic.
        rebalance_interval_us: leader.imbalance.check.interval.seconds; None without auto.leader.rebalance.enable.
        num_partitions: number of partitions of a new topic, if the request has none.
        default_replication_factor: replication factor of a new topic, if the request has none.
        max_partitions: limit for the partitions of the whole cluster; a request for more is refused.
    """

    session_timeout_us: int = 9_000_000
    session_check_phase_us: int | None = None
    rebalance_interval_us: int | None = 300_000_000
    unclean_election_interval_us: int = UNCLEAN_ELECTION_INTERVAL_US
    num_partitions: int = 1
    default_replication_factor: int = 1
    max_partitions: int = INT32_MAX


KAFKAS_LIMITS = ControllerLimits()


class ControllerState:
    """The controller without input and output.

    The caller passes inputs to `step`, calls `tick` at `next_deadline_us`, and performs the returned actions in order.
    `upgraded_voters` returns the record that upgrades kraft.version to 1, None if the quorum is not ready for it.
    """

    def __init__(
        self,
        *,
        names: Names,
        controller_id: BrokerId,
        rules: Rules,
        settings: NodeSettings = KAFKAS_OWN,
        limits: ControllerLimits = KAFKAS_LIMITS,
        upgraded_voters: Callable[[], VotersRecord | None] = lambda: None,
    ) -> None:
        self._journal = Journal(names, controller_id, settings)
        self._partitions = Partitions(self._journal, rules)
        looks_periodically = rules.session_checks == "periodic"
        check_us = limits.session_timeout_us // CHECKS_PER_SESSION
        check = PeriodicCheck(check_us, limits.session_check_phase_us) if looks_periodically else None
        self._brokers = BrokerControl(self._journal, self._partitions, BrokerSessions(limits.session_timeout_us, check))
        self._rebalance = Sweep(limits.rebalance_interval_us, is_periodic=looks_periodically)
        self._unclean_sweep = Sweep(limits.unclean_election_interval_us, is_periodic=looks_periodically)
        self._swept_offset: Offset = -1
        self._topics = TopicControl(
            self._journal,
            num_partitions=limits.num_partitions,
            default_replication_factor=limits.default_replication_factor,
            max_partitions=limits.max_partitions,
        )
        self._configs = ConfigControl(self._journal, self._partitions, settings, rules, upgraded_voters)
        self._scram = ScramControl(self._journal)
        self._client_quotas = ClientQuotaControl(self._journal)

    @property
    def image(self) -> MetadataImage:
        return self._journal.image

    @property
    def next_offset(self) -> Offset:
        """Offset of the next metadata record, which is also the broker epoch of a broker that registers now."""
        return self._journal.next_offset

    @property
    def next_deadline_us(self) -> int | None:
        """Time of the next session check, preferred rebalance or unclean sweep; None if none is planned."""
        dues = (self._brokers.sessions.next_check_us, self._rebalance.due_us, self._unclean_sweep.due_us)
        return min((due for due in dues if due is not None), default=None)

    def load(self, records: Iterable[MetadataRecord], now_us: int, snapshot: Snapshot | None = None) -> None:
        """Become the active controller: load the snapshot, if any, and then the records of the metadata log.

        Every broker gets a new session.
        """
        if snapshot is not None:
            self.image.load_snapshot(snapshot.records, snapshot.end.offset)
        for record in records:
            self.image.apply(record, self.next_offset)
        self._brokers.open_sessions(now_us)
        self._rebalance.begin(now_us)
        self._unclean_sweep.begin(now_us)
        self._plan_sweeps(now_us)

    def tick(self, now_us: int) -> list[Action]:
        """Perform all tasks that are due at `now_us`, one after the other."""
        actions: list[Action] = []
        while (due_us := self.next_deadline_us) is not None and due_us <= now_us:
            if due_us == self._brokers.sessions.next_check_us:
                actions += self.step(SessionCheckDue(now_us=now_us))
            elif due_us == self._rebalance.due_us:
                actions += self.step(RebalanceDue(now_us=now_us))
            else:
                actions += self.step(UncleanSweepDue(now_us=now_us))
        return actions

    def step(self, event: ControllerInput) -> list[Action]:
        for item in event.inputs if isinstance(event, Several) else (event,):
            self._handle(item)
        if self.image.offset != self._swept_offset:
            self._plan_sweeps(event.now_us)
        actions = self._journal.take()
        return _with_one_reply(actions) if isinstance(event, Several) else actions

    def _handle(self, event: SingleInput) -> None:
        match event:
            case RegisterBroker():
                self._brokers.register(event)
            case UnregisterBroker():
                self._brokers.unregister(event)
            case BrokerHeartbeat():
                self._brokers.heartbeat(event)
            case AssignReplicas():
                self._brokers.assign_replicas(event)
            case AlterPartition():
                self._partitions.alter(event)
            case ElectLeader():
                self._partitions.elect(event)
            case CreateTopic():
                self._topics.create(event)
            case CreatePartitions():
                self._topics.create_partitions(event)
            case DeleteTopic():
                self._topics.delete(event)
            case ChangeConfig():
                self._configs.change_topic(event)
            case ChangeBrokerConfig():
                self._configs.change_broker(event)
            case ChangeGroupConfig():
                self._configs.change_group(event)
            case ChangeFeatureLevels():
                self._configs.update_features(event)
            case AlterScramCredential():
                self._scram.alter(event)
            case Bootstrap():
                self._scram.bootstrap(event)
            case AlterClientQuota():
                self._client_quotas.alter(event)
            case CreateAcl():
                self._acls.create(event)
            case DeleteAcls():
                self._acls.delete(event)
            case AllocateProducerIds():
                self._allocate_producer_ids(event)
            case AlterReassignment():
                self._partitions.reassign(event)
            case SessionCheckDue():
                self._brokers.fence_one_stale(event.now_us)
            case RebalanceDue():
                self._rebalance.ran(event.now_us, stopped_at_limit=self._partitions.rebalance())
                self._plan_sweeps(event.now_us)
            case UncleanSweepDue():
                self._unclean_sweep.ran(event.now_us, stopped_at_limit=self._partitions.elect_unclean())
                self._plan_sweeps(event.now_us)

    def _plan_sweeps(self, now_us: int) -> None:
        self._swept_offset = self.image.offset
        if self._partitions.are_leaders_imbalanced:
            self._rebalance.plan(now_us)
        if self._partitions.are_some_leaderless:
            self._unclean_sweep.plan(now_us)

    # ------------------------------------------------------------------------------------------------- producer ids

    @cached_property
    def _acls(self) -> AclControl:
        from controller.acl_control import AclControl

        return AclControl(self._journal)

    def _allocate_producer_ids(self, event: AllocateProducerIds) -> None:
        """Allocate a new block of producer ids to a broker. Source: ProducerIdControlManager (KIP-730)"""
        stale = self._journal.stale_epoch(event.broker_id, event.broker_epoch)
        if stale is not None:
            self._journal.reply(ProducerIdsReply(error=ErrorCode.STALE_BROKER_EPOCH, message=stale))
            return
        first = self.image.next_producer_id
        self._journal.append(
            ProducerIdsRecord(
                broker_id=event.broker_id,
                broker_epoch=event.broker_epoch,
                next_producer_id=first + PRODUCER_IDS_PER_BLOCK,
            )
        )
        self._journal.reply(ProducerIdsReply(error=ErrorCode.NONE, first=first, length=PRODUCER_IDS_PER_BLOCK))


def _with_one_reply(actions: list[Action]) -> list[Action]:
    """Combine the replies to the inputs of a `Several` into one reply at the end."""
    done = [action for action in actions if isinstance(action, (AppendRecord, EmitNumbered))]
    replies = tuple(action for action in actions if not isinstance(action, (AppendRecord, EmitNumbered, SeveralReply)))
    return [*done, SeveralReply(replies=replies)]
