"""Consumer groups on a real broker: what clients are told, what is in the offsets topic, and who coordinates."""

import pytest
from broker_world import B1, B2, BrokerWorld
from group_world import Consumer

from controller.events import ElectLeader
from replica.errors import ErrorCode
from replica.ids import OFFSETS_TOPIC, TopicPartition
from replica.trace import GroupMemberLeft, GroupsLoaded, GroupsUnloaded, OffsetCommitted

LOG = TopicPartition(OFFSETS_TOPIC, 0)


@pytest.fixture
def world(tmp_path):
    """b1 alone leads the offsets topic; nothing waits for b2 unless a test lets it follow."""
    world = BrokerWorld(tmp_path, group_initial_rebalance_delay_ms="100").start()
    world.run(100)
    world.join(B2)
    world.create(B1)
    world.create(B1, topic=OFFSETS_TOPIC)
    world.run(10)
    return world


def stable_member(world, name="c1", **who):
    member = Consumer(world, name, **who)
    assert member.join() is None
    world.run(200)
    assert member.joined().leader == member.member_id
    assert member.sync(**{member.member_id: b"all"}).assignment == b"all"
    return member


def test_a_group_from_the_first_member_to_a_commit_that_is_read_back(world):
    member = stable_member(world)
    assert member.heartbeat() == ErrorCode.NONE
    assert member.committed() == (-1, 0)
    assert member.commit(7, metadata="mine") == ErrorCode.NONE
    assert [member.committed(version) for version in range(1, 10)] == [(7, 0)] * 9
    assert [fact.offset for fact in world.facts(OffsetCommitted)] == [7]


def test_two_members_share_and_the_second_leaves(world):
    first = stable_member(world)
    second = Consumer(world, "c2")
    assert second.join() is None
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    answer = first.join()
    assert [one.member_id for one in answer.members] == [first.member_id, second.member_id]
    assert second.joined().members == () and second.generation == first.generation == 2
    assert second.sync() is None
    assert first.sync(**{first.member_id: b"a", second.member_id: b"b"}).assignment == b"a"
    assert second.answer.assignment == b"b"
    assert second.leave().members[0].error_code is ErrorCode.NONE
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    (left,) = world.facts(GroupMemberLeft)
    assert left.member == second.member_id and "it says so itself" in left.reason


def test_a_commit_counts_once_every_in_sync_replica_has_it(tmp_path):
    world = BrokerWorld(tmp_path, group_initial_rebalance_delay_ms="0").start()
    world.run(100)
    world.join(B2)
    world.create(B1)
    world.create(B1, B2, topic=OFFSETS_TOPIC)
    world.run(10)
    fetch = world.follower(B2)
    simple = Consumer(world, "tool")
    assert simple.commit(5) is None
    other = Consumer(world, "other")
    assert other.committed() == (-1, 0)
    assert other.committed(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    fetch(0, topic=OFFSETS_TOPIC)
    fetch(1, topic=OFFSETS_TOPIC)
    assert simple.commit_error() == ErrorCode.NONE
    assert other.committed(stable=True) == (5, 0)


def test_a_commit_that_misses_its_replicas_is_no_commit(tmp_path):
    world = BrokerWorld(tmp_path, group_initial_rebalance_delay_ms="0").start()
    world.run(100)
    world.join(B2)
    world.create(B1)
    world.create(B1, B2, topic=OFFSETS_TOPIC, min_insync_replicas="2")
    world.run(10)
    simple = Consumer(world, "tool")
    assert simple.commit(5) is None
    world.run(5000)
    assert simple.commit_error() == ErrorCode.REQUEST_TIMED_OUT
    assert simple.committed() == (-1, 0)
    world.fall_silent(B2)
    assert simple.commit(5) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_broker_that_starts_again_knows_its_groups_from_the_log(world):
    member = stable_member(world)
    member.commit(7)
    world.kill()
    world.start()
    world.run(20_000)
    (loaded,) = world.facts(GroupsLoaded)
    assert (loaded.groups, loaded.offsets) == (1, 1)
    again = Consumer(world, "c1")
    again.member_id, again.generation = member.member_id, member.generation
    assert again.committed() == (7, 0)


def test_who_leads_the_partition_no_more_coordinates_no_more(tmp_path):
    """And whoever leads it again reads what the other has written meanwhile."""
    world = BrokerWorld(tmp_path, group_initial_rebalance_delay_ms="0").start()
    world.run(100)
    world.join(B2)
    world.create(B1)
    world.create(B1, B2, topic=OFFSETS_TOPIC)
    world.run(10)
    waiting, member = Consumer(world, "c2"), Consumer(world, "c1")
    assert member.join() is None
    world.run(1)
    member.joined()
    assert waiting.join() is None
    world.decide(ElectLeader(now_us=world.now_us, topic=OFFSETS_TOPIC, partition=0, desired=B2))
    world.run(10)
    assert int(waiting.answer.error_code) == ErrorCode.NOT_COORDINATOR
    assert member.heartbeat() == ErrorCode.NOT_COORDINATOR
    assert member.commit(1) == ErrorCode.NOT_COORDINATOR
    assert member.committed() == (-1, ErrorCode.NOT_COORDINATOR)
    assert len(world.facts(GroupsUnloaded)) == 1
    world.decide(ElectLeader(now_us=world.now_us, topic=OFFSETS_TOPIC, partition=0, desired=B1))
    assert member.heartbeat() in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    world.run(10)
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
