"""Purgatory: who waits under which key, in which order, and that everyone is let go exactly once."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from replica.purgatory import Purgatory


@dataclass(slots=True, eq=False)
class Wait:
    """Two equal-looking operations are two operations."""

    required: int = 0


def test_operations_come_in_the_order_of_their_arrival() -> None:
    purgatory: Purgatory[Wait] = Purgatory()
    first, second, third = Wait(), Wait(), Wait()
    purgatory.watch(first, ["a"])
    purgatory.watch(second, ["b", "a"])
    purgatory.watch(third, ["a"])
    assert purgatory.operations("a") == (first, second, third)
    assert purgatory.operations("b") == (second,)
    assert purgatory.operations("c") == ()
    assert len(purgatory) == 3


def test_an_operation_ends_under_all_its_keys_and_only_once() -> None:
    purgatory: Purgatory[Wait] = Purgatory()
    operation, other = Wait(), Wait()
    purgatory.watch(operation, ["a", "b", "a"])
    purgatory.watch(other, ["b"])
    assert operation in purgatory
    assert purgatory.remove(operation) is True
    assert purgatory.remove(operation) is False
    assert operation not in purgatory
    assert purgatory.operations("a") == ()
    assert purgatory.operations("b") == (other,)


def test_completing_while_walking_neither_skips_nor_repeats() -> None:
    purgatory: Purgatory[Wait] = Purgatory()
    operations = [Wait(number) for number in range(4)]
    for operation in operations:
        purgatory.watch(operation, ["a"])
    seen = []
    for operation in purgatory.operations("a"):
        seen.append(operation)
        purgatory.remove(operation)
        purgatory.watch(Wait(), ["a"])
    assert seen == operations
    assert len(purgatory) == 4


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.sets(st.integers(0, 3), min_size=1))))
def test_it_holds_what_a_plain_list_of_waits_holds(steps: list[tuple[bool, int, set[int]]]) -> None:
    purgatory: Purgatory[int] = Purgatory()
    model: dict[int, list[int]] = {}
    for watch, operation, keys in steps:
        if watch and operation not in model:
            purgatory.watch(operation, sorted(keys))
            model[operation] = sorted(keys)
        else:
            assert purgatory.remove(operation) == (model.pop(operation, None) is not None)
        assert len(purgatory) == len(model)
        for key in range(4):
            assert purgatory.operations(key) == tuple(each for each, wanted in model.items() if key in wanted)
