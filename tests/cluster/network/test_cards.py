"""A card never carries more than its rate, forgets nothing, and serves its connections in turn."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest

from cluster.network.links import TURN_BYTES, Card, Lane, Parcel, Piece, Road

MS, S = 1000, 1_000_000


class Clock:
    """The part of the queue of virtual time that roads need."""

    def __init__(self) -> None:
        self.now_us = 0
        self.cause: int | None = None
        self._queue: list[tuple[int, int, int | None, Callable[[], None]]] = []
        self._seq = 0

    def at(self, at_us: int, callback: Callable[[], None], cause: int | None = None) -> None:
        assert at_us >= self.now_us
        self._seq += 1
        heapq.heappush(self._queue, (at_us, self._seq, self.cause if cause is None else cause, callback))

    def run(self) -> None:
        while self._queue:
            self.now_us, _, self.cause, callback = heapq.heappop(self._queue)
            callback()


def _road(clock: Clock, source: Card | None, target: Card | None) -> Road:
    return Road(clock, source, target)  # type: ignore[arg-type]  # it uses only this part of a time queue


def _pieces(lane: Lane) -> list[Piece]:
    pieces = []
    while lane.current is not None:
        pieces.append(lane.current)
        lane.advance()
    return pieces


@pytest.mark.parametrize("seed", range(20))
def test_a_lane_carries_every_byte_once_and_never_more_than_its_rate(seed: int) -> None:
    stream = random.Random(seed)
    rate = stream.choice([7, 999_983, 117_700_000])
    lane = Lane(rate)
    sizes = {connection: [stream.randint(1, 3 * TURN_BYTES) for _ in range(5)] for connection in "abc"}
    for connection, parcels in sizes.items():
        for size_bytes in parcels:
            lane.add(connection, Parcel(size_bytes), 1000)
    pieces = _pieces(lane)
    total = sum(map(sum, sizes.values()))
    assert sum(piece.size_bytes for piece in pieces) == total
    assert sum(piece.is_last for piece in pieces) == 15
    carried = 0
    for before, piece in zip([None, *pieces], pieces, strict=False):
        carried += piece.size_bytes
        assert before is None or piece.begins_us == before.ends_us  # without a pause
        assert 0 <= (piece.ends_us - 1000) * rate - carried * S < rate  # late by less than a microsecond, never early


def test_connections_take_turns_and_each_keeps_its_order() -> None:
    lane = Lane(1_000_000)
    for name, connection, size_bytes in (("x1", "x", 200_000), ("x2", "x", 10), ("y1", "y", 10), ("z1", "z", 100_000)):
        lane.add(connection, Parcel(size_bytes, begins=lambda _, name=name: order.append(name)), 0)
    order: list[str] = []
    for piece in _pieces(lane):
        assert piece.parcel.begins is not None
        piece.parcel.begins(piece)
    assert order == ["x1", "y1", "z1", "x1", "z1", "x1", "x1", "x2"]


def test_many_small_ones_get_as_much_as_few_large_ones() -> None:
    lane = Lane(1_000_000)
    for _ in range(100):
        lane.add("small", Parcel(TURN_BYTES // 10), 0)
    large = Parcel(10 * TURN_BYTES)
    lane.add("large", large, 0)
    begun = dict.fromkeys(("small", "large"), 0)
    for piece in _pieces(lane):
        begun["large" if piece.parcel is large else "small"] += piece.size_bytes
        assert begun["small"] == 100 * (TURN_BYTES // 10) or abs(begun["small"] - begun["large"]) <= 2 * TURN_BYTES


def _arrivals(clock: Clock, loads: list[tuple[int, Road, str, int, int]]) -> dict[str, int]:
    """loads: (at_us, road, name, bytes, microseconds between the cards)"""
    arrived: dict[str, int] = {}
    for at_us, road, name, size_bytes, delay_us in loads:

        def arrive(name: str = name) -> None:
            arrived[name] = clock.now_us

        def carry(
            road: Road = road, size: int = size_bytes, delay: int = delay_us, arrive: Callable[[], None] = arrive
        ) -> None:
            road.carry(size, delay, arrive, None)

        clock.at(at_us, carry)
    clock.run()
    return arrived


def test_two_equal_cards_take_the_time_of_one() -> None:
    clock = Clock()
    road = _road(clock, Card(1_000_000), Card(1_000_000))
    assert _arrivals(clock, [(0, road, "m", 200_000, 100)]) == {"m": 200_100}


FAST, SLOW = 4_000_000, 1_000_000


@pytest.mark.parametrize(("source", "target"), [(SLOW, FAST), (FAST, SLOW), (SLOW, None), (None, SLOW)])
def test_the_slower_card_decides(source: int | None, target: int | None) -> None:
    clock = Clock()
    road = _road(clock, source and Card(source), target and Card(target))  # type: ignore[arg-type]
    assert _arrivals(clock, [(0, road, "m", 200_000, 100)]) == {"m": 200_100}


def test_two_senders_share_the_card_of_the_receiver() -> None:
    clock, target = Clock(), Card(1_000_000)
    loads = [(0, _road(clock, Card(1_000_000), target), name, 500_000, 0) for name in ("one", "two")]
    loads.append((400_000, _road(clock, Card(1_000_000), target), "small", 100, 0))
    arrived = _arrivals(clock, loads)
    assert arrived["two"] == 1_000_100  # as many bytes as a second has room for, and the small ones
    assert 1_000_000 - 2 * TURN_BYTES <= arrived["one"] < arrived["two"]
    assert arrived["small"] - 400_000 <= 3 * TURN_BYTES  # at most a piece of each of the others, and the one under way


def test_nothing_overtakes_on_one_connection_however_the_delay_varies() -> None:
    clock = Clock()
    road = _road(clock, Card(1_000_000), None)
    arrived = _arrivals(clock, [(0, road, "first", 10, 5 * MS), (0, road, "second", 10, 0)])
    assert list(arrived) == ["first", "second"]


def test_what_arrives_follows_from_its_own_cause() -> None:
    clock, seen = Clock(), list[int | None]()
    roads = [_road(clock, card, Card(1_000_000)) for card in [Card(1_000_000)] for _ in "ab"]
    for cause, road in enumerate(roads, start=1):
        road.carry(100_000, 10, lambda: seen.append(clock.cause), cause)
    clock.run()
    assert seen == [1, 2]
