"""How a broker comes, stays and goes: registration, heartbeats, the controller's absence, shutdown, restart."""

import shutil

import pytest
from broker_world import B1, B2, MS, T0, BrokerWorld, batch

from cluster.broker.metadata.lifecycle import BrokerState
from cluster.node import Close
from cluster.protocol.versions import BROKER_HEARTBEAT, BROKER_REGISTRATION, FETCH, METADATA
from replica.errors import ErrorCode
from replica.rules import PROFILES
from replica.trace.events import LogRecovered


def times(world, api, since_us=0):
    """When b1 sent requests of this kind to the controller, in ms."""
    return [at // MS for at, peer, key, _ in world.frames if peer == "c1" and key == api and at >= since_us]


@pytest.fixture
def world(tmp_path):
    return BrokerWorld(tmp_path).start()


def test_it_asks_to_be_unfenced_once_it_knows_that_it_has_caught_up(world):
    world.run(2100)
    # Not caught up when it registers, ten ms later it is, and at once it wants to be unfenced; then the interval.
    assert times(world, BROKER_HEARTBEAT) == [0, 10, 10, 2010]
    assert world.broker.lifecycle.state is BrokerState.RUNNING


def test_requests_wait_in_their_connections_until_it_is_unfenced(world):
    client = world.call("p1")
    client.produce(batch("r0"))
    assert client.answers == []
    world.run(100)
    assert client.produced().error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_while_the_controller_is_gone_it_knocks_every_50_ms(world):
    world.run(3000)
    world.stop_controller()
    world.run(5000)
    heartbeat_us = 4010 * MS
    knocks = [at for at, host in world.dials if heartbeat_us <= at < heartbeat_us + 500 * MS]
    assert len(knocks) > 9 + 20  # the heartbeat's, and the metadata fetch's every 20 ms
    world.start_controller()
    back_us = world.now_us
    world.run(60)
    assert len(times(world, BROKER_HEARTBEAT, back_us)) == 1


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        # Half a session for the answer, then 0.1 s, 0.2 s, ... 6.4 s, and from then a session, not 12.8 s.
        ("kafka-3.9", [4010, 8610, 13310, 18210, 23510, 29610, 37310, 48210, 61710, 75210]),
        # KAFKA-19294: an interval for the answer, and an interval.
        ("kafka-4.1", list(range(4010, 76_500, 4000))),
    ],
)
def test_heartbeats_that_nothing_answers(tmp_path, profile, expected):
    world = BrokerWorld(tmp_path, PROFILES[profile]).start()
    world.run(2100)
    world.controller_is_cut_off = True
    world.run(74_400)
    assert times(world, BROKER_HEARTBEAT, 2100 * MS) == expected


def test_after_an_answer_the_backoff_begins_anew(world):
    world.run(2100)
    world.controller_is_cut_off = True
    world.run(16_000)
    world.controller_is_cut_off = False
    world.run(200)
    answered_ms = times(world, BROKER_HEARTBEAT)[-1]
    world.controller_is_cut_off = True
    world.run(10_000)
    sent = [at for at in times(world, BROKER_HEARTBEAT) if at > answered_ms]
    assert [at - answered_ms for at in sent] == [2000, 6600]


def test_a_broker_whose_epoch_is_stale_tries_on_and_does_not_register_again(world):
    world.run(100)
    world.broker.lifecycle.broker_epoch -= 1
    world.run(30_000)
    assert len(times(world, BROKER_REGISTRATION)) == 1
    assert len(times(world, BROKER_HEARTBEAT)) > 5
    assert world.controller.state.image.brokers[B1].fenced
    assert world.broker.lifecycle.serving


def test_after_a_kill_the_next_life_registers_when_the_session_of_the_first_is_over(world):
    world.run(1000)
    epoch = world.broker.lifecycle.broker_epoch
    world.kill()
    world.start()
    world.run(5000)
    assert len(times(world, BROKER_REGISTRATION, 1000 * MS)) > 4
    assert world.broker.lifecycle.broker_epoch == -1
    world.run(9000)
    assert world.broker.lifecycle.broker_epoch > epoch
    assert world.broker.lifecycle.serving


def test_a_broker_that_cannot_register_gives_up_after_a_minute(tmp_path):
    world = BrokerWorld(tmp_path)
    world.stop_controller()
    world.start()
    world.run(59_999)
    assert not world.exited
    world.run(1)
    assert world.exited


