"""The producer against scripted brokers: its requests, its leaders, its memory, and its reports to the application."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from fake_cluster import (
    MS,
    SECOND,
    Verdict,
    handle,
    never_answer,
    refuse,
    reset,
)
from producer_world import cluster_of, names_of, producer, record, send, stored, warm_up

from cluster.node import Close, Connect
from cluster.protocol.leaders import LeaderIdAndEpoch
from cluster.protocol.versions import INIT_PRODUCER_ID, METADATA, PRODUCE
from replica.errors import ErrorCode
from replica.rules import PROFILES

# ------------------------------------------------------------------------------------------------- the plain path


def test_a_record_is_acked_and_the_trace_tells_how() -> None:
    cluster = cluster_of()
    harness = producer(cluster)
    harness.run_until(1 * SECOND)
    send(harness, 0)
    harness.run_until(2 * SECOND)
    sent, batch, acked = harness.rows
    assert [type(row.event).__name__ for row in harness.rows] == ["RecordSent", "BatchSent", "RecordAcked"]
    assert batch.causes == (sent.seq,)
    assert acked.causes == (batch.seq,)
    assert (acked.event.peer, acked.event.offset, acked.event.latency_us) == ("b1", 0, 5 * MS)  # type: ignore[attr-defined]  # connect; versions and the record: ask, answer
    assert batch.event.producer_id == 1001 and batch.event.base_sequence == 0  # type: ignore[attr-defined]
    assert cluster.broker(1).names() == ["r0"]


def test_records_sent_before_the_metadata_is_there_wait_for_it() -> None:
    harness = producer(cluster_of())
    send(harness, 0, 1)
    assert harness.events("BatchSent") == []
    harness.run_until(1 * SECOND)
    assert names_of(harness.events("RecordAcked")) == ["r0", "r1"]


def test_five_requests_are_pipelined_and_the_sixth_waits() -> None:
    cluster = cluster_of()
    harness = producer(cluster)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, handle(delay_ms=50))
    send(harness, *range(8))
    assert len(harness.events("BatchSent")) == 5
    harness.run_until(2 * SECOND)
    assert stored(cluster.broker(1)) == [f"r{n}" for n in range(8)]
    assert [event.base_sequence for event in harness.events("BatchSent")] == list(range(1, 9))


def test_a_step_of_a_scenario_with_a_batch_sends_it_whole() -> None:
    cluster = cluster_of()
    harness = producer(cluster)
    warm_up(harness)
    harness.call(harness.core.send_batch, [record(n, size=9000) for n in range(5)])
    harness.run_until(2 * SECOND)
    (batch,) = harness.events("BatchSent")
    assert batch.records == ("r0", "r1", "r2", "r3", "r4")
    assert [event.offset for event in harness.events("RecordAcked")] == [1, 2, 3, 4, 5]


def test_linger_gathers_records_until_the_time_or_the_size_is_reached() -> None:
    harness = producer(cluster_of(), linger_ms=20, batch_size=400)
    warm_up(harness)
    send(harness, 0, 1, size=100, own_batch=False)
    harness.run_until(1 * SECOND + 19 * MS)
    assert harness.events("BatchSent") == []
    harness.run_until(1 * SECOND + 20 * MS)
    assert [event.records for event in harness.events("BatchSent")] == [("r0", "r1")]
    send(harness, 2, 3, 4, size=150, own_batch=False)  # two fit; the third starts a batch and makes the first full
    assert [event.records for event in harness.events("BatchSent")][1:] == [("r2", "r3")]
    harness.call(harness.core.flush)
    assert [event.records for event in harness.events("BatchSent")][2:] == [("r4",)]


def test_two_calls_at_one_instant_are_not_each_others_cause() -> None:
    harness = producer(cluster_of())
    warm_up(harness)
    send(harness, 0)
    harness.call_within_step(harness.core.send, record(1))
    harness.run_until(2 * SECOND)
    told = [(type(row.event).__name__, row.causes) for row in harness.rows]
    first = harness.rows[0].seq
    assert told[2:4] == [("RecordSent", ()), ("BatchSent", (first + 2,))]
    assert told[-1] == ("RecordAcked", (first + 3,))


# ------------------------------------------------------------------------------------------- leaders and metadata


def test_a_moved_leader_is_found_by_a_metadata_refresh() -> None:
    cluster = cluster_of(leaders={0: (1, 0)})
    harness = producer(cluster)
    warm_up(harness)
    cluster.leaders[0] = (2, 1)
    send(harness, 0)
    harness.run_until(3 * SECOND)
    assert [(event.peer, event.attempt) for event in harness.events("BatchSent")] == [("b1", 1), ("b2", 2)]
    assert stored(cluster.broker(2)) == ["r0"]


def test_a_hint_to_the_new_leader_skips_refresh_and_backoff() -> None:
    cluster = cluster_of(leaders={0: (1, 0), 1: (2, 0)})
    harness = producer(cluster)
    warm_up(harness)
    harness.call(lambda now_us: harness.core.send(record(9, partition=1), now_us))  # a connection to b2 is there
    harness.run_until(2 * SECOND)
    cluster.leaders[0] = (2, 1)
    hint = refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, hint=LeaderIdAndEpoch(2, 1))
    cluster.broker(1).next(PRODUCE, hint)
    cluster.broker(1).next(METADATA, handle(delay_ms=500))
    cluster.broker(2).next(METADATA, handle(delay_ms=500))
    send(harness, 0)
    harness.run_until(2 * SECOND + 10 * MS)
    assert [event.peer for event in harness.events("BatchSent")] == ["b2", "b1", "b2"]


@pytest.mark.parametrize(("in_flight", "order"), [(1, ["r0", "r1"]), (5, ["r1", "r0"])])
def test_one_in_flight_is_one_per_partition_whichever_broker_leads_it(in_flight: int, order: list[str]) -> None:
    """r0 is under way to b1 when the producer learns that b2 leads: guaranteeMessageOrder mutes the partition."""
    cluster = cluster_of(leaders={0: (1, 0), 1: (2, 0)})
    config: dict[str, Any] = {"enable_idempotence": "false", "max_in_flight_requests_per_connection": in_flight}
    harness = producer(cluster, metadata_max_age_ms=500, **config)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, delay_ms=3000))
    send(harness, 0)
    cluster.leaders[0] = (2, 1)
    harness.run_until(3 * SECOND)
    send(harness, 1)
    harness.run_until(8 * SECOND)
    assert stored(cluster.broker(2)) == order


def test_metadata_is_refreshed_when_it_is_too_old() -> None:
    cluster = cluster_of(brokers=1)
    harness = producer(cluster, metadata_max_age_ms=5000)
    harness.run_until(12 * SECOND)
    asked = [at_us for at_us, api, _ in cluster.broker(1).requests if api == METADATA]
    assert len(asked) == 3
    assert [5000 * MS <= b - a <= 5010 * MS for a, b in pairwise(asked)] == [True, True]


def test_without_a_leader_the_metadata_is_asked_for_ever_more_slowly() -> None:
    cluster = cluster_of(brokers=1, leaders={0: (-1, 3)})
    harness = producer(cluster)
    send(harness, 0)
    harness.run_until(10 * SECOND)
    asked = [at_us for at_us, api, _ in cluster.broker(1).requests if api == METADATA]
    gaps = [b - a for a, b in pairwise(asked)]
    assert 10 <= len(asked) <= 20
    assert max(gaps) <= 1010 * MS and gaps[-1] > 2 * gaps[1]
    cluster.leaders[0] = (1, 4)
    harness.run_until(12 * SECOND)
    assert names_of(harness.events("RecordAcked")) == ["r0"]


def test_a_dead_broker_is_tried_again_with_growing_pauses() -> None:
    cluster = cluster_of(brokers=1)
    cluster.broker(1).is_up = False
    harness = producer(cluster)
    harness.run_until(10 * SECOND)
    attempts = [at_us for at_us, action in harness.actions if isinstance(action, Connect)]
    gaps = [b - a for a, b in pairwise(attempts)]
    assert 40 * MS <= gaps[0] <= 125 * MS
    assert all(gap <= 1001 * MS for gap in gaps) and gaps[-1] >= 900 * MS


# ------------------------------------------------------------------------------------------------ acks=0, memory


def test_with_acks_0_a_record_is_handed_over_and_nothing_is_promised() -> None:
    cluster = cluster_of()
    harness = producer(cluster, acks="0")
    warm_up(harness)
    send(harness, *range(8))  # no answer to wait for: the in-flight limit does not bind
    assert names_of(harness.events("RecordHandedOver")) == [f"r{n}" for n in range(8)]
    assert {event.latency_us for event in harness.events("RecordHandedOver")} == {0}
    harness.run_until(2 * SECOND)
    assert stored(cluster.broker(1)) == [f"r{n}" for n in range(8)]
    assert not [at for at, api, _ in cluster.broker(1).requests if api == INIT_PRODUCER_ID]


def test_with_acks_0_yesterdays_leader_swallows_one_record_and_closes_the_connection() -> None:
    cluster = cluster_of()
    harness = producer(cluster, acks="0")
    warm_up(harness)
    cluster.leaders[0] = (2, 1)
    for number in range(3):
        send(harness, number)
        harness.run_until((2 + number) * SECOND)
    assert stored(cluster.broker(1)) + stored(cluster.broker(2)) == ["r1", "r2"]
    assert len(harness.events("RecordHandedOver")) == 3
    assert harness.events("RecordFailed", "BatchRefused") == []


def test_sends_wait_for_memory_and_give_up_after_max_block_ms() -> None:
    cluster = cluster_of(brokers=1)
    harness = producer(cluster, buffer_memory=1000, max_block_ms=500)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, handle(delay_ms=300), handle(delay_ms=3000))
    send(harness, 0, 1, 2, 3, size=400)  # two fit; r2 gets the memory of r0 after 300 ms; r3 waits in vain
    assert len(harness.events("BatchSent")) == 2
    harness.run_until(6 * SECOND)
    assert names_of(harness.events("RecordAcked")) == ["r0", "r1", "r2"]
    (failed,) = harness.events("RecordFailed")
    assert (failed.record, failed.definite, failed.latency_us) == ("r3", True, 500 * MS)
    assert failed.why() == "buffer.memory=1000 had no room for the record within max.block.ms=500"


@pytest.mark.parametrize(
    ("era", "ends"),
    [("kafka-4.4", "answered"), ("kafka-3.9", "given up"), ("kafka-3.9", "answered"), ("kafka-3.5", "")],
)
def test_a_batch_that_expires_in_a_request_keeps_its_memory_until_the_request_ends(era: str, ends: str) -> None:
    cluster = cluster_of(leaders={0: (1, 0), 1: (2, 0)})
    times = {"request_timeout_ms": 1000, "delivery_timeout_ms": 1500, "max_block_ms": 2000}
    harness = producer(cluster, bootstrap=2, rules=PROFILES[era], buffer_memory=600, **times)
    warm_up(harness)
    second = never_answer(handles=False) if ends == "given up" else handle(delay_ms=700)
    cluster.broker(1).next(PRODUCE, refuse(ErrorCode.NOT_ENOUGH_REPLICAS, delay_ms=800), second)
    send(harness, 0, size=400)
    harness.run_until(2501 * MS)
    (failed,) = harness.events("RecordFailed")
    assert (failed.record, failed.latency_us) == ("r0", 1500 * MS)
    harness.call(lambda now_us: harness.core.send(record(1, partition=1, size=400), now_us))
    harness.run_until(6 * SECOND)
    (acked,) = harness.events("RecordAcked")
    waited_ms = acked.latency_us // MS
    assert acked.record == "r1"
    assert waited_ms == 2 if not ends else 50 < waited_ms < 200 if ends == "answered" else 350 < waited_ms < 500


def test_a_record_above_the_request_size_is_refused_at_once() -> None:
    harness = producer(cluster_of(), max_request_size=1000)
    harness.run_until(1 * SECOND)
    send(harness, 0, size=2000)
    (failed,) = harness.events("RecordFailed")
    assert (failed.error, failed.definite) == ("MESSAGE_TOO_LARGE", True)


# ------------------------------------------------------------------------------------------- connections, shutdown


def test_an_answer_to_nothing_ends_the_connection_and_the_batch_is_sent_again() -> None:
    cluster = cluster_of(brokers=1)
    harness = producer(cluster)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, Verdict(garbage=True))
    send(harness, 0)
    harness.run_until(3 * SECOND)
    (refused,) = harness.events("BatchRefused")
    assert refused.error == "NETWORK_EXCEPTION"
    assert stored(cluster.broker(1)) == ["r0"]
    assert names_of(harness.events("RecordAcked")) == ["r0"]


def test_an_idle_connection_is_closed_and_opened_again_when_needed() -> None:
    cluster = cluster_of(brokers=1)
    harness = producer(cluster, connections_max_idle_ms=10_000, metadata_max_age_ms=600_000)
    harness.run_until(15 * SECOND)
    closed = [at_us for at_us, action in harness.actions if isinstance(action, Close)]
    assert closed == [10 * SECOND + 6 * MS]
    send(harness, 0)
    harness.run_until(16 * SECOND)
    assert names_of(harness.events("RecordAcked")) == ["r0"]


def test_close_sends_what_is_left_and_exits() -> None:
    harness = producer(cluster_of(), linger_ms=60_000)
    warm_up(harness)
    send(harness, 0, 1, own_batch=False)
    harness.call(harness.core.close)
    assert not harness.exited
    harness.run_until(2 * SECOND)
    assert harness.exited
    assert names_of(harness.events("RecordAcked")) == ["r0", "r1"]


def test_close_with_a_timeout_fails_what_is_left() -> None:
    cluster = cluster_of(brokers=1)
    harness = producer(cluster)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, never_answer())
    send(harness, 0)
    harness.call(lambda now_us: harness.core.close(now_us, timeout_ms=500))
    harness.run_until(2 * SECOND)
    assert harness.exited
    (failed,) = harness.events("RecordFailed")
    assert not failed.definite


def test_the_same_seed_gives_the_same_trace() -> None:
    def story(seed: int) -> list[Any]:
        cluster = cluster_of(leaders={0: (1, 0), 1: (2, 0)})
        harness = producer(cluster, seed=seed)
        cluster.broker(1).next(
            PRODUCE, refuse(ErrorCode.NOT_ENOUGH_REPLICAS), reset(), refuse(ErrorCode.REQUEST_TIMED_OUT)
        )
        for number in range(6):
            one = record(number, partition=None, size=5000)
            harness.call(lambda now_us, r=one: harness.core.send(r, now_us))
        harness.run_until(10 * SECOND)
        return harness.rows

    assert story(7) == story(7)
    assert story(7) != story(8)
