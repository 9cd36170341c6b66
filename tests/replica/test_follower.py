"""FollowerState against its transcripts, tests/golden/follower_*.txt, and the rules that they do not show.

Names of Kafka's own tests are given where a test mirrors one (AbstractFetcherThreadTest).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from follower_world import FollowerWorld
from hypothesis import given
from hypothesis import strategies as st

from replica.causes import FetchFailureCause, HighWatermarkCause, TruncationCause
from replica.errors import ErrorCode, KafkaError
from replica.fetch_fencing import check_leader_epoch
from replica.follower import FollowerState
from replica.inputs import (
    AskLeaderOffsets,
    FetchAnswered,
    FetchBroke,
    FetchState,
    FollowerAssigned,
    LeaderOffsetsKnown,
    MarkFailed,
    SetHighWatermark,
    Truncated,
    TruncateTo,
    Which,
)
from replica.rules import PROFILES
from replica.truncation import find_cut, find_divergence

ERA_3_9 = PROFILES["kafka-3.9"]
TRANSCRIPTS = sorted((Path(__file__).parent.parent / "golden").glob("follower_*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, transcript: Callable[[Path, object], None]) -> None:
    transcript(path, FollowerWorld())


def following(*, log_end_offset: int = 10, high_watermark: int = 8, log_start_offset: int = 0) -> FollowerState:
    """b2 follows b1 in epoch 3; its log knows epoch 3 from 7, 1 from 0."""
    follower = FollowerState(
        fetch_backoff_us=1000,
        rules=ERA_3_9,
        end_offset_for=lambda epoch: (3, log_end_offset) if epoch == 3 else (1, 7),
        unclean_elections_allowed=lambda: False,
    )
    follower.step(
        FollowerAssigned(
            now_us=0,
            leader_id=1,
            leader_epoch=3,
            log_end_offset=log_end_offset,
            latest_epoch=3,
            high_watermark=high_watermark,
            log_start_offset=log_start_offset,
        )
    )
    return follower


def answer(
    *,
    offset: int = 10,
    high_watermark: int = 8,
    log_start_offset: int = 0,
    diverging: tuple[int, int] | None = None,
    has_records: bool = False,
) -> FetchAnswered:
    return FetchAnswered(
        now_us=5,
        requested_offset=offset,
        requested_leader_epoch=3,
        error=ErrorCode.NONE,
        leader_high_watermark=high_watermark,
        leader_log_start_offset=log_start_offset,
        diverging=diverging,
        has_records=has_records,
    )


# ------------------------------------------------------------------------------------------------------------- fetching


def test_a_diverging_answer_changes_nothing_else() -> None:
    """testTruncateOnFetchDoesNotUpdateHighWatermark, ...DoesNotProcessPartitionData."""
    follower = following()
    told = answer(high_watermark=9, log_start_offset=2, diverging=(3, 9), has_records=True)
    (cut,) = follower.step(told)
    assert isinstance(cut, TruncateTo)
    assert cut.offset == 9
    assert (follower.high_watermark, follower.log_start_offset) == (8, 0)
    assert follower.step(Truncated(now_us=5, log_end_offset=9, latest_epoch=3)) == []
    assert (follower.fetch_offset, follower.high_watermark, follower.last_fetched_epoch) == (9, 8, 3)


def test_a_hole_at_the_end_of_the_log_stops_the_follower() -> None:
    """A cut in the middle of a batch leaves the log shorter than where the fetch would go on (R8)."""
    follower = following()
    follower.step(answer(diverging=(3, 9)))
    follower.step(Truncated(now_us=5, log_end_offset=8, latest_epoch=3))
    (failed,) = follower.step(answer(offset=9, has_records=True))
    assert isinstance(failed, MarkFailed)
    assert failed == MarkFailed(error=ErrorCode.NONE, cause=FetchFailureCause.OFFSET_GAP)
    assert follower.state is FetchState.FAILED


def test_the_high_watermark_is_clamped_to_the_log() -> None:
    for told, expected in ((0, 4), (4, 4), (6, 6), (10, 10), (11, 10)):
        follower = following(log_start_offset=4, high_watermark=5)
        (action,) = follower.step(answer(high_watermark=told))
        assert isinstance(action, SetHighWatermark)
        assert (action.previous, action.high_watermark, follower.high_watermark) == (5, expected, expected)


def test_the_log_start_follows_the_leader_but_never_past_the_high_watermark() -> None:
    for told, expected in ((3, 4), (6, 6), (8, 8), (9, 4)):
        follower = following(log_start_offset=4)
        follower.step(answer(log_start_offset=told))
        assert follower.log_start_offset == expected


def test_a_cut_below_the_start_of_the_log_moves_the_start() -> None:
    follower = following(log_start_offset=8)
    follower.step(answer(diverging=(3, 6)))
    assert follower.step(Truncated(now_us=5, log_end_offset=6, latest_epoch=None)) == [
        SetHighWatermark(previous=8, high_watermark=6, cause=HighWatermarkCause.CUT, leader_high_watermark=0)
    ]
    assert (follower.log_start_offset, follower.last_fetched_epoch) == (6, None)


@pytest.mark.parametrize(("leader_end", "leader_start"), [(10, 0), (10, 10), (12, 4)])
def test_out_of_range_with_an_end_that_lies_in_the_leaders_log_cuts_nothing(leader_end: int, leader_start: int) -> None:
    """testFollowerFetchOutOfRangeLow, the borders: equal ends are no reason to cut, nor is a start at our end."""
    follower = following()
    follower.step(dataclasses.replace(answer(), error=ErrorCode.OFFSET_OUT_OF_RANGE))
    known = LeaderOffsetsKnown(
        now_us=6, which=Which.LATEST, requested_leader_epoch=3, error=ErrorCode.NONE, offset=leader_end
    )
    (question,) = follower.step(known)
    assert isinstance(question, AskLeaderOffsets)
    assert (question.which, question.leader_epoch) == (Which.EARLIEST, 3)
    assert follower.step(dataclasses.replace(known, which=Which.EARLIEST, offset=leader_start)) == []
    assert (follower.fetch_offset, follower.state) == (10, FetchState.FETCHING)


def test_a_new_leader_epoch_ends_the_delay() -> None:
    follower = following()
    follower.step(FetchBroke(now_us=0))
    assert not follower.may_fetch(1)
    follower.step(
        FollowerAssigned(now_us=1, leader_id=3, leader_epoch=4, log_end_offset=10, latest_epoch=3, high_watermark=8)
    )
    assert follower.may_fetch(1)


def test_nothing_is_asked_before_a_leader_is_known() -> None:
    follower = FollowerState(
        fetch_backoff_us=1,
        rules=ERA_3_9,
        end_offset_for=lambda epoch: (-1, -1),
        unclean_elections_allowed=lambda: False,
    )
    assert not follower.may_fetch(0)


def test_the_delay_ends_at_its_microsecond() -> None:
    follower = following()
    follower.delayed_until_us = 1000
    assert not follower.may_fetch(999)
    assert follower.may_fetch(1000)


# ----------------------------------------------------------------------------------- what the leader says (readRecords)

ENTRIES = {0: (-1, -1), 2: (2, 5), 3: (2, 5), 4: (4, 9), 5: (-1, -1)}
"""A leader's log of epochs 2 from 0 and 4 from 5, up to 9; epoch 0 stands for an epoch that it cannot place."""


