"""Two sequences of standings: what is the same, what is a tie, and where they part."""

from __future__ import annotations

from itertools import permutations, product

from hypothesis import given
from hypothesis import strategies as st

from scenarios.agree.facts import PartitionStanding, Stood
from scenarios.agree.standings import aligned

BROKERS = ("b1", "b2", "b3", "b4")


@st.composite
def sequences(draw: st.DrawFn) -> list[Stood]:
    """Of one partition: leaders and epochs that only rise, ISRs of any kind."""
    found: list[Stood] = []
    epoch, at_us = 0, 0
    for _ in range(draw(st.integers(1, 8))):
        epoch += draw(st.integers(0, 1))
        at_us += draw(st.integers(1, 30_000_000))
        isr = draw(st.sets(st.sampled_from(BROKERS), min_size=1))
        found.append(Stood(at_us, PartitionStanding(draw(st.sampled_from(BROKERS)), epoch, tuple(sorted(isr)), ())))
    return found


def stands(*isr: str, epoch: int = 0, leader: str = "b1", elr: tuple[str, ...] = ()) -> Stood:
    return Stood(1, PartitionStanding(leader, epoch, tuple(sorted(isr)), elr))


@given(sequences(), st.integers(1, 1_000_000))
def test_the_same_at_other_times_is_the_same(one: list[Stood], later_us: int) -> None:
    later = [Stood(stood.at_us + later_us, stood.standing) for stood in one]
    found = aligned(one, later)
    assert found.pairs == tuple((place, place) for place in range(len(one)))
    assert found.ties == () and found.parts_at is None


@given(sequences(), sequences())
def test_neither_side_is_preferred(one: list[Stood], other: list[Stood]) -> None:
    found, mirrored = aligned(one, other), aligned(other, one)
    assert mirrored.pairs == tuple((right, left) for left, right in found.pairs)
    assert mirrored.ties == tuple((right, left) for left, right in found.ties)
    assert mirrored.parts_at == (None if found.parts_at is None else found.parts_at[::-1])


@given(sequences(), st.data())
def test_another_leader_parts_them_where_it_came(one: list[Stood], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(one) - 1))
    changed = one[place].standing._replace(leader="b9")
    other = [*one[:place], Stood(one[place].at_us, changed), *one[place + 1 :]]
    assert aligned(one, other).parts_at == (place, place)


def test_followers_come_back_and_leave_in_any_order() -> None:
    everyone, alone = stands(*BROKERS), stands("b1")

    def path(order: tuple[str, ...], *, grows: bool) -> list[Stood]:
        steps = [stands("b1", *(order[:count] if grows else order[count:])) for count in range(1, len(order))]
        return [alone, *steps, everyone] if grows else [everyone, *steps, alone]

    for grows, (one, other) in product((True, False), product(permutations(BROKERS[1:]), repeat=2)):
        found = aligned(path(one, grows=grows), path(other, grows=grows))
        assert found.parts_at is None
        assert bool(found.ties) == (one != other)


def test_who_left_last_is_in_the_elr_until_both_are_equal_again() -> None:
    """b2 and b3 are stopped at once. What is left of it in the ELR is no tie if it lasts until another one leads."""
    one = [stands("b1", "b2", "b3"), stands("b1", "b3"), stands("b1", elr=("b3",)), stands("b1")]
    other = [stands("b1", "b2", "b3"), stands("b1", "b2"), stands("b1", elr=("b2",)), stands("b1")]
    found = aligned(one, other)
    assert (found.pairs, found.ties, found.parts_at) == (((0, 0), (3, 3)), ((1, 1),), None)
    one[-1:] = other[-1:] = [stands("b1", "b2"), stands("b1", "b2", "b3")]  # they come back, which empties the ELR
    found = aligned(one, other)
    assert (found.pairs, found.ties, found.parts_at) == (((0, 0), (3, 3), (4, 4)), ((1, 1),), None)
    del one[-1], other[-1]
    one[-1], other[-1] = stands("b3", epoch=1, leader="b3"), stands("b2", epoch=1, leader="b2")
    assert aligned(one, other).parts_at == (1, 1)
    one[-1] = other[-1] = stands("b1", epoch=1)
    assert aligned(one, other).parts_at == (1, 1)


def test_another_member_that_left_and_came_back_is_no_tie() -> None:
    one = [stands("b1", "b2", "b3"), stands("b1", "b2"), stands("b1", "b2", "b3")]
    other = [stands("b1", "b2", "b3"), stands("b1", "b3"), stands("b1", "b2", "b3")]
    assert aligned(one, other).parts_at == (1, 1)


def test_one_step_or_two_is_a_tie_and_a_member_that_stays_out_is_none() -> None:
    begin, end = stands("b1", "b2", "b3"), stands("b1")
    assert aligned([begin, end], [begin, stands("b1", "b3"), end]).parts_at is None
    assert aligned([begin, end], [begin, stands("b1", "b3")]).parts_at == (1, 1)
    assert aligned([begin, end], [begin]).parts_at == (1, 1)


def test_who_leads_is_no_tie_even_where_both_end_alike() -> None:
    begin, end = stands("b1", "b2", "b3"), stands("b2", epoch=2, leader="b2")
    between = stands("b1", "b3", epoch=1, leader="b3")
    assert aligned([begin, end], [begin, between, end]).parts_at == (1, 1)
