"""LeaderState against its transcripts, tests/golden/leader_*.txt, and the rules that they do not show.

Names of Kafka's own tests are given where a test mirrors one (PartitionTest).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leader_world import LAG_MAX_US, LeaderWorld

from replica.errors import ErrorCode, KafkaError
from replica.inputs import AdvanceHighWatermark, IsrAccepted, IsrRefused, LagCheckDue, ProposeIsr
from replica.isr import LONG_AGO_US, RemoteReplica

TRANSCRIPTS = sorted((Path(__file__).parent.parent / "golden").glob("leader_*.txt"))
ALL = ("b1", "b2", "b3")


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, transcript: Callable[[Path, object], None]) -> None:
    transcript(path, LeaderWorld())


def leading(*, isr: tuple[str, ...] = ALL, replicas: tuple[str, ...] = ALL, **given: Any) -> LeaderWorld:
    """b1 leads from offset 10, everything below committed, everyone of the ISR level."""
    world = LeaderWorld()
    world.leader(replicas=replicas, isr=isr, **{"leo": 10, "hw": 10, "partition_epoch": 5, **given})
    for name in isr[1:]:
        world.fetch(name, offset=world.state.log_end_offset)
    return world


def with_pending_shrink() -> LeaderWorld:
    world = leading()
    world.append(5)
    world.fetch("b2", offset=15)
    world.check_lag(at=LAG_MAX_US + 1)
    assert world.state.pending_isr == (1, 2)
    return world


# ------------------------------------------------------------------------------------------------ proposals and answers

PROPOSES_ANEW, AWAITS_METADATA, REPEATS = "proposes anew", "awaits metadata", "repeats"
AFTER_A_REFUSAL = {
    # The controller vouches that the proposal has had no effect and never will.
    "OPERATION_NOT_ATTEMPTED": PROPOSES_ANEW,
    "INELIGIBLE_REPLICA": PROPOSES_ANEW,
    # The controller knows of something newer, or of nothing that could be asked for again.
    "UNKNOWN_TOPIC_OR_PARTITION": AWAITS_METADATA,
    "UNKNOWN_TOPIC_ID": AWAITS_METADATA,
    "FENCED_LEADER_EPOCH": AWAITS_METADATA,
    "INVALID_UPDATE_VERSION": AWAITS_METADATA,
    "INVALID_REQUEST": AWAITS_METADATA,
    "NEW_LEADER_ELECTED": AWAITS_METADATA,
}
"""A leader's next step for an ISR that it still wants; after any other error it only has to repeat the proposal."""


@pytest.mark.parametrize(
    "error", [code for code in ErrorCode if code is not ErrorCode.NONE], ids=lambda code: code.name
)
def test_what_a_leader_does_after_a_refusal(error: ErrorCode) -> None:
    """Partition.handleAlterPartitionError; for every error, b3 counts until the controller says otherwise."""
    world = with_pending_shrink()
    first = world.proposals[-1]
    said = world.isr_refused(error.name)
    said_later = world.check_lag(at=LAG_MAX_US + 2)
    next_step = AFTER_A_REFUSAL.get(error.name, REPEATS)
    asked = "AlterPartition {b1, b2} broker epochs (-1, 20) at partition epoch 5"
    assert (said[:1], said_later[:1]) == {
        PROPOSES_ANEW: ([], [asked]),
        AWAITS_METADATA: ([], []),
        REPEATS: ([asked], []),
    }[next_step]
    assert world.fetch("b2", offset=15) == [] and world.state.high_watermark == 10
    if next_step == AWAITS_METADATA:
        world.metadata(isr=ALL, partition_epoch=6)
        assert world.check_lag(at=LAG_MAX_US + 3)[0] == asked.replace("epoch 5", "epoch 6")
    else:
        assert (world.proposals[-1].in_sync_replicas, len(world.proposals)) == (first.in_sync_replicas, 2)
        assert world.isr_accepted() == ["HW 10 -> 15, held by {b1, b2}"]


