"""Each API's largest request in slices: counted, not timed, is what a node does in one step while others wait.

A request is made for each array of each API, by its place in the message: that array has so many items that there are
ITEMS in all, the others have one. A new API is covered by being in the table.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_world import B2, BrokerWorld, Caller
from soak import one_in

from cluster import slices
from cluster.broker.api_table import APIS
from cluster.broker.broker import BrokerCore
from cluster.clocks import Timers
from cluster.controller_node.node import ControllerCore
from cluster.protocol import cold
from cluster.protocol.api_00_produce import ProduceRequest, encode_produce_request
from cluster.protocol.api_01_fetch import FetchPartition, FetchRequest
from cluster.protocol.entities import Shape, encode_entity, shapes
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.versions import CREATE_TOPICS, FETCH, FORWARDED, METADATA, PRODUCE, VERSIONS, request_frame
from cluster.slices import MAX_DECIDED, MAX_FETCHED, MAX_ITEMS, MAX_PRODUCED
from replica.rules import PROFILES

ITEMS = MAX_DECIDED
CALLS_IN_SLICE = 5_000
CALLS_IN_STEP = 20_000
"""Calls and returns: a slice, and what may be done beyond it, such as an item or the decision of a coordinator."""
CALLS_IN_DECISION = 250_000
"""A request that the controller decides is decided at once: that is why it names MAX_DECIDED things at most."""
OUTSIDE = "10.0.0.1:5000"
Path_ = tuple[str, ...]


class Calls:
    """Calls of functions by nodes: all of them, and the most in one step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.most = 0
        self.most_in = ""
        for core in (BrokerCore, ControllerCore):
            for name in ("received", "tick"):
                monkeypatch.setattr(core, name, self._counted(getattr(core, name)))
        calls = self

        class Sliced(slices.Sliced):
            def __init__(self, work: Callable[[], None], clock: Callable[[], int]) -> None:
                def profiled() -> None:
                    sys.setprofile(calls._called)
                    work()

                super().__init__(profiled, clock)

        monkeypatch.setattr(slices, "Sliced", Sliced)

    def _called(self, frame: object, event: str, argument: object) -> None:
        self.count += 1

    def clock(self) -> int:
        return self.count

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(core: object, *args: object) -> Any:
            before = self.count
            sys.setprofile(self._called)
            try:
                return step(core, *args)
            finally:
                sys.setprofile(None)
                if self.count - before > self.most:
                    self.most, self.most_in = self.count - before, f"{type(core).__name__}.{step.__name__}"

        return counted


def arrays(entity_type: type, path: Path_ = ()) -> Iterator[Path_]:
    """The places of all arrays in a message."""
    for name, shape in shapes(entity_type).items():
        if shape.tag is None and shape.is_array:
            yield (*path, name)
        if shape.tag is None and shape.entity is not None:
            yield from arrays(shape.entity, (*path, name))


def places_of(key: int) -> list[Path_]:
    return list(arrays(cold.request_class(key, VERSIONS[key][1])))


def filled(entity_type: type, path: Path_, count: int, number: int = 0) -> dict[str, Any]:
    """Fields with plausible values; the array at `path` has `count` items, with names and numbers of their own."""
    return {
        name: _value(name, shape, path[1:] if path[:1] == (name,) else None, count, number)
        for name, shape in shapes(entity_type).items()
        if shape.tag is None
    }


def _value(name: str, shape: Shape, path: Path_ | None, count: int, number: int) -> Any:
    if shape.is_array:
        numbers = range(count) if path == () else [number]
        one = shape._replace(is_array=False, is_nullable=False)
        return [_value(name, one, path, count, number) for number in numbers]
    if shape.entity is not None:
        return None if shape.is_nullable and path is None else filled(shape.entity, path or (), count, number)
    match shape.kafka_type:
        case "string":
            return "t" if number == 0 else f"name{number}"
        case "bytes" | "records":
            return b""
        case "bool":
            return False
        case "uuid" | "float64":
            return None if shape.kafka_type == "uuid" else 0.0
        case "int8":
            return 2 if "type" in name else 0
    return number % 128 if shape.kafka_type == "int8" else number % 32_000


@pytest.fixture(scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerWorld, Calls]]:
    with pytest.MonkeyPatch.context() as patch:
        calls = Calls(patch)

        class World(BrokerWorld):
            slicing = calls.clock

        world = World(tmp_path_factory.mktemp("world"), PROFILES["kafka-4.1"], auto_create_topics_enable="false")
        world.start()
        world.run(100)
        world.join(B2)
        world.create(1)
        world.run(1_000)
        yield world, calls


def sent(world: BrokerWorld, frame: bytes) -> Caller:
    caller = world.call(OUTSIDE)
    caller.send(frame)
    for _ in range(20_000):
        if caller.answers or caller.closed:
            break
        world.run(10)
    return caller


