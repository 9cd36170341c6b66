"""The idempotent producer: sequences and epochs after a gap, a refusal, a timeout."""

from __future__ import annotations

from fake_cluster import MS, SECOND, handle, refuse
from producer_world import cluster_of, names_of, producer, record, send, stored, warm_up

from cluster.protocol.versions import PRODUCE
from replica.errors import ErrorCode


def test_a_gap_in_the_log_makes_the_producer_raise_its_epoch_and_start_at_0() -> None:
    """idempotent-sequence-gap: an unclean leader lost acked records; the broker's 45 makes the loss visible."""
    cluster = cluster_of(brokers=1)
    harness = producer(cluster)
    warm_up(harness)
    send(harness, 0, 1, 2)
    harness.run_until(2 * SECOND)
    broker = cluster.broker(1)
    broker.log[0], broker.log_end[0] = broker.log[0][:1], 1
    pid = harness.events("BatchSent")[0].producer_id
    broker.sequences[(0, pid)] = (0, 0)
    send(harness, 3)
    harness.run_until(4 * SECOND)
    sent = harness.events("BatchSent")[3:]
    assert [event.base_sequence for event in sent] == [4, 0]
    assert sent[0].crc != sent[1].crc
    assert [event.error for event in harness.events("BatchRefused")] == ["OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert broker.names() == ["r900", "r3"]


def test_out_of_order_behind_a_refused_batch_is_only_its_shadow() -> None:
    cluster = cluster_of(brokers=1)
    harness = producer(cluster)
    warm_up(harness)
    send(harness, 0)
    harness.run_until(2 * SECOND)
    cluster.broker(1).next(PRODUCE, refuse(ErrorCode.NOT_ENOUGH_REPLICAS))
    send(harness, 1, 2, 3)
    harness.run_until(5 * SECOND)
    assert stored(cluster.broker(1)) == ["r0", "r1", "r2", "r3"]
    assert {event.producer_id for event in harness.events("BatchSent")} == {1001}
    refusals = [(event.records, event.error) for event in harness.events("BatchRefused")]
    assert refusals == [
        (("r1",), "NOT_ENOUGH_REPLICAS"),
        (("r2",), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (("r3",), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ]
    assert cluster.broker(1).sequences[(0, 1001)] == (0, 4)


def test_during_recovery_one_request_at_a_time_goes_out() -> None:
    cluster = cluster_of(brokers=1)
    harness = producer(cluster, retry_backoff_max_ms=100)  # no jitter: both become due at the same instant
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, *[refuse(ErrorCode.NOT_ENOUGH_REPLICAS)] * 2)
    send(harness, 0, 1)
    harness.run_until(5 * SECOND)
    told = [(type(row.event).__name__, getattr(row.event, "record", None)) for row in harness.rows[2:]]
    assert told[4:] == [("BatchSent", None), ("RecordAcked", "r0"), ("BatchSent", None), ("RecordAcked", "r1")]


def test_new_records_wait_while_nobody_knows_which_sequences_were_used() -> None:
    """r0 is given up while r1 is in flight: r2 goes out only when r1 is answered, and under the new epoch."""
    cluster = cluster_of(brokers=1)
    harness = producer(cluster, request_timeout_ms=1000, delivery_timeout_ms=2500, retry_backoff_max_ms=100)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, *[refuse(ErrorCode.NOT_ENOUGH_REPLICAS)] * 25)
    send(harness, 0)
    harness.run_until(int(3.42 * SECOND))
    cluster.broker(1).script[PRODUCE].clear()
    cluster.broker(1).next(PRODUCE, refuse(ErrorCode.NOT_ENOUGH_REPLICAS), handle(delay_ms=300))
    send(harness, 1)
    harness.run_until(int(3.6 * SECOND))  # both went out at 3.448; r0 was refused, r1 is not answered yet
    assert names_of(harness.events("RecordFailed")) == ["r0"]
    send(harness, 2)
    harness.run_until(8 * SECOND)
    assert stored(cluster.broker(1)) == ["r1", "r2"]
    sent = [(event.records, event.base_sequence) for event in harness.events("BatchSent") if "r0" not in event.records]
    assert sent == [(("r1",), 2), (("r1",), 0), (("r2",), 1)]


def test_a_new_epoch_waits_for_what_is_in_flight_under_the_old_one() -> None:
    """Partition 0 forces a new epoch; partition 1 may not start it at sequence 0 before its old batch is settled."""
    cluster = cluster_of(leaders={0: (1, 0), 1: (2, 0)})
    harness = producer(cluster)
    warm_up(harness)
    cluster.broker(2).next(PRODUCE, handle(delay_ms=400))
    cluster.broker(1).sequences[(0, 1001)] = (0, 7)
    harness.call(lambda now_us: harness.core.send(record(1, partition=1), now_us))
    send(harness, 0)
    harness.run_until(1 * SECOND + 200 * MS)
    assert cluster.broker(1).sequences[(0, 1001)] == (1, 0)
    harness.call(lambda now_us: harness.core.send(record(2, partition=1), now_us))
    harness.run_until(1 * SECOND + 300 * MS)
    assert [event.records for event in harness.events("BatchSent") if event.partition == 1] == [("r1",)]
    harness.run_until(2 * SECOND)
    assert stored(cluster.broker(2), 1) == ["r1", "r2"]
    assert cluster.broker(2).sequences[(1, 1001)] == (1, 0)
