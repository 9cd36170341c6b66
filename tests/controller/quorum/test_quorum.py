"""One voter at a time: its votes, refusals, memory and cuts. source: KafkaRaftClientTest.java"""

from __future__ import annotations

from typing import Any

from quorum_world import MS, MemoryLog, QuorumWorld

from controller.quorum.messages import (
    BeginQuorumEpoch,
    ElectionState,
    EndQuorumEpoch,
    FetchAnswer,
    FetchLog,
    LogCommitted,
    OffsetAndEpoch,
    SendTo,
    Vote,
    Voter,
    VoterAnswer,
)
from controller.quorum.quorum import EPOCH_MAX, Quorum
from controller.quorum.roles import Candidate, Follower, Leader, Prospective, QuorumConfig, Resigned, Unattached
from replica.errors import ErrorCode
from replica.ids import Names

SECOND = 1000 * MS
NAMES = Names({1: "c1", 2: "c2", 3: "c3"})


def voter(
    log: MemoryLog | None = None, now_us: int = 0, *, asks_first: bool = False, controllers: tuple[int, ...] = (1, 2, 3)
) -> tuple[Quorum, MemoryLog]:
    """c1 of three voters, which draws the shortest timeouts."""
    log = log or MemoryLog()
    quorum = Quorum(
        local=Voter(1),
        voters=(Voter(1), Voter(2), Voter(3)),
        controllers=controllers,
        names=NAMES,
        log=log,
        config=QuorumConfig(),
        draw=lambda bound: 0,
        asks_first=asks_first,
    )
    quorum.start(now_us)
    return quorum, log


def sent(quorum: Quorum) -> list[tuple[int, Any]]:
    return [(action.peer_id, action.request) for action in quorum.take() if isinstance(action, SendTo)]


def elected(log: MemoryLog | None = None) -> tuple[Quorum, MemoryLog]:
    """c1 leads with the vote of c2; c3 has not answered."""
    quorum, log = voter(log)
    quorum.tick(SECOND)
    (_, request), _ = sent(quorum)
    quorum.answered(2, request, VoterAnswer(ErrorCode.NONE, None, request.epoch, True), SECOND)
    assert isinstance(quorum.role, Leader)
    quorum.take()
    return quorum, log


def test_a_new_voter_stands_for_election_after_one_timeout_and_asks_everybody():
    quorum, log = voter()
    assert quorum.next_deadline_us == SECOND and sent(quorum) == []
    quorum.tick(SECOND)
    assert sent(quorum) == [(2, Vote(1, 1, OffsetAndEpoch(0, 0))), (3, Vote(1, 1, OffsetAndEpoch(0, 0)))]
    assert log.election == ElectionState(1, None, 1)


def test_a_vote_is_given_once_per_epoch_and_remembered_over_a_restart():
    quorum, log = voter()
    assert quorum.asked(Vote(2, 1, OffsetAndEpoch(0, 0)), 10).vote_granted
    assert log.election == ElectionState(1, None, 2)
    assert not quorum.asked(Vote(3, 1, OffsetAndEpoch(0, 0)), 20).vote_granted
    again, _ = voter(log, 30)
    assert not again.asked(Vote(3, 1, OffsetAndEpoch(0, 0)), 40).vote_granted
    assert again.asked(Vote(2, 1, OffsetAndEpoch(0, 0)), 50).vote_granted, "the same candidate asks again"


def test_nobody_votes_for_a_log_that_ends_before_its_own():
    quorum, _ = voter(MemoryLog([(1, "a"), (2, "b")]))
    assert quorum.epoch == 2, "the log knows of an epoch that the file does not"
    assert not quorum.asked(Vote(2, 3, OffsetAndEpoch(2, 1)), 10).vote_granted, "shorter"
    assert not quorum.asked(Vote(2, 4, OffsetAndEpoch(1, 9)), 20).vote_granted, "longer, but of an older epoch"
    assert quorum.asked(Vote(2, 5, OffsetAndEpoch(2, 2)), 30).vote_granted


def test_an_older_epoch_is_fenced_with_the_newer():
    quorum, _ = voter()
    quorum.asked(BeginQuorumEpoch(2, 4), 0)
    for request in (Vote(3, 3, OffsetAndEpoch(0, 0)), BeginQuorumEpoch(3, 3), EndQuorumEpoch(3, 3, ())):
        assert quorum.asked(request, 10) == VoterAnswer(ErrorCode.FENCED_LEADER_EPOCH, 2, 4)
    assert quorum.fetched(FetchLog(3, 3, 0, 0), 10).error is ErrorCode.FENCED_LEADER_EPOCH
    assert quorum.fetched(FetchLog(3, 5, 0, 0), 10).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert quorum.fetched(FetchLog(3, 4, 0, 0), 10) == FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 4)


