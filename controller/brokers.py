"""Registrations, heartbeats, sessions and shutdowns of brokers, as the controller handles them.
Source: ClusterControlManager.registerBroker; ReplicationControlManager.processBrokerHeartbeat,
maybeFenceOneStaleBroker.
"""

from __future__ import annotations

from controller.changes import Journal
from controller.election import Occasion
from controller.image import BrokerRegistration
from controller.inputs import (
    AssignReplicas,
    BrokerHeartbeat,
    HeartbeatReply,
    PlainReply,
    RegisterBroker,
    RegistrationReply,
    UnregisterBroker,
)
from controller.metadata import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from controller.partitions import Partitions
from controller.sessions import NO_OFFSET, BrokerControlState, BrokerSessions
from replica.causes import FencingCause, OccasionKind, RegistrationCause, UnfencingCause
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH, BrokerId, TopicPartition
from replica.trace import events as trace


class BrokerControl:
    __slots__ = ("_image", "_journal", "_names", "_partitions", "sessions")

    def __init__(self, journal: Journal, partitions: Partitions, sessions: BrokerSessions) -> None:
        self._journal = journal
        self._image = journal.image
        self._names = journal.names
        self._partitions = partitions
        self.sessions = sessions

    def open_sessions(self, now_us: int) -> None:
        """Open a session for every registered broker, since a new controller does not know of earlier heartbeats.

        Source: ClusterControlManager.activate
        """
        self.sessions.begin(now_us)
        for broker in self._image.brokers.values():
            self.sessions.open(broker.broker_id, broker.broker_epoch, broker.fenced, now_us)

    # ------------------------------------------------------------------------------------------------ registration

    def register(self, event: RegisterBroker) -> None:
        existing = self._image.brokers.get(event.broker_id)
        if existing is not None and existing.incarnation_id == event.incarnation_id:
            self._register(event, existing)
            return
        if existing is not None and self.sessions.is_valid(event.broker_id, event.now_us):
            heard = f"{self._silent_us(event.broker_id, event.now_us) / 1_000_000:.1f} s ago"
            message = f"an earlier incarnation of {self._names(event.broker_id)} sent a heartbeat {heard}"
            self._journal.reply(RegistrationReply(error=ErrorCode.DUPLICATE_BROKER_REGISTRATION, message=message))
            return
        returns_unfenced = existing is not None and not existing.fenced
        if existing is not None and returns_unfenced and self.sessions.looks_periodically:
            self._fence(existing, FencingCause.NO_HEARTBEAT, self._silent_us(event.broker_id, event.now_us))
            returns_unfenced = False
        if not returns_unfenced or self._partitions.has_elr:
            self._leave_partitions(event, existing)
        # Otherwise it keeps its ISRs and leaderships: up to 3.9 handleBrokerUncleanShutdown does nothing without ELR.
        self._register(event, None, existing)

    def _leave_partitions(self, event: RegisterBroker, existing: BrokerRegistration | None) -> None:
        """Remove a registering broker from the ISRs and leaderships of its earlier incarnation.

        Source: ReplicationControlManager.handleBrokerShutdown
        """
        if not self._partitions.has_elr or (existing is not None and _was_clean(event, existing)):
            # When it was fenced, it left every ISR, except (without ELR) those of which it was the only member.
            occasion = Occasion(OccasionKind.REGISTERED, (event.broker_id,))
            self._partitions.remove_broker(event.broker_id, occasion, None)
        else:
            has_none = existing is None or event.previous_broker_epoch == NO_BROKER_EPOCH
            kind = OccasionKind.NO_CLEAN_SHUTDOWN_FILE if has_none else OccasionKind.OTHER_CLEAN_SHUTDOWN_FILE
            self._partitions.strike_out(event.broker_id, Occasion(kind, (event.broker_id,)))

    def _register(
        self, event: RegisterBroker, amended: BrokerRegistration | None, replaced: BrokerRegistration | None = None
    ) -> None:
        broker_epoch = self._journal.next_offset if amended is None else amended.broker_epoch
        fenced = amended is None or amended.fenced
        self._journal.append(
            RegisterBrokerRecord(
                broker_id=event.broker_id,
                incarnation_id=event.incarnation_id,
                broker_epoch=broker_epoch,
                rack=event.rack,
                host=event.host,
                port=event.port,
                fenced=fenced,
                in_controlled_shutdown=amended is not None and amended.in_controlled_shutdown,
                log_dirs=event.log_dirs,
                endpoints=event.endpoints,
            )
        )
        self.sessions.open(event.broker_id, broker_epoch, fenced, event.now_us)
        self.sessions.heard()
        cause = RegistrationCause.FIRST if replaced is None else RegistrationCause.NEW_INCARNATION
        self._journal.tell(
            trace.BrokerRegistered(
                node=self._journal.node,
                broker=self._names(event.broker_id),
                broker_epoch=broker_epoch,
                cause=cause if amended is None else RegistrationCause.SAME_INCARNATION,
                previous_epoch=None if replaced is None else replaced.broker_epoch,
                was_clean=None if replaced is None else _was_clean(event, replaced),
            )
        )
        self._journal.reply(RegistrationReply(error=ErrorCode.NONE, broker_epoch=broker_epoch))

    def unregister(self, event: UnregisterBroker) -> None:
        """Remove a broker from the ISRs, then from the cluster. Its replicas stay assigned to it.

        Source: handleBrokerUnregistered
        """
        broker = self._image.brokers.get(event.broker_id)
        if broker is None:
            message = f"Broker ID {event.broker_id} is not currently registered"
            self._journal.reply(PlainReply(error=ErrorCode.BROKER_ID_NOT_REGISTERED, message=message))
            return
        if not broker.fenced:
            self._fence(broker, FencingCause.UNREGISTERED)
        self._journal.append(UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch))
        self.sessions.close(broker.broker_id)
        who = self._names(broker.broker_id)
        self._journal.tell(trace.BrokerUnregistered(node=self._journal.node, broker=who))
        self._journal.reply(PlainReply(error=ErrorCode.NONE))

    # -------------------------------------------------------------------------------------------------- heartbeats

    def heartbeat(self, event: BrokerHeartbeat) -> None:
        stale = self._journal.stale_epoch(event.broker_id, event.broker_epoch)
        if stale is not None:
            self._journal.reply(HeartbeatReply(error=ErrorCode.STALE_BROKER_EPOCH, message=stale))
            return
        broker = self._image.brokers[event.broker_id]
        session = self.sessions[event.broker_id]
        is_caught_up = event.metadata_offset >= broker.registration_offset
        before = session.state
        after = self.sessions.next_state(
            event.broker_id,
            want_fence=event.want_fence,
            want_shut_down=event.want_shut_down,
            is_caught_up=is_caught_up,
            has_leaderships=lambda: self._partitions.has_leaderships(event.broker_id),
        )
        self.sessions.touch(event.broker_id, after.fenced, event.metadata_offset, event.now_us)
        self.sessions.heard()
        if after is not before:
            self._enter(broker, after, event)
        self._lose_directories(event)
        replayed = self._image.brokers[event.broker_id]
        if replayed is not broker and replayed != broker:
            # A change of the registration clears the broker's metadata offset until its next heartbeat
            # (BrokerHeartbeatManager.register, called by the replay of the change).
            session.metadata_offset = NO_OFFSET
        if after is BrokerControlState.CONTROLLED_SHUTDOWN:
            self.sessions.begin_shutdown(event.broker_id, self._image.offset)
        self._journal.reply(
            HeartbeatReply(
                error=ErrorCode.NONE,
                is_caught_up=is_caught_up,
                is_fenced=after.fenced,
                should_shut_down=after is BrokerControlState.SHUTDOWN_NOW,
            )
        )

    def _lose_directories(self, event: BrokerHeartbeat) -> None:
        """Elect other leaders for the partitions in a broker's failed log directories (KIP-858).

        Source: ReplicationControlManager.handleDirectoriesOffline
        """
        online = self._image.brokers[event.broker_id].log_dirs or ()
        lost = [directory for directory in online if directory in event.offline_log_dirs]
        if lost:
            occasion = Occasion(OccasionKind.DIRECTORY_FAILED, (event.broker_id,), amount=len(lost))
            self._partitions.remove_from_dirs(event.broker_id, lost, occasion)
            left = tuple(directory for directory in online if directory not in lost)
            self._journal.append(
                BrokerRegistrationChangeRecord(
                    broker_id=event.broker_id, broker_epoch=event.broker_epoch, log_dirs=left
                )
            )

    def assign_replicas(self, event: AssignReplicas) -> None:
        """Record the log directories that a broker reports for its replicas. Source: handleAssignReplicasToDirs"""
        stale = self._journal.stale_epoch(event.broker_id, event.broker_epoch)
        if stale is not None:
            self._journal.reply(PlainReply(error=ErrorCode.STALE_BROKER_EPOCH, message=stale))
            return
        for topic, partition, directory in event.places:
            self._partitions.report_directory(event.broker_id, TopicPartition(topic, partition), directory)
        self._journal.reply(PlainReply(error=ErrorCode.NONE))

    def _enter(self, broker: BrokerRegistration, state: BrokerControlState, event: BrokerHeartbeat) -> None:
        match state:
            case BrokerControlState.FENCED:
                self._fence(broker, FencingCause.ASKED)
            case BrokerControlState.SHUTDOWN_NOW:
                self._fence(broker, FencingCause.SHUTDOWN)
            case BrokerControlState.UNFENCED:
                self._unfence(broker, event.metadata_offset)
            case BrokerControlState.CONTROLLED_SHUTDOWN:
                self._begin_shutdown(broker)

    def _fence(self, broker: BrokerRegistration, why: FencingCause, silent_us: int | None = None) -> None:
        """Fence a broker. Its partitions change before it is fenced, so that no broker sees a fenced leader.

        Source: handleBrokerFenced
        """
        cause = None
        if not broker.fenced:
            who = self._names(broker.broker_id)
            fenced = trace.BrokerFenced(node=self._journal.node, broker=who, cause=why, silent_us=silent_us)
            cause = self._journal.tell(fenced)
        occasion = Occasion(OccasionKind.FENCED, (broker.broker_id,), why, silent_us)
        self._partitions.remove_broker(broker.broker_id, occasion, cause)
        self._journal.append(
            BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=True)
        )

    def _unfence(self, broker: BrokerRegistration, metadata_offset: int) -> None:
        """Unfence a broker, then elect leaders for the partitions that waited for it. Source: handleBrokerUnfenced"""
        self._journal.append(
            BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=False)
        )
        unfenced = trace.BrokerUnfenced(
            node=self._journal.node,
            broker=self._names(broker.broker_id),
            cause=UnfencingCause.CAUGHT_UP,
            metadata_offset=metadata_offset,
            registration_offset=broker.registration_offset,
        )
        cause = self._journal.tell(unfenced)
        self._partitions.elect_leaderless(Occasion(OccasionKind.UNFENCED, (broker.broker_id,)), cause)

    def _begin_shutdown(self, broker: BrokerRegistration) -> None:
        """Mark a broker as shutting down and move its leaderships away. Source: handleBrokerInControlledShutdown"""
        if not broker.in_controlled_shutdown:
            self._journal.append(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, in_controlled_shutdown=True
                )
            )
        occasion = Occasion(OccasionKind.CONTROLLED_SHUTDOWN, (broker.broker_id,))
        self._partitions.remove_broker(broker.broker_id, occasion, None)

    # ---------------------------------------------------------------------------------------------------- sessions

    def fence_one_stale(self, now_us: int) -> None:
        """Fence at most one broker whose session has expired. So each fencing takes effect before the next one."""
        broker_id = self.sessions.take_stale(now_us)
        if broker_id is not None:
            silent_us = self._silent_us(broker_id, now_us)
            self._fence(self._image.brokers[broker_id], FencingCause.NO_HEARTBEAT, silent_us)
            self.sessions.touch(broker_id, True, NO_OFFSET, now_us)

    def _silent_us(self, broker_id: BrokerId, now_us: int) -> int:
        return now_us - self.sessions[broker_id].last_contact_us


def _was_clean(event: RegisterBroker, replaced: BrokerRegistration) -> bool:
    """Return True if the broker's clean-shutdown file has the epoch of its earlier registration (KIP-966)."""
    return event.previous_broker_epoch == replaced.broker_epoch
