"""The journey of a request: it agrees with the trace, and a run replayed for it is the same run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_scenario import load
from stories import compare_with_golden

from replica.trace.events import RecordAcked, RecordsSent, RequestCompleted
from scenarios.explain.record import explain_record
from scenarios.explain.request_journey import RequestJourneys, RequestUnknown, journey_text, request_of, requests_text
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario
from scenarios.run.worlds import measured, simulated
from scenarios.terminal.style import Style

STEPS = ("{at: 10s, produce: {from: p1, count: 2}}", "{at: 10.2s, produce: {from: p1, count: 1}}")


@pytest.fixture(scope="module")
def run() -> RunResult:
    return run_scenario(load(*STEPS), runs_dir=None, keep_rows=True, world=measured)


def test_a_produce_with_acks_all_from_the_acceptor_to_the_client(run, request):
    requests = RequestJourneys(run.rows)
    (found,) = requests.find("r2")
    compare_with_golden("path_produce.txt", journey_text(requests.journey(found), Style(), "0001-small"), request)
    assert request_of(found).remote_time_us == request_of(found).total_time_us > 0


def test_a_fetch_of_a_consumer_in_plain_ascii(run, request):
    requests = RequestJourneys(run.rows)
    found = [row for row in requests.completed if request_of(row).peer == "c1r"][-1]
    assert requests.find(requests.name_of(found)) == [found]
    text = journey_text(requests.journey(found), Style(plain=True), "0001-small")
    assert text.isascii()
    compare_with_golden("path_fetch.txt", text, request)


def test_every_record_has_its_produce_and_the_list_names_it(run):
    requests = RequestJourneys(run.rows)
    produces = [row for row in requests.completed if request_of(row).api == "Produce"]
    assert sorted(name for row in produces for name in requests.records_of(row)) == ["r0", "r1", "r2"]
    assert requests.name_of(produces[-1]) in requests_text(requests, Style(), "0001-small")
    document = requests.journey(produces[-1]).as_json()
    assert (document["records"], document["api"], document["stages"][-1]["stage"]) == (["r2"], "Produce", "client")
    assert all(key.islower() for key in document)


def test_clients_that_share_a_client_id_are_told_apart_by_their_connections(run):
    """As two kcat do, which count their requests from 1 both."""
    (found,) = RequestJourneys(run.rows).find("r2")
    short = RequestJourneys(run.rows).name_of(found)
    other = replace(request_of(found), connection=request_of(found).connection + 7)
    requests = RequestJourneys([*run.rows, replace(found, seq=run.rows[-1].seq + 1, event=other)])
    rows = requests.find(short)
    assert [request_of(row).connection - request_of(found).connection for row in rows] == [0, 7]
    assert [requests.journey(row).name for row in rows] == [f"{short}/{request_of(row).connection}" for row in rows]
    assert [requests.find(requests.name_of(row)) for row in rows] == [[row] for row in rows]
    assert requests.summary(rows[1])["request"] in requests_text(requests, Style(), "0001-small")


def test_times_add_up_and_sendfile_moves_what_was_fetched(run):
    for row in run.rows:
        if not isinstance(row.event, RequestCompleted):
            continue
        one = row.event
        parts = (
            one.request_queue_time_us + one.local_time_us + one.remote_time_us,
            one.response_queue_time_us + one.response_send_time_us,
        )
        assert sum(parts) == one.total_time_us and one.received_us + one.total_time_us == row.at_us
        assert (one.api == "Fetch") == (one.sendfile_calls > 0)
    moved = sum(row.event.sendfile_bytes for row in run.rows if isinstance(row.event, RequestCompleted))
    assert moved == sum(row.event.size_bytes for row in run.rows if isinstance(row.event, RecordsSent)) > 0


def test_a_client_is_told_after_the_answer_has_left(run):
    """Live, an event has the time at which its step began, which is that of the last byte in."""
    (found,) = RequestJourneys(run.rows).find("r2")
    begun_us = request_of(found).received_us
    rows = [replace(row, at_us=begun_us) if isinstance(row.event, RecordAcked) else row for row in run.rows]
    *_, total, client = RequestJourneys(rows).journey(found).stages
    assert (total.name, client.name) == ("total", "client")
    assert client.at_us >= total.at_us == begun_us + request_of(found).total_time_us


def test_measuring_changes_nothing_but_the_numbers_of_the_events(run):
    plain = run_scenario(load(*STEPS), runs_dir=None, keep_rows=True, world=simulated)
    others = [(row.at_us, row.event) for row in run.rows if not isinstance(row.event, RequestCompleted)]
    assert others == [(row.at_us, row.event) for row in plain.rows]


@pytest.mark.parametrize(
    ("wanted", "why"), [("r99", "r99"), ("p1:999", "no Produce or Fetch"), ("nobody:1@b1", "nobody:1@b1")]
)
def test_a_request_that_is_not_there_is_told_with_what_there_is(run, wanted, why):
    with pytest.raises(RequestUnknown, match=why):
        RequestJourneys(run.rows).find(wanted)


PIPELINE = """
schema: 1
id: pipeline
title: Integers, and one record that is none
duration: 20s
cluster: {brokers: {b1: {}}}
topics: {t: {partitions: {0: [b1]}}}
workloads:
  p1:
    kind: producer
    topic: t
    cpu: {interceptor: 1ms, serializer: 2ms}
    config: {value.serializer: IntegerSerializer, interceptor.classes: "AuditInterceptor, ThrowingInterceptor"}
  p2: {kind: producer, topic: t}
  c1r:
    kind: consumer
    topic: t
    cpu: {deserializer: 3ms}
    config:
      auto.offset.reset: earliest
      value.deserializer: IntegerDeserializer
      interceptor.classes: AuditInterceptor
timeline:
  - {at: 10s, produce: {from: p1, count: 1}}
  - {at: 11s, produce: {from: p2, count: 1}}
expect: {verdict: ok}
"""


def test_the_stages_inside_the_clients_are_part_of_the_journey(request):
    rows = run_scenario(load_text(PIPELINE, "p.yaml").scenario, runs_dir=None, keep_rows=True, world=measured).rows
    requests = RequestJourneys(rows)
    fetches = [row for row in requests.completed if request_of(row).peer == "c1r"]
    found = [*requests.find("r0"), *fetches]
    text = "".join(journey_text(requests.journey(row), Style(), "0001-pipeline") for row in found)
    compare_with_golden("path_pipeline.txt", text, request)
    stages = [stage["stage"] for stage in requests.journey(found[0]).as_json()["stages"]]
    assert stages[:4] == ["send", "interceptors", "serializer", "accumulator"]


def test_explain_says_who_stands_at_a_record_and_who_does_not_come_to_it():
    rows = run_scenario(load_text(PIPELINE, "p.yaml").scenario, runs_dir=None, keep_rows=True).rows
    assert (
        "can be read. c1r is stuck at offset 1, because it cannot deserialize s0." in explain_record(rows, "s0").ending
    )
    assert "c1r" not in explain_record(rows, "r0").ending
