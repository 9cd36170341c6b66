"""Every bundled scenario, with every variant, meets its expectations; and the known results of the main ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scenarios.language.parse import catalogue
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.write.lock import dump
from scenarios.observe.columns.names import encodable
from scenarios.run.runner import run_scenario
from tests.catalogue import bundled_file
from tests.soak import one_in


def names(prefix: str, low: int, high: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(low, high + 1)]


def summary_of(scenario_id: str, variant: str | None = None) -> dict[str, Any]:
    file = load_file(catalogue.find_scenario(scenario_id))
    scenario = file.scenario if variant is None else file.variants[variant]
    return run_scenario(scenario, runs_dir=None).summary


@pytest.mark.parametrize("name", one_in(71, catalogue.bundled(), pytest.mark.night))
def test_it_holds_with_every_variant(name: str) -> None:
    for scenario in bundled_file(name).all:
        result = run_scenario(scenario, runs_dir=None)
        failed = [f"{scenario.run_name}: {one.what}: {one.why}" for one in result.expectations if not one.held]
        assert not failed, "\n".join(failed)
        assert not result.broke_an_invariant, [anomaly.sentence for anomaly in result.verdict.of("invariant")]
        assert result.expectations, "a scenario that expects nothing proves nothing"
        json.dumps(result.summary, default=encodable)


def test_acks_1_loses_what_only_the_leader_had() -> None:
    summary = summary_of("acks1-leader-kill")
    assert summary["verdict"] == ["lost"]
    assert summary["records"]["lost"] == names("r", 10, 14)
    assert summary["records"]["acked"] == names("r", 0, 19)
    assert summary["logs"] == {"t-0": names("r", 0, 9) + names("r", 15, 19)}


def test_acks_all_loses_nothing_and_stores_every_record_once() -> None:
    summary = summary_of("acks1-leader-kill", "acks-all")
    assert summary["verdict"] == []
    assert sorted(summary["logs"]["t-0"], key=lambda name: int(name[1:])) == names("r", 0, 19)
    assert summary["records"]["acked"] == names("r", 0, 19)


def test_acks_0_promises_nothing_and_so_loses_nothing() -> None:
    summary = summary_of("acks1-leader-kill", "acks-0")
    assert summary["verdict"] == []
    assert summary["records"]["acked"] == []
    assert summary["records"]["missing"], "some records went to a dead leader"


@pytest.mark.soak
def test_the_lock_runs_to_the_same_trace() -> None:
    scenario = load_file(catalogue.find_scenario("zombie-leader-acks1")).variants["acks-all"]
    again = load_text(dump(scenario), "scenario.lock.yaml").scenario
    one, other = (run_scenario(each, runs_dir=None).summary for each in (scenario, again))
    assert one["trace_sha256"] == other["trace_sha256"]
