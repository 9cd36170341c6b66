"""Latency, processor time and network cards of a whole cluster: an ack takes exactly what they add up to."""

from __future__ import annotations

import pytest

from replica.trace.events import RecordAcked, TraceRow
from replica.trace.listening import Listener, on
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario

LATENCY_US, REQUEST_US, REPLICATE_US = 250, 150, 170

CLUSTER = """\
schema: 1
id: service-model
title: A producer against three brokers
duration: 12s
cluster: {{brokers: {{b1: {{cpu: {cpu}}}, b2: {{cpu: {cpu}}}, b3: {{cpu: {cpu}}}}}}}
topics: {{t: {{partitions: {{0: [b1, b2, b3]}}, config: {{min.insync.replicas: 2}}}}}}
network: {{latency: {latency_us}us{cards}}}
workloads: {{p1: {{kind: producer, topic: t, {arrivals}, start: 2s, config: {{acks: {acks}}}}}}}
timeline: []
expect: {{verdict: ok}}
"""


class _Latencies(Listener):
    """Listener: microseconds from send to ack."""

    def __init__(self) -> None:
        self.of_records: list[int] = []

    @on(RecordAcked)
    def _acked(self, row: TraceRow, event: RecordAcked) -> None:
        self.of_records.append(event.latency_us)


def _run(acks: str, arrivals: str, cards: str = "") -> tuple[RunResult, list[int]]:
    cpu = f"{{request: {REQUEST_US}us, replicate: {REPLICATE_US}us}}"
    text = CLUSTER.format(cpu=cpu, latency_us=LATENCY_US, acks=acks, arrivals=arrivals, cards=cards)
    latencies = _Latencies()
    result = run_scenario(
        load_text(text, "service-model.yaml").scenario, runs_dir=None, watchers=lambda view: [latencies]
    )
    assert result.held and not result.broke_an_invariant
    return result, latencies.of_records


@pytest.mark.parametrize(
    ("acks", "latency_us"),
    [
        ("1", 2 * LATENCY_US + REQUEST_US),
        # To the leader and back, to a follower and back; a handler for the batch, one for the fetch that confirms it.
        ("all", 4 * LATENCY_US + 2 * REQUEST_US + REPLICATE_US),
    ],
)
def test_an_ack_takes_its_passages_and_its_threads(acks: str, latency_us: int) -> None:
    _, latencies = _run(acks, "rate: 1/s, stop: 12s")
    assert latencies[1:] == [latency_us] * 9  # the first waits for metadata


def test_an_ack_of_all_also_takes_the_cards_of_producer_and_leader() -> None:
    _, bare = _run("all", "rate: 1/s, size: 100kB")
    _, carded = _run("all", "rate: 1/s, size: 100kB", ", card: 10MB/s")
    # The batch enters the leader once and leaves it twice, the second in turn with the first: 10 ms each.
    assert all(30_000 <= slow - fast <= 30_500 for fast, slow in zip(bare[1:], carded[1:], strict=True))


@pytest.mark.soak
def test_a_card_bounds_what_is_acked_and_loses_nothing() -> None:
    _, latencies = _run("1", "rate: 100/s, size: 10kB, stop: 6s", ", cards: {p1: 500kB/s}")
    assert len(latencies) == 400
    assert latencies == sorted(latencies)  # a megabyte a second is offered, half of that leaves
    assert 4_000_000 < latencies[-1] < 4_400_000


@pytest.mark.soak
def test_the_same_seed_is_the_same_run_with_cards_too() -> None:
    arrivals, cards = "poisson: 200/s, size: 10kB, stop: 4s", ", card: 3MB/s, jitter: 2ms"
    first, second = (_run("all", arrivals, cards)[0].summary["trace_sha256"] for _ in "ab")
    assert first == second