def test_a_leader_that_restarts_never_leads_or_votes_in_its_epoch_again():
    _, log = elected()
    assert log.election == ElectionState(1, 1)
    again, _ = voter(log, 2 * SECOND)
    assert isinstance(again.role, Resigned) and again.leader_id is None
    assert not again.asked(Vote(2, 1, OffsetAndEpoch(1, 1)), 2 * SECOND).vote_granted
    assert sent(again) == [(2, EndQuorumEpoch(1, 1, ())), (3, EndQuorumEpoch(1, 1, ()))]
    again.tick(4 * SECOND)
    assert isinstance(again.role, Candidate) and again.epoch == 2


def test_records_of_earlier_epochs_are_committed_with_the_first_of_this_one():
    """Raft, figure 8: a majority has them, and yet another leader may still overwrite them."""
    quorum, log = elected(MemoryLog([(1, "a"), (1, "b")], ElectionState(1)))
    assert log.entries == [(1, "a"), (1, "b"), (2, "leader 1")]
    quorum.fetched(FetchLog(2, 2, 2, 1), SECOND)
    assert quorum.high_watermark == 0 and not quorum.has_committed_its_epoch
    quorum.fetched(FetchLog(2, 2, 3, 2), SECOND)
    assert quorum.high_watermark == 3 and quorum.has_committed_its_epoch
    assert LogCommitted(3) in quorum.take()


def test_a_diverging_fetch_is_told_where_the_logs_part_and_acknowledges_nothing():
    quorum, _ = elected(MemoryLog([(1, "a"), (1, "b")], ElectionState(3)))
    quorum.fetched(FetchLog(3, 4, 3, 4), SECOND)
    assert quorum.high_watermark == 3
    answer = quorum.fetched(FetchLog(2, 4, 9, 3), SECOND)
    assert answer.diverging == OffsetAndEpoch(1, 2) and answer.error is ErrorCode.NONE
    assert isinstance(quorum.role, Leader) and quorum.role.progress(Voter(2)).end_offset < 0


def test_a_follower_cuts_its_log_where_it_parts_from_the_leaders():
    quorum, log = voter(MemoryLog([(1, "a"), (2, "x"), (2, "y")], ElectionState(3, 2)))
    assert isinstance(quorum.role, Follower)
    ((_, request),) = sent(quorum)
    assert request == FetchLog(1, 3, 3, 2)
    quorum.answered(2, request, FetchAnswer(ErrorCode.NONE, 2, 3, 1, OffsetAndEpoch(1, 1)), 10)
    assert log.entries == [(1, "a")]
    ((_, request),) = sent(quorum)
    assert request == FetchLog(1, 3, 1, 1)
    quorum.answered(2, request, FetchAnswer(ErrorCode.NONE, 2, 3, 2, None, b"3 leader 2\n3 z"), 20)
    assert log.entries == [(1, "a"), (3, "leader 2"), (3, "z")]
    assert quorum.high_watermark == 2, "the leader's, not the end of the log"


def test_an_answer_of_an_earlier_epoch_is_ignored():
    quorum, log = voter(MemoryLog([], ElectionState(3, 2)))
    ((_, request),) = sent(quorum)
    quorum.asked(Vote(3, 4, OffsetAndEpoch(0, 0)), 5)
    quorum.answered(2, request, FetchAnswer(ErrorCode.NONE, 2, 3, 1, None, b"3 leader 2"), 10)
    assert log.entries == [] and isinstance(quorum.role, Unattached) and quorum.epoch == 4


def test_a_leader_that_no_majority_fetches_from_resigns_after_one_and_a_half_fetch_timeouts():
    quorum, _ = elected()
    assert isinstance(quorum.role, Leader)
    assert quorum.role.check_quorum_due_us == 4 * SECOND
    quorum.fetched(FetchLog(3, 1, 0, 0), 2 * SECOND)
    quorum.tick(5 * SECOND - 1)
    assert quorum.is_leader
    quorum.take()
    quorum.tick(5 * SECOND)
    assert isinstance(quorum.role, Resigned)
    assert quorum.role.preferred_successors == (3, 2), "c3 has been heard of, c2 never"


def test_an_elected_leader_that_resigns_names_who_shall_stand_first():
    quorum, _ = voter(MemoryLog([], ElectionState(3, 2)))
    quorum.asked(EndQuorumEpoch(2, 3, (1, 3)), 100 * MS)
    assert isinstance(quorum.role, Candidate) and quorum.epoch == 4, "at once"
    quorum, _ = voter(MemoryLog([], ElectionState(3, 2)))
    quorum.asked(EndQuorumEpoch(2, 3, (3, 1)), 100 * MS)
    assert isinstance(quorum.role, Follower) and quorum.role.fetch_due_us == 600 * MS


def test_who_loses_an_election_waits_a_moment_and_stands_again():
    quorum, _ = voter()
    quorum.tick(SECOND)
    requests = sent(quorum)
    for peer, request in requests:
        assert isinstance(request, Vote)
        quorum.answered(peer, request, VoterAnswer(ErrorCode.NONE, None, 1, False), SECOND)
    assert isinstance(quorum.role, Candidate) and quorum.epoch == 2, "the shortest backoff is none"


