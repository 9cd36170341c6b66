"""Events that a fold does not need are cut off before it: it makes the same rows of what is left as of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reports.folds import catch_ups, hw_stalls, terms
from spark_reports.folds.events import Cut
from spark_reports.folds.facts import WORD
from spark_reports.folds.rows import Fold

KEY = ("run", "topic", "partition")
WORDS = {"run", "topic", "what", "leader", "node", "follower", "ended_by", "previous_leader", "reason"}
LISTS = {"isr", "joined"}
NODES = ("b1", "b2", "b3")

Event = dict[str, Any]
FOLDS: dict[str, tuple[Fold, Cut, tuple[str, ...]]] = {
    "hw_stalls": (hw_stalls.hw_stalls, hw_stalls.cut, hw_stalls.COLUMNS),
    "catch_ups": (catch_ups.catch_ups, catch_ups.cut, catch_ups.COLUMNS),
    "elections": (terms.elections, terms.elections_cut, terms.ELECTION_COLUMNS),
}


def table_of(name: str, events: list[Event]) -> pa.Table:
    """In two partitions, by that and seq."""

    def kind(column: str) -> pa.DataType:
        if column in LISTS:
            return pa.list_(pa.string())
        return pa.bool_() if column == "clean" else WORD if column in WORDS else pa.int64()

    columns = dict.fromkeys((*KEY, *FOLDS[name][2], "seq"))
    schema = pa.schema([(column, kind(column)) for column in columns])
    rows = [{"run": "0001-run", "topic": "t", **event} for event in sorted(events, key=lambda its: its["partition"])]
    return pa.Table.from_pylist(rows, schema)


def rows_of(name: str, facts: pa.Table) -> list[list[tuple[Any, ...]]]:
    """What the fold makes of each partition."""
    fold, _, columns = FOLDS[name]
    rows = facts.to_pylist()
    return [
        list(fold(tuple(row[column] for column in columns) for row in rows if row["partition"] == one))
        for one in (0, 1)
    ]


def in_order(draw: Callable[[Any], Any], events: list[Event]) -> Iterator[Event]:
    at_us = 0
    for seq, event in enumerate(events):
        at_us += draw(st.sampled_from((0, 1, 300_000, 500_000, 2_000_000)))
        yield {"seq": seq, "at_us": at_us, "partition": draw(st.sampled_from((0, 0, 0, 1))), **event}


small = st.integers(0, 3)
nodes = st.sampled_from(NODES)
of_leader = {"leader": st.sampled_from(NODES[:2]), "leader_epoch": st.integers(0, 1)}


@st.composite
def hw_events(draw: Any) -> list[Event]:
    """Most of one leader in one epoch: else hardly any stall would be long."""
    end = st.none() | small
    own = {"leader": st.sampled_from(("b1", "b1", "b1", "b2")), "leader_epoch": st.sampled_from((0, 0, 0, 1))}
    until = {"until_us": st.just(90_000_000), "ended_by": st.just("the run ended")}
    begun = {"log_end_offset": end, "high_watermark": end, "until_seq": st.sampled_from((9, 60))}
    term = st.fixed_dictionaries({"what": st.just(hw_stalls.TERM), **own, **begun, **until})
    appended = st.fixed_dictionaries({"what": st.just(hw_stalls.APPENDED), **own, "log_end_offset": end})
    moved = st.fixed_dictionaries(
        {"what": st.just(hw_stalls.MOVED), **own, "log_end_offset": end, "high_watermark": end}
    )
    fetched = st.fixed_dictionaries(
        {"what": st.just(hw_stalls.FETCHED), **own, "follower": st.sampled_from(NODES[1:]), "fetch_offset": end}
    )
    isr = {"isr": st.lists(nodes, unique=True), "min_isr": small}
    state = st.fixed_dictionaries({"what": st.just(hw_stalls.STATE), "until_us": st.integers(0, 50_000_000), **isr})
    kinds = st.one_of(appended, moved, fetched, appended, moved, fetched, term, state)
    first = {"what": hw_stalls.STATE, "until_us": 90_000_000, "isr": [*NODES], "min_isr": 1, "partition": 0}
    led = {"what": hw_stalls.TERM, "leader": "b1", "leader_epoch": 0, "log_end_offset": 0, "high_watermark": 0}
    led |= {"until_seq": 60, "until_us": 90_000_000, "ended_by": "the run ended", "partition": 0}
    return list(in_order(draw, [first, led, *draw(st.lists(kinds, max_size=30))]))


@st.composite
def returns(draw: Any) -> list[Event]:
    node, offset = {"node": st.sampled_from(NODES[:2])}, st.none() | small
    some = draw(
        st.lists(
            st.fixed_dictionaries({"what": st.sampled_from((catch_ups.STARTED, catch_ups.STOPPED)), **node})
            | st.fixed_dictionaries({"what": st.just(catch_ups.FETCHED), **node, "fetch_offset": offset,
                                     "log_end_offset": offset})
            | st.fixed_dictionaries({"what": st.just(catch_ups.APPENDED), **node, "base_offset": small,
                                     "last_offset": small, "size_bytes": offset})
            | st.fixed_dictionaries({"what": st.just(catch_ups.JOINED), "joined": st.lists(nodes, unique=True)}),
            max_size=40,
        )
    )  # fmt: skip
    started = {"what": catch_ups.STARTED, "node": "b1"}
    return list(in_order(draw, [started, started, *some]))


@st.composite
def election_events(draw: Any) -> list[Event]:
    said = st.sampled_from((terms.CREATED, terms.ELECTED, terms.OFFLINE, terms.BEGAN))
    some = draw(
        st.lists(
            st.fixed_dictionaries({"what": said | st.just(terms.APPENDED), **of_leader})
            | st.fixed_dictionaries({"what": st.sampled_from((terms.STARTED, terms.STOPPED)), "leader": nodes}),
            max_size=40,
        )
    )
    return list(in_order(draw, some))


@given(hw_events())
def test_a_stall_is_the_same_without_what_cannot_be_one(events: list[Event]) -> None:
    facts = table_of("hw_stalls", events)
    assert rows_of("hw_stalls", hw_stalls.cut(facts)) == rows_of("hw_stalls", facts)


def test_what_was_before_a_stall_tells_who_held_it_and_begins_none() -> None:
    led = {"leader": "b1", "leader_epoch": 0, "partition": 0}
    moves = [(0, 0, 0), (1, 1, 1), (3_000_000, 2, 3), (3_100_000, 3, 3), (9_000_000, 4, 5)]
    events: list[Event] = [
        {"what": hw_stalls.STATE, "at_us": 0, "until_us": 10_000_000, "isr": [*NODES], "min_isr": 1, "partition": 0},
        *({"what": hw_stalls.MOVED, **led, "at_us": at_us, "high_watermark": hw, "log_end_offset": end}
          for at_us, hw, end in moves),
        *({"what": hw_stalls.FETCHED, **led, "at_us": 0, "follower": name, "fetch_offset": offset}
          for name, offset in (("b2", 3), ("b3", 0))),
        {"what": hw_stalls.APPENDED, **led, "at_us": 1_000_000, "log_end_offset": 2},
    ]  # fmt: skip
    events[1] |= {"what": hw_stalls.TERM, "until_seq": 99, "until_us": 10_000_000, "ended_by": "the run ended"}
    in_time = sorted(events, key=lambda event: event["at_us"])
    facts = table_of("hw_stalls", [{"seq": seq, **event} for seq, event in enumerate(in_time)])
    (stalls, _) = rows_of("hw_stalls", hw_stalls.cut(facts))
    assert stalls == rows_of("hw_stalls", facts)[0]
    assert [(stall[2], stall[3], stall[7]) for stall in stalls] == [
        (1_000_000, 3_000_000, ["b3"]), (9_000_000, 10_000_000, ["b2", "b3"]),
    ]  # fmt: skip


@given(returns())
def test_a_return_is_the_same_without_what_replicas_do_otherwise(events: list[Event]) -> None:
    facts = table_of("catch_ups", events)
    assert rows_of("catch_ups", catch_ups.cut(facts)) == rows_of("catch_ups", facts)


@given(election_events())
def test_an_election_is_the_same_without_later_appends(events: list[Event]) -> None:
    facts = table_of("elections", events)
    assert rows_of("elections", terms.elections_cut(facts)) == rows_of("elections", facts)


LEADS = {"leader": "b1", "leader_epoch": 0, "partition": 0}
HW = [
    {"what": hw_stalls.TERM, **LEADS, "log_end_offset": 0, "high_watermark": 0, "until_seq": 11, "until_us": 99},
    *({"what": hw_stalls.FETCHED, **LEADS, "follower": "b2", "fetch_offset": 0} for _ in range(9)),
    {"what": hw_stalls.APPENDED, **LEADS, "log_end_offset": 1},
    {"what": hw_stalls.MOVED, **LEADS, "log_end_offset": 1, "high_watermark": 1},
]  # fmt: skip
CAUGHT_UP = [
    *({"what": catch_ups.STARTED, "node": "b2", "partition": 0} for _ in range(2)),
    *({"what": catch_ups.FETCHED, "node": "b2", "partition": 0, "fetch_offset": 1, "log_end_offset": 1} for _ in "123"),
]
WRITTEN = [{"what": terms.ELECTED, **LEADS}, *({"what": terms.APPENDED, **LEADS} for _ in range(3))]


@pytest.mark.parametrize(
    ("name", "events", "left"), [("hw_stalls", HW, 2), ("catch_ups", CAUGHT_UP, 3), ("elections", WRITTEN, 2)]
)
def test_what_is_most_of_a_trace_is_cut_off(name: str, events: list[Event], left: int) -> None:
    facts = table_of(name, [{"seq": seq, "at_us": seq, **event} for seq, event in enumerate(events)])
    assert len(FOLDS[name][1](facts)) == left
