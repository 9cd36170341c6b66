"""Futures of a scenario: what was seen stays as it was, and what is downloaded is what was played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files

import pytest

from replica.trace.events import NodeStarted, TraceRow
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.catalogue import bundled, find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.spec import Scenario
from scenarios.play.choices import choices_of, step_of_words
from scenarios.play.futures import FUTURES_MAX, Future, Futures, NoSuchFuture
from scenarios.play.moments import Situation
from scenarios.run.runner import RunResult, run_scenario
from tests.soak import one_in

SOME = (
    "acks1-leader-kill",
    "group-slow-consumer",
    "hw-stalls-slow-follower",
    "unclean-election-lost",
    "zombie-leader-acks1",
)


def scenario(name: str) -> Scenario:
    return load_file(find_scenario(name)).scenario


def played(found: Scenario) -> RunResult:
    return run_scenario(found, runs_dir=None, keep_rows=True)


def before(rows: list[TraceRow], at_us: int) -> list[str]:
    return [repr(row) for row in rows if row.at_us < at_us]


def keeps_its_past(name: str) -> None:
    """The last moment of the first half at which something happened, and a broker that is killed then."""
    futures = Futures(scenario(name))
    first = played(futures[0].scenario)
    now_us = max((row.at_us for row in first.rows if row.at_us <= futures[0].scenario.duration_us // 2), default=0)
    broker = next(iter(futures[0].scenario.cluster.brokers))
    future = futures.add_step(0, now_us, step_of_words(futures[0].scenario, ("kill", broker)))
    assert future.at_us > now_us
    second = played(future.scenario)
    assert before(second.rows, future.at_us) == before(first.rows, future.at_us) != []
    killed = [row for row in second.rows if row.at_us == future.at_us and row.event.__class__.__name__ == "FaultBegan"]
    assert len(killed) == 1


@pytest.mark.parametrize("name", one_in(4, [name for name in SOME if name in bundled()]))
def test_what_was_seen_stays_as_it_was(name: str) -> None:
    keeps_its_past(name)


@pytest.mark.soak
@pytest.mark.parametrize("name", one_in(6, sorted(bundled()), pytest.mark.night))
def test_what_was_seen_stays_as_it_was_in_every_scenario(name: str) -> None:
    keeps_its_past(name)


@pytest.mark.soak
def test_what_is_downloaded_plays_to_the_same_digest() -> None:
    futures = Futures(scenario("acks1-leader-kill"))
    futures.add_step(0, 9_000_123, step_of_words(futures[0].scenario, ("kill", "b2")))
    futures.change_setting(1, "workloads.p1.config.acks=all")
    moved = futures.move_step(2, 3, 12_000_000)
    removed = futures.remove_step(3, 5)
    assert [future.name for future in (futures[1], futures[2], moved, removed)] == [
        "+ kill b2 at 9.001 s",
        "p1 acks=all",
        "kill leader(t-0) at 12 s instead of 10.5 s",
        "without start the target of `kill leader(t-0)` at 30 s",
    ]
    for future in (futures[0], futures[1], futures[2], moved, removed):
        digest = played(future.scenario).summary["trace_sha256"]
        assert played(load_text(future.text, "downloaded.yaml").scenario).summary["trace_sha256"] == digest


def test_how_long_a_step_lasts_is_changed() -> None:
    futures = Futures(load_text(NAMED, "named.yaml").scenario)
    shorter = futures.change_length(0, 1, 1_500_000)
    assert shorter.name == "cut b2 from b3 at 12 s lasts 1.5s" and shorter.at_us == 12_000_000
    endless = futures.change_length(shorter.number, 1, None)
    assert endless.name == "cut b2 from b3 at 12 s lasts to the end"
    assert endless.scenario.timeline == futures[0].scenario.timeline
    assert [length for _, _, length, _ in shorter.as_json([])["steps"]] == ["", "1.5s", None, None]
    with pytest.raises(ScenarioInvalid):
        futures.change_length(0, 2, 1_000_000)


def test_a_kill_of_what_is_down_says_that_it_had_no_effect() -> None:
    futures = Futures(scenario("acks1-leader-kill"))
    kill = futures.add_step(0, 9_000_000, step_of_words(futures[0].scenario, ("kill", "b1")))
    moved = futures.move_step(kill.number, len(kill.scenario.timeline) - 1, 14_000_000)
    told = [one.as_json(played(one.scenario).rows)["steps"][-1] for one in (kill, moved)]
    assert [why for *_, why in told] == ["", "no effect, b1 was already down"]


def test_a_step_is_not_moved_behind_the_end_of_the_run() -> None:
    futures = Futures(scenario("acks1-leader-kill"))
    with pytest.raises(NoSuchFuture, match="the run ends at 60 s: a step at 99 s would never happen"):
        futures.move_step(0, 3, 99_000_000)
    assert futures.move_step(0, 3, 60_000_000).at_us == 10_500_000


def test_what_a_step_of_the_file_has_killed_can_be_started() -> None:
    """The file says `kill leader(t-0)`: that this was b1 is known on the page alone."""
    futures = Futures(scenario("acks1-leader-kill"))
    future = futures.add_step(0, 15_000_000, step_of_words(futures[0].scenario, ("start", "b1")))
    assert [row.event.node for row in played(future.scenario).rows if isinstance(row.event, NodeStarted)].count(
        "b1"
    ) == 2


NAMED = """
schema: 1
id: named
title: Steps that name their broker
duration: 40s
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: {0: [b1, b2, b3]}}}
workloads: {p1: {kind: producer, topic: t, rate: 2/s, config: {acks: all}}}
timeline:
  - {at: 10s, kill: b1}
  - {at: 12s, cut: {between: [b2, b3]}, as: split}
  - {at: 20s, start: b1}
  - {at: 22s, heal: split}