def test_a_candidate_that_is_no_voter_yet_as_far_as_this_log_goes_gets_a_vote():
    quorum, _ = voter(controllers=(1, 2, 3, 4))
    assert quorum.asked(Vote(4, 7, OffsetAndEpoch(6, 99)), 0).vote_granted


def test_ids_of_no_controller_and_epochs_without_a_next_one_are_refused():
    quorum, _ = voter()
    for request in (Vote(9, 7, OffsetAndEpoch(6, 99)), EndQuorumEpoch(-1, 7, ()), BeginQuorumEpoch(2, EPOCH_MAX + 1)):
        assert quorum.asked(request, 0).error is ErrorCode.INVALID_REQUEST
    assert quorum.epoch == 0


def test_a_quorum_of_one_leads_at_once_and_commits_what_it_writes():
    world = QuorumWorld(1)
    world.start(1)
    assert world.leaders == [1] and world.committed == [(1, "leader 1")]
    world.append(1, "a")
    assert world.committed[-1] == (1, "a")


def test_the_majority_goes_on_without_its_leader_and_takes_it_back():
    world = QuorumWorld(3, seed=1)
    for voter_id in world.ids:
        world.start(voter_id)
    world.run_until(5 * SECOND)
    (first,) = world.leaders
    world.passes = lambda sender, receiver: first not in (sender, receiver)
    world.append(first, "never committed")
    world.run_until(12 * SECOND)
    (second,) = world.leaders
    assert second != first
    world.append(second, "committed")
    world.run_until(13 * SECOND)
    assert (world.voters[second].quorum.epoch, "committed") in world.committed
    world.passes = lambda sender, receiver: True
    world.run_until(30 * SECOND)
    log = world.voters[first].log.entries
    assert log[: len(world.committed)] == world.committed
    assert not any(payload == "never committed" for _, payload in log)


# ------------------------------------------------------------------------------------------------------------ pre-vote


def follower_of_2(*, has_fetched: bool) -> tuple[Quorum, MemoryLog]:
    quorum, log = voter(asks_first=True)
    quorum.asked(BeginQuorumEpoch(2, 1), 0)
    (_, fetch) = sent(quorum)[0]
    if has_fetched:
        quorum.answered(2, fetch, FetchAnswer(ErrorCode.NONE, 2, 1, 0), 10)
        quorum.take()
    return quorum, log


def test_who_hears_its_leader_would_vote_for_no_other():
    """FollowerState.canGrantVote. The question changes nothing."""
    for has_fetched in (True, False):
        quorum, log = follower_of_2(has_fetched=has_fetched)
        answer = quorum.asked(Vote(3, 1, OffsetAndEpoch(0, 0), pre_vote=True), 20)
        assert (answer.vote_granted, answer.leader_id) == (not has_fetched, 2)
        assert (quorum.epoch, log.election) == (1, ElectionState(1, 2))


def test_nobody_would_vote_for_a_shorter_log():
    quorum, log = voter(asks_first=True)
    log.entries += [(1, "a"), (2, "b")]
    assert not quorum.asked(Vote(2, 2, OffsetAndEpoch(1, 1), pre_vote=True), 20).vote_granted
    assert quorum.asked(Vote(2, 2, OffsetAndEpoch(2, 2), pre_vote=True), 20).vote_granted
    assert log.election.voted_id is None, "it was asked, and has not voted"


def test_who_misses_its_leader_asks_before_it_begins_an_epoch():
    quorum, log = follower_of_2(has_fetched=True)
    assert isinstance(quorum.role, Follower)
    now_us = quorum.role.fetch_due_us
    quorum.tick(now_us)
    asked = sent(quorum)
    assert asked == [(3, Vote(1, 1, OffsetAndEpoch(0, 0), pre_vote=True))], "the connection to c2 is busy"
    assert (quorum.epoch, quorum.leader_id, log.election) == (1, 2, ElectionState(1, 2))
    quorum.answered(3, asked[0][1], VoterAnswer(ErrorCode.NONE, 2, 1, True), now_us + 5)
    assert isinstance(quorum.role, Candidate) and (quorum.epoch, log.election) == (2, ElectionState(2, None, 1))


def test_who_would_not_be_elected_follows_its_leader_again():
    quorum, log = follower_of_2(has_fetched=True)
    assert isinstance(quorum.role, Follower)
    now_us = quorum.role.fetch_due_us
    quorum.tick(now_us)
    assert isinstance(quorum.role, Prospective)
    quorum.tick(quorum.role.election_due_us)
    assert (
        quorum.leader_id == 2
        and not isinstance(quorum.role, Prospective)
        and (quorum.epoch, quorum.leader_id) == (1, 2)
    )
    assert log.election == ElectionState(1, 2)
