"""Older rules at a broker (the `protocol` switches): each against what the newer one does in the same place."""

from pathlib import Path

import pytest
from broker_world import B1, B2, BrokerWorld, batch

from controller.inputs import ElectLeader
from replica.errors import ErrorCode
from replica.rules import PROFILES
from replica.trace.events import IsrProposed

LATEST = -1


def world_with(root: Path, switch: str, value: str | bool) -> BrokerWorld:
    world = BrokerWorld(root, PROFILES["kafka-3.9"].changed({switch: value})).start()
    world.run(100)
    world.join(B2)
    world.create(B1, B2)
    return world


def produce(world, *values):
    client = world.call("p1")
    client.produce(batch(*values), acks=1)
    assert client.produced().error is ErrorCode.NONE


@pytest.mark.parametrize(("value", "error", "offset"), [(True, 78, -1), (False, 0, 1)])
def test_without_the_guard_a_new_leader_tells_an_end_below_the_one_its_predecessor_told(tmp_path, value, error, offset):
    world = world_with(tmp_path, "list-offsets-guard", value)
    produce(world, "r0")
    fetch = world.follower(B2)
    fetch(0)
    fetch(1)
    produce(world, "r1")
    for leader in (B2, B1):
        world.decide(ElectLeader(now_us=world.now_us, topic="t", partition=0, kind="preferred", desired=leader))
    answer = world.call("c1r").list_offset(LATEST)
    assert (int(answer.error_code), int(answer.offset)) == (error, offset)


@pytest.mark.parametrize(("value", "readable"), [("high-watermark", 0), ("log-end", 1)])
def test_the_mutant_lets_consumers_read_what_is_not_committed(tmp_path, value, readable):
    world = world_with(tmp_path, "consumer-limit", value)
    waiting = world.call("c1r")
    waiting.fetch(0)
    produce(world, "r0")
    assert len(waiting.answers) == readable
    late = world.call("c2r")
    late.fetch(0)
    assert len(late.answers) == readable
    assert int(late.list_offset(LATEST).offset) == readable


def test_a_pushed_high_watermark_is_answered_at_once_and_costs_an_empty_fetch_more(tmp_path):
    world = world_with(tmp_path, "hw-push", "immediate")
    fetch = world.follower(B2)
    assert fetch(0) is None
    produce(world, "r0")  # answers the fetch that waits, with the high watermark 0
    pushed = fetch(1)  # moves it to 1, which is news to b2
    assert pushed is not None and pushed.high_watermark == 1
    again = fetch(1)  # what a parked answer brought is not remembered as sent
    assert again is not None and again.high_watermark == 1
    assert fetch(1) is None


def test_since_2_5_the_high_watermark_waits_for_the_next_answer(tmp_path):
    world = world_with(tmp_path, "hw-push", "next-fetch")
    fetch = world.follower(B2)
    assert fetch(0) is None
    produce(world, "r0")
    assert fetch(1) is None


@pytest.mark.parametrize(("value", "joins"), [("broker-epoch", False), ("unfenced", True), ("any", True)])
def test_a_fetch_of_an_earlier_life_counts_where_fetches_do_not_say_in_which_life_they_were_made(
    tmp_path, value, joins
):
    world = world_with(tmp_path, "isr-eligibility", value)
    fetch = world.follower(B2)
    fetch(0)
    stated = world.broker_epoch(B2) if value == "broker-epoch" else -1
    world.fall_silent(B2)
    world.join(B2, life=1)
    fetch(0, replica_epoch=stated)
    assert bool(world.events(IsrProposed)) is joins


@pytest.mark.parametrize(("value", "joins"), [("broker-epoch", False), ("unfenced", False), ("any", True)])
def test_before_3_3_a_fenced_follower_joins_the_isr(tmp_path, value, joins):
    world = world_with(tmp_path, "isr-eligibility", value)
    fetch = world.follower(B2)
    fetch(0)
    world.fall_silent(B2)
    fetch(0, replica_epoch=-1)
    proposed = [event.isr for event in world.events(IsrProposed)]
    assert proposed == ([("b1", "b2")] if joins else [])
    assert (B2 in world.controller.state.image.partition("t", 0).in_sync_replicas) is joins
