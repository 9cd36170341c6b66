"""The consumer against scripted brokers: its reads, and its reactions when the log has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_cluster import MS, SECOND, TOPIC, FakeBroker, FakeCluster, Harness, client_base, handle, never_answer, refuse

from cluster.client.api_versions import discovers_versions
from cluster.client.consumer.consumer import ConsumerCore
from cluster.config import ConsumerConfig
from cluster.protocol.api_01_fetch import FINAL_EPOCH
from cluster.protocol.leaders import LeaderIdAndEpoch
from cluster.protocol.versions import FETCH, LIST_OFFSETS, METADATA, OFFSET_FOR_LEADER_EPOCH
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import build_batch
from replica.rules import PROFILES, Rules

TP = TopicPartition(TOPIC, 0)


def batch_of(*numbers: int) -> bytearray:
    return build_batch([(None, f"r{number} xx".encode()) for number in numbers], timestamp_ms=0)


def cluster_with(*batches: tuple[int, ...], epoch: int = 0) -> FakeCluster:
    cluster = FakeCluster({0: (1, epoch)})
    for node_id in (1, 2):
        broker = cluster.broker(node_id)
        for numbers in batches:
            broker.append(0, batch_of(*numbers))
    return cluster


def consumer(cluster: FakeCluster, seed: int = 1, rules: Rules = PROFILES["kafka-3.9"], **config: Any) -> Harness:
    keys = {"auto.offset.reset": "earliest", **{name.replace("_", "."): value for name, value in config.items()}}

    def make(trace: Any) -> ConsumerCore:
        settings = ConsumerConfig.from_mapping(keys)
        base = client_base("c1", trace, seed, discovers_versions=discovers_versions(rules.release))
        return ConsumerCore(base, settings, [TOPIC], rules)

    return Harness(make, cluster)


def read(harness: Harness) -> list[tuple[int, str]]:
    return [(event.offset, event.record) for event in harness.events("RecordRead")]


def resets(harness: Harness) -> list[tuple[int, int, str | None]]:
    return [(event.previous_offset, event.offset, event.error) for event in harness.events("PositionReset")]


def asked(broker: FakeBroker, api: int) -> list[Any]:
    return [request for _, key, request in broker.requests if key == api]


def truncate(broker: FakeBroker, batches: int) -> None:
    broker.log[0] = broker.log[0][:batches]
    broker.log_end[0] = broker.high_watermark[0] = 0
    kept, broker.log[0] = broker.log[0], []
    for batch in kept:
        broker.append(0, batch, epoch=0)


# ------------------------------------------------------------------------------------------------------- reading


def test_it_reads_from_the_beginning_and_waits_for_more() -> None:
    cluster = cluster_with((0, 1), (2,))
    harness = consumer(cluster)
    harness.run_until(2 * SECOND)
    assert read(harness) == [(0, "r0"), (1, "r1"), (2, "r2")]
    assert resets(harness) == [(-1, 0, None)]
    fetches = asked(cluster.broker(1), FETCH)
    assert 4 <= len(fetches) <= 6  # a fetch that finds data, then long polls of fetch.max.wait.ms
    cluster.broker(1).append(0, batch_of(3))
    harness.run_until(3 * SECOND)
    assert read(harness)[3:] == [(3, "r3")]


def test_latest_skips_what_is_there() -> None:
    cluster = cluster_with((0, 1))
    harness = consumer(cluster, auto_offset_reset="latest")
    harness.run_until(1 * SECOND)
    cluster.broker(1).append(0, batch_of(2))
    harness.run_until(2 * SECOND)
    assert read(harness) == [(2, "r2")]


def test_it_never_sees_what_the_broker_holds_back() -> None:
    cluster = cluster_with((0,), (1,))
    cluster.broker(1).high_watermark[0] = 1
    harness = consumer(cluster)
    harness.run_until(2 * SECOND)
    assert read(harness) == [(0, "r0")]
    cluster.broker(1).high_watermark[0] = 2
    harness.run_until(3 * SECOND)
    assert read(harness)[1:] == [(1, "r1")]


def test_records_below_the_position_are_skipped_within_a_batch() -> None:
    harness = consumer(cluster_with((0, 1, 2, 3)))
    harness.run_until(1 * SECOND)
    harness.rows.clear()
    harness.call(lambda now_us: harness.core.seek(TP, 2, now_us))
    harness.run_until(2 * SECOND)
    assert read(harness) == [(2, "r2"), (3, "r3")]
    assert resets(harness) == [(4, 2, None)]


def test_seek_to_beginning_and_end() -> None:
    harness = consumer(cluster_with((0,), (1,)), auto_offset_reset="latest")
    harness.run_until(1 * SECOND)
    harness.call(lambda now_us: harness.core.seek(TP, "beginning", now_us))
    harness.run_until(2 * SECOND)
    assert read(harness) == [(0, "r0"), (1, "r1")]
    harness.call(lambda now_us: harness.core.seek(TP, "end", now_us))
    harness.run_until(3 * SECOND)
    assert resets(harness) == [(-1, 2, None), (2, 0, None), (2, 2, None)]


def test_without_a_reset_policy_a_consumer_without_a_position_stops() -> None:
    cluster = cluster_with((0,))
    harness = consumer(cluster, auto_offset_reset="none")
    harness.run_until(5 * SECOND)
    assert [event.error for event in harness.events("FetchFailed")] == ["NO_OFFSET_FOR_PARTITION"]
    assert asked(cluster.broker(1), FETCH) == []
    harness.call(lambda now_us: harness.core.seek(TP, 0, now_us))
    harness.run_until(6 * SECOND)
    assert read(harness) == [(0, "r0")]


def test_a_corrupt_batch_is_reported_again_and_again_and_never_skipped() -> None:
    cluster = cluster_with((0,), (1,), (2,))
    broker = cluster.broker(1)
    good = broker.log[0][1]
    broker.log[0][1] = good[:-1] + bytes([good[-1] ^ 1])
    harness = consumer(cluster)
    harness.run_until(3 * SECOND)
    assert read(harness) == [(0, "r0")]
    failures = harness.events("FetchFailed")
    assert {(event.error, event.offset) for event in failures} == {("CORRUPT_MESSAGE", 1)}
    assert 3 <= len(failures) <= 6
    broker.log[0][1] = good
    harness.run_until(5 * SECOND)
    assert read(harness)[1:] == [(1, "r1"), (2, "r2")]


# ------------------------------------------------------------------------------------------ leaders and truncation


def test_it_follows_the_leader_and_checks_its_position_there() -> None:
    cluster = cluster_with((0,), (1,))
    harness = consumer(cluster)
    harness.run_until(1 * SECOND)
    cluster.leaders[0] = (2, 1)
    cluster.broker(2).epoch_ends[0] = (0, 2)
    cluster.broker(2).append(0, batch_of(2))
    harness.run_until(3 * SECOND)
    assert read(harness) == [(0, "r0"), (1, "r1"), (2, "r2")]
    (question,) = asked(cluster.broker(2), OFFSET_FOR_LEADER_EPOCH)
    (partition,) = question.topics[0].partitions
    assert (int(partition.current_leader_epoch), int(partition.leader_epoch)) == (1, 0)
    assert [event.error for event in harness.events("FetchFailed")] == ["NOT_LEADER_OR_FOLLOWER"]
    assert len(resets(harness)) == 1


def test_truncation_is_noticed_and_the_position_goes_back_to_where_the_logs_part() -> None:
    """kip320-consumer-truncation: offsets 1 and 2 were replaced under the reader's feet."""
    cluster = cluster_with((0,), (1,), (2,))
    harness = consumer(cluster)
    harness.run_until(1 * SECOND)
    new = cluster.broker(2)
    truncate(new, 1)
    cluster.leaders[0] = (2, 1)
    new.append(0, batch_of(7))
    new.append(0, batch_of(8))
    new.append(0, batch_of(9))
    new.epoch_ends[0] = (0, 1)
    harness.run_until(3 * SECOND)
    assert read(harness) == [(0, "r0"), (1, "r1"), (2, "r2"), (1, "r7"), (2, "r8"), (3, "r9")]
    assert resets(harness)[1:] == [(3, 1, "LOG_TRUNCATION")]
    moved = "c1 moved to offset 1 of t-0: the log of b2 was truncated, and epoch 0 now ends at 1, before 3"
    assert harness.events("PositionReset")[1].sentence() == moved


