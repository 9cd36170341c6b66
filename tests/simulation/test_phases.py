"""Where in their periods a broker's periodic checks fall: at its start, where the file says, or drawn from the seed."""

from __future__ import annotations

import pytest

from replica.trace.events import BrokerFenced, IsrCommitted
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.write.lock import dump
from scenarios.run.runner import RunResult, run_scenario


def played(name: str, *settings: str) -> RunResult:
    return run_scenario(load_file(find_scenario(name), settings).scenario, runs_dir=None, keep_rows=True)


def shrinks(result: RunResult) -> list[float]:
    """When the ISR became smaller, in seconds rounded down to tenths."""
    return [
        row.at_us // 100_000 / 10
        for row in result.rows
        if isinstance(row.event, IsrCommitted) and len(row.event.isr) < len(row.event.previous_isr)
    ]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("min-isr-1-trap", {"lost": {True}, "unknown": {True, False}}),
        pytest.param("request-timeout-below-lag-timeout", {}, marks=pytest.mark.soak),
    ],
)
def test_seeds_show_both_outcomes(name: str, outcomes: dict[str, set[bool]]) -> None:
    results = [played(name, "cluster.phases=random", f"seed={seed}") for seed in range(1, 9)]
    records = [result.summary["records"] for result in results]
    decided = [bool(found["duplicated"] or found["unknown"]) for found in records]
    assert set(decided) == {True, False}
    for kind, values in outcomes.items():
        assert {bool(found[kind]) for found in records} == values
    times = [shrinks(result)[0] for result in results]
    assert len(set(times)) > 4
    assert all(40 <= at < 56 for at in times), "1 to 1.5 times the lag allowed after the last fetch, at 10 s"


def test_the_same_seed_draws_the_same_phases_and_none_leaves_them_at_the_start() -> None:
    one, other = (played("min-isr-1-trap", "cluster.phases=random", "seed=3") for _ in range(2))
    assert one.summary["trace_sha256"] == other.summary["trace_sha256"]
    assert shrinks(played("min-isr-1-trap", "seed=3"))[0] == 45


TEXT = """\
schema: 1
id: phases
title: A later life begins its checks when it starts
duration: 110s
profile: kafka-3.9
cluster: {brokers: {b1: {}, b2: {}}, phases: {b1: 4s, b2: 4s}}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads: {p1: {kind: producer, topic: t, config: {acks: 1}}}
timeline:
  - {at: 5s, kill: b1}
  - {at: 20s, start: b1}
  - {at: 40s, elect: {partition: t-0, broker: b1}}
  - {at: 51s, cut: {between: [b1, b2]}}
  - {at: 52s, produce: {from: p1, count: 1}}
"""


def test_a_broker_that_starts_again_counts_from_there() -> None:
    """b2 lags from 51 s on; b1 looks 20 s + 15 s * k after the run began, and no longer at 4 s + 15 s * k."""
    result = run_scenario(load_text(TEXT, "file").scenario, runs_dir=None, keep_rows=True)
    assert shrinks(result)[-1] == 95


def test_heartbeats_and_session_checks_fall_where_the_file_says() -> None:
    """b1 dies at 5 s. Its last heartbeat was at 4.9 s, its session ends at 13.9 s; c1 looks at 0.5 s + 1.125 s * k."""
    text = TEXT.replace("phases: {b1: 4s, b2: 4s}", "phases: {c1: 500ms}, heartbeats: {b1: 900ms}")
    text = text.replace("kafka-3.9", "kafka-4.1").replace("  - {at: 20s, start: b1}\n", "")
    scenario = load_text(text, "file").scenario
    result = run_scenario(scenario, runs_dir=None, keep_rows=True)
    (fenced,) = ((row.at_us, row.event) for row in result.rows if isinstance(row.event, BrokerFenced))
    assert fenced[0] == pytest.approx(14_000_000, abs=5_000)
    assert fenced[1].sentence() == "b1 was fenced: no heartbeat for 9.1 s"


@pytest.mark.parametrize("phases", ["random", "{b1: 250ms, b2: 599s}"])
def test_the_lock_keeps_phases(phases: str) -> None:
    text = TEXT.replace("phases: {b1: 4s, b2: 4s}", f"phases: {phases}, heartbeats: {phases}")
    scenario = load_text(text, "file").scenario
    assert "heartbeats" in dump(scenario)
    assert load_text(dump(scenario), "lock").scenario == scenario
