"""Events about clients that state nothing themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from serving import serving

from cluster.live.client_tap import ClientTap
from cluster.live.observations import ConnectionTap
from cluster.live.record_names import is_believable, word_of
from cluster.protocol.api_00_produce import (
    ProducePartitionResponse,
    ProduceRequest,
    encode_produce_request,
    encode_produce_response,
)
from cluster.protocol.cold import encode_request, request
from cluster.protocol.versions import METADATA
from cluster.slices import SLICE_US, Slices
from replica.errors import ErrorCode
from replica.log.batches.records import build_batch, read_header
from replica.trace.events import RecordAcked, TraceEvent, TraceLog
from scenarios.observe.mirror import LogMirror

pytestmark = pytest.mark.live

FAILOVER = """
schema: 1
id: live-failover
title: A client from outside, and the leader dies
seed: 1
duration: 10s
cluster:
  controllers: [c1]
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 200}
topics:
  orders: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}
workloads: {}
timeline:
  - when: {b1: {orders-0: {leo: {at_least: 10}}}}
    hold: {from: b1, to: "followers(orders-0)", api: Fetch, part: response}
  - when: {b1: {orders-0: {leo: {at_least: 25}}}}
    kill: b1
expect: {}
"""


@pytest.mark.soak
def test_an_unmodified_client_loses_what_the_dead_leader_alone_had_acked(tmp_path: Path) -> None:
    """The leader may die at any moment: the records reported lost are missing for a consumer."""
    file = tmp_path / "failover.yaml"
    file.write_text(FAILOVER)
    with serving(tmp_path, "--scenario", str(file)) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks=1, enable_idempotence=False, retries=20)
        acked = []
        while len(acked) < 40:
            name = f"order-{len(acked)}"
            assert producer.send("orders", value=name.encode()).get(20)
            acked.append(name)
            time.sleep(0.02)
        producer.close()
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=served.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=2000
        )
        read = {record.value.decode() for record in consumer}
        consumer.close()
        served.stop()
    lost = served.summary["records"]["lost"]
    assert lost and sorted(lost) == sorted(set(acked) - read)
    assert "lost" in served.summary["verdict"] and not served.summary["our_bug"]
    (told,) = served.summary["producers"].values()
    assert told["latency_us"]["min"] > 0  # acks=1 is answered in the step that it arrives in: still not in no time


def test_answers_that_were_held_belong_to_the_requests_in_their_order() -> None:
    """While the network holds an answer, the broker reads on; not every request is a Produce."""
    events: list[TraceEvent] = []
    log, sent = TraceLog([lambda row: events.append(row.event)]), LogMirror().sent
    observe = ClientTap(log, sent, lambda *place: (), lambda name: False, str).open("client/p", "b1")
    tap = ConnectionTap(lambda observation: observe(observation, 0), str, lambda: 9)
    for number in range(2):
        batch = bytes(build_batch([(None, b"r%d" % number)], timestamp_ms=0))
        produce = ProduceRequest(None, 1, 1000, [("t", [(0, batch)])])
        tap.request(bytearray(encode_produce_request(9, number, "p", produce)[4:]))
        tap.request(bytearray(encode_request(METADATA, 9, 10, "p", request(METADATA, 9, topics=[]))[4:]))
    for number in range(2):
        answer = [("t", [ProducePartitionResponse(0, ErrorCode.NONE, number)])]
        tap.response([encode_produce_response(9, number, answer)])
        tap.response([b"an answer to Metadata"])
    acked = [(event.record, event.offset) for event in events if isinstance(event, RecordAcked)]
    assert acked == [("r0", 0), ("r1", 1)]


@pytest.mark.parametrize(("batches", "records"), [(500, 1), (1, 2_000)])
def test_what_a_long_request_leads_to_is_told_in_slices(batches: int, records: int) -> None:
    """Counted, not timed: the clock goes on by one slice with every 20 events."""
    events: list[TraceEvent] = []
    log, sent = TraceLog([lambda row: events.append(row.event)]), LogMirror().sent
    observe = ClientTap(log, sent, lambda *place: (), lambda name: False, str).open("client/p", "b1")
    tap = ConnectionTap(lambda observation: observe(observation, 0), str, lambda: 9)
    later: list[Callable[[int], None]] = []
    sliced = Slices(
        now=lambda: 0, clock=lambda: len(events) * SLICE_US // 20, at=lambda at_us, go_on: later.append(go_on)
    )
    batch = bytes(build_batch([(None, b"x")] * records, timestamp_ms=0))
    produce = ProduceRequest(None, 1, 1000, [("t", [(number, batch) for number in range(batches)])])
    answer = [("t", [ProducePartitionResponse(number, ErrorCode.NONE, 0) for number in range(batches)])]
    request = bytearray(encode_produce_request(9, 1, "p", produce)[4:])
    for work in (lambda: tap.request(request), lambda: tap.response([encode_produce_response(9, 1, answer)])):
        seen = len(events)
        assert not sliced.begin(work)
        while later:
            assert len(events) - seen <= 22
            seen = len(events)
            later.pop()(0)
    assert sum(isinstance(event, RecordAcked) for event in events) == batches * records


def test_what_has_paused_when_the_cluster_stops_is_told_all_the_same() -> None:
    events: list[TraceEvent] = []
    log, sent = TraceLog([lambda row: events.append(row.event)]), LogMirror().sent
    observe = ClientTap(log, sent, lambda *place: (), lambda name: False, str).open("client/p", "b1")
    tap = ConnectionTap(lambda observation: observe(observation, 0), str, lambda: 9)
    sliced = Slices(now=lambda: 0, clock=lambda: len(events) * SLICE_US, at=lambda at_us, go_on: None)
    batch = bytes(build_batch([(None, b"x")] * 5, timestamp_ms=0))
    request = bytearray(encode_produce_request(9, 1, "p", ProduceRequest(None, 1, 1000, [("t", [(0, batch)])]))[4:])
    answer = encode_produce_response(9, 1, [("t", [ProducePartitionResponse(0, ErrorCode.NONE, 0)])])
    tap.request(request)
    assert not sliced.begin(lambda: tap.response([answer]))
    sliced.finish()
    assert sum(isinstance(event, RecordAcked) for event in events) == 5


def test_words_are_safe_to_print_and_batches_are_believed_only_as_far_as_they_reach() -> None:
    assert word_of(b"a b/../<i>") == "a_b_____i_" and word_of(b"...") is None and word_of(b"x" * 25) is None
    assert word_of("\u202eevil".encode()) is None
    header = read_header(build_batch([(None, b"v")], timestamp_ms=0))
    assert is_believable(header)
    assert not is_believable(replace(header, record_count=1 << 30, last_offset_delta=(1 << 30) - 1))