def test_a_retry_repeats_the_proposal_as_it_was() -> None:
    """Also when b2 has registered anew since: only the controller may judge that."""
    world = with_pending_shrink()
    world.registered("b2", 99)
    world.fetch("b2", offset=15)
    (again,) = world.state.step(IsrRefused(now_us=world.now_us, error=ErrorCode.UNKNOWN_SERVER_ERROR))
    assert isinstance(again, ProposeIsr)
    assert (again.broker_epochs, again.partition_epoch) == ((-1, 20), 5)


def test_an_answer_older_than_the_metadata_is_ignored() -> None:
    """testAlterIsrLeaderAndIsrRace: the metadata received in between stands, and the proposal stays pending."""
    world = with_pending_shrink()
    world.isr_accepted(partition_epoch=4)
    assert world.state.pending_isr == (1, 2)
    assert (world.state.partition_epoch, world.state.high_watermark) == (5, 10)


def test_an_answer_that_changed_nothing_ends_the_wait() -> None:
    """The controller's ISR was the proposed one already: same partition epoch."""
    world = with_pending_shrink()
    world.isr_accepted(partition_epoch=5)
    assert (world.state.pending_isr, world.state.in_sync_replicas, world.state.high_watermark) == (None, (1, 2), 15)


def test_the_controllers_word_counts_and_not_what_was_asked_for() -> None:
    world = with_pending_shrink()
    world.isr_accepted(isr=("b1",))
    assert world.state.in_sync_replicas == world.state.maximal_isr == (1,)


def test_answers_with_nothing_in_flight_are_ignored() -> None:
    world = leading()
    accepted = IsrAccepted(now_us=0, leader_epoch=0, in_sync_replicas=(1,), partition_epoch=9, recovering=False)
    assert world.state.step(accepted) == []
    assert world.state.step(IsrRefused(now_us=0, error=ErrorCode.UNKNOWN_SERVER_ERROR)) == []
    assert (world.state.in_sync_replicas, world.state.partition_epoch) == ((1, 2, 3), 5)


def test_an_answer_of_the_next_leader_epoch_changes_nothing() -> None:
    """The accepted ISR completed a reassignment, and the same broker leads on, in a term it has not begun yet."""
    world = with_pending_shrink()
    assert world.isr_accepted(epoch=1) == []
    assert (world.state.in_sync_replicas, world.state.pending_isr) == ((1, 2, 3), (1, 2))
    assert (world.state.partition_epoch, world.state.high_watermark) == (5, 10)
    world.leader(replicas=("b1", "b2"), isr=("b1", "b2"), epoch=1, partition_epoch=6, was="leader")
    assert world.state.maximal_isr == (1, 2)


def test_metadata_of_the_same_partition_epoch_also_ends_a_pending_proposal() -> None:
    """Kafka accepts partition epochs that are equal: the answer and the metadata carry the same change."""
    world = with_pending_shrink()
    world.metadata(isr=("b1", "b2", "b3"), partition_epoch=5)
    assert world.state.pending_isr is None


def test_a_new_leader_epoch_ends_a_pending_proposal_and_its_answer_comes_too_late() -> None:
    world = with_pending_shrink()
    world.leader(replicas=ALL, isr=ALL, epoch=1, partition_epoch=6, was="leader")
    assert world.state.maximal_isr == (1, 2, 3)
    world.isr_accepted(partition_epoch=7)
    assert (world.state.in_sync_replicas, world.state.partition_epoch) == ((1, 2, 3), 6)


def test_single_in_flight_proposal() -> None:
    """testSingleInFlightAlterIsr: neither another expansion nor a shrink while one is out."""
    world = leading(isr=("b1", "b2"), replicas=("b1", "b2", "b3", "b4"))
    assert world.fetch("b3", offset=10)
    assert world.fetch("b4", offset=10) == []
    world.append(1, at=1)
    assert world.check_lag(at=2 * LAG_MAX_US) == []
    assert world.state.pending_isr == (1, 2, 3)


