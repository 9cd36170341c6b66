"""The producer sends a batch again, or gives up: after a refusal, a lost answer, a timeout."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import (
    MS,
    SECOND,
    TOPIC,
    never_answer,
    refuse,
    reset,
)
from producer_world import cluster_of, names_of, producer, record, send, stored, warm_up

from cluster.client.producer.producer import ProducerRecord
from cluster.protocol.versions import PRODUCE
from replica.errors import ErrorCode

# ------------------------------------------------------------------------------------------------------- retries


def test_a_refused_batch_is_sent_again_after_the_backoff_with_the_same_bytes() -> None:
    cluster = cluster_of()
    harness = producer(cluster)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, refuse(ErrorCode.NOT_ENOUGH_REPLICAS), refuse(ErrorCode.NOT_ENOUGH_REPLICAS))
    send(harness, 0)
    harness.run_until(3 * SECOND)
    attempts = harness.events("BatchSent")
    assert [event.attempt for event in attempts] == [1, 2, 3]
    assert len({(event.crc, event.base_sequence) for event in attempts}) == 1
    refused = harness.events("BatchRefused")
    assert [(event.error, event.will_retry) for event in refused] == [("NOT_ENOUGH_REPLICAS", True)] * 2
    times = [row.at_us for row in harness.rows if type(row.event).__name__ == "BatchSent"]
    assert 80 * MS <= times[1] - times[0] - 2 * MS <= 120 * MS
    assert 160 * MS <= times[2] - times[1] - 2 * MS <= 240 * MS
    assert names_of(harness.events("RecordAcked")) == ["r0"]


@pytest.mark.parametrize(
    ("config", "order"),
    [
        ({"acks": "all", "enable_idempotence": "false"}, ["y", "x"]),
        ({"acks": "all", "enable_idempotence": "false", "max_in_flight_requests_per_connection": 1}, ["x", "y"]),
        ({"acks": "all"}, ["x", "y"]),
    ],
)
def test_a_retry_is_overtaken_unless_something_keeps_the_order(config: dict[str, Any], order: list[str]) -> None:
    cluster = cluster_of()
    harness = producer(cluster, **config)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, refuse(ErrorCode.NOT_ENOUGH_REPLICAS))
    for name in ("x", "y"):
        one = ProducerRecord(TOPIC, 0, None, name.encode(), name)
        harness.call(lambda now_us, r=one: harness.core.send(r, now_us))
    harness.run_until(5 * SECOND)
    assert stored(cluster.broker(1)) == order
    assert sorted(names_of(harness.events("RecordAcked"))) == ["x", "y"]


def test_a_lost_ack_duplicates_without_idempotence_and_not_with_it() -> None:
    for idempotent, copies in (("false", ["r0", "r0"]), ("true", ["r0"])):
        cluster = cluster_of()
        harness = producer(cluster, enable_idempotence=idempotent)
        warm_up(harness)
        cluster.broker(1).next(PRODUCE, reset())
        send(harness, 0)
        harness.run_until(3 * SECOND)
        assert stored(cluster.broker(1)) == copies
        (refused,) = harness.events("BatchRefused")
        assert (refused.error, refused.why()) == ("NETWORK_EXCEPTION", "connection reset by peer")
        assert [event.offset for event in harness.events("RecordAcked")] == [len(copies)]


def test_retries_exhausted_fail_the_record_definitely() -> None:
    cluster = cluster_of()
    harness = producer(cluster, acks="1", retries=1)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, *[refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 2)
    send(harness, 0)
    harness.run_until(5 * SECOND)
    (failed,) = harness.events("RecordFailed")
    assert (failed.error, failed.definite) == ("NOT_LEADER_OR_FOLLOWER", True)
    assert [event.will_retry for event in harness.events("BatchRefused")] == [True, False]


def test_an_error_that_may_follow_an_append_is_not_definite() -> None:
    cluster = cluster_of()
    harness = producer(cluster, retries=1, enable_idempotence="false")
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, *[refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)] * 2)
    send(harness, 0)
    harness.run_until(5 * SECOND)
    (failed,) = harness.events("RecordFailed")
    assert not failed.definite


def test_a_batch_that_is_too_large_is_split() -> None:
    cluster = cluster_of()
    harness = producer(cluster, batch_size=200)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, refuse(ErrorCode.MESSAGE_TOO_LARGE))
    harness.call(harness.core.send_batch, [record(n, size=60) for n in range(3)])
    harness.run_until(3 * SECOND)
    assert stored(cluster.broker(1)) == ["r0", "r1", "r2"]
    assert [event.records for event in harness.events("BatchSent")] == [("r0", "r1", "r2"), ("r0", "r1"), ("r2",)]
    assert [event.base_sequence for event in harness.events("BatchSent")] == [1, 1, 3]


# ------------------------------------------------------------------------------------------------------ timeouts


def test_a_request_timeout_closes_the_connection_and_retries_all_that_was_in_flight() -> None:
    cluster = cluster_of(brokers=1)
    harness = producer(cluster, request_timeout_ms=2000)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, never_answer(handles=False))
    send(harness, 0, 1)
    harness.run_until(3 * SECOND)
    refused = harness.events("BatchRefused")
    assert [(event.error, event.will_retry) for event in refused] == [("REQUEST_TIMED_OUT", True)] * 2
    harness.run_until(6 * SECOND)
    assert stored(cluster.broker(1)) == ["r0", "r1"]


def test_the_delivery_timeout_counts_from_the_send_call() -> None:
    cluster = cluster_of(brokers=1)
    harness = producer(cluster, request_timeout_ms=1000, delivery_timeout_ms=3500)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, *[never_answer(handles=False)] * 4)
    send(harness, 0)
    harness.run_until(10 * SECOND)
    (failed,) = harness.events("RecordFailed")
    assert (failed.error, failed.definite, failed.latency_us) == ("REQUEST_TIMED_OUT", False, 3500 * MS)


def test_when_a_batch_expires_the_next_one_goes_out_at_once() -> None:
    """Sender.sendProducerData: while a leader is ready, the next round follows without a pause.

    r0 is refused over and over, and r1 and r2 wait behind its sequence. r1 expires in the round that drains it.
    """
    cluster = cluster_of(brokers=1)
    harness = producer(cluster, request_timeout_ms=1000, delivery_timeout_ms=2200)
    warm_up(harness)
    refusals = [refuse(ErrorCode.NOT_ENOUGH_REPLICAS)] * 20
    cluster.broker(1).next(PRODUCE, never_answer(handles=False), *refusals)
    for at_ms, number in ((1000, 0), (1010, 1), (1500, 2)):
        harness.run_until(at_ms * MS)
        send(harness, number)
    harness.run_until(5 * SECOND)
    of_r2 = [row.at_us for row in harness.rows if getattr(row.event, "records", None) == ("r2",)]
    again = [at_us for at_us in of_r2 if at_us > 2 * SECOND + 1 * MS]  # it was lost with the connection at 2 s
    assert again[:1] == [3210 * MS], "r1 expires then"


def test_what_never_left_the_producer_fails_definitely() -> None:
    cluster = cluster_of(brokers=1, leaders={0: (-1, 0)})
    harness = producer(cluster, request_timeout_ms=1000, delivery_timeout_ms=2000)
    harness.run_until(1 * SECOND)
    send(harness, 0)
    harness.run_until(5 * SECOND)
    (failed,) = harness.events("RecordFailed")
    assert (failed.error, failed.definite, failed.latency_us) == ("REQUEST_TIMED_OUT", True, 2000 * MS)


def test_after_a_timeout_the_epoch_is_raised_before_new_records_go_out() -> None:
    """It is unknown whether sequence 0 was used, so r1 may not take sequence 1 under the old epoch."""
    cluster = cluster_of(brokers=1)
    harness = producer(cluster, request_timeout_ms=1000, delivery_timeout_ms=2500)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, *[never_answer(handles=False)] * 3)
    send(harness, 0)
    harness.run_until(4 * SECOND)
    assert names_of(harness.events("RecordFailed")) == ["r0"]
    send(harness, 1)
    harness.run_until(8 * SECOND)
    assert names_of(harness.events("RecordAcked")) == ["r1"]
    last = harness.events("BatchSent")[-1]
    assert last.base_sequence == 0
    assert cluster.broker(1).sequences[(0, last.producer_id)] == (1, 0)


def test_a_topic_nobody_knows_fails_after_max_block_ms() -> None:
    cluster = cluster_of()
    cluster.topic_exists = False
    harness = producer(cluster, max_block_ms=3000)
    harness.run_until(1 * SECOND)
    send(harness, 0)
    harness.run_until(10 * SECOND)
    (failed,) = harness.events("RecordFailed")
    assert (failed.error, failed.definite, failed.latency_us) == ("REQUEST_TIMED_OUT", True, 3000 * MS)
    assert failed.why() == "no metadata for partition t-0 arrived within max.block.ms=3000"


def test_a_connection_that_is_never_made_times_out() -> None:
    cluster = cluster_of(brokers=2)
    cluster.broker(1).swallows_connections = True
    harness = producer(cluster, bootstrap=2, seed=3, socket_connection_setup_timeout_ms=1000)
    harness.run_until(1 * SECOND)
    cluster.leaders[0] = (2, 0)
    send(harness, 0)
    harness.run_until(5 * SECOND)
    assert names_of(harness.events("RecordAcked")) == ["r0"]
