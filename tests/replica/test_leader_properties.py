"""A leader's safety rules in any situation, and its high watermark by a second, slower reckoning."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from leader_world import LAG_MAX_US, LeaderWorld

from replica.errors import ErrorCode
from replica.inputs import (
    AdvanceHighWatermark,
    Appended,
    FetchReceived,
    IsrAccepted,
    IsrRefused,
    LagCheckDue,
    LeaderInput,
    PartitionUpdated,
    ProposeIsr,
)
from replica.leader import LeaderState

REPLICAS = (1, 2, 3, 4)
MIN_ISR = 2
BROKER_EPOCHS = {2: 20, 3: 30, 4: 40}


@dataclass
class Follower:
    """By the definition and from the whole history: the latest t at which it held what the leader had at t."""

    end: int = -1
    caught_up_us: int | None = None
    fetches: list[tuple[int, int]] = field(default_factory=list)

    def fetched(self, now_us: int, offset: int, leader_end: int) -> None:
        past = self.fetches[-1:] if self.fetches and offset >= max(end for _, end in self.fetches) else []
        times = [at for at, _ in past] + ([now_us] if offset >= leader_end else [])
        self.caught_up_us = max([*times, self.caught_up_us], key=lambda at: -1 if at is None else at)
        self.fetches.append((now_us, leader_end))
        self.end = offset

    def kept_up(self, now_us: int) -> bool:
        return self.caught_up_us is not None and now_us - self.caught_up_us <= LAG_MAX_US


class Reckoning:
    """A second opinion on high watermark and lag, written from R9 and R11 without looking at the code."""

    def __init__(self, isr: tuple[int, ...]) -> None:
        self.followers = {broker_id: Follower() for broker_id in REPLICAS[1:]}
        for member in isr[1:]:
            self.followers[member].caught_up_us = 0
        self.end, self.high_watermark = 0, 0

    def candidate(self, state: LeaderState, now_us: int) -> int:
        if len(state.in_sync_replicas) < MIN_ISR:
            return self.high_watermark
        ends = [self.end]
        for broker_id, follower in self.followers.items():
            if broker_id in state.maximal_isr or (follower.kept_up(now_us) and follower.fetches):
                ends.append(follower.end)
        return max(self.high_watermark, min(ends))


steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "fetch", "fetch", "fetch", "lag", "accept", "refuse", "metadata"]),
        st.sampled_from(REPLICAS[1:]),
        st.integers(0, 4),
        st.integers(0, LAG_MAX_US // 2),
    ),
    max_size=60,
)


def event_for(verb: str, follower: int, number: int, now_us: int, state: LeaderState) -> LeaderInput | None:
    match verb:
        case "append":
            return Appended(now_us=now_us, log_end_offset=state.log_end_offset + number)
        case "fetch":
            return FetchReceived(
                now_us=now_us,
                broker_id=follower,
                broker_epoch=BROKER_EPOCHS[follower],
                fetch_offset=max(0, state.log_end_offset - number),
                leader_end_offset=state.log_end_offset,
                log_start_offset=0,
            )
        case "lag":
            return LagCheckDue(now_us=now_us)
        case "accept" if state.pending_isr is not None:
            return IsrAccepted(
                now_us=now_us,
                leader_epoch=state.leader_epoch,
                in_sync_replicas=state.pending_isr,
                partition_epoch=state.partition_epoch + 1,
                recovering=False,
            )
        case "refuse" if state.pending_isr is not None:
            errors = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_SERVER_ERROR)
            return IsrRefused(now_us=now_us, error=errors[number % 3])
        case "metadata":
            isr = tuple(member for member in state.in_sync_replicas if member != follower)
            return PartitionUpdated(
                now_us=now_us,
                partition_epoch=state.partition_epoch + 1,
                in_sync_replicas=isr,
                assigned_replicas=REPLICAS,
            )
    return None


@given(steps)
def test_high_watermark_and_isr(script: list[tuple[str, int, int, int]]) -> None:
    world = LeaderWorld()
    world.config(min_isr=MIN_ISR)
    world.leader(replicas=("b1", "b2", "b3", "b4"), isr=("b1", "b2", "b3"), leo=0, hw=0)
    state, reckoning, now_us = world.state, Reckoning((1, 2, 3)), 0
    for verb, follower, number, wait_us in script:
        now_us += wait_us
        event = event_for(verb, follower, number, now_us, state)
        if event is None:
            continue
        pending_before, high_watermark_before = state.pending_isr, state.high_watermark
        news = True
        if isinstance(event, Appended):
            reckoning.end = event.log_end_offset
        elif isinstance(event, FetchReceived):
            news = reckoning.followers[follower].end != event.fetch_offset
            reckoning.followers[follower].fetched(now_us, event.fetch_offset, event.leader_end_offset)
        actions = state.step(event)
        proposals = [action for action in actions if isinstance(action, ProposeIsr)]
        advances = [action for action in actions if isinstance(action, AdvanceHighWatermark)]

        # The high watermark: when it is looked at, exactly as reckoned; never down, never beyond a member of the ISR.
        if news and isinstance(event, Appended | FetchReceived | IsrAccepted | PartitionUpdated):
            reckoning.high_watermark = reckoning.candidate(state, now_us)
        assert state.high_watermark == reckoning.high_watermark >= high_watermark_before
        assert [(action.previous, action.high_watermark) for action in advances] == (
            [(high_watermark_before, state.high_watermark)] if state.high_watermark > high_watermark_before else []
        )
        if advances:
            assert all(reckoning.followers[member].end >= state.high_watermark for member in state.maximal_isr[1:])

        # The ISR: one proposal at a time, always with the leader, and the larger set gates until the answer.
        assert len(proposals) <= (0 if pending_before is not None and not isinstance(event, IsrRefused) else 1)
        if state.pending_isr is not None:
            assert 1 in state.pending_isr
            assert set(state.maximal_isr) == {*state.in_sync_replicas, *state.pending_isr}
        else:
            assert state.maximal_isr == state.in_sync_replicas
        if isinstance(event, LagCheckDue) and proposals and pending_before is None:
            gone = set(state.in_sync_replicas) - set(proposals[0].in_sync_replicas)
            late = {
                member
                for member in state.in_sync_replicas[1:]
                if reckoning.followers[member].end != reckoning.end and not reckoning.followers[member].kept_up(now_us)
            }
            assert gone == late