def test_a_failed_expansion_keeps_holding_the_high_watermark() -> None:
    """testIsrNotExpandedIfUpdateFails: after an unclear outcome b3 is waited for, though fenced and long gone."""
    world = leading(isr=("b1", "b2"))
    world.fetch("b3", offset=10)
    world.isr_refused("INVALID_UPDATE_VERSION")
    world.fence("b3")
    world.append(5, at=2 * LAG_MAX_US)
    world.fetch("b2", offset=15)
    assert world.state.high_watermark == 10
    assert world.state.maximal_isr == (1, 2, 3)


# ----------------------------------------------------------------------------------------------------------- who is who


def test_the_leader_never_removes_itself() -> None:
    world = leading()
    world.append(1)
    world.check_lag(at=LAG_MAX_US * 2)
    assert world.state.pending_isr == (1,)


def test_an_isr_member_that_is_no_replica_any_more_is_out_of_sync() -> None:
    world = leading()
    world.metadata(isr=ALL, replicas=("b1", "b2"), partition_epoch=6)
    lines = world.check_lag(at=1)
    assert world.state.pending_isr == (1, 2)
    assert "b3 not_assigned" in lines[1]


def test_a_member_that_joined_by_the_high_watermark_alone_has_no_time_to_lose() -> None:
    """It was never level with this leader, so its time of being caught up lies before all time."""
    world = leading(isr=("b1", "b2"))
    world.append(5)
    world.fetch("b3", offset=10)
    world.isr_accepted()
    (_, why) = world.check_lag(at=1)
    assert "lag: b3 never_caught_up;" in why


def test_a_replica_with_an_unchecked_broker_epoch_may_join() -> None:
    """-1 in the fetch: an old follower, which is not asked for its life (KIP-903)."""
    world = leading(isr=("b1", "b2"))
    world.registered("b3", 99)
    assert world.fetch("b3", offset=10, broker_epoch=-1)


