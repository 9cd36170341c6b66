"""A leader that is killed and started at once: before it is registered again, only the controller calls it leader."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.ids import TopicPartition
from scenarios.cli.view import write_page
from scenarios.explain.record import explain_record
from scenarios.language.parse.loading import load_text
from scenarios.observe.partition_histories import value_at
from scenarios.observe.story import Story
from scenarios.observe.trace_writer import read_rows
from scenarios.observe.view import ClusterView
from scenarios.run.runner import run_scenario
from tests.browser import needs_chromium
from tests.driven import chromium, driven

PARTITION = TopicPartition("t", 0)
RESTARTED = """schema: 1
id: restarted
title: A leader that is killed and started at once
seed: 1
duration: 14s
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: {0: [b1, b2, b3]}}, u: {partitions: {0: [b2, b3]}}}
workloads: {p1: {kind: producer, topic: t, config: {acks: 1}}}
timeline:
  - {at: 2s, produce: {from: p1, count: 1}}
  - {at: 3s, restart: b1}
  - {at: 4s, kill: b3}
"""


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("restarted")
    found = run_scenario(load_text(RESTARTED, "restarted").scenario, runs_dir=folder, keep_logs=False).run_dir
    assert found is not None
    return found


def test_the_ribbon_does_not_call_it_the_leader(run_dir: Path) -> None:
    view = ClusterView(("b1", "b2", "b3"), ("c1",))
    story = Story(view)
    for row in read_rows(run_dir / "trace"):
        view(row)
        story(row)
    states = story.histories[PARTITION].states
    standings = [value_at(states, at_us) for at_us in (2_900_000, 5_000_000, 12_500_000)]
    assert standings == [("leads", "in", "in"), ("in", "in", "gone-in"), ("out", "leads", "gone")]


def test_the_table_of_explain_does_not_call_it_the_leader(run_dir: Path) -> None:
    holdings = {one.at_us: one.brokers for one in explain_record(list(read_rows(run_dir / "trace")), "r0").holdings}
    assert holdings[4_000_000] == {"b1": "r0", "b2": "r0", "b3": "down, r0"}


@pytest.mark.soak
@needs_chromium
def test_the_page_shows_what_the_broker_and_what_the_controller_know(run_dir: Path, tmp_path: Path) -> None:
    page = write_page([run_dir], tmp_path / "page.html")
    with chromium() as browser, driven(browser, f"{page.as_uri()}#t=5.000&e=-1&r=0&p=0", 1280, 720) as shown:
        assert "starting" in shown.page.locator(".lane.broker[data-node=b1] text").all_text_contents()
        assert shown.page.locator(".crown").count() == 0
        assert "c1 still calls b1 the leader" in shown.page.locator(".lane.controller text").all_text_contents()
        assert (shown.page.get_attribute("svg.stage", "aria-label") or "").startswith(
            "t-0: no broker leads. b1 is starting"
        )
        titles = "(all) => all.map((one) => one.textContent)"
        ribbons = [
            one for one in shown.page.eval_on_selector_all(".strip .ribbon title", titles) if "b1: leader" in one
        ]
        assert len(ribbons) == 1 and ribbons[0].endswith(" to 3.000 s")
        shown.press("o")
        assert "s, in the ISR from 3.000 s, out of" in (shown.page.locator(".bar").first.get_attribute("title") or "")
