"""`cooperative-sticky` of the classic protocol, and what its members write about themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.client.consumer.assignors import Owner, by_cooperative_sticky, owner, owning_subscription
from cluster.protocol.consumer_protocol import subscribed_topics
from replica.ids import TopicPartition


def of(text: str) -> tuple[TopicPartition, ...]:
    """`t0 u1` -> (t-0, u-1)"""
    return tuple(TopicPartition(name[0], int(name[1:])) for name in text.split())


def share(members: list[Owner], partitions: str) -> dict[str, str]:
    found = by_cooperative_sticky(members, of(partitions))
    return {name: " ".join(f"{one.topic}{one.partition}" for one in has) for name, has in found.items()}


def test_what_moves_goes_to_nobody_before_it_is_given_up():
    """Kafka's example: two members share six partitions, and a third one joins."""
    members = [Owner("a", 1, of("t0 t2 t4")), Owner("b", 1, of("t1 t3 t5")), Owner("c")]
    assert share(members, "t0 t1 t2 t3 t4 t5") == {"a": "t0 t2", "b": "t1 t3", "c": ""}
    members = [Owner("a", 2, of("t0 t2")), Owner("b", 2, of("t1 t3")), Owner("c", 2, ())]
    assert share(members, "t0 t1 t2 t3 t4 t5") == {"a": "t0 t2", "b": "t1 t3", "c": "t4 t5"}


def test_topics_are_shared_together():
    """By ranges the first member would have four of the six."""
    assert share([Owner("a"), Owner("b")], "t0 t1 t2 u0 u1 u2") == {"a": "t0 t2 u1", "b": "t1 u0 u2"}
    assert share([Owner("a", 1, of("t0 u0")), Owner("b")], "t0 u0") == {"a": "t0", "b": ""}


def test_a_member_of_an_older_generation_has_lost_what_another_one_has():
    assert share([Owner("a", 1, of("t0 t1")), Owner("b", 2, of("t0"))], "t0 t1") == {"a": "t1", "b": "t0"}


def test_what_two_of_one_generation_have_is_given_to_nobody_at_first():
    assert share([Owner("a", 2, of("t0 t1")), Owner("b", 2, of("t0"))], "t0 t1") == {"a": "t1", "b": ""}


TOPICS = st.sampled_from("tu")
NAMES = st.builds(TopicPartition, TOPICS, st.integers(0, 7))


@st.composite
def members_before(draw: st.DrawFn) -> tuple[list[Owner], list[TopicPartition]]:
    partitions = sorted(draw(st.sets(NAMES, min_size=1)))
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
    owners = {one: draw(st.sampled_from([*names, None])) for one in partitions}
    members = [Owner(name, 3, tuple(one for one in partitions if owners[one] == name)) for name in names]
    return members, partitions


@given(given=members_before())
def test_two_rounds_give_each_partition_to_one_and_move_as_little_as_can_be(
    given: tuple[list[Owner], list[TopicPartition]],
) -> None:
    members, partitions = given
    before = {number: member.member_id for member in members for number in member.owned}
    first = by_cooperative_sticky(members, partitions)
    for name, numbers in first.items():
        assert all(before.get(number, name) == name for number in numbers), "no partition goes over at once"
    kept = [Owner(name, 4, tuple(sorted(numbers))) for name, numbers in first.items()]
    second = by_cooperative_sticky(kept, partitions)
    assert sorted(number for numbers in second.values() for number in numbers) == partitions
    sizes = [len(numbers) for numbers in second.values()]
    assert max(sizes) - min(sizes) <= 1
    assert all(set(first[name]) <= set(second[name]) for name in first), "one rebalance takes, the next one gives"
    assert by_cooperative_sticky([Owner(name, 5, tuple(sorted(has))) for name, has in second.items()], partitions) == {
        name: sorted(numbers) for name, numbers in second.items()
    }


@given(
    topics=st.lists(st.text("abc.-_ü", min_size=1, max_size=9), max_size=3),
    owned=st.sets(NAMES).map(sorted),
    generation=st.integers(-1, (1 << 31) - 1),
)
def test_a_subscription_is_read_as_it_was_written(
    topics: list[str], owned: list[TopicPartition], generation: int
) -> None:
    data = owning_subscription(topics, owned, generation)
    assert owner("m", data) == Owner("m", generation, tuple(owned))
    assert subscribed_topics(data) == topics
