"""Broker sessions: last contact, metadata offset and state of each broker, as heartbeats change them.
Source: BrokerHeartbeatManager; from 4.0 on BrokerHeartbeatTracker, QuorumController.registerMaybeFenceStaleBroker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from replica.ids import BrokerEpoch, BrokerId, Offset

NO_OFFSET: Offset = -1
CHECKS_PER_SESSION = 8
CHECK_AGAIN_US = 10_000
"""Delay until the next check after one that fenced a broker (PeriodicTask.DEFAULT_IMMEDIATE_PERIOD_NS)."""

_TABLE_SLOTS = 16
"""Initial slots of a java.util.ConcurrentHashMap, which doubles them when three quarters are full."""

_NO_ACTIVE_BROKER: Offset = 2**63 - 1


class BrokerControlState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


@dataclass(slots=True)
class BrokerSession:
    """The session of one broker.

    Attributes:
        controlled_shutdown_offset: metadata offset that every active broker must reach before the broker may shut down;
            NO_OFFSET if the broker is not shutting down.
    """

    fenced: bool
    last_contact_us: int
    broker_epoch: BrokerEpoch
    metadata_offset: Offset = NO_OFFSET
    controlled_shutdown_offset: Offset = NO_OFFSET

    @property
    def shutting_down(self) -> bool:
        return self.controlled_shutdown_offset != NO_OFFSET

    @property
    def state(self) -> BrokerControlState:
        if self.shutting_down:
            return BrokerControlState.CONTROLLED_SHUTDOWN
        return BrokerControlState.FENCED if self.fenced else BrokerControlState.UNFENCED


def until_next_us(now_us: int, interval_us: int, phase_us: int | None) -> int:
    """Return the time until a periodic event, which occurs `phase_us` after the start of each interval.

    If `phase_us` is None, the event occurs one interval from now.
    """
    return interval_us - (0 if phase_us is None else (now_us - phase_us) % interval_us)


class PeriodicCheck:
    """The schedule of a periodic check: once per interval, and again 10 ms after a check that found something.

    Args:
        phase_us: time of the check within an interval; None if intervals begin when `begin` is called.

    Source: PeriodicTaskControlManager.nextDelayTimeNs
    """

    # Simplified: Kafka plans each check when the previous check is over, so that each is 1 to 2 ms later.

    __slots__ = ("_interval_us", "_next_us", "_phase_us")

    def __init__(self, interval_us: int, phase_us: int | None = None) -> None:
        self._interval_us = interval_us
        self._phase_us = phase_us
        self._next_us = 0

    def begin(self, now_us: int) -> None:
        self._next_us = now_us + until_next_us(now_us, self._interval_us, self._phase_us)

    def not_before(self, moment_us: int) -> int:
        """Return the time of the first check at or after `moment_us`."""
        return self._next_us + max(0, -((self._next_us - moment_us) // self._interval_us)) * self._interval_us

    def found(self, now_us: int) -> None:
        self._next_us = now_us + CHECK_AGAIN_US


class BrokerSessions:
    """Sessions of all registered brokers. Only sessions of unfenced brokers can expire.

    Args:
        check: schedule of the checks for expired sessions. None if the controller checks whenever a session expires; a
            new active controller then does not check before a broker has contacted it.
    """

    __slots__ = ("_check", "_looks", "_sessions", "timeout_us")

    def __init__(self, timeout_us: int, check: PeriodicCheck | None = None) -> None:
        self.timeout_us = timeout_us
        self._check = check
        self._looks = True
        self._sessions: dict[BrokerId, BrokerSession] = {}

    def begin(self, now_us: int) -> None:
        """Remove all sessions and begin the periodic checks; called when the controller becomes active."""
        self._sessions.clear()
        self._looks = self._check is not None
        if self._check is not None:
            self._check.begin(now_us)

    def heard(self) -> None:
        """Begin to check sessions, since a broker has registered or sent a heartbeat.

        Source: QuorumController.rescheduleMaybeFenceStaleBrokers up to 3.9, which QuorumController.claim does not call
        """
        self._looks = True

    @property
    def looks_periodically(self) -> bool:
        return self._check is not None

    def __getitem__(self, broker_id: BrokerId) -> BrokerSession:
        return self._sessions[broker_id]

    def open(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, fenced: bool, now_us: int) -> None:
        """Open a session for a broker's registration, in place of any earlier session of this broker."""
        self._sessions[broker_id] = BrokerSession(fenced, now_us, broker_epoch)

    def close(self, broker_id: BrokerId) -> None:
        """Close the session of a broker that is no longer registered."""
        del self._sessions[broker_id]

    def touch(self, broker_id: BrokerId, fenced: bool, metadata_offset: Offset, now_us: int) -> None:
        """Record a contact with a broker.

        If the broker is now fenced, its controlled shutdown ends; the next heartbeat lets it shut down.
        """
        session = self._sessions[broker_id]
        session.fenced = fenced
        session.last_contact_us = now_us
        session.metadata_offset = metadata_offset
        if fenced:
            session.controlled_shutdown_offset = NO_OFFSET

    def begin_shutdown(self, broker_id: BrokerId, offset: Offset) -> None:
        """Store the metadata offset at which a broker's leaderships were moved away, in the first call only."""
        session = self._sessions[broker_id]
        if not session.shutting_down:
            session.controlled_shutdown_offset = offset

    def is_valid(self, broker_id: BrokerId, now_us: int) -> bool:
        """Return True if the broker's session keeps other processes from registering with its id."""
        session = self._sessions.get(broker_id)
        return session is not None and not session.fenced and now_us < session.last_contact_us + self.timeout_us

    def take_stale(self, now_us: int) -> BrokerId | None:
        """Return an unfenced broker whose session has expired, or None.

        Without periodic checks, this is the broker with the earliest contact; among equal ones, the lowest id. With
        periodic checks, it is the first broker of a ConcurrentHashMap (BrokerHeartbeatTracker.maybeRemoveExpired).
        """
        # Simplified: Kafka breaks ties by the order of the heartbeats, and ends a session one nanosecond later.
        stale = [broker_id for broker_id in self._unfenced() if not self.is_valid(broker_id, now_us)]
        if not stale:
            return None
        if self._check is None:
            return min(stale, key=lambda broker_id: (self._sessions[broker_id].last_contact_us, broker_id))
        self._check.found(now_us)
        return min(stale, key=self._place_in_table)

    def _place_in_table(self, broker_id: BrokerId) -> tuple[int, BrokerEpoch]:
        """Return a key that sorts brokers as Kafka's hash table does. Source: BrokerIdAndEpoch.hashCode"""
        # Simplified: Kafka's table also has earlier incarnations of brokers, until their sessions expire.
        slots = _TABLE_SLOTS
        while len(self._sessions) >= slots * 3 // 4:
            slots *= 2
        epoch = self._sessions[broker_id].broker_epoch
        return (31 * (31 + broker_id) + epoch) % slots, epoch

    @property
    def next_check_us(self) -> int | None:
        """Time of the check that will find the next expired session if no heartbeat comes; None if none can expire."""
        if not self._looks:
            return None
        ends_us = min(
            (session.last_contact_us + self.timeout_us for session in self._unfenced().values()), default=None
        )
        return ends_us if ends_us is None or self._check is None else self._check.not_before(ends_us)

    def _unfenced(self) -> dict[BrokerId, BrokerSession]:
        return {broker_id: session for broker_id, session in self._sessions.items() if not session.fenced}

    def lowest_active_offset(self) -> Offset:
        """Return the lowest metadata offset of all active brokers, 2**63 - 1 if there are none."""
        return min(
            (
                session.metadata_offset
                for session in self._sessions.values()
                if session.state is BrokerControlState.UNFENCED
            ),
            default=_NO_ACTIVE_BROKER,
        )

    def next_state(
        self,
        broker_id: BrokerId,
        *,
        want_fence: bool,
        want_shut_down: bool,
        is_caught_up: bool,
        has_leaderships: Callable[[], bool],
    ) -> BrokerControlState:
        """Return the state of a broker after a heartbeat.

        Args:
            is_caught_up: True if the broker has applied its own registration record.

        Source: calculateNextBrokerState
        """
        session = self._sessions[broker_id]
        match session.state:
            case BrokerControlState.FENCED:
                if want_shut_down:
                    return BrokerControlState.SHUTDOWN_NOW
                if not want_fence and is_caught_up:
                    return BrokerControlState.UNFENCED
            case BrokerControlState.UNFENCED:
                if want_fence:
                    return BrokerControlState.SHUTDOWN_NOW if want_shut_down else BrokerControlState.FENCED
                if want_shut_down:
                    moves = has_leaderships()
                    return BrokerControlState.CONTROLLED_SHUTDOWN if moves else BrokerControlState.SHUTDOWN_NOW
            case BrokerControlState.CONTROLLED_SHUTDOWN:
                has_learned = session.controlled_shutdown_offset <= self.lowest_active_offset()
                if has_learned and not has_leaderships():
                    return BrokerControlState.SHUTDOWN_NOW
        return session.state