def test_without_the_truncation_check_the_consumer_reads_on_over_the_gap() -> None:
    """The same as above by `consumer-truncation-check: false`: r7 and r8 are never read, and nothing says so."""
    cluster = cluster_with((0,), (1,), (2,))
    harness = consumer(cluster, rules=PROFILES["kafka-3.9"].changed({"consumer-truncation-check": False}))
    harness.run_until(1 * SECOND)
    new = cluster.broker(2)
    truncate(new, 1)
    cluster.leaders[0] = (2, 1)
    for number in (7, 8, 9):
        new.append(0, batch_of(number))
    new.epoch_ends[0] = (0, 1)
    harness.run_until(3 * SECOND)
    assert read(harness) == [(0, "r0"), (1, "r1"), (2, "r2"), (3, "r9")]
    assert resets(harness)[1:] == [] and asked(new, OFFSET_FOR_LEADER_EPOCH) == []


def test_truncation_without_a_reset_policy_stops_the_consumer() -> None:
    cluster = cluster_with((0,), (1,))
    harness = consumer(cluster, auto_offset_reset="none")
    harness.run_until(1 * SECOND)
    harness.call(lambda now_us: harness.core.seek(TP, 0, now_us))
    harness.run_until(2 * SECOND)
    cluster.leaders[0] = (2, 1)
    cluster.broker(2).epoch_ends[0] = (0, 1)
    harness.run_until(4 * SECOND)
    assert harness.events("FetchFailed")[-1].error == "LOG_TRUNCATION"
    assert len(read(harness)) == 2


