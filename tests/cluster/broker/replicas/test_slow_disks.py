"""Handlers and fetchers wait for a slow disk, and what a waiting append keeps waiting."""

import pytest
from broker_world import B1, B2, MS, T0, BrokerWorld, batch

from cluster.broker.replicas.blocking_logs import PartitionLocks
from cluster.server.request_handlers import RequestHandlers
from controller.inputs import ElectLeader
from replica.errors import ErrorCode
from replica.log.files.disk import ServiceTime
from replica.trace.events import BatchAppended


def broker(tmp_path, **config):
    world = BrokerWorld(tmp_path, **config).start()
    world.run(100)
    world.join(B2)
    world.create(B1, B2)
    return world


@pytest.fixture
def world(tmp_path):
    return broker(tmp_path)


def slow(world, **time):
    world.disk.speed.in_force["slow"] = ServiceTime(**time)


def test_appends_of_two_clients_are_written_and_answered_one_after_the_other(world):
    slow(world, append_us=20 * MS)
    one, two = world.call("p1"), world.call("p2")
    one.produce(batch("r0"), acks=1)
    two.produce(batch("s0"), acks=1)
    world.run(19)
    assert (world.events(BatchAppended), one.answers) == ([], [])
    world.run(1)
    assert (len(world.events(BatchAppended)), len(one.answers), len(two.answers)) == (1, 1, 0)
    world.run(20)
    assert two.produced().base_offset == 1


def test_blocked_handlers_leave_none_for_other_requests(tmp_path):
    world = broker(tmp_path, num_io_threads="2")
    slow(world, append_us=20 * MS)
    for name in ("p1", "p2"):
        world.call(name).produce(batch(name), acks=1)
    other = world.call("c1r")
    other.fetch(0, max_wait_ms=0)
    world.run(19)
    assert other.answers == []
    world.run(1)  # the first append is written and its handler takes the next request
    assert other.fetched().error is ErrorCode.NONE


def test_an_append_that_will_be_refused_is_not_written_first(world):
    slow(world, append_us=20 * MS)
    client = world.call("p1")
    client.produce(batch("r0"), acks=1, partition=7)
    assert client.produced().error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_change_of_leader_waits_for_the_append_in_progress_and_keeps_new_ones_waiting(world):
    slow(world, append_us=200 * MS)
    one, two = world.call("p1"), world.call("p2")
    one.produce(batch("r0"), acks=1)
    world.run(50)
    world.decide(ElectLeader(now_us=world.now_us, topic="t", partition=0, desired=B2))
    two.produce(batch("s0"), acks=1)
    world.run(149)
    assert world.broker.replicas.partitions[T0].leader is not None
    world.run(1)
    assert one.produced().error is ErrorCode.NONE  # written in its old epoch, and acked
    assert world.broker.replicas.partitions[T0].leader is None
    assert two.produced().error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_append_waits_behind_a_change_also_where_the_disk_is_fast_again(world):
    slow(world, append_us=200 * MS)
    one, two = world.call("p1"), world.call("p2")
    one.produce(batch("r0"), acks=1)
    world.decide(ElectLeader(now_us=world.now_us, topic="t", partition=0, desired=B2))
    world.disk.speed.in_force.clear()
    two.produce(batch("s0"), acks=1)
    world.run(200)
    assert one.produced().error is ErrorCode.NONE
    assert two.produced().error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_slow_reads_hold_up_the_answer_and_with_it_what_the_fetch_acknowledges(world):
    world.call("p1").produce(batch("r0"), acks=1)
    slow(world, read_us=30 * MS)
    fetch = world.follower(B2)
    fetch(0)
    world.run(29)
    assert world.broker.replicas.partitions[T0].leader.replicas[B2].log_end_offset == -1
    world.run(1)
    assert world.broker.replicas.partitions[T0].leader.replicas[B2].log_end_offset == 0
    fetch(1)  # at the end: nothing to read
    assert world.broker.replicas.partitions[T0].leader.replicas[B2].log_end_offset == 1


def test_handlers_are_taken_in_order_of_arrival():
    done = []
    handlers = RequestHandlers(1)
    resume = []
    handlers.submit(lambda now: resume.append(handlers.block(lambda now: done.append("a"))), 0)
    handlers.submit(lambda now: done.append("b"), 0)
    handlers.submit(lambda now: done.append("c"), 0)
    assert done == []
    resume[0](5)
    assert done == ["a", "b", "c"]


def test_changes_are_made_in_their_order_although_only_the_first_has_to_wait():
    done = []
    locks = PartitionLocks()
    locks.begin_append([T0])
    locks.change([T0], lambda now: done.append("first"), 0)
    locks.change([], lambda now: done.append("second"), 0)
    locks.after_changes(lambda now: done.append("append"))
    assert (done, locks.is_change_waiting([T0])) == ([], True)
    locks.end_append([T0], 1)
    assert done == ["first", "second", "append"]
