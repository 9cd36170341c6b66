"""Which brokers are alive: last contact, metadata offset and shutdown of each, and the state its next heartbeat earns.

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
"""A check that has fenced a broker comes again so soon (PeriodicTask.DEFAULT_IMMEDIATE_PERIOD_NS)."""

_TABLE_SLOTS = 16
"""Of a new java.util.ConcurrentHashMap, which doubles when it is three quarters full."""

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
    """`controlled_shutdown_offset`: every active broker has to know this much metadata before the broker may go."""

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
    """Of something that comes once in each interval, at `phase_us` in it; None: one interval from now."""
    return interval_us - (0 if phase_us is None else (now_us - phase_us) % interval_us)


class PeriodicCheck:
    """Comes once in each interval, from one interval after `begin` on, and again 10 ms after it has found something.

    phase_us: where in its interval it comes; None: counted from `begin`
    source: PeriodicTaskControlManager.nextDelayTimeNs
    """

    # Simplified: Kafka plans each check when the one before is over, so they fall later and later: by 1 to 2 ms each.

    __slots__ = ("_interval_us", "_next_us", "_phase_us")

    def __init__(self, interval_us: int, phase_us: int | None = None) -> None:
        self._interval_us = interval_us
        self._phase_us = phase_us
        self._next_us = 0

    def begin(self, now_us: int) -> None:
        self._next_us = now_us + until_next_us(now_us, self._interval_us, self._phase_us)

    def not_before(self, moment_us: int) -> int:
        """The first check at that moment or later."""
        return self._next_us + max(0, -((self._next_us - moment_us) // self._interval_us)) * self._interval_us

    def found(self, now_us: int) -> None:
        self._next_us = now_us + CHECK_AGAIN_US


class BrokerSessions:
    """Sessions of all registered brokers; only those of unfenced brokers can run out.

    check: when the controller looks for those that have; None: it looks when the next one ends, and a new active
        controller not before it has heard of a broker
    """

    __slots__ = ("_check", "_looks", "_sessions", "timeout_us")

    def __init__(self, timeout_us: int, check: PeriodicCheck | None = None) -> None:
        self.timeout_us = timeout_us
        self._check = check
        self._looks = True
        self._sessions: dict[BrokerId, BrokerSession] = {}

    def begin(self, now_us: int) -> None:
        """The controller becomes active: it knows nothing of earlier heartbeats, and its periodic checks begin."""
        self._sessions.clear()
        self._looks = self._check is not None
        if self._check is not None:
            self._check.begin(now_us)

    def heard(self) -> None:
        """A broker has registered, or its heartbeat has come.

        source: QuorumController.rescheduleMaybeFenceStaleBrokers up to 3.9, which claim does not call
        """
        self._looks = True

    @property
    def looks_periodically(self) -> bool:
        return self._check is not None

    def __getitem__(self, broker_id: BrokerId) -> BrokerSession:
        return self._sessions[broker_id]

    def open(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, fenced: bool, now_us: int) -> None:
        """A session for a registration, in place of any earlier one of the same broker."""
        self._sessions[broker_id] = BrokerSession(fenced, now_us, broker_epoch)

    def close(self, broker_id: BrokerId) -> None:
        """The broker is not registered any more."""
        del self._sessions[broker_id]

    def touch(self, broker_id: BrokerId, fenced: bool, metadata_offset: Offset, now_us: int) -> None:
        """The broker is alive. A fenced broker leaves controlled shutdown: its next heartbeat shuts it down at once."""
        session = self._sessions[broker_id]
        session.fenced = fenced
        session.last_contact_us = now_us
        session.metadata_offset = metadata_offset
        if fenced:
            session.controlled_shutdown_offset = NO_OFFSET

    def begin_shutdown(self, broker_id: BrokerId, offset: Offset) -> None:
        """Note the end of the batch that moved the broker's leaderships away; only the first one counts."""
        session = self._sessions[broker_id]
        if not session.shutting_down:
            session.controlled_shutdown_offset = offset

    def is_valid(self, broker_id: BrokerId, now_us: int) -> bool:
        """True while no other process may register with this broker id."""
        session = self._sessions.get(broker_id)
        return session is not None and not session.fenced and now_us < session.last_contact_us + self.timeout_us

    def take_stale(self, now_us: int) -> BrokerId | None:
        """An unfenced broker whose session has run out, for the controller to fence.

        Without a periodic check the one that has been silent longest, ties by broker id; with one the first in the
        order of a ConcurrentHashMap (BrokerHeartbeatTracker.maybeRemoveExpired).
        """
        # Simplified: Kafka breaks ties by the order of the heartbeats, and lets a session end one nanosecond later.
        stale = [broker_id for broker_id in self._unfenced() if not self.is_valid(broker_id, now_us)]
        if not stale:
            return None
        if self._check is None:
            return min(stale, key=lambda broker_id: (self._sessions[broker_id].last_contact_us, broker_id))
        self._check.found(now_us)
        return min(stale, key=self._place_in_table)

    def _place_in_table(self, broker_id: BrokerId) -> tuple[int, BrokerEpoch]:
        """source: BrokerIdAndEpoch.hashCode"""
        # Simplified: Kafka's table has former lives of brokers, too, until their sessions are over.
        slots = _TABLE_SLOTS
        while len(self._sessions) >= slots * 3 // 4:
            slots *= 2
        epoch = self._sessions[broker_id].broker_epoch
        return (31 * (31 + broker_id) + epoch) % slots, epoch

    @property
    def next_check_us(self) -> int | None:
        """When the next session that ends, if no heartbeat comes, will be found; None: never, by what is known now."""
        if not self._looks:
            return None
        ends_us = min(
            (session.last_contact_us + self.timeout_us for session in self._unfenced().values()), default=None
        )
        return ends_us if ends_us is None or self._check is None else self._check.not_before(ends_us)

    def _unfenced(self) -> dict[BrokerId, BrokerSession]:
        return {broker_id: session for broker_id, session in self._sessions.items() if not session.fenced}

    def lowest_active_offset(self) -> Offset:
        """How much metadata every active broker is known to have applied."""
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
        """The state a heartbeat moves the broker to. Source: calculateNextBrokerState

        is_caught_up: the broker has applied its own registration record
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
                told = session.controlled_shutdown_offset <= self.lowest_active_offset()
                if told and not has_leaderships():
                    return BrokerControlState.SHUTDOWN_NOW
        return session.state
