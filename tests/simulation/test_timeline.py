"""Faults begin, end and appear in the trace; an exception comes out as itself."""

from __future__ import annotations

from typing import Any

import pytest

from replica.trace.events import (
    BatchCorrupted,
    CheckMade,
    DataLost,
    FaultBegan,
    FaultEnded,
    MessageHeld,
    NodeStarted,
    NodeStopped,
    PartitionCreated,
    RecordAcked,
    RecordsSent,
)
from scenarios.language.parse.loading import load_text
from scenarios.run.cluster_under_test import NotPossibleNow
from scenarios.run.runner import RunResult, run_scenario
from tests.soak import one_in, one_row_in

FRAME = """
schema: 1
id: faults
title: Faults
duration: 40s
cluster: {{brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}}}
topics: {{t: {{partitions: {{0: [b1, b2, b3]}}}}}}
workloads: {{p1: {{kind: producer, topic: t, rate: 2/s, stop: 35s}}, k1: {{kind: consumer, topic: t}}}}
timeline:
{steps}
"""


def play(*steps: str) -> RunResult:
    text = FRAME.format(steps="\n".join(f"  - {step}" for step in steps))
    return run_scenario(load_text(text, "faults.yaml").scenario, runs_dir=None, keep_rows=True)


def ended(run: RunResult) -> list[tuple[float, str]]:
    return [(row.at_us / 1e6, row.event.fault) for row in run.rows if isinstance(row.event, FaultEnded)]


def test_what_was_held_back_when_its_broker_died_was_not_sent() -> None:
    run = play(
        "{at: 5s, hold: {from: b1, to: b2, api: Fetch, part: body}}",
        "{at: 7s, kill: b1}",
        "{at: 8s, release: all}",
    )
    held = next(row for row in run.rows if isinstance(row.event, MessageHeld))
    sent = [row for row in run.rows if isinstance(row.event, RecordsSent) and row.event.node == "b1"]
    events: list[Any] = [row.event for row in sent if row.at_us >= held.at_us]
    assert {event.peer for event in events} == {"b3"}


