"""A rolling restart: one broker at a time, in order, and none while the ISR is not whole."""

from __future__ import annotations

import pytest

from replica.trace.events import FaultEnded, IsrCommitted, LeaderElected, NodeStarted, NodeStopped
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario

FRAME = """
schema: 1
id: roll
title: Roll
duration: 60s
cluster:
  controllers: [c1]
  brokers: {{b1: {{rack: A}}, b2: {{rack: A}}, b3: {{rack: B}}}}
topics: {{t: {{partitions: {{0: [b1, b2, b3], 1: [b2, b3, b1]}}, config: {{min.insync.replicas: 2}}}}}}
workloads: {{p1: {{kind: producer, topic: t, rate: 5/s, stop: 55s, config: {{acks: all}}}}}}
{more}
timeline:
{steps}
expect: {{verdict: ok}}
"""


def play(*steps: str, more: str = "") -> RunResult:
    text = FRAME.format(steps="\n".join(f"  - {step}" for step in steps), more=more)
    return run_scenario(load_text(text, "roll.yaml").scenario, runs_dir=None, keep_rows=True)


def restarts(run: RunResult) -> list[tuple[str, str]]:
    """Stops and starts of brokers after the cluster has come up, in their order."""
    return [
        (row.event.how if isinstance(row.event, NodeStopped) else "start", row.event.node)
        for row in run.rows
        if isinstance(row.event, NodeStopped | NodeStarted) and row.at_us > 2_000_000 and row.event.node != "p1"
    ]


def in_order(*brokers: str) -> list[tuple[str, str]]:
    return [(what, broker) for broker in brokers for what in ("stop", "start")]


def outcome(run: RunResult) -> str:
    ended = [row.event for row in run.rows if isinstance(row.event, FaultEnded)]
    (effect,) = (event.effect for event in ended if event.verb == "rolling_restart")
    return effect


def failures(run: RunResult) -> list[str]:
    return [f"{result.what}: {result.why}" for result in run.expectations if not result.held]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("value", "brokers"),
    [
        ("[b1, b2, b3]", ["b1", "b2", "b3"]),
        ("b3", ["b3"]),
        ("rack(A)", ["b1", "b2"]),
        ("brokers", ["b1", "b2", "b3"]),
        ('"followers(t-0)"', ["b2", "b3"]),
        ("{brokers: [b3, b1], pause: 2s, down: 1s}", ["b3", "b1"]),
        ("{brokers: others(b1), wait_for: nothing}", ["b2", "b3"]),
    ],
)
def test_brokers_are_restarted_in_order_one_after_another(value: str, brokers: list[str]) -> None:
    run = play(f"{{at: 10s, rolling_restart: {value}}}")
    assert restarts(run) == in_order(*brokers)
    how = "were restarted one after another" if len(brokers) > 1 else "was restarted"
    assert how in outcome(run) and failures(run) == []


@pytest.mark.soak
@pytest.mark.parametrize("profile", ["kafka-4.1", "kafka-3.9", "kafka-2.0", "kafka-0.11"])
def test_none_is_stopped_before_every_isr_is_whole(profile: str) -> None:
    run = play("{at: 10s, rolling_restart: {brokers: brokers, down: 3s}}", more=f"profile: {profile}")
    isr = {number: {"b1", "b2", "b3"} for number in (0, 1)}
    started = []
    for row in run.rows:
        match row.event:
            case LeaderElected() | IsrCommitted() if row.event.topic == "t" and row.at_us >= 10_000_000:
                isr[row.event.partition] = set(row.event.isr)
                assert all(len(members) >= 2 for members in isr.values()), "two brokers are out at once"
            case NodeStarted(node=node) if row.at_us >= 10_000_000:
                started.append(node)
    assert started == ["b1", "b2", "b3"] and all(len(members) == 3 for members in isr.values())
    assert failures(run) == [] and run.verdict.ok