@pytest.mark.parametrize(
    ("last_epoch", "offset", "expected"),
    [
        (4, 9, None),
        (4, 8, None),
        (4, 10, (4, 9)),
        (3, 5, (2, 5)),
        (3, 3, (2, 5)),
        (2, 5, None),
        (2, 6, (2, 5)),
        (-1, 99, None),
        (5, 9, "OFFSET_OUT_OF_RANGE"),
        (0, 9, "OFFSET_OUT_OF_RANGE"),
        (2, 0, "OFFSET_OUT_OF_RANGE"),
        (3, 0, "OFFSET_OUT_OF_RANGE"),
    ],
)
def test_last_fetched_offset_validation(last_epoch: int, offset: int, expected: tuple[int, int] | str | None) -> None:
    """testLastFetchedOffsetValidation; the leader's log starts at 1."""
    if isinstance(expected, str):
        with pytest.raises(KafkaError) as refused:
            find_divergence(last_epoch, offset, ENTRIES.__getitem__, 1)
        assert refused.value.code.name == expected
    else:
        assert find_divergence(last_epoch, offset, ENTRIES.__getitem__, 1) == expected


def test_leader_epochs_are_checked_both_ways() -> None:
    for request_epoch, code in ((4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(KafkaError) as refused:
            check_leader_epoch(ERA_3_9, request_epoch, 5)
        assert refused.value.code is code
    check_leader_epoch(ERA_3_9, 5, 5)
    check_leader_epoch(ERA_3_9, -1, 5)


# ------------------------------------------------------------------- where the follower cuts (getOffsetTruncationState)


@pytest.mark.parametrize(
    ("diverging", "own", "offset", "cause"),
    [
        # the leader says nothing useful: where this fetch began, which is the high watermark when nothing is known
        ((3, -1), (3, 10), 6, TruncationCause.NO_ANSWER),
        ((-1, -1), (3, 10), 6, TruncationCause.NO_ANSWER),
        # an answer without epoch: the leader's end, if that is less
        ((-1, 7), (3, 10), 7, TruncationCause.LEADER_END),
        ((-1, 12), (3, 10), 10, TruncationCause.LEADER_END),
        # no epochs of our own: the same
        ((3, 7), (-1, -1), 7, TruncationCause.NO_OWN_EPOCH),
        ((3, 12), (-1, -1), 10, TruncationCause.NO_OWN_EPOCH),
        # the leader's epoch is not ours: the end of the one below, and repeat the request
        ((3, 8), (2, 4), 4, TruncationCause.EARLIER_EPOCH),
        ((3, 8), (2, 12), 10, TruncationCause.EARLIER_EPOCH),
        # the same epoch: the earlier of the two ends, and never past the own end
        ((3, 8), (3, 9), 8, TruncationCause.EPOCH_END),
        ((3, 8), (3, 8), 8, TruncationCause.EPOCH_END),
        ((3, 8), (3, 5), 5, TruncationCause.OWN_EPOCH_END),
        ((3, 14), (3, 12), 10, TruncationCause.OWN_EPOCH_END),
        ((3, 14), (3, 16), 10, TruncationCause.EPOCH_END),
    ],
)
def test_the_cut(diverging: tuple[int, int], own: tuple[int, int], offset: int, cause: TruncationCause) -> None:
    cut = find_cut(diverging, 6, 10, lambda epoch: own)
    assert (cut.offset, cut.cause) == (offset, cause)


# ---------------------------------------------------------------------------------------------------------- any history

BROKERS = ("b1", "b2", "b3")
turns = st.tuples(st.sampled_from(BROKERS), st.integers(0, 3), st.lists(st.sampled_from(BROKERS), max_size=6))


@given(
    st.sampled_from(["kafka-2.1", "kafka-3.9"]),
    st.lists(turns, min_size=1, max_size=8),
    st.lists(st.sampled_from(BROKERS), max_size=2),
)
def test_after_any_history_of_elections_the_logs_become_the_leaders(
    era: str, history: list[tuple[str, int, list[str]]], forgetful: list[str]
) -> None:
    """Any broker may be elected, with or without the records. A record is named by its epoch and offset, since one
    leader wrote each epoch from front to back. A round cuts or appends, so the rounds are few.

    forgetful: followers that lose their epoch file and their high watermark before the last election. (A leader that
    loses its epoch file cannot determine where logs part, here as in Kafka.)
    """
    world = FollowerWorld()
    world.era(era)
    for name in BROKERS:
        world.log(name)
    for epoch, (leader, records, fetches) in enumerate([*history, (history[-1][0], 1, [])]):
        if epoch == len(history):
            for name in [name for name in forgetful if name != leader]:
                world.forget_epochs(name)
                world.commit(name, 0)
        world.lead(leader, epoch)
        world.append(leader, records)
        for name in BROKERS:
            if name != leader:
                world.follow(name, leader, epoch)
        for name in fetches:
            if name != leader:
                settle(world, name, max_rounds=1)
    leader = history[-1][0]
    for name in BROKERS:
        if name != leader:
            settle(world, name, max_rounds=2 * len(history) + 3)
            assert world.replicas[name].epochs == world.replicas[leader].epochs


def settle(world: FollowerWorld, name: str, max_rounds: int) -> None:
    for _ in range(max_rounds):
        world.compare(name)
        for line in world.fetch(name):
            if "where its log ends" in line:
                world.offsets(name, "latest")
            if "where its log starts" in line:
                world.offsets(name, "earliest")
