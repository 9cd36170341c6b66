"""Arrivals of `rate` and `poisson` leave room for the fate of the last record."""

from __future__ import annotations

import pytest
from small_scenario import HEAD, load

from scenarios.run.runner import run_scenario
from tests.soak import one_in


@pytest.mark.parametrize("arrivals", one_in(4, ["rate: 10/s", "poisson: 10/s"]))
@pytest.mark.parametrize("duration", ["8s", "20s"])
def test_every_record_is_decided_when_the_run_ends(arrivals: str, duration: str) -> None:
    head = HEAD.replace("duration: 60s", f"duration: {duration}")
    head = head.replace("p1: {kind: producer, topic: t}", f"p1: {{kind: producer, topic: t, {arrivals}, start: 1s}}")
    records = run_scenario(load(head=head), runs_dir=None).summary["records"]
    assert records["sent"] == len(records["acked"]) > 40
    assert not records["missing"]


def test_a_stop_is_taken_at_its_word() -> None:
    head = HEAD.replace("p1: {kind: producer, topic: t}", "p1: {kind: producer, topic: t, rate: 1/s, stop: 1000s}")
    assert run_scenario(load(head=head), runs_dir=None).summary["records"]["sent"] == 60
