"""A producer that was silent for producer.id.expiration.ms is forgotten: its next batch may repeat what the log has."""

from __future__ import annotations

import pytest
from fake_probe import FakeProbe
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
    script.emit(trace.ConfigAltered(node="c1", broker="b1", key=key, value=value))


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


@pytest.mark.parametrize(
    ("expiration_s", "apart_s", "is_broken"),
    [
        pytest.param(5, 4, False, id="forgotten"),
        pytest.param(5, 3, True, id="too little"),
        pytest.param(None, 24 * 3600, False, id="a day"),
        pytest.param(None, 60, True, id="far less than a day"),
    ],
)
def test_a_broker_whose_clock_was_moved_may_have_forgotten_a_producer_before_its_time(
    expiration_s: int | None, apart_s: int, is_broken: bool
) -> None:
    script = TraceScript(producer_expiration_us=None if expiration_s is None else expiration_s * 1_000_000)
    script.checker.cores = FakeProbe(clocks_apart=apart_s * 1_000_000)
    repeat(script, 1)
    assert ("S26" in script.broken()) is is_broken


@pytest.mark.parametrize(("after_s", "is_broken"), [(5, True), (23 * 3600, True), (25 * 3600, False)])
def test_on_the_second_day_of_a_run_a_producer_is_known_that_was_not_silent(after_s: float, is_broken: bool) -> None:
    script = TraceScript()
    script.at(26 * 3600)
    repeat(script, 26 * 3600 + after_s)
    assert ("S26" in script.broken()) is is_broken


A_DAY_AND_AN_HOUR_S = 25 * 3600


@pytest.mark.parametrize(
    ("expiration", "jump"),
    [
        pytest.param("producer.id.expiration.ms: 2000, ", "", id="soon"),
        pytest.param("", f"- {{at: 7s, bump_clock: {{brokers: b1, by: {A_DAY_AND_AN_HOUR_S}s}}}}", id="by its clock"),
        pytest.param(
            "", f"- {{at: 7s, bump_clock: {{brokers: b1, by: {A_DAY_AND_AN_HOUR_S}s}}, for: 1s}}", id="for a moment"
        ),
    ],
)
def test_a_retry_after_that_time_is_a_duplicate_and_no_bug(expiration: str, jump: str) -> None:
    text = f"""\
schema: 1
id: forgotten
title: A producer is forgotten before it tries again
duration: 40s
profile: kafka-4.1
cluster:
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config: {{{expiration}producer.id.expiration.check.interval.ms: 500}}
topics:
  t: {{partitions: {{0: [b1, b2, b3]}}, config: {{min.insync.replicas: 2}}}}
workloads:
  p1: {{kind: producer, topic: t, config: {{request.timeout.ms: 6000, delivery.timeout.ms: 30000}}}}
timeline:
  - {{at: 5s, produce: {{from: p1, count: 1}}}}
  - {{at: 6s, hold: {{from: b1, to: p1, api: Produce}}, for: 10s}}
  - {{at: 6.5s, produce: {{from: p1, count: 1}}}}
  {jump}
"""
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None)
    assert (result.verdict.kinds, result.broken) == (("duplicated",), ())