# ------------------------------------------------------------------------------------------------------------ shutdown


def test_a_broker_that_does_not_run_yet_stops_at_once(world):
    world.shut_down()
    assert world.exited


def test_shutdown_is_asked_for_at_once(world):
    world.run(1000)
    world.join(B2)
    world.create(B1, B2)
    world.shut_down()
    world.run(0)
    assert times(world, BROKER_HEARTBEAT, 1000 * MS) == [1000]
    assert world.controller.state.image.topics["t"].partitions[0].leader == B2
    assert world.broker.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    world.heartbeat(B2)
    world.run(49)
    assert not world.exited
    world.run(1)
    assert world.exited


def test_a_heartbeat_in_flight_is_followed_at_once_by_the_one_that_wants_to_shut_down(world):
    world.run(1000)
    world.create(B1)
    lifecycle = world.broker.lifecycle
    lifecycle._heartbeat(world.now_us)  # in flight from here on
    lifecycle.begin_controlled_shutdown(world.now_us)
    world._from_broker(world.broker._outbox.take())
    world._settle()
    world.run(0)
    assert times(world, BROKER_HEARTBEAT, 1000 * MS) == [1000, 1000]


def test_a_replica_that_has_left_the_isr_is_not_fetched_during_a_shutdown(world):
    world.run(100)
    world.join(B2)
    world.create(B2, B1)
    world.create(B1, B2, topic="u")
    assert dict(world.broker.fetchers.sources()) == {T0: B2}
    world.shut_down()
    world.run(0)
    assert world.controller.state.image.topics["t"].partitions[0].in_sync_replicas == (B2,)
    assert dict(world.broker.fetchers.sources()) == {}


# ------------------------------------------------------------------------------------------------------------- restart


def test_the_high_watermark_checkpoint_outlives_a_start_without_a_controller(world):
    world.run(100)
    world.create(B1)
    client = world.call("p1")
    client.produce(batch("r0", "r1"))
    world.run(6000)
    world.kill()
    world.stop_controller()
    world.start()
    world.run(6000)
    world.kill()
    world.start()
    assert [event.high_watermark for event in world.events(LogRecovered)] == [2, 2]


def test_a_follower_that_was_the_leader_keeps_its_high_watermark(world):
    world.run(100)
    world.create(B1)
    world.call("p1").produce(batch("r0", "r1"))
    world.shut_down()
    world.run(100)
    assert world.exited
    world.start()
    world.run(3000)
    assert world.broker.replicas.partitions[T0].high_watermark == 2


# -------------------------------------------------------------------------------------------------------- connections


def test_a_connection_on_which_nothing_moves_is_closed(tmp_path):
    world = BrokerWorld(tmp_path, connections_max_idle_ms="5000").start()
    world.run(100)
    silent, busy = world.call("p1"), world.call("p2")
    world.run(3000)
    busy.ask(METADATA, 9, topics=[], allow_auto_topic_creation=False)
    world.run(1999)
    assert (silent.closed, busy.closed) == (False, False)
    world.run(1)
    assert (silent.closed, busy.closed) == (True, False)
    world.run(2999)
    assert not busy.closed
    world.run(1)
    assert busy.closed


def test_an_answer_is_activity_and_a_closed_connection_is_nobody(tmp_path):
    world = BrokerWorld(tmp_path, connections_max_idle_ms="5000").start()
    world.run(100)
    world.create(B1)
    consumer = world.call("c1r")
    consumer.fetch(0, max_wait_ms=4000)
    world.run(8999)
    assert (len(consumer.answers), consumer.closed) == (1, False)
    world.run(1)
    assert consumer.closed
    consumer.fetch(0, max_wait_ms=0)
    assert len(consumer.answers) == 1


def test_a_controller_closes_silent_connections_too(tmp_path):
    world = BrokerWorld(tmp_path, connections_max_idle_ms="5000")
    world.controller.accepted(-7, "stranger", "", 0)
    assert world.controller.next_deadline_us == 5000 * MS
    assert world.controller.tick(5000 * MS) == [Close(-7)]


def test_a_controller_that_lost_its_disk_answers_all_the_same(world):
    world.run(1000)
    world.stop_controller()
    shutil.rmtree(world.controller_dir)
    world.start_controller()
    back_us = world.now_us
    world.run(1000)
    fetches = times(world, FETCH, back_us)
    assert 40 <= len(fetches) <= 60  # refused, and tried again every 20 ms
    assert world.broker.is_open