def test_an_epoch_the_new_leader_never_heard_of_leads_to_a_reset() -> None:
    cluster = cluster_with((0,), (1,))
    harness = consumer(cluster)
    harness.run_until(1 * SECOND)
    cluster.leaders[0] = (2, 1)
    harness.run_until(3 * SECOND)  # epoch_ends is undefined on b2
    assert resets(harness)[1:] == [(2, 0, "LOG_TRUNCATION")]
    assert read(harness)[2:] == [(0, "r0"), (1, "r1")]


@pytest.mark.parametrize(("policy", "position", "again"), [("earliest", 0, 1), ("latest", 1, 0)])
def test_a_position_beyond_the_log_is_reset_by_the_policy(policy: str, position: int, again: int) -> None:
    cluster = cluster_with((0,))
    harness = consumer(cluster, auto_offset_reset=policy)
    harness.run_until(1 * SECOND)
    harness.rows.clear()
    harness.call(lambda now_us: harness.core.seek(TP, 50, now_us))
    harness.run_until(2 * SECOND)
    assert [event.error for event in harness.events("FetchFailed")] == ["OFFSET_OUT_OF_RANGE"]
    assert resets(harness)[1:] == [(50, position, "OFFSET_OUT_OF_RANGE")]
    assert len(read(harness)) == again


def test_a_position_beyond_the_log_without_a_policy_stops_the_consumer() -> None:
    cluster = cluster_with((0,))
    harness = consumer(cluster, auto_offset_reset="none")
    harness.run_until(1 * SECOND)
    harness.call(lambda now_us: harness.core.seek(TP, 50, now_us))
    harness.run_until(5 * SECOND)
    assert [event.error for event in harness.events("FetchFailed")] == [
        "NO_OFFSET_FOR_PARTITION",
        "OFFSET_OUT_OF_RANGE",
    ]


def test_an_answer_to_where_the_consumer_no_longer_stands_is_dropped() -> None:
    cluster = cluster_with((0,))
    harness = consumer(cluster, auto_offset_reset="latest")
    harness.run_until(1 * SECOND)
    cluster.broker(1).next(FETCH, handle(delay_ms=1000))
    harness.call(lambda now_us: harness.core.seek(TP, 50, now_us))
    harness.run_until(1 * SECOND + 600 * MS)
    harness.call(lambda now_us: harness.core.seek(TP, 0, now_us))  # the answer about 50 is still under way
    harness.run_until(3 * SECOND)
    assert harness.events("FetchFailed") == []
    assert read(harness) == [(0, "r0")]


