"""A broker answers any frame or closes that one connection, and serves all others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from broker_world import B1, BrokerWorld, batch
from hostile_frames import HostileFrames
from mutated_bodies import MutatedBodies

from cluster.protocol.versions import UNREGISTER_BROKER, VERSIONS
from replica.errors import ErrorCode

SOAK_BODIES = int(os.environ.get("HIGHWATER_SOAK", "30000"))
APIS = [(key, version) for key, (low, high) in sorted(VERSIONS.items()) for version in range(low, high + 1)]
NAMES = ["t", "u", "g", "h", "", "consumer", "range", "compression.type", "0", "1", "127.0.0.1"]


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.create(B1)
    world.create(B1, topic="honest")
    return world


def throw(
    world: BrokerWorld, frames: int, seed: int | MutatedBodies, send: Callable[[BrokerWorld, bytes], None]
) -> Iterator[int]:
    """One frame after the other; yields their numbers. seed: or where the frames come from"""
    hostile = HostileFrames(seed, [world.topic_id("t")]) if isinstance(seed, int) else seed
    for number in range(frames):
        frame = hostile.frame()
        try:
            send(world, frame)
        except Exception as failure:
            raise AssertionError(f"frame {number} of {seed}: {frame.hex()}") from failure
        yield number


def attack_broker(world: BrokerWorld, frames: int, seed: int | MutatedBodies) -> None:
    """A connection per frame, and now and then an honest client."""
    honest = world.call("p1")
    written = 0
    for number in throw(world, frames, seed, to_broker):
        if number % 200 == 0:
            honest.produce(batch("r"), acks=1, topic="honest")
            assert (honest.produced().error, honest.produced().base_offset) == (ErrorCode.NONE, written)
            written += 1
            world.run(5)
    assert not honest.closed
    server, fetches = world.broker._server, world.broker.replicas.fetches
    left = (len(server.connections), len(server._thread_of), len(server._unassigned), len(fetches._of_consumer))
    assert left == (1, 1, 0, 0), "a connection that ended left something behind"


def attack_controller(world: BrokerWorld, frames: int, seed: int | MutatedBodies) -> None:
    """A peer that claims to be a broker is obeyed, as in Kafka without authentication; but no frame breaks it."""
    of_the_broker = len(world.controller._connections)
    for number in throw(world, frames, seed, to_controller):
        if number % 200 == 0:
            world.run(5)
    assert world.controller.is_open and len(world.controller._connections) <= of_the_broker


def to_broker(world: BrokerWorld, frame: bytes) -> None:
    """Not sent: the request to unregister a broker. It is obeyed, and the broker leads nothing any more."""
    if int.from_bytes(frame[:2]) == UNREGISTER_BROKER:
        return
    caller = world.call("x")
    world.to_broker("received", caller._connection, bytearray(frame))
    caller.hang_up()
    caller.answers.clear()


def to_controller(world: BrokerWorld, frame: bytes) -> None:
    """Its port is on the loopback as well."""
    world._from_controller(world.controller.accepted(-99_999, "x", "", world.now_us))
    world._from_controller(world.controller.received(-99_999, bytearray(frame), world.now_us))
    world._from_controller(world.controller.disconnected(-99_999, "closed by the peer", world.now_us))
    world._settle()


ATTACKS = pytest.mark.parametrize("attack", [attack_broker, attack_controller])


@pytest.mark.soak
@ATTACKS
def test_no_frame_harms_anybody_but_its_sender(world, attack):
    attack(world, 2000, 1)


@pytest.mark.soak
@ATTACKS
@pytest.mark.parametrize("seed", range(2, 6))
def test_a_hundred_thousand_frames_harm_nobody_but_their_senders(world, seed, attack):
    attack(world, 25_000, seed)


@pytest.mark.soak
@ATTACKS
def test_no_mutated_body_harms_anybody_but_its_sender(world, attack):
    attack(world, 2000, MutatedBodies(1, APIS, NAMES))


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
@ATTACKS
def test_as_many_mutated_bodies_as_are_asked_for(world, attack):
    """HIGHWATER_SOAK=500000 for a million of both."""
    attack(world, SOAK_BODIES, MutatedBodies(2, APIS, NAMES))


def test_a_consumer_that_goes_leaves_no_fetch_behind(world):
    consumer = world.call("c1")
    consumer.fetch(0, max_wait_ms=2**31 - 1)
    assert len(world.broker.replicas.fetches._of_consumer) == 1
    consumer.hang_up()
    fetches = world.broker.replicas.fetches
    assert (len(fetches._of_consumer), len(fetches._waiting)) == (0, 0)