"""


START = {"start": "b1"}


@pytest.mark.parametrize(
    ("change", "name", "left"),
    [
        (lambda made: made.add_step(0, 15_000_000, START), "+ start b1 at 15.001 s, without start b1 at 20 s", 4),
        (lambda made: made.remove_step(0, 0), "without kill b1 at 10 s, without start b1 at 20 s", 2),
        (
            lambda made: made.remove_step(0, 1),
            "without cut b2 from b3 at 12 s, without heal `cut b2 from b3` at 22 s",
            2,
        ),
        (
            lambda made: made.move_step(0, 0, 25_000_000),
            "kill b1 at 25 s instead of 10 s, without start b1 at 20 s",
            3,
        ),
    ],
)
def test_steps_that_a_change_makes_impossible_are_left_out(
    change: Callable[[Futures], Future], name: str, left: int
) -> None:
    future = change(Futures(load_text(NAMED, "named.yaml").scenario))
    assert future.name == name and len(future.scenario.timeline) == left
    assert load_text(future.text, "downloaded.yaml").scenario == future.scenario


def test_what_is_changed_is_never_left_out() -> None:
    futures = Futures(load_text(NAMED, "named.yaml").scenario)
    with pytest.raises(ScenarioInvalid):
        futures.add_step(0, 5_000_000, START)
    with pytest.raises(ScenarioInvalid):
        futures.move_step(0, 2, 5_000_000)


def test_a_future_that_cannot_be_leaves_the_tree_as_it_was() -> None:
    futures = Futures(scenario("acks1-leader-kill"))
    with pytest.raises(ScenarioInvalid):
        futures.add_step(0, 0, {"kill": "b9"})
    with pytest.raises(ScenarioInvalid):
        futures.change_setting(0, "workloads.p1.config.acks=7")
    with pytest.raises(ScenarioInvalid):
        futures.edit(0, "schema: 1")
    with pytest.raises(NoSuchFuture):
        futures.move_step(0, 99, 0)
    with pytest.raises(NoSuchFuture):
        futures[1]


def test_a_future_is_deleted_with_all_that_came_of_it() -> None:
    futures = Futures(scenario("acks1-leader-kill"))
    kill = step_of_words(futures[0].scenario, ("kill", "b2"))
    for parent in (0, 1, 1, 0):
        futures.add_step(parent, 9_000_000, kill)
    gone = futures.delete(1)
    assert [future.number for future in gone] == [1, 2, 3]
    assert futures[4].parent == 0
    futures.restore(gone)
    assert futures.delete(1) == gone, "with all that came of it"
    with pytest.raises(NoSuchFuture):
        futures.delete(0)


@pytest.mark.soak
def test_there_are_only_so_many_futures() -> None:
    futures = Futures(scenario("acks1-leader-kill"))
    kill = step_of_words(futures[0].scenario, ("kill", "b2"))
    for _ in range(FUTURES_MAX - 1):
        futures.add_step(0, 9_000_000, kill)
    with pytest.raises(NoSuchFuture, match="delete a future"):
        futures.add_step(0, 9_000_000, kill)


@pytest.mark.soak
@pytest.mark.parametrize("name", one_in(6, sorted(bundled()), pytest.mark.night))
def test_every_choice_can_be_made(name: str) -> None:
    """Of every bundled scenario: it is a step of the language with a sentence, and downloaded as it was played."""
    found = scenario(name)
    choices = choices_of(found)
    assert {choice.target for choice in choices} >= set(found.cluster.brokers)
    assert all(choice.sentence for choice in choices)
    futures = Futures(replace(found, timeline=()))
    begun = Situation(futures[0].scenario, played(futures[0].scenario).rows, 1_000)
    possible = [choice for choice in choices if not choice.why_not(begun)]
    for choice in possible[:: max(1, len(possible) // 5)]:
        if choice.is_setting:
            future = futures.change_setting(0, choice.words[1])
        else:
            future = futures.add_step(0, 0, step_of_words(found, choice.words))
        assert load_text(future.text, "downloaded.yaml").scenario == future.scenario


def test_the_menu_of_a_broker_restarts_all_in_turn_beginning_with_it() -> None:
    found = scenario("acks1-leader-kill")
    (rolls,) = (one for one in choices_of(found) if one.target == "b2" and one.words[0] == "rolling_restart")
    assert rolls.words[1:] == ("b2", "b3", "b1") and "one after another" in rolls.sentence
    future = Futures(found).add_step(0, 1_000_000, step_of_words(found, rolls.words))
    restarted = [
        row.event.node for row in played(future.scenario).rows if isinstance(row.event, NodeStarted) and row.at_us
    ]
    assert restarted[:2] == ["b2", "b3"]


def test_the_menu_of_a_client_begins_with_its_settings() -> None:
    menu = [one.label for one in choices_of(scenario("acks1-leader-kill")) if "p1" in one.target.split()]
    assert menu[:5] == ["acks=0", "acks=1", "acks=all", "Send ten records", "Kill"]


@pytest.mark.parametrize("now_us", [5_000_000, 10_300_000, 20_200_000])
@pytest.mark.parametrize(("acks", "lost"), [("1", 5), ("all", 0)])
def test_what_play_begins_with_shows_what_acks_promise(acks: str, lost: int, now_us: int) -> None:
    text = files("scenarios.play").joinpath("three-brokers.yaml").read_text(encoding="utf-8")
    futures = Futures(load_text(text, "three-brokers.yaml", [f"workloads.p1.config.acks={acks}"]).scenario)
    future = futures.add_step(0, now_us, {"kill": "b1"})
    records = played(future.scenario).summary["records"]
    assert (len(records["lost"]), len(records["acked"])) == (lost, records["sent"])


GREY = """
schema: 1
id: grey
title: Steps after which some others make no difference
duration: 40s
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}, b4: {}}}
topics: {t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}}
workloads:
  p1: {kind: producer, topic: t, rate: 2/s, config: {acks: all}}
  p2: {kind: producer, topic: t, rate: 2/s, start: 35s}
