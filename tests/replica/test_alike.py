"""Events that say the same of several partitions are one line: by type, cause and fields, never by their words."""

from __future__ import annotations

import typing
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.causes import Cause, ElectionCause, FencingCause, IsrCause, IsrCommitCause, LagCause, OccasionKind
from replica.trace import events as trace
from replica.trace.alike import TOGETHER_US, ShownEvent, together
from replica.trace.columns import OfPartitions, TraceEvent

Fields = dict[str, Any]


def texts(*events: TraceEvent, apart_us: int = 0) -> list[str]:
    told = (ShownEvent(number * apart_us, event, number) for number, event in enumerate(events))
    return [group.text for group in together(told)]


def elected(partition: int, broker: str = "b2", **changed: Any) -> trace.LeaderElected:
    given_: Fields = {
        "leader_epoch": 1, "partition_epoch": partition, "broker": broker, "previous_leader": "b1",
        "isr": ("b2", "b3"), "clean": True, "cause": ElectionCause.FIRST_LIVE, "previous_isr": ("b1", "b2", "b3"),
        "occasion": OccasionKind.FENCED, "occasion_brokers": ("b1",), "fencing_cause": FencingCause.NO_HEARTBEAT,
        "occasion_amount": 9_000_000,
    }  # fmt: skip
    return trace.LeaderElected("c1", "t", partition, **given_ | changed)


def expanded(partition: int, caught_up_to: int, node: str = "b1", joins: str = "b2") -> trace.IsrProposed:
    return trace.IsrProposed(
        node, "t", partition, leader_epoch=partition, partition_epoch=2, isr=(node, joins), previous_isr=(node,),
        cause=IsrCause.CAUGHT_UP, caught_up_to=caught_up_to, high_watermark=caught_up_to,
    )  # fmt: skip


def lagging(partition: int, lag_us: int) -> trace.IsrProposed:
    return trace.IsrProposed(
        "b1", "t", partition, leader_epoch=1, partition_epoch=2, isr=("b1",), previous_isr=("b1", "b2"),
        cause=IsrCause.LAG, lag_causes=(LagCause.NOT_CAUGHT_UP,), lags=(lag_us,), lag_time_max_us=30_000_000,
    )  # fmt: skip


def committed(partition: int, isr: tuple[str, ...], left: str = "b3", **changed: Any) -> trace.IsrCommitted:
    given_: Fields = {"leader_epoch": 1, "partition_epoch": partition, "proposed_by": None}
    return trace.IsrCommitted("c1", "t", partition, isr=isr, previous_isr=(*isr, left), **given_ | changed)


FENCED = "after b1 was fenced (no heartbeat for 9.0 s)"


def test_elections_of_one_leader_are_one_line_and_their_partitions_are_named() -> None:
    first = f"in epoch 1 as the first member of the ISR {{b1, b2, b3}} that counts as live {FENCED}"
    assert texts(elected(0)) == [f"b2 was elected leader of t-0 {first}"]
    assert texts(*(elected(n) for n in (0, 1, 2, 7))) == [f"b2 was elected leader of t-0..t-2, t-7 {first}"]
    assert texts(elected(0), elected(1, leader_epoch=9)) == [
        f"b2 was elected leader of t-0..t-1 as the first member of the ISR {{b1, b2, b3}} that counts as live {FENCED}"
    ]


def test_what_differs_is_told_for_each_and_never_as_a_range() -> None:
    assert texts(expanded(1, 623), expanded(2, 22)) == [
        "b1 proposed to expand the ISR of t-1..t-2 to {b1, b2}. t-1: b2 has caught up to 623; t-2: to 22"
    ]
    assert texts(lagging(0, 30_000_000), lagging(1, 30_000_000)) == [
        "b1 proposed to shrink the ISR of t-0..t-1 to {b1}: b2 has not caught up for 30 s"
        " (replica.lag.time.max.ms is 30 s)"
    ]
    assert texts(lagging(0, 30_000_000), lagging(1, 31_000_000)) == [
        "b1 proposed to shrink the ISR of t-0..t-1 to {b1}. t-0: b2 has not caught up for 30 s; "
        "t-1: b2 has not caught up for 31 s"
        " (replica.lag.time.max.ms is 30 s)"
    ]


def test_of_many_that_differ_the_first_are_told_and_the_others_counted() -> None:
    (four,) = texts(*(expanded(n, n) for n in range(4)))
    assert four.endswith("t-0: b2 has caught up to 0; t-1: to 1; t-2: to 2; t-3: to 3")
    (many,) = texts(*(expanded(n, n) for n in range(17)))
    assert many.endswith("t-0: b2 has caught up to 0; t-1: to 1; t-2: to 2; 14 more partitions")
    (same,) = texts(*(expanded(n, 5 * (n == 3)) for n in range(9)))
    assert same.endswith("t-0..t-2, t-4..t-8: b2 has caught up to 0; t-3: to 5")


