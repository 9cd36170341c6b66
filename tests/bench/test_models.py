"""The models that benchmarks are measured on: their declared outcome agrees with their traces and files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from replica.trace.events import BatchAppended, LeaderElected, LogEntriesFound, RecordAcked, RecordSent
from scenarios.bench.acks import BENCHMARKS, EC2, AcksRun, Benchmark, records_per_s, scenario_of, thread_us
from scenarios.language.parse.loading import load_text
from scenarios.observe.trace_writer import read_rows
from tests.bench.model.trace import ModelTrace


@pytest.mark.soak
def test_the_model_trace_holds_what_is_said_to_be_true_of_it(tmp_path: Path) -> None:
    model = ModelTrace(rounds=1)
    model.write(tmp_path)
    truth = model.truth()
    sent: Counter[int] = Counter()
    acked: dict[str, int] = {}
    copies: Counter[str] = Counter()
    appended, elections, last_us = 0, 0, 0
    for place, row in enumerate(read_rows(tmp_path)):
        assert row.seq == place and row.at_us >= last_us and all(cause < place for cause in row.causes)
        last_us = row.at_us
        event = row.event
        if isinstance(event, RecordSent):
            sent[event.acks] += 1
        elif isinstance(event, RecordAcked):
            acked[event.record] = event.acks
        elif isinstance(event, LogEntriesFound) and event.node == "b2":
            copies.update(event.records)
        elif isinstance(event, LeaderElected):
            elections += 1
        elif isinstance(event, BatchAppended):
            appended = max(appended, event.log_end_offset)
    assert place + 1 == truth.events
    assert sent == truth.sent
    assert Counter(acked.values()) == truth.acked
    assert sum(record not in copies for record in acked) == truth.lost[1] > 0
    assert sum(count > 1 for count in copies.values()) == sum(truth.duplicated.values()) > 0
    assert elections == truth.elections
    assert appended == truth.final_high_watermark + truth.largest_lag_records


def test_the_model_is_as_long_as_asked_and_its_truth_grows_with_it() -> None:
    small, large = (ModelTrace.of_about(events).truth() for events in (10_000_000, 100_000_000))
    assert abs(large.events - 100_000_000) < 50_000
    assert large.lost[1] == pytest.approx(10 * small.lost[1], rel=0.02)


@pytest.mark.parametrize("published", BENCHMARKS, ids=lambda one: one.name)
def test_the_published_benchmarks_are_valid_scenarios(published: Benchmark) -> None:
    for case in published.cases:
        scenario = load_text(scenario_of(published, case), "bench").scenario
        assignment = scenario.topics["t"].assignment
        assert assignment is not None
        assert [len(nodes) for nodes in assignment] == [case.replicas] * 6
        assert len(scenario.workloads) == case.producers
        assert set(scenario.network.cards) == {"b1", "b2", "b3", *scenario.workloads}


def test_passages_and_threads_add_up_to_the_published_latency() -> None:
    assert thread_us(250, 2_500) == 150
    assert thread_us(300, 2_000) == 0
    with pytest.raises(ValueError, match="5 passages of 301 us take longer than 1500 us"):
        thread_us(301, 2_000)


@pytest.mark.soak
def test_narrow_cards_make_replication_cost_throughput_and_acks_of_all_more() -> None:
    none, replicated, acks_all = EC2.cases
    rates = [records_per_s(AcksRun(EC2, case, 250, 2_500)) for case in (replicated, acks_all)]
    assert none.published_records_per_s is not None
    assert none.published_records_per_s > rates[0] > rates[1]
