"""A leader's ISR proposals: on their way to the controller, answered, overtaken, and lost with the controller."""

import pytest
from broker_world import B1, B2, B3, MS, T0, BrokerWorld, batch

from cluster.protocol.versions import ALTER_PARTITION
from controller.inputs import ElectLeader
from replica.errors import ErrorCode
from replica.trace.events import HighWatermarkAdvanced, IsrProposed


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path, replica_lag_time_max_ms="10000").start()
    world.run(100)
    world.join(B2)
    world.create(B1, B2)
    return world


def proposals(world, since_us=0):
    return [at // MS for at, _, api, _ in world.frames if api == ALTER_PARTITION and at >= since_us]


def leader(world):
    return world.broker.replicas.partitions[T0].leader


def controllers_isr(world):
    return world.controller.state.image.topics["t"].partitions[0].in_sync_replicas


def test_a_follower_that_fetches_nothing_leaves_between_one_and_one_and_a_half_lag_times(world):
    world.call("p1").produce(batch("r0"), acks=1)
    world.run(14_899)
    assert proposals(world) == []
    world.run(1)
    assert proposals(world) == [15_000]
    assert (controllers_isr(world), leader(world).in_sync_replicas) == ((B1,), (B1,))
    assert [event.high_watermark for event in world.events(HighWatermarkAdvanced)] == [1]


def test_lag_is_measured_by_the_wall_clock_of_the_leader_which_can_jump(world):
    world.call("p1").produce(batch("r0"), acks=1)
    world.run(4_000)
    world.clock.offset_us = 11_000_000
    world.run(1_000)  # the check at 5 s sees a lag of 16 s
    assert proposals(world) == [5_000]


def test_a_clock_set_back_keeps_a_silent_follower_in_sync_for_longer_and_delays_no_check(world):
    world.call("p1").produce(batch("r0"), acks=1)
    world.clock.offset_us = -10_000_000
    world.run(24_899)
    assert proposals(world) == []
    world.run(1)
    assert proposals(world) == [25_000]


def test_it_comes_back_with_its_first_fetch_that_reaches_the_high_watermark(world):
    world.call("p1").produce(batch("r0"), acks=1)
    world.run(15_000)
    fetch = world.follower(B2)
    fetch(0)
    assert controllers_isr(world) == (B1,)
    fetch(1)
    assert controllers_isr(world) == (B1, B2)


def test_one_in_its_controlled_shutdown_is_not_even_proposed(world):
    world.heartbeat(B2, stop=True)
    assert controllers_isr(world) == (B1,)
    world.follower(B2)(0, max_wait_ms=0)
    assert world.events(IsrProposed) == []


def test_while_the_controller_is_gone_the_old_members_hold_the_high_watermark(world):
    world.call("p1").produce(batch("r0"), acks=1)
    world.stop_controller()
    world.run(20_000)
    assert len(world.events(IsrProposed)) == 1
    assert (leader(world).pending_isr, leader(world).maximal_isr) == ((B1,), (B1, B2))
    assert world.events(HighWatermarkAdvanced) == []
    world.start_controller()
    back_us = world.now_us
    world.run(100)
    assert len(proposals(world, back_us)) == 1
    assert leader(world).in_sync_replicas == (B1,)
    assert [event.high_watermark for event in world.events(HighWatermarkAdvanced)] == [1]


def test_a_request_refused_as_a_whole_is_sent_again_every_50_ms(world):
    world.call("p1").produce(batch("r0"), acks=1)
    epoch = world.broker.lifecycle.broker_epoch
    world.run(14_000)
    world.broker.lifecycle.broker_epoch = epoch - 1
    world.run(1050)
    assert proposals(world) == [15_000, 15_050, 15_100, 15_150]
    world.broker.lifecycle.broker_epoch = epoch
    world.run(50)
    assert controllers_isr(world) == (B1,)


def test_an_answer_that_comes_when_the_leadership_is_gone_changes_nothing(world):
    world.call("p1").produce(batch("r0"), acks=1)
    world.stop_controller()
    world.run(20_000)
    world.start_controller()
    world.join(B3)
    world.decide(ElectLeader(now_us=world.now_us, topic="t", partition=0, kind="preferred", desired=B2))
    world.run(100)
    assert leader(world) is None
    assert controllers_isr(world) == (B1, B2)
    client = world.call("p1")
    client.produce(batch("r1"))
    assert client.produced().error is ErrorCode.NOT_LEADER_OR_FOLLOWER
