"""`cooperative-sticky` of the classic protocol, and what its members write about themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.client.consumer.assignors import Owner, by_cooperative_sticky, owner, owning_subscription
from cluster.protocol.consumer_protocol import subscribed_topics


def test_what_moves_goes_to_nobody_before_it_is_given_up():
    """Kafka's example: two members share six partitions, and a third one joins."""
    members = [Owner("a", 1, (0, 2, 4)), Owner("b", 1, (1, 3, 5)), Owner("c")]
    first = by_cooperative_sticky(members, 6)
    assert first == {"a": [0, 2], "b": [1, 3], "c": []}
    members = [Owner("a", 2, (0, 2)), Owner("b", 2, (1, 3)), Owner("c", 2, ())]
    assert by_cooperative_sticky(members, 6) == {"a": [0, 2], "b": [1, 3], "c": [4, 5]}


def test_a_member_of_an_older_generation_has_lost_what_another_one_has():
    assert by_cooperative_sticky([Owner("a", 1, (0, 1)), Owner("b", 2, (0,))], 2) == {"a": [1], "b": [0]}


def test_what_two_of_one_generation_have_is_given_to_nobody_at_first():
    assert by_cooperative_sticky([Owner("a", 2, (0, 1)), Owner("b", 2, (0,))], 2) == {"a": [1], "b": []}


@st.composite
def members_before(draw: st.DrawFn) -> tuple[list[Owner], int]:
    partitions = draw(st.integers(1, 12))
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
    owners = [draw(st.sampled_from([*names, None])) for _ in range(partitions)]
    members = [Owner(name, 3, tuple(n for n in range(partitions) if owners[n] == name)) for name in names]
    return members, partitions


@given(given=members_before())
def test_two_rounds_give_each_partition_to_one_and_move_as_little_as_can_be(given: tuple[list[Owner], int]) -> None:
    members, partitions = given
    before = {number: member.member_id for member in members for number in member.owned}
    first = by_cooperative_sticky(members, partitions)
    for name, numbers in first.items():
        assert all(before.get(number, name) == name for number in numbers), "no partition goes over at once"
    kept = [Owner(name, 4, tuple(sorted(numbers))) for name, numbers in first.items()]
    second = by_cooperative_sticky(kept, partitions)
    assert sorted(number for numbers in second.values() for number in numbers) == list(range(partitions))
    sizes = [len(numbers) for numbers in second.values()]
    assert max(sizes) - min(sizes) <= 1
    assert all(set(first[name]) <= set(second[name]) for name in first), "one rebalance takes, the next one gives"
    assert by_cooperative_sticky([Owner(name, 5, tuple(sorted(has))) for name, has in second.items()], partitions) == {
        name: sorted(numbers) for name, numbers in second.items()
    }


@given(topic=st.text("abc.-_ü", min_size=1, max_size=9), owned=st.lists(st.integers(0, 99)), generation=st.integers(-1))
def test_a_subscription_is_read_as_it_was_written(topic: str, owned: list[int], generation: int) -> None:
    generation %= 1 << 31
    data = owning_subscription(topic, owned, generation)
    assert owner("m", data) == Owner("m", generation, tuple(owned))
    assert subscribed_topics(data) == [topic]