def test_the_leader_and_the_members_of_sets_of_one_size_may_differ() -> None:
    assert texts(expanded(0, 9), expanded(1, 9, node="b3")) == [
        "each leader proposed to expand the ISR of t-0..t-1 to {b1, b2} or {b3, b2}: b2 has caught up to 9"
    ]
    assert texts(*(committed(n, (f"b{4 + n}",)) for n in range(2))) == [
        "b3 left the ISR of t-0..t-1 (now {b4} or {b5})"
    ]
    assert texts(*(committed(n, (f"b{4 + n}",)) for n in range(5))) == ["b3 left the ISR of t-0..t-4"]
    proposed = [
        committed(n, ("b1",), proposed_by=f"b{n}", cause=IsrCommitCause.PROPOSED, partition_epoch=9) for n in range(2)
    ]
    assert texts(*proposed) == ["b3 left the ISR of t-0..t-1 (now {b1}): each leader proposed this"]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([elected(0), elected(1, "b3")], id="who leads"),
        pytest.param([elected(0), elected(1, clean=False)], id="clean or not"),
        pytest.param([elected(0), elected(1, cause=ElectionCause.PREFERRED)], id="the cause"),
        pytest.param([elected(0), elected(1, occasion_brokers=("b4",))], id="the occasion"),
        pytest.param([elected(0), elected(1, previous_isr=("b1", "b2"))], id="the size of a set"),
        pytest.param([elected(0), elected(1, "b2", previous_isr=("b1", "b3", "b4"))], id="where it came from"),
        pytest.param([expanded(0, 9), expanded(1, 9, joins="b3")], id="who joins"),
        pytest.param([committed(0, ("b1",)), committed(1, ("b1",), left="b2")], id="who left"),
        pytest.param([expanded(0, 9), lagging(1, 9)], id="joining or leaving"),
        pytest.param([elected(0), elected(0)], id="a second event of one partition is news"),
    ],
)
def test_names_causes_and_sizes_decide(events: list[TraceEvent]) -> None:
    assert len(texts(*events)) == 2


def test_brokers_whose_names_are_numbers_are_names() -> None:
    assert len(texts(elected(0, "2"), elected(1, "3"))) == 2


def test_only_what_happens_within_a_second_of_the_first_is_one() -> None:
    lines = texts(*(elected(n) for n in range(4)), apart_us=TOGETHER_US)
    assert [line.partition(" in ")[0] for line in lines] == [
        "b2 was elected leader of t-0..t-1",
        "b2 was elected leader of t-2..t-3",
    ]


def test_another_sign_and_events_of_no_partition_stand_alone() -> None:
    told = [ShownEvent(0, elected(n), n, sign) for n, sign in enumerate(("elected", "offline", "elected"))]
    assert [group.numbers for group in together(told)] == [[0, 2], [1]]
    assert together(told)[0].partitions == [("t", 0), ("t", 2)]
    stopped = trace.NodeStopped(node="b1", how="kill")
    assert texts(stopped, stopped) == ["b1 was killed (kill -9)"] * 2


KINDS = [cls for cls in trace.EVENT_CLASSES if issubclass(cls, OfPartitions)]


@given(st.data(), st.sampled_from(KINDS))
def test_every_class_tells_of_events_that_it_takes_for_the_same(data: st.DataObject, kind: type[OfPartitions]) -> None:
    """Drawn events that differ in what may differ: the sentence is made, and names each partition or counts them."""
    hints = typing.get_type_hints(kind)
    drawn: Fields = {one.name: data.draw(_value(hints[one.name])) for one in fields(kind)}
    many = []
    for number in range(data.draw(st.integers(1, 6))):
        differs = {name: data.draw(_value(hints[name])) for name in kind.MAY_DIFFER}
        many.append(kind(**drawn | differs | {"topic": "t", "partition": 2 * number}))
    same = [event for event in many if event.fold_key() == many[0].fold_key()]
    said = kind.sentence_of(same)
    assert all(f"t-{event.partition}" in said for event in same[:4]) or f"{len(same)} partitions" in said


def _value(hint: Any) -> st.SearchStrategy[Any]:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return st.lists(_value(arguments[0]), max_size=3, unique=True).map(tuple)
    if arguments:
        return st.one_of(*(st.none() if one is type(None) else _value(one) for one in arguments))
    if issubclass(hint, Cause):
        return st.sampled_from(list(hint))
    plain: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(0, 99), bool: st.booleans(), str: st.sampled_from(["b1", "b2", "b3", "leader"])
    }  # fmt: skip
    return plain[hint]