def test_a_hint_in_a_refused_fetch_leads_straight_to_the_new_leader() -> None:
    cluster = cluster_with((0,))
    harness = consumer(cluster)
    harness.run_until(1 * SECOND)
    cluster.leaders[0] = (2, 1)
    cluster.broker(2).epoch_ends[0] = (0, 1)
    cluster.broker(1).next(METADATA, *[never_answer()] * 3)
    original = cluster.broker(1)._read
    hint = LeaderIdAndEpoch(2, 1)
    cluster.broker(1)._read = lambda *args: replace(original(*args), current_leader=hint)  # type: ignore[method-assign]
    harness.run_until(1 * SECOND + 600 * MS)
    assert asked(cluster.broker(2), OFFSET_FOR_LEADER_EPOCH)


def test_a_dead_leader_costs_a_reconnect_and_nothing_is_read_twice() -> None:
    cluster = cluster_with((0,), (1,))
    harness = consumer(cluster)
    harness.run_until(1 * SECOND)
    cluster.broker(1).is_up = False
    harness.reset_connections(cluster.broker(1))
    harness.run_until(3 * SECOND)
    cluster.broker(1).is_up = True
    cluster.broker(1).append(0, batch_of(2))
    harness.run_until(6 * SECOND)
    assert read(harness) == [(0, "r0"), (1, "r1"), (2, "r2")]


def test_a_fetch_that_is_never_answered_times_out() -> None:
    cluster = cluster_with((0,))
    harness = consumer(cluster, request_timeout_ms=2000)
    cluster.broker(1).next(FETCH, never_answer())
    harness.run_until(1 * SECOND)
    assert read(harness) == []
    harness.run_until(4 * SECOND)
    assert read(harness) == [(0, "r0")]


# ----------------------------------------------------------------------------------------------------- end offsets


def test_the_end_offset_is_a_event_and_so_is_its_refusal() -> None:
    cluster = cluster_with((0,), (1,))
    harness = consumer(cluster)
    harness.run_until(1 * SECOND)
    harness.call(lambda now_us: harness.core.ask_end_offset(TP, now_us))
    harness.run_until(2 * SECOND)
    cluster.broker(1).next(LIST_OFFSETS, refuse(ErrorCode.OFFSET_NOT_AVAILABLE))
    harness.call(lambda now_us: harness.core.ask_end_offset(TP, now_us))
    harness.run_until(3 * SECOND)
    seen = [(event.peer, event.offset, event.error) for event in harness.events("EndOffsetSeen")]
    assert seen == [("b1", 2, None), ("b1", -1, "OFFSET_NOT_AVAILABLE")]


def test_a_reset_that_is_refused_is_tried_again() -> None:
    cluster = cluster_with((0,))
    cluster.broker(1).next(LIST_OFFSETS, refuse(ErrorCode.OFFSET_NOT_AVAILABLE), refuse(ErrorCode.LEADER_NOT_AVAILABLE))
    harness = consumer(cluster)
    harness.run_until(3 * SECOND)
    assert len(asked(cluster.broker(1), LIST_OFFSETS)) == 3
    assert read(harness) == [(0, "r0")]


@pytest.mark.parametrize(("release", "closes"), [("3.3", False), ("4.1", True)])
def test_close_closes_the_fetch_session_from_3_5_on(release: str, closes: bool) -> None:
    """KAFKA-7109: the last request names no partition; its answer comes behind that of the fetch that waits."""
    cluster = cluster_with((0,))
    harness = consumer(cluster, rules=PROFILES[f"kafka-{release}"])
    harness.run_until(1 * SECOND)
    fetches = asked(cluster.broker(1), FETCH)
    before = len(fetches)
    cluster.broker(1).append(0, batch_of(1))
    harness.call(harness.core.close)
    assert harness.exited is not closes
    harness.run_until(2 * SECOND)
    assert harness.exited and not harness.links
    last = [(request.session_epoch, request.topics) for request in asked(cluster.broker(1), FETCH)[before:]]
    assert last == ([(FINAL_EPOCH, [])] if closes else [])
    assert read(harness) == [(0, "r0")], "an application that has closed its consumer gets nothing any more"


