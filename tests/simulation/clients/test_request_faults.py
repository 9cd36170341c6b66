"""`fail` in virtual time: what the log has, what clients hear, and what verdict and story say of it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from cluster.protocol.answer_errors import ERRORS
from cluster.protocol.versions import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    FETCH,
    HEARTBEAT,
    PRODUCE,
    api_name,
)
from replica.trace.events import BatchRefused, FaultEnded, RecordAcked, ResponseInjected
from scenarios.explain.record import explain_record
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario
from tests.soak import one_in

FRAME = """
schema: 1
id: errors
title: Errors
duration: 14s
cluster: {{brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}}}
topics: {{t: {{partitions: {{0: [b1, b2, b3]}}}}}}
workloads: {{p1: {{kind: producer, topic: t, config: {{acks: all, enable.idempotence: {idempotence}}}}}}}
timeline:
{steps}
  - {{at: 6s, produce: {{from: p1, count: 2, batch: 2}}}}
expect: {{verdict: {verdict}}}
"""


def play(*steps: str, idempotence: bool = False, verdict: str = "ok") -> RunResult:
    lines = "\n".join(f"  - {step}" for step in steps)
    text = FRAME.format(steps=lines, idempotence=str(idempotence).lower(), verdict=verdict)
    run = run_scenario(load_text(text, "errors.yaml").scenario, runs_dir=None, keep_rows=True)
    assert [one for one in run.expectations if not one.held] == []
    assert not run.broken
    return run


def events(run: RunResult, kind: type) -> list[Any]:
    return [row.event for row in run.rows if isinstance(row.event, kind)]


def test_an_error_after_the_append_stores_records_twice_and_the_verdict_names_the_step() -> None:
    run = play("{at: 5s, fail: {api: Produce, errors: NOT_LEADER_OR_FOLLOWER, when: after}}", verdict="[duplicated]")
    (anomaly,) = run.verdict.anomalies
    assert anomaly.sentence == "2 records were stored more than once: r0..r1 (sent again because of fail-1)"
    story = [moment.sentence for moment in explain_record(run.rows, "r0").moments if moment.decisive]
    assert any("although it carried out the request (fault `fail-1`)" in sentence for sentence in story) or story == []
    assert [event.fault for event in events(run, FaultEnded)] == ["fail-1"]


@pytest.mark.parametrize(
    ("step", "idempotence", "errors"),
    [
        ("errors: NOT_LEADER_OR_FOLLOWER, when: after", True, ["NOT_LEADER_OR_FOLLOWER"]),
        ("errors: [REQUEST_TIMED_OUT, CORRUPT_MESSAGE]", False, ["REQUEST_TIMED_OUT", "CORRUPT_MESSAGE"]),
        ("close: instead", True, ["NETWORK_EXCEPTION"]),
        ("errors: NOT_ENOUGH_REPLICAS, close: after, delay: 1s", True, ["NOT_ENOUGH_REPLICAS"]),
    ],
)
def test_nothing_is_stored_twice(step: str, idempotence: bool, errors: list[str]) -> None:
    run = play(f"{{at: 5s, fail: {{api: Produce, {step}}}}}", idempotence=idempotence)
    assert [event.error for event in events(run, BatchRefused)] == errors


def test_delays_and_throttle_times_add_up() -> None:
    run = play("{at: 5s, fail: {api: Produce, delay: 2s, throttle: 3s}}", "{at: 6s, produce: {from: p1, count: 1}}")
    (injected,) = events(run, ResponseInjected)
    assert (injected.waited_us, injected.amount, injected.error) == (2_000_000, 3000, None)
    acked = {row.event.record: row.at_us for row in run.rows if isinstance(row.event, RecordAcked)}
    assert 8_000_000 <= acked["r0"] < 9_000_000
    assert acked["r1"] >= 9_000_000


def test_a_fault_without_an_end_lasts_for_its_time() -> None:
    run = play("{at: 5s, fail: {api: Produce, errors: NOT_LEADER_OR_FOLLOWER, times: all}, for: 3s}")
    assert len(events(run, ResponseInjected)) > 3
    (ended,) = (row for row in run.rows if isinstance(row.event, FaultEnded))
    assert ended.at_us == 8_000_000


EVERYTHING = """
schema: 1
id: storm
title: Any error of any API
duration: 60s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {offsets.topic.num.partitions: 1, transaction.state.log.num.partitions: 1}
topics: {t: {partitions: {0: [b1, b2, b3], 1: [b2, b3, b1]}}, out: {partitions: {0: [b3, b1, b2]}}}
workloads:
  p1: {kind: producer, topic: t, rate: 4/s, stop: 45s}
  p2: {kind: producer, topic: t, rate: 4/s, stop: 45s, config: {enable.idempotence: false}}
  k1: {kind: consumer, topic: t}
  t1:
    kind: transform
    topic: t
    to: out
    batch: 3
    config: {group.id: g, transactional.id: x, auto.offset.reset: earliest}
  t2: {kind: transform, topic: t, to: out, batch: 3, offsets: after, config: {group.id: h}}
timeline:
"""


@pytest.mark.soak
@pytest.mark.parametrize("seed", one_in(3, range(1, 17), pytest.mark.night))
def test_no_invariant_accuses_a_broker(seed: int) -> None:
    """Errors that Kafka's brokers do answer with, before and after, in any order: all that breaks is what was asked."""
    rng = random.Random(f"errors on demand/{seed}")
    steps = []
    for number in range(12):
        any_api = rng.choice([key for key in ERRORS if key not in (CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS)])
        # Many APIs are asked only while clients start, so every other step is about one that is asked all the time.
        api = any_api if number % 2 else rng.choice((PRODUCE, FETCH, HEARTBEAT))
        codes = sorted(code.name for code in ERRORS[api].codes)
        how: dict[str, object] = {"api": api_name(api), "times": rng.choice((1, 2, 5))}
        if rng.random() < 0.8:
            how |= {"errors": rng.choices(codes, k=rng.choice((1, 2))), "when": rng.choice(("before", "after"))}
        else:
            how |= rng.choice(({"close": "instead"}, {"close": "after"}, {"delay": "400ms"}, {"throttle": "700ms"}))
        steps.append(f"  - {json.dumps({'at': f'{12 + 3 * number}s', 'fail': how})}")
    scenario = load_text(EVERYTHING + "\n".join(steps) + "\n", "storm.yaml", [f"seed={seed}"]).scenario
    run = run_scenario(scenario, runs_dir=None, keep_rows=True)
    assert [event.sentence() for event in run.broken] == []
    assert len(events(run, ResponseInjected)) > 3
