"""What stands between two nodes: cuts, holds, latency, loss and bandwidth of links, network cards."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from lab import FETCH, MS, PRODUCE, Lab, Node, frame, milliseconds

from cluster.network.links import RETRANSMISSION_TIMEOUT_US, Card, Latency, Link
from cluster.node import Send
from replica.trace.events import MessageDropped, MessageHeld, MessageReleased


@pytest.fixture
def lab() -> Lab:
    """a has connected to b by 2 ms."""
    lab = Lab()
    lab.connects(0, "a", "b")
    return lab


# -------------------------------------------------------------------------------------------------------- cut, heal


def test_a_cut_delays_and_loses_nothing(lab: Lab) -> None:
    lab.cuts(5, "a", "b")
    for number in range(3):
        lab.sends(10 + number, "a", f"m{number}")
    lab.heals(100)
    lab.run()
    assert lab["b"].texts == [(100, "m0"), (100, "m1"), (100, "m2")]


def test_what_arrives_in_the_instant_of_the_heal_stays_behind_what_waited(lab: Lab) -> None:
    lab.cuts(5, "a", "b")
    for number in range(3):
        lab.sends(10 + number, "a", f"m{number}")
    lab.heals(100)
    lab.sends(99, "a", "m3")
    lab.run()
    assert lab["b"].texts == [(100, "m0"), (100, "m1"), (100, "m2"), (100, "m3")]


def test_a_cut_has_a_direction(lab: Lab) -> None:
    lab.cuts(5, "a", "b")
    lab.does(10, "b", Send(-1, [frame("the other way")], PRODUCE))
    lab.sends(10, "a", "stopped")
    lab.run()
    assert lab["a"].texts == [(11, "the other way")]
    assert lab["b"].texts == []


def test_what_is_in_flight_when_the_cut_comes_waits_too(lab: Lab) -> None:
    lab.sends(10, "a", "too late")
    lab.cuts(10.5, "a", "b")
    lab.heals(50)
    lab.run()
    assert lab["b"].texts == [(50, "too late")]


def test_a_close_behind_a_cut_is_heard_of_after_the_heal_and_data_before_it_is_lost(lab: Lab) -> None:
    lab.cuts(5, "a", "b")
    lab.sends(10, "a", "held back")
    lab.at(20, lambda: lab.host("a").kill())
    lab.heals(100)
    lab.run()
    assert lab["b"].what("received", "disconnected") == [(100, "disconnected", "closed by the other side")]
    assert dropped(lab) == [
        (20, "the 0 request from a to b was lost on its way: a closed the connection while the link was cut")
    ]


def test_a_dial_through_a_cut_waits_for_the_heal() -> None:
    lab = Lab()
    lab.cuts(0, "a", "b")
    lab.connects(5, "a", "b")
    lab.heals(100)
    lab.run()
    assert lab["a"].what("connected") == [(102, "connected", None)]


def test_other_links_do_not_notice() -> None:
    lab = Lab("abc")
    lab.connects(0, "c", "b")
    lab.cuts(5, "a", "b")
    lab.sends(10, "c", "hello")
    lab.run()
    assert lab["b"].texts == [(11, "hello")]


# ---------------------------------------------------------------------------------------------------- hold, release


def test_a_hold_takes_one_api_and_what_comes_behind_it(lab: Lab) -> None:
    """TCP keeps its order: messages behind a held one on the same connection wait with it."""
    lab.holds(5, "a", "b", api=FETCH)
    lab.sends(10, "a", "produce 1", api=PRODUCE)
    lab.sends(20, "a", "fetch", api=FETCH)
    lab.sends(30, "a", "produce 2", api=PRODUCE)
    lab.releases(100)
    lab.run()
    assert lab["b"].texts == [(11, "produce 1"), (100, "fetch"), (100, "produce 2")]
    events = [
        (milliseconds(row.at_us), type(row.event))
        for row in lab.rows
        if isinstance(row.event, MessageHeld | MessageReleased)
    ]
    assert events == [(21, MessageHeld), (100, MessageReleased)]
    held, released = (row for row in lab.rows if isinstance(row.event, MessageHeld | MessageReleased))
    assert released.causes == (held.seq,)


def test_a_hold_of_responses_lets_requests_pass() -> None:
    lab = Lab()
    lab.nodes["b"] = Node(answers=True)
    lab.connects(0, "a", "b")
    lab.holds(5, "b", "a", api=FETCH, part="response")
    lab.sends(10, "a", "question", api=FETCH)
    lab.releases(100)
    lab.run()
    assert lab["b"].texts == [(11, "question")]
    assert lab["a"].texts == [(100, "re:question")]


def dropped(lab: Lab) -> list[tuple[float, str]]:
    return [
        (milliseconds(row.at_us), row.event.sentence()) for row in lab.rows if isinstance(row.event, MessageDropped)
    ]


@pytest.mark.parametrize("end", ["kill", "close"])
def test_what_is_held_outlives_the_process_that_sent_it(lab: Lab, end: str) -> None:
    lab.holds(5, "a", "b")
    lab.sends(10, "a", "held")
    lab.at(20, lambda: lab.host("a").kill()) if end == "kill" else lab.closes(20, "a")
    if end == "kill":
        lab.starts(30, "a")
    lab.releases(100)
    lab.run()
    assert lab["b"].what("received", "disconnected") == [
        (100, "received", "held"), (100, "disconnected", "closed by the other side"),
    ]  # fmt: skip
    assert dropped(lab) == []


def test_what_is_on_its_way_to_a_hold_outlives_its_sender_too(lab: Lab) -> None:
    lab.sends(10, "a", "too late")
    lab.at(10.5, lambda: lab.host("a").kill())
    lab.holds(10.7, "a", "b")
    lab.releases(50)
    lab.run()
    assert lab["b"].texts == [(50, "too late")]


@pytest.mark.parametrize("killed_before", [False, True])
def test_what_is_held_is_lost_with_the_power_of_its_sender(lab: Lab, killed_before: bool) -> None:
    lab.holds(5, "a", "b", api=FETCH)
    lab.sends(10, "a", "held", api=FETCH)
    if killed_before:
        lab.at(15, lambda: lab.host("a").kill())
    lab.at(20, lambda: lab.host("a").power_off())
    lab.releases(100)
    lab.run()
    assert lab["b"].what("received", "disconnected") == []
    assert dropped(lab) == [(20, "the 1 request from a to b was lost on its way: a lost power")]


def test_what_arrives_at_a_hold_after_its_sender_lost_power_is_lost(lab: Lab) -> None:
    lab.sends(10, "a", "too late")
    lab.at(10.5, lambda: lab.host("a").power_off())
    lab.holds(10.7, "a", "b")
    lab.releases(50)
    lab.run()
    assert lab["b"].texts == []
    assert dropped(lab) == [(11, "the 0 request from a to b was lost on its way: a lost power")]


def test_what_is_held_is_lost_when_its_receiver_closes_the_connection(lab: Lab) -> None:
    lab.holds(5, "a", "b")
    lab.sends(10, "a", "held")
    lab.at(20, lambda: lab.host("b").kill())
    lab.starts(30, "b")
    lab.releases(100)
    lab.run()
    assert lab["b"].texts == []
    assert dropped(lab) == [
        (21, "the 0 request from a to b was lost on its way: the connection was closed by the other side")
    ]


# --------------------------------------------------------------------------------------------------- links


def test_bandwidth_sends_one_message_after_the_other() -> None:
    lab = Lab()
    lab.network.link("a", "b").bytes_per_second["slow"] = 10_000
    lab.connects(0, "a", "b")
    for text in ("one", "two"):
        lab.does(100, "a", Send(1, [frame(text, padding=997)], PRODUCE))
    lab.run()
    # 1000 bytes of payload at 10 kB/s take 100 ms each.
    assert lab["b"].texts == [(201, "one"), (301, "two")]


def test_loss_costs_retransmission_timeouts_and_never_the_message() -> None:
    link = Link("a", "b", Lab().network.link("a", "b").stream, Latency("constant", 0), loss={"bad": 0.5})
    delays = [link.arrival_us(0, 100) for _ in range(2000)]
    steps = [RETRANSMISSION_TIMEOUT_US * (2**lost - 1) for lost in range(12)]
    assert all(delay in steps for delay in delays)
    assert 900 < delays.count(0) < 1100
    assert 400 < delays.count(steps[1]) < 600


@pytest.mark.parametrize("disturb", [
    lambda link: link.cuts.append("fault"),
    lambda link: link.added.update(fault=Latency("constant", 1)),
    lambda link: link.loss.update(fault=0.1),
    lambda link: link.bytes_per_second.update(fault=1000),
])  # fmt: skip
def test_a_link_is_clear_only_where_no_fault_is_on_it(disturb: Callable[[Link], None]) -> None:
    link = Link("a", "b", Random(1), Latency("constant", 0))
    assert link.is_clear
    disturb(link)
    assert not link.is_clear
    link.remove("fault")
    assert link.is_clear


@pytest.mark.parametrize("base", [Latency("constant", 1), Latency("uniform", 0, 1), Latency("exponential", 0, 1)])
def test_a_link_that_takes_some_time_is_not_clear(base: Latency) -> None:
    assert not Link("a", "b", Random(1), base).is_clear


def test_links_draw_from_streams_of_their_own() -> None:
    def arrivals(others: str) -> list[int]:
        lab = Lab("ab" + others, latency=Latency("exponential", 0, 5 * MS))
        drawn = []
        for _ in range(20):
            drawn.append(lab.network.link("a", "b").arrival_us(0, 1))
            for other in others:
                lab.network.link("a", other).arrival_us(0, 1)
        return drawn

    assert arrivals("") == arrivals("cd")


# --------------------------------------------------------------------------------------------------- cards


def test_connections_of_a_machine_share_its_card() -> None:
    lab = Lab("abc")
    lab.network.cards["a"] = Card(10_000)
    lab.connects(0, "a", "b", connection=1)
    lab.connects(0, "a", "c", connection=2)
    for connection in (1, 2):
        lab.does(100, "a", Send(connection, [frame(f"to {connection}", padding=996)], PRODUCE))
    lab.run()
    assert lab["b"].texts == [(201, "to 1")]  # 100 ms of the card, 1 ms of the link
    assert lab["c"].texts == [(301, "to 2")]


def test_a_cut_and_a_hold_stop_what_has_passed_a_card() -> None:
    lab = Lab()
    lab.network.cards["a"] = Card(1_000_000)
    lab.connects(0, "a", "b")
    lab.cuts(10, "a", "b")
    lab.sends(10, "a", "one")
    lab.heals(50)
    lab.holds(60, "a", "b")
    lab.sends(60, "a", "two")
    lab.releases(90)
    lab.run()
    assert lab["b"].texts == [(50, "one"), (90, "two")]