def test_close_waits_for_a_silent_leader_until_a_request_times_out() -> None:
    cluster = cluster_with((0,))
    harness = consumer(cluster, request_timeout_ms=3000)
    harness.run_until(1 * SECOND)
    cluster.broker(1).next(FETCH, *[never_answer()] * 9)
    harness.run_until(2 * SECOND)
    harness.call(harness.core.close)
    harness.run_until(4 * SECOND)
    assert not harness.exited
    harness.run_until(5 * SECOND)
    assert harness.exited


def test_close_leaves_out_a_leader_that_cannot_be_reached() -> None:
    cluster = cluster_with((0,))
    harness = consumer(cluster)
    harness.run_until(1 * SECOND)
    cluster.broker(1).is_up = False
    harness.reset_connections(cluster.broker(1))
    harness.run_until(1100 * MS)
    harness.call(harness.core.close)
    harness.run_until(1200 * MS)
    assert harness.exited


# --------------------------------------------------------------------------------------------------- nearest replica


def nearest() -> tuple[FakeCluster, FakeBroker, FakeBroker]:
    """Broker 1 leads, and sends consumers to broker 2."""
    cluster = cluster_with((0, 1))
    leader, follower = cluster.broker(1), cluster.broker(2)
    leader.prefers, follower.serves = 2, True
    return cluster, leader, follower


def moves(harness: Harness) -> list[str]:
    return [str(event.cause) for event in harness.events("ReadReplicaChanged")]


def test_it_reads_where_the_leader_sends_it_and_asks_again_when_the_lease_is_over() -> None:
    cluster, leader, follower = nearest()
    harness = consumer(cluster, client_rack="B", metadata_max_age_ms=2000)
    harness.run_until(2 * SECOND)
    assert read(harness) == [(0, "r0"), (1, "r1")]
    assert {event.peer for event in harness.events("RecordRead")} == {"b2"}
    assert [request.rack for request in asked(leader, FETCH)] == ["B"]
    leader.prefers = None
    follower.append(0, batch_of(2))
    leader.append(0, batch_of(2))
    harness.run_until(4 * SECOND)
    assert moves(harness) == ["preferred", "expired"]
    assert read(harness)[2:] == [(2, "r2")]


def test_an_offset_that_the_replica_lacks_sends_it_to_the_leader_and_resets_nothing() -> None:
    cluster, leader, follower = nearest()
    follower.log_start[0] = 2
    harness = consumer(cluster, client_rack="B")
    harness.run_until(50 * MS)
    leader.prefers = None
    harness.run_until(2 * SECOND)
    assert moves(harness)[:2] == ["preferred", "out_of_range"]
    assert resets(harness) == [(-1, 0, None)]
    assert [record for _, record in read(harness)] == ["r0", "r1"]


@pytest.mark.parametrize(
    ("error", "cause"),
    [(ErrorCode.NOT_LEADER_OR_FOLLOWER, "refused"), (ErrorCode.KAFKA_STORAGE_ERROR, "refused"), (None, "unreachable")],
)
def test_a_replica_that_refuses_or_does_not_answer_is_left_at_once(error: ErrorCode | None, cause: str) -> None:
    cluster, leader, follower = nearest()
    follower.next(FETCH, never_answer() if error is None else refuse(error))
    harness = consumer(cluster, client_rack="B", request_timeout_ms=1000)
    harness.run_until(20 * MS)
    leader.prefers = None
    harness.run_until(3 * SECOND)
    assert moves(harness)[:2] == ["preferred", cause]
    assert {event.peer for event in harness.events("RecordRead")} == {"b1"}


def test_a_new_leader_epoch_ends_the_lease() -> None:
    cluster, leader, follower = nearest()
    follower.next(FETCH, handle(), handle(delay_ms=5000))
    harness = consumer(cluster, client_rack="B", metadata_max_age_ms=1000)
    harness.run_until(500 * MS)
    leader.prefers = None
    cluster.leaders[0] = (1, 1)
    harness.run_until(3 * SECOND)
    assert "new_leader" in moves(harness)