@pytest.mark.soak
def test_the_pace_is_that_of_its_keys() -> None:
    run = play("{at: 10s, rolling_restart: {brokers: [b1, b2], down: 4s, pause: 6s}}")
    at_s = [row.at_us / 1e6 for row in run.rows if isinstance(row.event, NodeStopped | NodeStarted) and row.at_us > 9e6]
    b1_stopped, b1_started, b2_stopped, b2_started = at_s[:4]
    assert 4 <= b1_started - b1_stopped < 4.3 and 4 <= b2_started - b2_stopped < 4.3
    assert 6 <= b2_stopped - b1_started < 9  # A controlled shutdown takes up to 2 s.


@pytest.mark.soak
def test_an_isr_that_is_never_whole_ends_it_and_fails_the_run() -> None:
    run = play("{at: 12s, kill: b3}", "{at: 30s, rolling_restart: {brokers: [b1, b2], timeout: 10s}}")
    assert restarts(run) == [("kill", "b3")]
    why = "the rolling restart ended: after 10s the ISR of t-0 lacks b3; b1 and b2 were not restarted"
    assert outcome(run) == why
    assert failures(run) == [f"step rolling_restart-2 (line 14): {why}"]


@pytest.mark.soak
def test_what_breaks_on_the_way_leaves_the_others_alone() -> None:
    run = play("{at: 10s, rolling_restart: {brokers: [b1, b2], down: 5s, timeout: 10s}}", "{at: 11s, kill: b3}")
    assert restarts(run) == [("stop", "b1"), ("kill", "b3"), ("start", "b1")]
    assert outcome(run).startswith("the rolling restart ended after b1: after 10s the ISR of t-0 lacks b3")
    assert outcome(run).endswith("; b2 was not restarted")


@pytest.mark.soak
def test_a_broker_that_is_down_already_is_not_restarted_nor_is_any_other() -> None:
    run = play("{at: 10s, kill: b2, as: gone}", "{at: 12s, rolling_restart: brokers}")
    assert restarts(run) == [("kill", "b2")]
    assert failures(run) == ["step rolling_restart-2 (line 14): b2 is not running"]


@pytest.mark.soak
def test_a_broker_that_does_not_come_back_ends_it() -> None:
    run = play(
        "{at: 10s, rolling_restart: {brokers: brokers, timeout: 15s}}",
        "{when: {b1: {running: false}}, pause: b2}",
    )
    assert outcome(run).startswith("the rolling restart ended after b1: ")
    assert ("start", "b1") in restarts(run) and ("stop", "b3") not in restarts(run)


def test_one_that_is_not_over_at_the_end_of_the_run_has_failed() -> None:
    run = play("{at: 10s, rolling_restart: {brokers: brokers, pause: 40s}}")
    (failure,) = failures(run)
    assert failure.startswith(
        "step rolling_restart-1 (line 13): not over at the end of the run: rolling restart of b1, b2 and b3: "
    )


@pytest.mark.soak
def test_for_ends_it_and_starts_what_it_has_stopped() -> None:
    run = play("{at: 10s, rolling_restart: {brokers: brokers, down: 20s}, for: 5s}")
    assert restarts(run) == in_order("b1")
    assert outcome(run) == "the rolling restart ended after b1: it was cancelled; b2 and b3 were not restarted"
    assert failures(run) == []


@pytest.mark.soak
def test_there_is_one_at_a_time() -> None:
    run = play(
        "{at: 10s, rolling_restart: {brokers: [b1, b2], down: 5s}}",
        "{at: 12s, rolling_restart: b3}",
        "{at: 50s, rolling_restart: b3}",
    )
    assert restarts(run) == in_order("b1", "b2", "b3")
    (failure,) = failures(run)
    assert failure.startswith(
        "step rolling_restart-2 (line 14): another rolling restart is still in progress (rolling restart of b1 and b2: "
    )


@pytest.mark.soak
def test_a_broker_that_another_step_starts_is_not_started_twice() -> None:
    run = play("{at: 10s, rolling_restart: {brokers: b1, down: 5s}}", "{when: {b1: {running: false}}, start: b1}")
    assert restarts(run) == in_order("b1") and failures(run) == []
