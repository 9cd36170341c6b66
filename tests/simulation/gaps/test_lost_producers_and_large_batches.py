"""Two old rules: a producer is forgotten with its last record (KAFKA-7190), and a fetch may be too small (KIP-74)."""

from __future__ import annotations

import pytest

from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario
from tests.soak import one_in

FORGOTTEN = """\
schema: 1
id: forgotten
title: Retention takes the last record of an idempotent producer
profile: PROFILE
duration: 60s
cluster: {brokers: {b1: {}, b2: {}, b3: {}}, config: {log.retention.check.interval.ms: 1000}}
topics:
  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2, retention.ms: 5000, segment.ms: 2000}}
workloads:
  p1: {kind: producer, topic: t, config: {acks: all, enable.idempotence: true}}
  p2: {kind: producer, topic: t, config: {acks: all, enable.idempotence: false}}
timeline:
  - {at: 5s, produce: {from: p1, count: 3}}
  - {at: 10s, produce: {from: p2, count: 1}}
  - STEP
  - {at: 30s, produce: {from: p1, count: 3}}
expect: {verdict: ok}
"""
NOTHING = "{at: 29s, produce: {from: p2, count: 1}}"
FAILOVER = '{at: 28s, kill: "leader(t-0)"}'
TOO_LARGE = """\
schema: 1
id: too-large
title: A batch larger than replica.fetch.max.bytes
profile: PROFILE
duration: 60s
cluster: {brokers: {b1: {}, b2: {}, b3: {}}, config: {replica.fetch.max.bytes: 1000, replica.lag.time.max.ms: 10000}}
topics:
  t: {partitions: {0: [b1, b2, b3]}}
workloads:
  p1: {kind: producer, topic: t, config: {acks: all, enable.idempotence: false}}
  c1r: {kind: consumer, topic: t, config: {auto.offset.reset: earliest, max.partition.fetch.bytes: 1000}}
timeline:
  - {at: 5s, produce: {from: p1, count: 2, size: 100B}}
  - {at: 10s, produce: {from: p1, count: 1, size: 5kB}}
expect: {verdict: ok}
"""


def play(text: str, profile: str, step: str = NOTHING) -> RunResult:
    text = text.replace("PROFILE", profile).replace("STEP", step)
    return run_scenario(load_text(text, "old.yaml").scenario, runs_dir=None, keep_rows=True)


def sequences(run: RunResult) -> list[tuple[int, int]]:
    """(epoch, first sequence) of what idempotent producers have in the leader's log."""
    events = (row.event for row in run.rows if isinstance(row.event, trace.BatchAppended) and row.event.topic == "t")
    return [
        (event.producer_epoch, event.base_sequence)
        for event in events
        if event.role == "leader" and event.producer_id >= 0
    ]


def errors(run: RunResult) -> list[str]:
    return [row.event.error for row in run.rows if isinstance(row.event, trace.ProduceRefused)]


@pytest.mark.parametrize("step", one_in(3, [NOTHING, FAILOVER]))
@pytest.mark.parametrize(
    ("profile", "refused", "last"),
    [("kafka-2.0", ["UNKNOWN_PRODUCER_ID"], (0, 0)), ("kafka-2.7", [], (0, 3)), ("kafka-4.1", [], (0, 3))],
)
def test_a_producer_whose_records_are_gone(profile: str, refused: list[str], last: tuple[int, int], step: str) -> None:
    """Each batch in flight is refused once; then it begins at sequence 0 in its epoch. Other leaders do the same."""
    run = play(FORGOTTEN, profile, step)
    assert (run.verdict.kinds, run.broke_an_invariant) == ((), False)
    assert [error for error in errors(run) if error == "UNKNOWN_PRODUCER_ID"] == refused * 3
    assert (sequences(run)[0], last in sequences(run)[-3:]) == ((0, 0), True)
    assert len([name for name in run.verdict.records["acked"] if name.startswith("r")]) == 6


@pytest.mark.soak
@pytest.mark.parametrize(
    ("profile", "is_stuck", "isr", "failed"),
    [
        ("kafka-0.8", True, "b1 b2 b3", set()),  # One record behind: replica.lag.max.messages is 4,000.
        ("kafka-0.10", True, "b1", {"MESSAGE_TOO_LARGE"}),
        ("kafka-0.11", False, "b1 b2 b3", set()),
        ("kafka-4.1", False, "b1 b2 b3", set()),
    ],
)
def test_a_batch_that_is_larger_than_a_fetch(profile: str, is_stuck: bool, isr: str, failed: set[str]) -> None:
    """Before KIP-74 the followers are stuck, leave the ISR where it goes by time, and the consumer cannot read on."""
    run = play(TOO_LARGE, profile)
    assert not run.broke_an_invariant
    changes = [row.event.isr for row in run.rows if isinstance(row.event, trace.IsrCommitted)]
    assert sorted(changes[-1] if changes else ("b1", "b2", "b3")) == isr.split()
    refused = [row.event for row in run.rows if isinstance(row.event, trace.FetchRefused)]
    assert {(event.error, event.peer) for event in refused} == (
        {("MESSAGE_TOO_LARGE", "b2"), ("MESSAGE_TOO_LARGE", "b3")} if is_stuck else set()
    )
    seen = {row.event.error for row in run.rows if isinstance(row.event, trace.FetchFailed)}
    read = {row.event.record for row in run.rows if isinstance(row.event, trace.RecordRead)}
    # Without the followers in the ISR the record is committed, and larger than what the consumer fetches.
    assert seen == failed
    assert read == ({"r0", "r1"} if is_stuck else {"r0", "r1", "r2"})
