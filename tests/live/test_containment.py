"""A bug in Highwater that one client's request triggers: live it costs that connection, simulated it ends the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.broker.apis.log_offsets import ListOffsetsHandler
from replica.ids import TopicPartition
from replica.trace.events import RecordRead, RequestCrashed
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import ScenarioRun, run_scenario
from scenarios.run.worlds import live, simulated

SCENARIO = """
schema: 1
id: one-bug
title: A bug in the middle of it
duration: 3s
cluster: {brokers: {b1: {}}}
topics: {t: {partitions: {0: [b1]}}}
workloads:
  p1: {kind: producer, topic: t}
  c1r: {kind: consumer, topic: t, config: {auto.offset.reset: earliest}}
timeline:
  - {at: 800ms, produce: {from: p1, count: 3}}
expect: {verdict: [invariant]}
"""


@pytest.fixture
def one_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, calls = ListOffsetsHandler.__call__, []

    def buggy(self: ListOffsetsHandler, *args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise ZeroDivisionError("only the first one meets it")
        return honest(self, *args)

    monkeypatch.setattr(ListOffsetsHandler, "__call__", buggy)


def test_live_it_costs_one_connection_and_is_told(one_bug: None, tmp_path: Path) -> None:
    result = run_scenario(load_text(SCENARIO, "bug.yaml").scenario, runs_dir=tmp_path, world=live, keep_rows=True)
    (crash,) = [row.event for row in result.rows if isinstance(row.event, RequestCrashed)]
    assert (crash.node, crash.peer) == ("b1", "c1r")
    assert "a bug in Highwater, ZeroDivisionError in test_containment.py:" in crash.sentence()
    assert result.broke_an_invariant
    assert len([row for row in result.rows if isinstance(row.event, RecordRead)]) == 3


def test_in_a_simulation_it_ends_the_run(one_bug: None) -> None:
    with pytest.raises(ZeroDivisionError):
        run_scenario(load_text(SCENARIO, "bug.yaml").scenario, runs_dir=None, world=simulated)


def test_a_replica_of_somebody_who_has_only_registered_as_a_broker_is_none(tmp_path: Path) -> None:
    """A client that speaks for a broker is obeyed, and may get replicas; the run is kept, with the events known."""

    async def assign_one_to_a_stranger(run: ScenarioRun) -> None:
        await run.is_ready.wait()
        run.view.partitions[TopicPartition("t", 0)].assigned += ("node 1000",)

    text = SCENARIO.replace("expect: {verdict: [invariant]}", "expect: {verdict: ok}")
    scenario = load_text(text, "stranger.yaml").scenario
    result = run_scenario(scenario, runs_dir=tmp_path, world=live, companions=[assign_one_to_a_stranger])
    assert result.held and result.summary["logs"] == {"t-0": ["r0", "r1", "r2"]}
