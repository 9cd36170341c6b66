"""Strategies of classic members: the coordinator chooses one that all support, as often as the members change."""

from __future__ import annotations

import pytest

from replica.trace.events import GroupRebalanced
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

FILE = """\
schema: 1
id: strategies
title: Strategies
duration: 40s
cluster: {brokers: {b1: {}, b2: {}, b3: {}}, config: {offsets.topic.num.partitions: 1}}
topics:
  orders: {partitions: 4, replication_factor: 3}
  bills: {partitions: 2, replication_factor: 3}
workloads:
  p1: {kind: producer, topic: orders, start: 5s, rate: 5/s, stop: 30s}
  t1: {kind: transform, topic: orders, to: bills, config: {group.id: g, auto.offset.reset: earliest,
       partition.assignment.strategy: STRATEGIES}}
  t2: {kind: transform, topic: orders, to: bills, config: {group.id: g, auto.offset.reset: earliest}}
timeline: [{at: 15s, stop: t2}]
expect: {verdict: ok}
"""


@pytest.mark.soak
def test_the_strategy_changes_when_all_that_are_left_support_another() -> None:
    text = FILE.replace("STRATEGIES", "[cooperative-sticky, range]")
    run = run_scenario(load_text(text, "strategies.yaml").scenario, runs_dir=None, keep_rows=True)
    rebalanced = [row.event for row in run.rows if isinstance(row.event, GroupRebalanced)]
    assert [(len(event.members), event.protocol) for event in rebalanced] == [(2, "range"), (1, "cooperative-sticky")]
    assert run.verdict.kinds == ()
    sent = {name for name in run.verdict.records["acked"] if name.startswith("r")}
    assert sent and {f"t{name}" for name in sent} <= set(run.verdict.records["acked"])


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[range, range]", "`range` occurs more than once"),
        ("[range, sticki]", "`sticki` is not one of range, cooperative-sticky"),
        ("[]", "must be one value, or a list of them"),
        ("[[range]]", "must be one value, or a list of them"),
        ("'range, '", "`` is not one of"),
    ],
)
def test_what_is_no_list_of_strategies(written: str, said: str) -> None:
    with pytest.raises(ScenarioInvalid) as invalid:
        load_text(FILE.replace("STRATEGIES", written), "strategies.yaml")
    assert said in " ".join(problem.title for problem in invalid.value.diagnostics)