timeline:
  - {at: 5s, cut: {between: [b1, [b2, b4]]}, for: 2s}
  - {at: 10s, hold: {from: b1, to: b2, api: Fetch, part: response}, for: 2s}
  - {at: 15s, pause: b3, for: 2s}
  - {at: 20s, fill_disk: b4, for: 2s}
  - {at: 25s, kill: c1, for: 2s}
  - {at: 30s, rolling_restart: [b4, b3]}
"""


@pytest.fixture(scope="module")
def grey() -> Callable[[str, str, float], str]:
    """Why a choice makes no difference at a time in seconds, "" if it does."""
    found = load_text(GREY, "grey.yaml").scenario
    choices, rows = choices_of(found), played(found).rows

    def why_not(target: str, label: str, at_s: float) -> str:
        (choice,) = (one for one in choices if (one.target, one.label) == (target, label))
        return choice.why_not(Situation(found, rows, int(at_s * 1e6)))

    return why_not


@pytest.mark.parametrize(
    ("target", "label", "at_s", "why", "free_s"),
    [
        ("b1 b2", "Cut the link", 6, "Nothing passes between b1 and b2 now.", 8),
        ("b1 b4", "Cut the link", 6, "Nothing passes between b1 and b4 now.", 4),
        ("network", "Restore all links", 8, "No link is cut or slowed down now.", 6),
        ("b1 b2", "Hold the records from b1 to b2", 11, "These messages are held already.", 9),
        ("b1 b2", "Hold the records from b1 to b2: only the next message", 11, "These messages are held already.", 13),
        ("network", "Release all held messages", 13, "No messages are held now.", 11),
        ("b3", "Freeze", 16, "b3 is frozen already.", 18),
        ("b3", "Unfreeze", 18, "b3 is not frozen now.", 16),
        ("b4", "Fill its disk", 21, "b4 is not running now.", 19),
        ("p2", "Start", 30, "p2 has not started yet.", None),
        ("b1", "Restart all brokers in turn, this one first", 30.1, "b4 is not running now.", 4),
        ("b1", "Start", 4, "b1 is running now.", None),
        ("b4", "Wipe its disk", 4, "b4 is running now.", 30.1),
        ("t-0 b1", "Elect as the leader", 4, "b1 leads t-0 already.", None),
        ("t-0 b4", "Elect as the leader", 4, "b4 holds no replica of t-0.", None),
        ("t-0 b2", "Elect as the leader", 26, "c1 is not running now.", 4),
        ("t-0", "Reassign to b2,b3,b4", 26, "c1 is not running now.", 4),
        ("t-0", "Reassign to b1,b2,b3", 4, "t-0 is on b1, b2, b3 already.", None),
        ("t-0", "Elect uncleanly", 4, "t-0 has a leader, b1, so no unclean election is needed.", None),
        ("t-0", "Delete its records", 0.001, "t-0 does not exist now.", 4),
        ("t-0", "Add a partition to its topic", 26, "c1 is not running now.", 4),
        ("t-0", "min.insync.replicas=2", 4, "t has min.insync.replicas=2 already.", None),
        ("t-0", "min.insync.replicas=1", 26, "c1 is not running now.", 4),
        ("p1", "Kill", 40.001, "The run ends at 40 s.", 40),
        ("p1", "acks=all", 4, "p1 has acks=all already.", None),
    ],
)
def test_what_makes_no_difference_at_a_moment_is_grey_with_the_reason(
    grey: Callable[[str, str, float], str], target: str, label: str, at_s: float, why: str, free_s: float | None
) -> None:
    assert grey(target, label, at_s) == why
    assert free_s is None or grey(target, label, free_s) == ""
