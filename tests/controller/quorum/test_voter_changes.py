"""Changes of the voters at one leader, and a new disk. source: KafkaRaftClientReconfigTest.java, VoterSetTest.java"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from quorum_world import MS, QuorumWorld
from quorum_world import Voter as Controller

from controller.quorum.messages import (
    AddVoter,
    AnyAnswer,
    FetchLog,
    OffsetAndEpoch,
    RemoveVoter,
    Request,
    UpdateVoter,
    Vote,
    Voter,
)
from controller.quorum.quorum import Quorum
from controller.quorum.roles import Leader, QuorumConfig
from replica.errors import ErrorCode

SECOND = 1000 * MS
OTHER_DISK = UUID(int=9)


def started(voters: int = 3, observers: int | None = 2) -> tuple[QuorumWorld, int, Quorum]:
    """Return a quorum that has a leader, with the leader."""
    world = QuorumWorld(voters, seed=1, observers=observers)
    for controller in world.ids:
        world.start(controller)
    world.run_until(3 * SECOND)
    (leader,) = world.leaders
    quorum = world.voters[leader].quorum
    assert quorum is not None
    return world, leader, quorum


def error_of(quorum: Quorum, request: AddVoter | RemoveVoter, now_us: int) -> ErrorCode | None:
    answer = quorum.change_voters(request, now_us)
    return None if answer is None else answer.error


def test_configured_voters_do_not_change():
    world, _, quorum = started(observers=None)
    assert error_of(quorum, RemoveVoter(world.replica(3)), world.now_us) is ErrorCode.UNSUPPORTED_VERSION


def test_only_a_leader_that_has_committed_its_epoch_changes_voters():
    world, leader, quorum = started()
    other = next(controller for controller in world.ids if controller != leader)
    follower = world.voters[other].quorum
    assert follower is not None
    assert error_of(follower, RemoveVoter(world.replica(3)), world.now_us) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    quorum.high_watermark = 0
    assert error_of(quorum, RemoveVoter(world.replica(3)), world.now_us) is ErrorCode.REQUEST_TIMED_OUT


def test_one_change_is_pending_at_a_time_and_the_next_waits_until_it_is_committed():
    world, _, quorum = started()
    assert error_of(quorum, RemoveVoter(world.replica(1)), world.now_us) is None
    assert error_of(quorum, RemoveVoter(world.replica(3)), world.now_us) is ErrorCode.REQUEST_TIMED_OUT
    quorum.tick(world.now_us + 2 * SECOND)  # It gives up the request, and the record is still not committed.
    assert error_of(quorum, RemoveVoter(world.replica(3)), world.now_us) is ErrorCode.REQUEST_TIMED_OUT


def test_an_observer_that_has_not_caught_up_is_not_added():
    world, leader, quorum = started()
    stranger = Voter(4, OTHER_DISK)
    world.change(leader, AddVoter(stranger))
    world.run_until(world.now_us + SECOND)
    assert "c4 has not caught up" in world.story[-2] and "lagging" in world.story[-1]
    world.change(leader, AddVoter(world.replica(4)))
    world.run_until(world.now_us + SECOND)
    assert quorum.voters == (1, 2, 3, 4)


def test_the_new_set_counts_before_it_is_committed():
    world, leader, quorum = started(voters=1)
    world.kill(4 - leader)
    known = quorum.high_watermark
    world.passes = lambda sender, receiver: False
    world.voters[leader].log.append_voters(quorum.epoch, (world.replica(1), world.replica(2)), world.now_us)
    quorum._read_voters(world.now_us)
    quorum.appended(world.now_us)
    assert quorum.high_watermark == known, "one of two is no majority"


def test_a_controller_with_a_new_disk_is_no_voter():
    world, leader, quorum = started()
    end = world.voters[leader].log.end
    world.append(leader, "a")
    quorum.fetched(FetchLog(3 if leader != 3 else 1, quorum.epoch, end.offset + 1, end.epoch, OTHER_DISK), world.now_us)
    assert quorum.high_watermark == end.offset, "its fetch counts as an observer's"
    other = world.voters[3 if leader != 3 else 1].quorum
    assert other is not None
    asked = Vote(leader, quorum.epoch + 1, OffsetAndEpoch(9, 99), directory_id=OTHER_DISK)
    assert other.asked(asked, world.now_us).error is ErrorCode.INVALID_VOTER_KEY


def test_the_only_voter_is_not_removed_and_a_voter_not_added_again():
    world, leader, quorum = started(voters=1)
    assert error_of(quorum, RemoveVoter(world.replica(leader)), world.now_us) is ErrorCode.INVALID_REQUEST
    assert error_of(quorum, RemoveVoter(Voter(leader, OTHER_DISK)), world.now_us) is ErrorCode.VOTER_NOT_FOUND
    assert error_of(quorum, AddVoter(Voter(leader, OTHER_DISK)), world.now_us) is ErrorCode.DUPLICATE_VOTER


def told(
    quorum: Quorum, voter: Voter, now_us: int, *, behind: int = 0, versions: tuple[int, int] = (0, 1)
) -> ErrorCode:
    return quorum.asked(UpdateVoter(voter, quorum.epoch - behind, versions), now_us).error


def test_a_leader_upgrades_once_it_knows_the_directory_of_each_voter():
    world, leader, quorum = started(observers=None)
    first, second = (voter for voter in world.ids if voter != leader)
    assert quorum.upgraded_voters() is None
    assert told(quorum, world.replica(first), world.now_us) is ErrorCode.NONE
    assert told(quorum, world.replica(second), world.now_us, versions=(0, 0)) is ErrorCode.NONE
    assert quorum.upgraded_voters() is None, "one of them supports no other version"
    assert told(quorum, Voter(second, OTHER_DISK), world.now_us) is ErrorCode.NONE
    upgraded = {**{voter: world.replica(voter) for voter in world.ids}, second: Voter(second, OTHER_DISK)}
    assert quorum.upgraded_voters() == tuple(upgraded.values())


def test_after_the_upgrade_a_voter_is_what_it_was_and_no_observer_besides():
    world, leader, quorum = started(observers=None)
    for voter in world.ids:
        told(quorum, world.replica(voter), world.now_us)
    known = quorum.high_watermark
    world.upgrade(leader)
    assert isinstance(quorum.role, Leader)
    assert sorted(quorum.role.replicas) == [world.replica(voter) for voter in world.ids]
    world.run_until(world.now_us + SECOND)
    assert quorum.high_watermark == known + 1 and quorum.voter_set.is_dynamic


def test_whose_directory_a_leader_does_not_take():
    world, leader, quorum = started(observers=None)
    other = next(voter for voter in world.ids if voter != leader)
    here, now_us = world.replica(other), world.now_us
    follower = world.voters[other].quorum
    assert follower is not None
    assert told(follower, here, now_us) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told(quorum, here, now_us, behind=1) is ErrorCode.FENCED_LEADER_EPOCH
    assert told(quorum, here, now_us, behind=-1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert told(quorum, Voter(other), now_us) is ErrorCode.INVALID_REQUEST
    assert told(quorum, here, now_us, versions=(1, 0)) is ErrorCode.INVALID_REQUEST
    assert told(quorum, here, now_us, versions=(1, 1)) is ErrorCode.INVALID_REQUEST, "kraft.version is 0"
    assert told(quorum, Voter(9, OTHER_DISK), now_us) is ErrorCode.VOTER_NOT_FOUND
    quorum.high_watermark = 0
    assert told(quorum, here, now_us) is ErrorCode.REQUEST_TIMED_OUT


def test_with_kraft_version_1_a_voter_that_tells_is_written_again():
    world, leader, quorum = started()
    other = next(voter for voter in (1, 2, 3) if voter != leader)
    known = quorum.voter_set
    assert told(quorum, Voter(other, OTHER_DISK), world.now_us) is ErrorCode.VOTER_NOT_FOUND
    assert told(quorum, world.replica(other), world.now_us) is ErrorCode.NONE
    assert quorum.voter_set == known._replace(offset=known.offset + 1)
    assert told(quorum, world.replica(other), world.now_us) is ErrorCode.REQUEST_TIMED_OUT, "it is not committed"


def test_a_voter_tells_each_leader_once():
    world = QuorumWorld(3, seed=1, config=QuorumConfig(tells_directory=True))
    sent: list[UpdateVoter] = []
    asked = world._asked

    def listening(receiver: Controller, request: Request, answer: Callable[[AnyAnswer | None], None]) -> None:
        if isinstance(request, UpdateVoter):
            sent.append(request)
        asked(receiver, request, answer)

    world._asked = listening  # type: ignore[method-assign]
    for controller in world.ids:
        world.start(controller)
    world.run_until(20 * SECOND)
    (leader,) = world.leaders
    assert sorted(one.voter.voter_id for one in sent) == [voter for voter in world.ids if voter != leader]
