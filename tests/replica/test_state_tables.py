"""The tables of states (replica/inputs.py, replica/isr.py), walked: every step in them happens, no other.

Each machine is brought into each of its states and given every input in every shape that matters to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from leader_world import LAG_MAX_US, LeaderWorld

from replica import inputs as follower_table
from replica import isr
from replica.errors import ErrorCode
from replica.follower import FollowerState
from replica.inputs import (
    REPORTS,
    Appended,
    AppendFailed,
    EpochEndAnswered,
    FetchAnswered,
    FetchBroke,
    FetchReceived,
    FetchState,
    FollowerAssigned,
    FollowerInput,
    IsrAccepted,
    IsrRefused,
    LagCheckDue,
    LeaderAssigned,
    LeaderInput,
    LeaderOffsetsKnown,
    MinIsrChanged,
    PartitionUpdated,
    RecordsAppended,
    Truncated,
    Which,
)
from replica.isr import IsrState
from replica.rules import PROFILES

END = 10
BEFORE_EPOCHS, ASKING_FIRST = "kafka-0.10", ("kafka-0.11", "kafka-2.0")
ERRORS = (ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_SERVER_ERROR)


# ------------------------------------------------------------------------------------------------------- the follower


def assigned(epoch: int, leader: int = 1, latest_epoch: int | None = 3, high_watermark: int = 8) -> FollowerAssigned:
    return FollowerAssigned(
        now_us=0,
        leader_id=leader,
        leader_epoch=epoch,
        log_end_offset=END,
        latest_epoch=latest_epoch,
        high_watermark=high_watermark,
    )


def fetch_answers(profile: str, epoch: int) -> Iterator[FetchAnswered]:
    for error in ERRORS:
        for diverging, has_records in ((None, False), (None, True), ((2, 7), False)):
            if diverging is not None and PROFILES[profile].truncation == "high-watermark":
                continue
            yield FetchAnswered(
                now_us=5,
                requested_offset=END,
                requested_leader_epoch=epoch,
                error=error,
                leader_high_watermark=8,
                leader_log_start_offset=0,
                diverging=diverging,
                has_records=has_records,
            )


def follower_inputs(profile: str, epoch: int) -> Iterator[FollowerInput]:
    """All that may happen to a follower in leader epoch `epoch`, and once more as of the epoch before."""
    yield assigned(epoch)
    yield assigned(epoch + 1, leader=3)
    yield assigned(epoch + 1, leader=3, latest_epoch=None)
    yield assigned(epoch + 1, leader=3, latest_epoch=None, high_watermark=END)
    yield FetchBroke(now_us=5)
    yield RecordsAppended(now_us=5, log_end_offset=END + 1, latest_epoch=3)
    yield Truncated(now_us=5, log_end_offset=7, latest_epoch=2)
    yield Truncated(now_us=5, log_end_offset=7, latest_epoch=None)
    for error in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR):
        yield AppendFailed(now_us=5, error=error)
    for asked_in in (epoch, epoch - 1):
        yield from fetch_answers(profile, asked_in)
        for error in ERRORS:
            for told in ((3, END), (2, 7), (1, 20), (-1, -1)):
                yield EpochEndAnswered(
                    now_us=5,
                    requested_epoch=3,
                    requested_leader_epoch=asked_in,
                    error=error,
                    epoch=told[0],
                    end_offset=told[1],
                )
            for which in Which:
                for offset in (0, 4, 20):
                    yield LeaderOffsetsKnown(
                        now_us=5, which=which, requested_leader_epoch=asked_in, error=error, offset=offset
                    )


def new_follower(profile: str) -> FollowerState:
    """b2, whose log has epoch 3 from 7 on and epoch 1 before."""
    return FollowerState(
        fetch_backoff_us=1000,
        rules=PROFILES[profile],
        end_offset_for=lambda epoch: (3, END) if epoch >= 3 else (1, 7),
        unclean_elections_allowed=lambda: False,
    )


COMPARED: list[FollowerInput] = [
    assigned(5),
    EpochEndAnswered(
        now_us=5, requested_epoch=3, requested_leader_epoch=5, error=ErrorCode.NONE, epoch=3, end_offset=END
    ),
    Truncated(now_us=5, log_end_offset=END, latest_epoch=3),
]
BEGINNINGS: tuple[list[FollowerInput], ...] = ([assigned(5)], [assigned(5, latest_epoch=None)], COMPARED)


def followers() -> Iterator[tuple[str, Callable[[], FollowerState]]]:
    """Followers by the rules of every era, each one input after it has begun."""
    for profile in (BEFORE_EPOCHS, *ASKING_FIRST, "kafka-4.1"):
        found: list[list[FollowerInput]] = [[]]
        for first in BEGINNINGS:
            if PROFILES[profile].truncation.startswith("leader-epoch") or first is not COMPARED:
                found.append(first)
                found += [
                    [*first, given]
                    for given in follower_inputs(profile, 5)
                    if is_in_order(after(profile, first), given)
                ]
        for inputs in found:
            yield profile, partial(after, profile, inputs)


def after(profile: str, inputs: list[FollowerInput]) -> FollowerState:
    follower = new_follower(profile)
    for given in inputs:
        follower.step(given)
    return follower


def is_in_order(follower: FollowerState, given: FollowerInput) -> bool:
    return not isinstance(given, REPORTS) or type(given) in follower_table.NEXT_STATES[follower.state]


def test_a_follower_takes_every_step_of_its_table_and_no_other() -> None:
    """Where a report comes that nothing was ordered for, the step is refused."""
    taken: set[tuple[FetchState, type, FetchState]] = set()
    for profile, follower in followers():
        for given in follower_inputs(profile, follower().leader_epoch):
            one = follower()
            before = one.state
            if not is_in_order(one, given):
                with pytest.raises(AssertionError, match=f"{type(given).__name__} leads from {before.name}"):
                    one.step(given)
                continue
            one.step(given)
            if one.state is not before or isinstance(given, REPORTS):
                taken.add((before, type(given), one.state))
    table = {
        (before, given, after)
        for before, row in follower_table.NEXT_STATES.items()
        for given, states in row.items()
        for after in states
        if after is not before
    }
    assert taken == table


# ------------------------------------------------------------------------------------------- the ISR, at the leader


def leader_inputs(world: LeaderWorld) -> Iterator[LeaderInput]:
    """All that may happen to a leader; the answers are those to its latest proposal, or to none."""
    state, now_us = world.state, world.now_us
    proposal = world.proposals[-1] if world.proposals else None
    for follower, offset in ((2, 10), (3, 10), (3, 4)):
        yield FetchReceived(
            now_us=now_us,
            broker_id=follower,
            broker_epoch=follower * 10,
            fetch_offset=offset,
            leader_end_offset=10,
            log_start_offset=0,
        )
    yield Appended(now_us=now_us, log_end_offset=12)
    yield MinIsrChanged(now_us=now_us, min_insync_replicas=2)
    yield LagCheckDue(now_us=now_us)
    yield LagCheckDue(now_us=LAG_MAX_US + 1)
    for epoch in (0, 1):
        yield IsrAccepted(
            now_us=now_us,
            leader_epoch=epoch,
            in_sync_replicas=(1, 2),
            partition_epoch=state.partition_epoch + 1,
            recovering=False,
            proposal=proposal,
        )
    for error in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_SERVER_ERROR):
        yield IsrRefused(now_us=now_us, error=error, proposal=proposal)
    for partition_epoch in (0, 6):
        yield PartitionUpdated(
            now_us=now_us, partition_epoch=partition_epoch, in_sync_replicas=(1, 2), assigned_replicas=(1, 2, 3)
        )
        yield LeaderAssigned(
            now_us=now_us,
            leader_epoch=1,
            partition_epoch=partition_epoch,
            in_sync_replicas=(1, 2),
            assigned_replicas=(1, 2, 3),
            log_end_offset=10,
            high_watermark=10,
            was_leader=True,
            recovering=False,
        )


def leader_in(wanted: IsrState) -> LeaderWorld:
    """b1 leads, with b2 in the ISR and b3 a replica as well; b3 joins, or b2 has to go."""
    world = LeaderWorld()
    world.leader(replicas=("b1", "b2", "b3"), isr=("b1", "b2"), leo=10, hw=8, partition_epoch=5)
    if wanted is IsrState.EXPANDING:
        world.fetch("b3", offset=10)
    elif wanted is IsrState.SHRINKING:
        world.check_lag(at=LAG_MAX_US + 1)
    assert world.state.isr_state is wanted
    return world


def test_an_isr_takes_every_step_of_its_table_and_no_other() -> None:
    taken = set()
    for before in IsrState:
        for number, _ in enumerate(leader_inputs(leader_in(before))):
            world = leader_in(before)
            given = list(leader_inputs(world))[number]
            world.state.step(given)
            if world.state.isr_state is not before:
                taken.add((before, type(given), world.state.isr_state))
    table = {(before, given, after) for before, row in isr.NEXT_STATES.items() for given, after in row.items()}
    assert taken == table


@pytest.mark.parametrize("state", IsrState, ids=lambda state: state.name)
def test_a_record_needs_every_broker_that_could_be_a_member_by_now(state: IsrState) -> None:
    leader = leader_in(state).state
    assert set(leader.maximal_isr) == {*leader.in_sync_replicas, *(leader.pending_isr or ())}
