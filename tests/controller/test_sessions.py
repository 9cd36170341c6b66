"""BrokerHeartbeatManagerTest: which state a heartbeat earns, and whose session ends when."""

from __future__ import annotations

import pytest

from controller.sessions import BrokerControlState, BrokerSessions, PeriodicCheck

FENCED, UNFENCED = BrokerControlState.FENCED, BrokerControlState.UNFENCED
CONTROLLED_SHUTDOWN, SHUTDOWN_NOW = BrokerControlState.CONTROLLED_SHUTDOWN, BrokerControlState.SHUTDOWN_NOW


@pytest.mark.parametrize(
    ("state", "want_fence", "want_shut_down", "is_caught_up", "leads", "expected"),
    [
        (FENCED, True, False, True, False, FENCED),
        (FENCED, False, False, False, False, FENCED),
        (FENCED, False, False, True, False, UNFENCED),
        (FENCED, False, True, True, False, SHUTDOWN_NOW),
        (FENCED, True, True, False, False, SHUTDOWN_NOW),
        (UNFENCED, False, False, True, True, UNFENCED),
        (UNFENCED, True, False, True, True, FENCED),
        (UNFENCED, True, True, True, True, SHUTDOWN_NOW),
        (UNFENCED, False, True, True, True, CONTROLLED_SHUTDOWN),
        (UNFENCED, False, True, True, False, SHUTDOWN_NOW),
        (CONTROLLED_SHUTDOWN, False, True, True, True, CONTROLLED_SHUTDOWN),
        (CONTROLLED_SHUTDOWN, False, True, True, False, SHUTDOWN_NOW),
    ],
)
def test_next_state(
    state: BrokerControlState,
    want_fence: bool,
    want_shut_down: bool,
    is_caught_up: bool,
    leads: bool,
    expected: BrokerControlState,
) -> None:
    sessions = BrokerSessions(timeout_us=9)
    sessions.open(1, 0, fenced=state is FENCED, now_us=0)
    if state is CONTROLLED_SHUTDOWN:
        sessions.begin_shutdown(1, offset=100)
    assert sessions[1].state is state
    found = sessions.next_state(
        1,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
        is_caught_up=is_caught_up,
        has_leaderships=lambda: leads,
    )
    assert found is expected


@pytest.mark.parametrize(("slowest", "expected"), [(99, CONTROLLED_SHUTDOWN), (100, SHUTDOWN_NOW)])
def test_a_shutdown_waits_for_the_slowest_active_broker(slowest: int, expected: BrokerControlState) -> None:
    sessions = BrokerSessions(timeout_us=9)
    for broker_id in (1, 2, 3, 4):
        sessions.open(broker_id, 0, fenced=False, now_us=0)
    sessions.begin_shutdown(1, offset=100)
    sessions.begin_shutdown(1, offset=500)
    sessions.touch(2, False, 200, now_us=1)
    sessions.touch(3, False, slowest, now_us=1)
    sessions.touch(4, True, 0, now_us=1)
    state = sessions.next_state(
        1, want_fence=False, want_shut_down=True, is_caught_up=True, has_leaderships=lambda: False
    )
    assert state is expected


def test_only_unfenced_brokers_go_stale_the_most_silent_first() -> None:
    sessions = BrokerSessions(timeout_us=9)
    for broker_id, fenced in ((3, False), (2, False), (1, True)):
        sessions.open(broker_id, 0, fenced, now_us=0)
    sessions.touch(3, False, 0, now_us=1)
    assert sessions.next_check_us == 9
    assert sessions.take_stale(8) is None
    assert sessions.take_stale(9) == 2
    sessions.touch(2, False, 0, now_us=1)
    assert sessions.take_stale(10) == 2, "a tie goes to the smaller id"
    sessions.touch(2, True, 0, now_us=10)
    assert sessions.take_stale(10) == 3
    sessions.touch(3, True, 0, now_us=10)
    assert sessions.next_check_us is None


def test_up_to_3_9_a_new_controller_fences_nobody_before_it_has_heard_of_a_broker() -> None:
    """QuorumController.claim does not call rescheduleMaybeFenceStaleBrokers. As seen on Kafka 3.9.1."""
    sessions = BrokerSessions(timeout_us=9)
    sessions.begin(0)
    for broker_id in (1, 2):
        sessions.open(broker_id, 0, fenced=False, now_us=0)
    assert sessions.next_check_us is None
    sessions.heard()
    assert sessions.next_check_us == 9


def test_a_broker_fenced_while_shutting_down_may_go_at_its_next_heartbeat() -> None:
    sessions = BrokerSessions(timeout_us=9)
    sessions.open(1, 0, fenced=False, now_us=0)
    sessions.begin_shutdown(1, offset=100)
    sessions.touch(1, True, 0, now_us=9)
    state = sessions.next_state(
        1, want_fence=False, want_shut_down=True, is_caught_up=True, has_leaderships=lambda: True
    )
    assert (sessions[1].state, state) == (FENCED, SHUTDOWN_NOW)


@pytest.mark.parametrize(
    ("phase_us", "checks"), [(None, (1_225_000, 2_350_000, 3_475_000)), (200_000, (200_000, 1_325_000, 2_450_000))]
)
def test_a_periodic_check_counts_from_its_begin_or_falls_where_it_is_told(
    phase_us: int | None, checks: tuple[int, ...]
) -> None:
    check = PeriodicCheck(1_125_000, phase_us)
    check.begin(100_000)
    assert check.not_before(0) == checks[0]
    assert [check.not_before(at_us) for at_us in checks] == list(checks)
    assert check.not_before(checks[0] + 1) == checks[1]
    assert check.not_before(checks[1] + 1) == checks[2]


def test_a_session_that_has_ended_goes_on_if_a_heartbeat_comes_before_the_check() -> None:
    """BrokerHeartbeatTracker: nothing is decided when it ends, only when somebody looks."""
    sessions = BrokerSessions(9_000_000, PeriodicCheck(1_125_000))
    sessions.begin(0)
    sessions.open(1, 5, fenced=False, now_us=100_000)
    assert sessions.next_check_us == 10_125_000
    assert not sessions.is_valid(1, 9_100_000), "another process may have the id already"
    sessions.touch(1, False, 0, now_us=10_000_000)
    assert sessions.take_stale(10_125_000) is None
    assert sessions.next_check_us == 19_125_000


def test_ended_sessions_are_taken_one_by_one_in_the_order_of_a_table() -> None:
    """BrokerIdAndEpoch.hashCode: slot 1 - id + epoch, modulo 16. As seen on Kafka: b3 in epoch 10 before b2 in 12."""
    sessions = BrokerSessions(9_000_000, PeriodicCheck(1_125_000))
    sessions.begin(0)
    for broker_id, epoch, heard_us in ((1, 14, 10_000), (2, 12, 20_000), (3, 10, 30_000), (4, 15, 2_000_000)):
        sessions.open(broker_id, epoch, fenced=False, now_us=heard_us)
    taken: list[tuple[int, int]] = []
    while (now_us := sessions.next_check_us) is not None:
        broker_id = sessions.take_stale(now_us)
        assert broker_id is not None
        sessions.touch(broker_id, True, 0, now_us)
        taken.append((broker_id, now_us))
    assert taken == [(3, 10_125_000), (2, 10_135_000), (1, 10_145_000), (4, 11_280_000)]
