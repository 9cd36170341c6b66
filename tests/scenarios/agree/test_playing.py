"""Both worlds play: what is kept is not played again, and the simulated twin looks for laggards when the other did."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from replica.trace.events import BrokerFenced, FaultBegan, IsrCommitted, NodeStopped, TraceEvent, TraceRow
from scenarios.agree.phases import (
    MeasuredPhases,
    Play,
    in_phase,
    phases_of_run,
    phases_shown,
    repetitions,
    write_phases,
)
from scenarios.agree.schedules import APART_MS, schedule_of
from scenarios.agree.sheet import compared
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.spec import Scenario
from scenarios.language.steps import At
from scenarios.run.runner import run_scenario

SLACK_US = 2_000_000

LAGGARD = """\
schema: 1
id: laggard
title: A follower is cut off
duration: 14s
cluster: {brokers: {b1: {}, b2: {}}, config: {replica.lag.time.max.ms: 4000}}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads: {p1: {kind: producer, topic: t, config: {acks: 1}}}
timeline:
  - {at: 3s, cut: {between: [b1, b2]}}
  - {at: 3.1s, produce: {from: p1, count: 2}}
"""


def laggard() -> Scenario:
    return load_text(LAGGARD, "laggard.yaml").scenario


def player(calls: list[Scenario], *, phase_us: int | None = None) -> Play:
    """Simulates. phase_us: b1 looks then, whatever the scenario says"""

    def play(scenario: Scenario, runs_dir: Path) -> Path:
        calls.append(scenario)
        shifted = scenario if phase_us is None else in_phase(scenario, MeasuredPhases({"b1": phase_us}, {}))
        run_dir = run_scenario(shifted, runs_dir=runs_dir).run_dir
        assert run_dir is not None
        return run_dir

    return play


@pytest.mark.soak
def test_a_repetition_is_kept_and_another_scenario_is_played(tmp_path: Path) -> None:
    ours: list[Scenario] = []
    theirs: list[Scenario] = []

    def play(scenario: Scenario, times: int) -> list[tuple[str, str]]:
        both = repetitions(scenario, tmp_path, times, play_ours=player(ours), play_theirs=player(theirs))
        return [(str(one.ours.relative_to(tmp_path)), str(one.theirs.relative_to(tmp_path))) for one in both]

    first = [("1/ours/0001-laggard", "1/theirs/0001-laggard")]
    assert play(laggard(), 1) == first
    second = [*first, ("2/ours/0001-laggard", "2/theirs/0001-laggard")]
    assert play(laggard(), 2) == second
    assert (len(ours), len(theirs)) == (2, 2)
    for file in (tmp_path / "2/ours/0001-laggard/trace/control").iterdir():
        file.unlink()
    assert play(laggard(), 2) == [*first, ("2/ours/0002-laggard", "2/theirs/0001-laggard")]
    assert (len(ours), len(theirs)) == (3, 2)
    assert play(replace(laggard(), seed=77), 1) == [("1/ours/0002-laggard", "1/theirs/0002-laggard")]


def test_the_twin_looks_when_the_other_did(tmp_path: Path) -> None:
    """b1 looks every 2 s; there 0.7 s after each full second."""
    ours: list[Scenario] = []
    played = [*repetitions(laggard(), tmp_path, 1, play_ours=player(ours), play_theirs=player([], phase_us=700_000))]
    (twin,) = ours
    assert isinstance(twin.cluster.phases, dict)
    assert twin.cluster.phases == {"b1": pytest.approx(700_000, abs=50_000)}
    agreement = compared("laggard", played, SLACK_US).agreement
    assert agreement is not None and agreement.verdict == "same"
    assert all(abs(gap.by_us) < 50_000 for gap in agreement.gaps)


def test_processes_say_when_they_begin(tmp_path: Path) -> None:
    """b1 began to look 1.3 s before the run did, and again in a later life; it was unfenced 0.9 s before. b2 is of an
    older Kafka, and began 1.6 s before. c1 was active from 1.5 s before on, and first fenced a broker 20.625 s later.
    """
    (tmp_path / "b1.log").write_text(
        "1795480430000 INFO Starting log flusher (LogManager)\n"
        "1795480430700 INFO [LogDirFailureHandler]: Starting (ReplicaManager$LogDirFailureHandler)\n"
        "1795480431100 INFO [BrokerLifecycleManager id=1] The broker has been unfenced. Transitioning from RECOVERY to"
        " RUNNING. (BrokerLifecycleManager)\n"
        "1795480490100 INFO [LogDirFailureHandler]: Starting (ReplicaManager$LogDirFailureHandler)\n"
    )
    (tmp_path / "b2.log").write_text(
        "no time\n[2026-11-24 00:33:50,400] INFO [LogDirFailureHandler]: Starting (kafka.server.ReplicaManager)\n"
    )
    run_dir = run_scenario(replace(laggard(), timeline=()), runs_dir=tmp_path).run_dir
    assert run_dir is not None
    (tmp_path / "c1.log").write_text(
        "1795480430500 INFO [QuorumController id=1001] Activated periodic tasks: electPreferred, maybeFenceStaleBroker,"
        " writeNoOpRecord (PeriodicTaskControlManager)\n"
        "1795480450775 INFO [QuorumController id=1001] Fencing broker 3 at epoch 9 because its session has timed out."
        " (ReplicationControlManager)\n"
    )
    write_phases(run_dir, tmp_path, 1_795_480_432_000_000, laggard())
    checks = {"b1": 700_000, "b2": 400_000, "c1": 18_775_000 % 1_125_000}
    assert phases_of_run(run_dir, laggard()) == (checks, {"b1": 1_100_000})


def test_up_to_3_9_the_end_of_a_session_says_when_the_last_heartbeat_came(tmp_path: Path) -> None:
    """b1 was unfenced 0.9 s before the run, and its session of 9 s ended at 18.3 s: its heartbeats came 0.2 s later.

    b2 began anew at 5 s, and its session ended at 20 s: that says nothing of its first life.
    """
    run_dir = run_scenario(replace(laggard(), timeline=()), runs_dir=tmp_path).run_dir
    assert run_dir is not None
    unfenced = "[BrokerLifecycleManager id=1] The broker has been unfenced. Transitioning from RECOVERY to RUNNING."
    (tmp_path / "b1.log").write_text(f"1795480431100 INFO {unfenced}\n1795480455000 INFO {unfenced}\n")
    (tmp_path / "b2.log").write_text(f"1795480431400 INFO {unfenced}\n1795480437000 INFO {unfenced}\n")
    (tmp_path / "c1.log").write_text(
        "1795480450300 INFO [QuorumController id=1001] Fencing broker 1 because its session has timed out.\n"
        "1795480452000 INFO [QuorumController id=1001] Fencing broker 2 because its session has timed out.\n"
    )
    write_phases(run_dir, tmp_path, 1_795_480_432_000_000, laggard())
    assert phases_of_run(run_dir, laggard()).heartbeats == {"b1": 1_300_000, "b2": 1_400_000}


def test_a_kill_is_late_by_when_the_first_process_died() -> None:
    """Of a step at 3 s: b1 dies at 3.1 s, b2 at 3.4 s, and only then the step is in the trace."""
    killed = LAGGARD.replace("cut: {between: [b1, b2]}}", "kill: [b1, b2], as: both}")
    events: list[tuple[int, TraceEvent]] = [
        (3_100_000, NodeStopped(node="b1", how="kill")),
        (3_400_000, NodeStopped(node="b2", how="kill")),
        (3_400_000, FaultBegan(fault="both", verb="kill", targets=("b1", "b2"), effect="killed")),
        (12_000_000, BrokerFenced(node="c1", broker="b1")),
    ]
    rows = [TraceRow(seq, at_us, (), event) for seq, (at_us, event) in enumerate(events)]
    assert phases_shown(rows, load_text(killed, "laggard.yaml").scenario).late_us == 100_000


@pytest.mark.soak
def test_no_phase_is_read_from_a_life_that_began_in_the_middle() -> None:
    name = "rolling-restart-kill"
    result = run_scenario(load_file(find_scenario(name)).scenario, runs_dir=None, keep_rows=True)
    restarted = {row.event.node for row in result.rows if isinstance(row.event, NodeStopped)}
    shrinkers = {row.event.proposed_by for row in result.rows if isinstance(row.event, IsrCommitted)}
    assert restarted >= {"b1", "b2", "b3"} and shrinkers
    assert phases_shown(result.rows, result.scenario).checks == {}


@pytest.mark.parametrize("seed", random.Random(18).sample(range(10_000), 20))
def test_random_faults_come_one_after_the_other(seed: int) -> None:
    scenario = schedule_of(seed, "kafka-4.1")
    assert scenario == schedule_of(seed, "kafka-4.1")
    begins = [step.trigger.at_us for step in scenario.timeline if isinstance(step.trigger, At)]
    assert len(begins) == len(scenario.timeline) >= 2
    ends = [begin + (step.for_us or 0) for begin, step in zip(begins, scenario.timeline, strict=True)]
    assert all(begin - end >= APART_MS * 1000 for end, begin in zip(ends, begins[1:], strict=False))
