"""Whatever comes over a connection, a broker answers it or closes that one connection, and serves all others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from broker_world import B1, BrokerWorld, batch
from hostile_frames import HostileFrames

from replica.errors import ErrorCode


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.create(B1)
    world.create(B1, topic="honest")
    return world


def attack(world: BrokerWorld, frames: int, seed: int, send: Callable[[BrokerWorld, bytes], None]) -> None:
    """A connection per frame, and now and then somebody honest."""
    hostile = HostileFrames(seed, [world.topic_id("t")])
    honest = world.call("p1")
    written = 0
    for number in range(frames):
        frame = hostile.frame()
        try:
            send(world, frame)
        except Exception as failure:
            raise AssertionError(f"frame {number} of seed {seed}: {frame.hex()}") from failure
        if number % 200 == 0:
            honest.produce(batch("r"), acks=1, topic="honest")
            assert (honest.produced().error, honest.produced().base_offset) == (ErrorCode.NONE, written)
            written += 1
            world.run(5)
    assert not honest.closed
    server, replicas = world.broker._server, world.broker.replicas
    left = (len(server.connections), len(server._thread_of), len(server._unassigned), len(replicas._fetch_of))
    assert left == (1, 1, 0, 0), "whoever went left something behind"


def to_broker(world: BrokerWorld, frame: bytes) -> None:
    caller = world.call("x")
    world.to_broker("received", caller._connection, bytearray(frame))
    caller.hang_up()
    caller.answers.clear()


def to_controller(world: BrokerWorld, frame: bytes) -> None:
    """Its port is on the loopback as well."""
    world._from_controller(world.controller.accepted(-99_999, "x", world.now_us))
    world._from_controller(world.controller.received(-99_999, bytearray(frame), world.now_us))
    world._from_controller(world.controller.disconnected(-99_999, "closed by the peer", world.now_us))
    world._settle()


@pytest.mark.parametrize("send", [to_broker, to_controller])
def test_no_frame_harms_anybody_but_its_sender(world, send):
    attack(world, 2000, 1, send)


@pytest.mark.soak
@pytest.mark.parametrize("send", [to_broker, to_controller])
@pytest.mark.parametrize("seed", range(2, 6))
def test_a_hundred_thousand_frames_harm_nobody_but_their_senders(world, seed, send):
    attack(world, 25_000, seed, send)


def test_a_consumer_that_goes_leaves_no_fetch_behind(world):
    consumer = world.call("c1")
    consumer.fetch(0, max_wait_ms=2**31 - 1)
    assert len(world.broker.replicas._fetch_of) == 1
    consumer.hang_up()
    assert (len(world.broker.replicas._fetch_of), len(world.broker.replicas._fetches)) == (0, 0)
