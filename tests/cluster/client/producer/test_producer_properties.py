"""For any broker behaviour, each record of an idempotent producer ends once; the log keeps each once, in order."""

from __future__ import annotations

from typing import Any

from fake_cluster import MS, SECOND, Harness, Verdict, handle, never_answer, refuse, reset
from hypothesis import given, settings
from hypothesis import strategies as st
from test_producer import cluster_of, names_of, producer, send, stored, warm_up

from cluster.protocol.versions import PRODUCE
from replica.errors import ErrorCode
from tests.soak import examples

VERDICTS = st.sampled_from(
    [
        Verdict(),
        handle(delay_ms=40),
        handle(delay_ms=700),
        refuse(ErrorCode.NOT_ENOUGH_REPLICAS),
        refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, delay_ms=30),
        refuse(ErrorCode.REQUEST_TIMED_OUT, delay_ms=300),
        Verdict(garbage=True),
        reset(),
        reset(handles=False),
        never_answer(),
        never_answer(handles=False),
    ]
)
PAUSES = st.lists(st.sampled_from([0, 0, 1, 3, 60, 400]), min_size=1, max_size=14)


def story(pauses: list[int], verdicts: list[Verdict], **config: Any) -> Harness:
    cluster = cluster_of(brokers=1)
    harness = producer(cluster, request_timeout_ms=1000, **config)
    warm_up(harness)
    cluster.broker(1).next(PRODUCE, *(Verdict(**vars(verdict)) for verdict in verdicts))
    for number, pause in enumerate(pauses):
        send(harness, number)
        harness.run_until(harness.now_us + pause * MS)
    harness.run_until(harness.now_us + 200 * SECOND)
    return harness


@settings(max_examples=examples(80), deadline=None, derandomize=True)
@given(PAUSES, st.lists(VERDICTS, max_size=12))
def test_idempotence_keeps_every_record_once_and_in_order(pauses: list[int], verdicts: list[Verdict]) -> None:
    harness = story(pauses, verdicts)
    expected = [f"r{number}" for number in range(len(pauses))]
    assert stored(harness.cluster.broker(1)) == expected
    # A batch whose first ack was lost may be acked after its successor; in the log they stand in order all the same.
    assert sorted(names_of(harness.events("RecordAcked"))) == sorted(expected)
    assert harness.events("RecordFailed") == []
    for event in harness.events("RecordAcked"):
        assert event.offset == 1 + expected.index(event.record)


@settings(max_examples=examples(80), deadline=None, derandomize=True)
@given(PAUSES, st.lists(VERDICTS, max_size=12), st.sampled_from(["0", "1", "all"]), st.sampled_from([1, 5]))
def test_every_record_has_one_outcome_and_no_failure_lies(
    pauses: list[int], verdicts: list[Verdict], acks: str, in_flight: int
) -> None:
    harness = story(
        pauses,
        verdicts,
        acks=acks,
        delivery_timeout_ms=1500,
        max_in_flight_requests_per_connection=in_flight,
    )
    ends = harness.events("RecordAcked", "RecordFailed", "RecordHandedOver")
    assert sorted(names_of(ends)) == sorted(f"r{number}" for number in range(len(pauses)))
    log = stored(harness.cluster.broker(1))
    for event in ends:
        match type(event).__name__:
            case "RecordAcked":
                assert event.record in log
            case "RecordFailed" if event.definite:
                assert event.record not in log
    for row in harness.rows:
        assert all(cause < row.seq for cause in row.causes)
    assert not harness.core.has_unfinished
    assert harness.core._pool.available_bytes == harness.core._pool.total_bytes
