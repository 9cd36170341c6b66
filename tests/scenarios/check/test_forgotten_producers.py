"""A producer that was silent for producer.id.expiration.ms is forgotten: its next batch may repeat what the log has."""

from __future__ import annotations

import pytest
from trace_script import TraceScript

from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

FIRST, SECOND = (7, 0, 0), (7, 0, 1)


def repeat(script: TraceScript, after_s: float) -> None:
    """r1 is sent again, so long after it was sent first, and a follower copies both."""
    script.send("r0", "r1")
    script.request("r0", producer_id=7)
    script.request("r1", producer_id=7)
    for node in ("b1", "b2"):
        script.append(node, 0, "r0", producer=FIRST)
        script.append(node, 1, "r1", producer=SECOND)
    script.at(1 + after_s)
    script.request("r1", attempt=2, producer_id=7)
    for node in ("b1", "b2"):
        script.append(node, 2, "r1", producer=SECOND)


def shorten(script: TraceScript, seconds: int) -> None:
    key, value = "producer.id.expiration.ms", str(seconds * 1000)
    script.emit(trace.ConfigAltered(node="c1", broker="b1", key=key, value=value, reason="an operator sets it"))


@pytest.mark.parametrize(
    ("expiration_s", "after_s", "is_broken"),
    [
        pytest.param(5, 6, False, id="forgotten"),
        pytest.param(5, 4, True, id="too early"),
        pytest.param(None, 1000, True, id="no broker forgets so soon of its own accord"),
    ],
)
def test_a_repeated_batch_of_a_producer_that_was_forgotten_is_no_broken_rule(
    expiration_s: int | None, after_s: float, is_broken: bool
) -> None:
    script = TraceScript(producer_expiration_us=None if expiration_s is None else expiration_s * 1_000_000)
    repeat(script, after_s)
    assert ("S26" in script.broken()) is is_broken


def test_a_batch_behind_a_younger_one_is_judged_by_that_one() -> None:
    """r0 is old, but the producer has not been silent: r1 came just before."""
    script = TraceScript(producer_expiration_us=5_000_000)
    script.send("r0")
    script.append("b1", 0, "r0", producer=FIRST)
    script.at(9).send("r1")
    script.request("r1", producer_id=7)
    script.append("b1", 1, "r1", producer=SECOND)
    script.at(10).append("b1", 2, "r0", producer=FIRST)
    assert "S26" in script.broken()


def test_an_operator_may_let_brokers_forget_sooner() -> None:
    script = TraceScript()
    shorten(script, 5)
    repeat(script, 6)
    assert "S26" not in script.broken()


def test_brokers_whose_clocks_were_moved_may_have_forgotten_any_producer() -> None:
    script = TraceScript(producer_expiration_us=5_000_000)
    script.fault("bump_clock", "b1", name="bump-1", reason="the clock of b1 jumps ahead")
    repeat(script, 1)
    assert "S26" not in script.broken()


def test_a_retry_after_that_time_is_a_duplicate_and_no_bug() -> None:
    text = """\
schema: 1
id: forgotten
title: A producer is forgotten before it tries again
duration: 40s
profile: kafka-4.1
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {producer.id.expiration.ms: 2000, producer.id.expiration.check.interval.ms: 500}
topics:
  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}
workloads:
  p1: {kind: producer, topic: t, config: {request.timeout.ms: 6000, delivery.timeout.ms: 30000}}
timeline:
  - {at: 5s, produce: {from: p1, count: 1}}
  - {at: 6s, hold: {from: b1, to: p1, api: Produce}, for: 10s}
  - {at: 6.5s, produce: {from: p1, count: 1}}
"""
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None)
    assert (result.verdict.kinds, result.broken) == (("duplicated",), ())