def test_what_still_shuts_down_starts_once_it_is_down() -> None:
    run = play("{at: 5s, stop: b1}", "{at: 5s, start: b1}", "{at: 9s, stop: b2, for: 1ms}")
    seen = [
        (type(row.event).__name__, row.event.node, row.at_us // 1_000_000)
        for row in run.rows
        if isinstance(row.event, NodeStarted | NodeStopped) and row.at_us >= 5_000_000
    ]
    assert seen == [
        ("NodeStopped", "b1", 7), ("NodeStarted", "b1", 7), ("NodeStopped", "b2", 11), ("NodeStarted", "b2", 11),
    ]  # fmt: skip
    faults = [row.event for row in run.rows if isinstance(row.event, FaultBegan)]
    assert [fault.effect for fault in faults if fault.verb == "start"] == ["b1 starts as soon as it has shut down"]


def test_clients_of_every_kind_are_stopped() -> None:
    text = FRAME.format(steps="  - {at: 5s, stop: [p1, k1, t1]}").replace(
        "{p1: {", "{t1: {kind: transform, topic: t, to: out, config: {group.id: g}}, p1: {"
    )
    text = text.replace("topics: {", "topics: {out: {partitions: {0: [b1, b2, b3]}}, ")
    run = run_scenario(load_text(text, "faults.yaml").scenario, runs_dir=None, keep_rows=True)
    stopped = [row.event.node for row in run.rows if isinstance(row.event, NodeStopped) and row.at_us < 6_000_000]
    assert stopped == ["p1", "k1", "t1"]


def test_what_has_just_begun_can_be_stopped_at_the_same_instant() -> None:
    run = play("{at: 5s, restart: b1}", "{at: 5s, stop: b1}")
    seen = [
        type(row.event).__name__
        for row in run.rows
        if isinstance(row.event, NodeStarted | NodeStopped) and row.event.node == "b1" and row.at_us >= 5_000_000
    ]
    assert seen == ["NodeStopped", "NodeStarted", "NodeStopped"]


def test_heal_ends_what_it_names_and_all_ends_all() -> None:
    run = play(
        "{at: 5s, cut: {between: [b1, b2]}, as: one}",
        "{at: 6s, latency: {between: [b1, b3], add: 5ms}, as: two}",
        "{at: 6s, hold: {from: b1, to: b2, api: Fetch}, as: three}",
        "{at: 8s, heal: one}",
        "{at: 9s, heal: all}",
        "{at: 10s, release: all}",
    )
    assert ended(run) == [(8, "one"), (9, "two"), (10, "three")]


def held_at(run: RunResult) -> list[tuple[float, str]]:
    return [(row.at_us / 1e6, row.event.fault) for row in run.rows if isinstance(row.event, MessageHeld)]


def test_a_hold_with_a_count_keeps_that_many_messages_and_lets_the_others_pass() -> None:
    """p1 sends at 5.5 s, 6 s, ...; b1 answers each, and a consumer's fetches go on all the time."""
    run = play(
        "{at: 5.2s, hold: {from: b1, to: [p1, k1], api: Fetch, part: response, count: 1}, as: one}",
        "{at: 9s, release: one}",
    )
    ((at_s, fault),) = held_at(run)
    assert 5.2 < at_s < 6.1 and fault == "one"
    began = next(row.event for row in run.rows if isinstance(row.event, FaultBegan) and row.event.fault == "one")
    assert began.effect == "the next Fetch response from b1 to p1 and k1 was held back"
    assert ended(run) == [(9, "one")]


def test_a_hold_with_a_count_counts_over_all_its_connections_and_anew_each_time_it_begins() -> None:
    run = play(
        "{at: 5.2s, hold: {from: [b2, b3], to: b1, api: Fetch, part: request, count: 2},"
        " every: 10s, times: 2, for: 3s, as: two}"
    )
    seconds = [int(at_s) for at_s, _ in held_at(run)]
    assert seconds == [5, 5, 15, 15]


def test_a_fault_ends_once() -> None:
    """Healed by hand before its time is over."""
    run = play("{at: 5s, cut: {between: [b1, b2]}, for: 5s, as: cut}", "{at: 7s, heal: all}")
    assert ended(run) == [(7, "cut")]


def test_a_cut_that_was_made_twice_is_healed_by_one_heal() -> None:
    run = play("{at: 5s, cut: {between: [p1, b1]}, every: 1s, times: 3, as: cut}", "{at: 10s, heal: cut}")
    assert [row.at_us / 1e6 for row in run.rows if isinstance(row.event, FaultBegan)] == [5, 6, 7, 10]
    acked = [row.at_us / 1e6 for row in run.rows if isinstance(row.event, RecordAcked)]
    assert not any(5.01 < at_s < 10 for at_s in acked)
    assert sum(10 <= at_s < 11 for at_s in acked) > 5


def test_each_of_several_overlapping_kills_is_undone() -> None:
    """Every turn kills another leader; each comes back after its own time."""
    run = play('{at: 5s, kill: "leader(t-0)", every: 10s, times: 2, for: 12s, as: kill}')
    killed = [row.event.targets for row in run.rows if isinstance(row.event, FaultBegan)]
    assert killed == [("b1",), ("b2",)]
    assert ended(run) == [(17, "kill"), (27, "kill")]
    starts = [(row.at_us / 1e6, row.event.node) for row in run.rows if isinstance(row.event, NodeStarted)]
    assert [start for start in starts if start[0] > 4] == [(17, "b1"), (27, "b2")]


def test_a_throttle_lasts_until_it_is_taken_away() -> None:
    run = play(
        "{at: 5s, throttle: {brokers: b1, rate: 1MB/s}, as: one}",
        "{at: 6s, throttle: {brokers: b2, rate: 1MB/s, side: leader}, as: two}",
        "{at: 7s, throttle: {brokers: b3, rate: 1MB/s}, for: 2s, as: three}",
        "{at: 8s, throttle: {brokers: [b1, b2], rate: none, side: follower}, as: not-all}",
        "{at: 10s, throttle: {brokers: [b1, b2], rate: none}, as: all-of-it}",
    )
    assert ended(run) == [(8.0, "not-all"), (9.0, "three"), (10.0, "one"), (10.0, "two"), (10.0, "all-of-it")]


@pytest.mark.soak
def test_what_cannot_be_undone_fails_the_run() -> None:
    run = play("{at: 5s, throttle: {brokers: b1, rate: 1MB/s}, for: 5s}", "{at: 6s, kill: c1}")
    (failure,) = [check for check in run.expectations if not check.held]
    assert failure.what == "the end of throttle-1 (line 10)"


@pytest.mark.soak
def test_a_step_that_cannot_be_done_fails_the_run_and_names_its_line() -> None:
    run = play("{at: 5s, kill: c1}", "{at: 6s, elect: preferred}", "{at: 7s, stop: b1}")
    (failed,) = [one for one in run.expectations if not one.held]
    assert failed.what == "step elect-2 (line 11)"
    events = [row.event.sentence() for row in run.rows if isinstance(row.event, CheckMade)]
    assert events == [f"step elect-2: {failed.why}"], "the trace does not depend on the lines of a file"


@pytest.mark.soak
@pytest.mark.parametrize("verb", ["stop", "pause"])
def test_a_step_that_cannot_be_done_to_all_its_nodes_is_done_to_none(verb: str) -> None:
    run = play("{at: 5s, kill: b2}", f"{{at: 6s, {verb}: brokers}}")
    (failed,) = [one for one in run.expectations if not one.held]
    assert failed.why == "b2 is not running"
    acked = [row.event.peer for row in run.rows if isinstance(row.event, RecordAcked) and row.at_us > 30_000_000]
    assert set(acked) == {"b1"}, "the leader, first of all brokers, goes on"


@pytest.mark.parametrize(
    ("before", "step", "why"),
    one_row_in(
        3,
        [
            (
                "kill: b1",
                "wipe: replicas(t-0)",
                "b2 is running; stop, kill or power it off before its disk can be replaced",
            ),
            (
                "kill: b1",
                "tear: {broker: replicas(t-0), partition: t-0, bytes: 9}",
                "b2 is running; a log can only be torn",
            ),
            (
                "cut: {between: [b3, [b1, c1]]}",
                "bitflip: {broker: brokers, partition: t-0, offset: 25}",
                "b3 has no record",
            ),
        ],
    ),
)
def test_a_disk_is_not_damaged_unless_all_that_the_step_names_can_be(before: str, step: str, why: str) -> None:
    run = play(f"{{at: 5s, {before}}}", f"{{at: 15s, {step}}}")
    (failed,) = [one for one in run.expectations if not one.held]
    assert failed.why.startswith(why)
    assert not [row.event for row in run.rows if isinstance(row.event, DataLost | BatchCorrupted)]


def test_a_log_is_gone_with_its_disk_before_its_broker_is_back() -> None:
    run = play(
        "{at: 15s, kill: b3}",
        "{at: 16s, check: {state: {b3: {t-0: {leo: {at_least: 1}}}}}}",
        "{at: 17s, wipe: b3}",
        "{at: 18s, check: {state: {b3: {t-0: {leo: 0, hw: 0}}}, logs: {t-0: {b3: none}}}}",
    )
    assert [one.why for one in run.expectations if not one.held] == []


def test_a_record_whose_only_disk_was_replaced_is_lost_at_once() -> None:
    run = play(
        "{at: 15s, kill: [b2, b3]}",
        "{at: 16s, kill: b1}",
        "{at: 17s, wipe: brokers}",
        "{at: 18s, check: {records: {acked: {at_least: r0}, lost: {at_least: r0}}}}",
    )
    assert [one.why for one in run.expectations if not one.held] == []


def test_none_of_several_nodes_starts_where_one_of_them_runs() -> None:
    run = play("{at: 5s, kill: leader(t-0)}", "{at: 15s, start: brokers}")
    (failed,) = [one for one in run.expectations if not one.held]
    assert failed.why == "b2 is already running"
    assert [row.event.node for row in run.rows if isinstance(row.event, NodeStarted) and row.at_us > 10_000_000] == []


@pytest.mark.soak
@pytest.mark.parametrize("asked", one_in(4, ["elect: preferred", "reassign: {partition: t-0, to: [b3, b2, b1]}"]))
def test_what_is_asked_of_a_controller_that_is_down_cannot_be_done(asked: str) -> None:
    run = play("{at: 5s, kill: c1}", f"{{at: 6s, {asked}}}")
    assert [one.why for one in run.expectations if not one.held] == ["no controller is active"]


def test_brokers_that_never_come_up_are_an_error_of_their_own() -> None:
    with pytest.raises(NotPossibleNow, match="did not come up within 30 s"):
        play("{at: 0s, partition: [[c1], [b1, b2, b3]]}")


def test_a_bug_in_a_core_comes_out_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a group nor with other errors while the run is taken down."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("cluster.broker.broker.BrokerCore.tick", fail)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        play("{at: 5s, elect: preferred}")


CREATES = """
schema: 1
id: creates
title: A topic comes later
profile: {profile}
duration: 40s
cluster: {{brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}}}
topics:
  t: {{partitions: {{0: [b1, b2, b3]}}}}
  u: {{partitions: 2, replication_factor: 3, config: {{min.insync.replicas: 2}}}}
workloads: {{p1: {{kind: producer, topic: u}}, p2: {{kind: producer, topic: t}}}}
timeline:
{steps}
"""


def play_creation(profile: str, *steps: str) -> RunResult:
    text = CREATES.format(profile=profile, steps="\n".join(f"  - {step}" for step in steps))
    return run_scenario(load_text(text, "creates.yaml").scenario, runs_dir=None, keep_rows=True)


@pytest.mark.parametrize("profile", ["kafka-4.1", "kafka-2.0"])
def test_a_topic_is_there_from_the_step_on_that_makes_it(profile: str) -> None:
    run = play_creation(
        profile,
        "{at: 5s, produce: {from: p1, count: 1, partition: 1}}",
        "{at: 5s, produce: {from: p2, count: 1}}",
        "{at: 12s, create_topic: u}",
    )
    acked = {row.event.record: row.at_us / 1e6 for row in run.rows if isinstance(row.event, RecordAcked)}
    assert acked["s0"] < 6 and 12 < acked["r0"] < 13
    made = [row for row in run.rows if isinstance(row.event, PartitionCreated) and row.event.topic == "u"]
    assert len(made) == 2 and all(row.at_us >= 12_000_000 for row in made)
    assert all(one.held for one in run.expectations) and not run.broke_an_invariant


def test_a_topic_that_is_there_is_not_made_again() -> None:
    steps = ["{when: {t-0: {isr: [b1, b2, b3]}}, create_topic: u}"] * 2
    run = play_creation("kafka-4.1", *steps)
    (failed,) = [one for one in run.expectations if not one.held]
    assert "the topic u was refused: TOPIC_ALREADY_EXISTS" in failed.why


def test_a_deleted_topic_is_made_again_and_what_was_in_it_is_deleted() -> None:
    run = play_creation(
        "kafka-4.1",
        "{at: 2s, produce: {from: p2, count: 2}}",
        "{at: 5s, delete_topic: t}",
        "{at: 8s, create_topic: t}",
        "{at: 12s, produce: {from: p2, count: 1}}",
    )
    assert all(one.held for one in run.expectations) and not run.broke_an_invariant
    assert run.summary["records"]["deleted"] == ["s0", "s1"] and run.summary["records"]["lost"] == []
    assert run.summary["logs"]["t-0"] == ["s2"]


def test_a_topic_that_is_not_there_is_not_deleted() -> None:
    steps = ["{when: {u-0: {isr: [b1, b2, b3]}}, delete_topic: t}"] * 2
    run = play_creation("kafka-4.1", "{at: 1s, create_topic: u}", *steps)
    (failed,) = [one for one in run.expectations if not one.held]
    assert "deleting the topic t was refused: UNKNOWN_TOPIC_OR_PARTITION there is no topic t" in failed.why


@pytest.mark.soak
def test_no_controller_no_topic() -> None:
    run = play_creation("kafka-4.1", "{at: 5s, kill: c1}", "{at: 6s, create_topic: u}")
    (failed,) = [one for one in run.expectations if not one.held]
    assert "no controller is active" in failed.why