def test_a_fetch_without_broker_epoch_is_never_stale() -> None:
    world = leading()
    world.fetch("b2", offset=10)
    world.state.check_follower(2, -1, has_epoch=True)
    with pytest.raises(KafkaError) as refused:
        world.state.check_follower(2, 19, has_epoch=True)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fetch_from_unrecognised_follower() -> None:
    """testFetchFromUnrecognizedFollower: the answer depends on whether the request names a leader epoch."""
    for has_epoch, code in ((True, ErrorCode.UNKNOWN_LEADER_EPOCH), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        with pytest.raises(KafkaError) as refused:
            leading().state.check_follower(9, -1, has_epoch=has_epoch)
        assert refused.value.code is code


def test_a_member_that_left_the_isr_without_ever_fetching_is_not_waited_for() -> None:
    """It counts as caught up since the epoch began, but its broker epoch is unknown."""
    world = LeaderWorld()
    world.leader(replicas=ALL, isr=ALL, leo=10, hw=0, at=0)
    world.fetch("b2", offset=10, at=1)
    assert world.state.high_watermark == 0
    world.metadata(isr=("b1", "b2"), partition_epoch=1, at=2)
    assert world.state.high_watermark == 10


def test_below_the_high_watermark_nobody_joins() -> None:
    world = leading(isr=("b1", "b2"))
    world.leader(replicas=ALL, isr=("b1", "b2"), epoch=1, partition_epoch=6, leo=10, hw=10, was="leader")
    world.append(5)
    world.fence("b3")
    world.fetch("b2", offset=15)
    world.unfence("b3")
    assert world.state.high_watermark == 15
    assert world.fetch("b3", offset=14) == []
    assert world.fetch("b3", offset=15) != []


def test_a_replica_that_never_fetched_is_neither_waited_for_nor_eligible_outside_the_isr() -> None:
    """Even when the metadata calls it alive, and even at the beginning of time."""
    world = leading(isr=("b1", "b2"))
    world.append(5)
    world.fetch("b2", offset=15)
    assert world.state.high_watermark == 15


# ------------------------------------------------------------------------------------------------------- high watermark


def test_the_high_watermark_counts_the_committed_isr_and_waits_for_the_maximal_one() -> None:
    """testHighWatermarkAdvanceShouldNotAdvanceWhenUnderMinISR: a proposal on its way makes no quorum."""
    world = leading(isr=("b1",))
    world.config(min_isr=2)
    world.append(5)
    world.fetch("b2", offset=15)
    assert world.state.maximal_isr == (1, 2)
    assert world.state.high_watermark == 10
    world.isr_accepted()
    assert world.state.high_watermark == 15


def test_a_changed_minimum_counts_from_the_next_look_at_the_high_watermark() -> None:
    world = leading(isr=("b1",))
    world.config(min_isr=3)
    world.append(5)
    assert world.config(min_isr=1) == []
    assert world.state.high_watermark == 10
    assert world.append(1) == ["HW 10 -> 16, held by {b1}"]


def test_a_follower_that_falls_back_does_not_lower_the_high_watermark() -> None:
    world = leading()
    world.append(5)
    for name in ("b2", "b3", "b2", "b3"):
        world.fetch(name, offset=15)
    world.fetch("b3", offset=3)
    world.append(1)
    world.fetch("b2", offset=16)
    assert world.state.high_watermark == 15


def test_a_fetch_that_is_no_news_does_not_look_at_the_high_watermark() -> None:
    """As in Kafka: only a changed log end does. b3 stops being waited for at 30 s, but b2 has nothing new to say."""
    world = leading(isr=("b1", "b2"), replicas=ALL)
    world.fence("b3")
    world.fetch("b3", offset=10)
    world.unfence("b3")
    world.append(5)
    world.fetch("b2", offset=15)
    assert world.state.high_watermark == 10
    assert world.fetch("b2", offset=15, at=2 * LAG_MAX_US) == []
    assert world.append(1) == ["HW 10 -> 15, held by {b1, b2}"]


def test_an_eligible_replica_is_waited_for_as_long_as_it_may_lag_and_no_longer() -> None:
    for late_us, expected in ((LAG_MAX_US, 10), (LAG_MAX_US + 1, 15)):
        world = leading(isr=("b1", "b2"))
        world.fence("b3")
        world.fetch("b3", offset=10)
        world.unfence("b3")
        world.append(5, at=1)
        world.fetch("b2", offset=15, at=late_us)
        assert world.state.high_watermark == expected


def test_an_ineligible_replica_does_not_hold_the_high_watermark() -> None:
    """testHighWatermarkIncreasesWithFencedOrShutdownFollower."""
    world = leading(isr=("b1", "b2"))
    world.fence("b3")
    world.fetch("b3", offset=10)
    world.append(5)
    world.fetch("b2", offset=15)
    assert world.state.high_watermark == 15


def test_a_produce_at_the_high_watermark_is_complete_and_one_beyond_is_not() -> None:
    world = leading()
    assert world.state.produce_status(10) is ErrorCode.NONE
    assert world.state.produce_status(11) is None


@pytest.mark.parametrize("acks", ["0", "1"])
def test_only_acks_all_asks_for_the_minimum(acks: str) -> None:
    world = leading(isr=("b1",))
    world.config(min_isr=3)
    assert world.produce(acks) == [f"acks={acks} may append"]


# -------------------------------------------------------------------------------------------------------- leader epochs


def test_do_not_reset_replica_state_if_leader_epoch_is_not_bumped() -> None:
    """testDoNotResetReplicaStateIfLeaderEpochIsNotBumped."""
    world = leading()
    before = {broker_id: replica.last_caught_up_us for broker_id, replica in world.state.replicas.items()}
    world.append(5, at=50)
    world.metadata(isr=("b1", "b2"), partition_epoch=6, at=60)
    assert [replica.log_end_offset for replica in world.state.replicas.values()] == [10, 10]
    assert {broker_id: replica.last_caught_up_us for broker_id, replica in world.state.replicas.items()} == before
    assert world.state.leader_epoch_start_offset == 10


def test_a_reelected_leader_knows_the_log_ends_but_not_who_kept_up_outside_the_isr() -> None:
    world = leading(isr=("b1", "b2"))
    world.fetch("b3", offset=10)
    world.isr_refused("OPERATION_NOT_ATTEMPTED")
    world.append(4, at=5)
    world.leader(replicas=ALL, isr=("b1", "b2"), epoch=1, partition_epoch=6, was="leader", at=7)
    # b3 is not waited for, although it was level a moment ago ...
    world.fetch("b2", offset=14, at=8)
    assert world.state.high_watermark == 14
    # ... nor does its next fetch, at the end of before, make it caught up at the time of before.
    world.append(1, at=9)
    world.fetch("b3", offset=14, at=10)
    assert world.state.pending_isr == (1, 2, 3)
    world.isr_refused("OPERATION_NOT_ATTEMPTED")
    assert not world.state.replicas[3].is_caught_up(15, 10, LAG_MAX_US)


def test_an_assignment_with_the_partition_epoch_we_know_is_accepted() -> None:
    """The answer to AlterPartition may have told of that partition epoch before the metadata does."""
    world = leading()
    world.leader(replicas=ALL, isr=ALL, epoch=1, partition_epoch=5, was="leader")
    assert world.state.leader_epoch == 1


def test_a_new_leader_takes_the_high_watermark_of_its_log_even_when_it_once_had_a_higher_one() -> None:
    world = leading()
    world.leader(replicas=ALL, isr=ALL, epoch=2, partition_epoch=7, leo=8, hw=6, was="follower")
    assert (world.state.high_watermark, world.state.log_end_offset) == (6, 8)


def test_a_new_leader_knows_nothing_of_its_followers() -> None:
    replica = RemoteReplica()
    replica.fetched(100, 10, 10, 0, 77)
    replica.reset(200, 12, is_new_leader=True, is_in_sync=True)
    assert (replica.log_end_offset, replica.log_start_offset, replica.broker_epoch) == (-1, -1, None)
    assert replica.last_caught_up_us == 200
    # A first fetch gives no information about the time before it, because there was no fetch.
    replica.fetched(300, 5, 12, 0, 78)
    assert replica.last_caught_up_us == 200
    replica.reset(400, 12, is_new_leader=True, is_in_sync=False)
    replica.fetched(500, 5, 12, 0, 78)
    assert replica.last_caught_up_us == LONG_AGO_US


def test_fetches_that_were_read_out_of_order_count_the_furthest_end() -> None:
    """lastFetchLeaderLogEndOffset never falls: 15 was not the end at any fetch since 20 was."""
    replica = RemoteReplica()
    replica.fetched(100, 10, 20, 0, 77)
    replica.fetched(110, 12, 15, 0, 77)
    replica.fetched(120, 15, 25, 0, 77)
    assert replica.last_caught_up_us == LONG_AGO_US


def test_leader_epoch_fields_are_kept_by_a_late_assignment() -> None:
    """testIgnoreLeaderPartitionStateChangeWithOlderPartitionEpoch."""
    world = leading(epoch=3)
    world.leader(replicas=("b1",), isr=("b1",), epoch=4, partition_epoch=4)
    assert (world.state.leader_epoch, world.state.in_sync_replicas) == (3, (1, 2, 3))


# -------------------------------------------------------------------------------------------------------------- wording


def test_actions_carry_their_numbers_and_their_causes() -> None:
    world = leading()
    world.append(5)
    world.fetch("b2", offset=15)
    fetched = world.state.step(LagCheckDue(now_us=LAG_MAX_US * 2))
    (proposal,) = fetched
    assert isinstance(proposal, ProposeIsr)
    assert (proposal.leader_epoch, proposal.partition_epoch) == (0, 5)
    advances = world.state.step(
        IsrAccepted(
            now_us=LAG_MAX_US * 2,
            leader_epoch=0,
            in_sync_replicas=(1, 2),
            partition_epoch=6,
            recovering=False,
            proposal=proposal,
        )
    )
    assert advances == [AdvanceHighWatermark(previous=10, high_watermark=15, holders=(1, 2), joining=None)]