def frame_of(key: int, path: Path_, items: int) -> bytes:
    """items: of all arrays together"""
    version = VERSIONS[key][1]
    message, places = cold.request_class(key, version), places_of(key)
    count = max(1, (items - len(places)) // max(1, sum(place[: len(path)] == path for place in places)))
    body = encode_entity(cold.make(message, **filled(message, path, count)))
    return request_frame(key, version, 1, "long", body)


@pytest.mark.soak
@pytest.mark.parametrize("key", one_in(4, [key for key in APIS if key not in (PRODUCE, FETCH)]))
def test_a_long_request_is_done_in_slices(_world: tuple[BrokerWorld, Calls], key: int) -> None:
    world, calls = _world
    for path in places_of(key) or [()]:
        sent(world, frame_of(key, path, len(places_of(key))))  # Its classes are imported.
        frame = frame_of(key, path, ITEMS)
        calls.most = 0
        caller = sent(world, frame)
        print(
            key, path, len(caller.answers and caller.answers[-1]), caller.closed, calls.most, calls.most_in,
            file=sys.stderr,
        )  # fmt: skip
        assert caller.answers or caller.closed, path
        assert calls.most < (CALLS_IN_DECISION if key in FORWARDED else CALLS_IN_STEP), (path, calls.most_in)


@pytest.mark.soak
@pytest.mark.parametrize("key", [PRODUCE, FETCH])
def test_produce_and_fetch_of_many_partitions(_world: tuple[BrokerWorld, Calls], key: int) -> None:
    world, calls = _world
    names = [f"name{number}" for number in range(MAX_PRODUCED // 2 if key == PRODUCE else MAX_FETCHED // 2)]
    if key == PRODUCE:
        frame = encode_produce_request(
            9, 1, "long", ProduceRequest(None, 1, 1_000, [(name, [(0, b"")]) for name in names])
        )
    else:
        asked = FetchPartition(0, -1, 0, -1, 0, 1 << 20)
        frame = encode_fetch_request(12, 1, "long", FetchRequest(-1, topics=[(name, [asked]) for name in names]))
    calls.most = 0
    assert sent(world, frame).answers
    assert calls.most < 2 * CALLS_IN_STEP, calls.most_in


@pytest.mark.soak
def test_a_short_fetch_of_a_session_of_many_partitions(_world: tuple[BrokerWorld, Calls]) -> None:
    world, calls = _world
    asked = FetchPartition(0, -1, 0, -1, 0, 1 << 20)
    first = FetchRequest(-1, session_epoch=0, topics=[(f"name{number}", [asked]) for number in range(ITEMS)])
    answer = sent(world, encode_fetch_request(12, 1, "long", first)).answers[-1]
    (session_id,) = struct.unpack_from(">i", answer, 11)
    again = encode_fetch_request(12, 2, "long", FetchRequest(-1, session_id=session_id, session_epoch=1))
    calls.most = 0
    assert len(again) < 100 and len(sent(world, again).answers[-1]) > ITEMS
    assert calls.most < 2 * CALLS_IN_STEP, calls.most_in


@pytest.mark.soak
@pytest.mark.parametrize("key", [METADATA, CREATE_TOPICS])
def test_more_than_one_may_name_is_refused(_world: tuple[BrokerWorld, Calls], key: int) -> None:
    world, _ = _world
    assert sent(world, frame_of(key, ("topics",), 2 * ITEMS)).closed is (key == CREATE_TOPICS)
    assert sent(world, frame_of(key, ("topics",), MAX_ITEMS + 10)).closed


@pytest.mark.parametrize("key", [METADATA, CREATE_TOPICS])
def test_nobody_waits_for_an_answer_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: int
) -> None:
    """Be it the client's, or the controller's to its broker; what is wrong is raised in a step of its own."""
    world = BrokerWorld(tmp_path, auto_create_topics_enable="false").start()
    world.run(100)
    client, other = world.call(OUTSIDE), world.call("10.0.0.2:5000")
    with monkeypatch.context() as patch:
        patch.setattr(cold, "encode_answer", lambda *answer: struct.pack(">h", 1 << 20))
        with pytest.raises(struct.error):
            client.send(frame_of(key, ("topics",), 10))
            world.run(10)
    world.run(100)
    assert client.closed or client.answers
    assert other.ask(METADATA, 12, topics=None).brokers
    answer = other.ask(CREATE_TOPICS, 5, topics=[{"name": "u", "num_partitions": 1, "replication_factor": 1}])
    assert [topic.name for topic in answer.topics] == ["u"]


def test_an_answer_that_pauses_does_not_stop_whoever_makes_it() -> None:
    """A controller that commits decisions answers brokers and clients in one loop: a pause in its middle let another
    loop over the same list begin. And what changes a state is done at once."""
    time, done, timers = iter(range(10**9)), [], Timers()
    sliced = slices.Slices(now=lambda: 0, clock=lambda: next(time) * slices.SLICE_US, at=timers.at)

    def answer(name: str) -> None:
        done.extend((name, item) for item in slices.paced(range(2)))

    def decide() -> None:
        slices.undivided(lambda: done.extend(("decided", item) for item in slices.paced(range(2))))
        for name in ("a", "b"):
            sliced.begin(lambda name=name: answer(name))
        done.append(("all", 0))

    assert sliced.begin(decide)
    assert done == [("decided", 0), ("decided", 1), ("all", 0)]
    while timers.next_deadline_us is not None:
        timers.run_due(timers.next_deadline_us)
    assert sorted(done[3:]) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
