"""Which brokers are alive: last contact, metadata offset and shutdown of each, and the state its next heartbeat earns.

Source: BrokerHeartbeatManager (3.9, before BrokerHeartbeatTracker).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from replica.ids import BrokerId, Offset

NO_OFFSET: Offset = -1
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


class BrokerSessions:
    """Sessions of all registered brokers; only those of unfenced brokers can run out."""

    __slots__ = ("_sessions", "timeout_us")

    def __init__(self, timeout_us: int) -> None:
        self.timeout_us = timeout_us
        self._sessions: dict[BrokerId, BrokerSession] = {}

    def __getitem__(self, broker_id: BrokerId) -> BrokerSession:
        return self._sessions[broker_id]

    def open(self, broker_id: BrokerId, fenced: bool, now_us: int) -> None:
        """A session for a registration, in place of any earlier one of the same broker."""
        self._sessions[broker_id] = BrokerSession(fenced, now_us)

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

    def stale_broker(self, now_us: int) -> BrokerId | None:
        """The unfenced broker that has been silent longest, if its session has run out; ties by broker id."""
        # Simplified: Kafka breaks ties by the order of the heartbeats, and lets a session end one nanosecond later. 4.1
        # looks every eighth of a session, and takes who is silent too long in the order of a hash of id and epoch
        # (QuorumController.registerMaybeFenceStaleBroker, BrokerHeartbeatTracker.maybeRemoveExpired).
        silent = self._longest_silent()
        return None if silent is None or self.is_valid(silent, now_us) else silent

    @property
    def next_expiry_us(self) -> int | None:
        silent = self._longest_silent()
        return None if silent is None else self._sessions[silent].last_contact_us + self.timeout_us

    def _longest_silent(self) -> BrokerId | None:
        unfenced = [
            (session.last_contact_us, broker_id) for broker_id, session in self._sessions.items() if not session.fenced
        ]
        return min(unfenced)[1] if unfenced else None

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
