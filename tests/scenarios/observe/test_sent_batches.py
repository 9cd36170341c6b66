"""The records in a log, where batches of several senders are the same to the byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replica.ids import TopicPartition
from scenarios.observe.sent_batches import SentBatches

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_a_batch_is_found_by_its_crc_wherever_it_stands() -> None:
    sent = SentBatches()
    sent.add(T0, 7, "p1", ("r0", "r1"))
    sent.add(T0, 8, "p1", ("x",))
    sent.add(T0, 7, "p2", ("r0", "r1"))
    for base_offset in (0, 5):
        assert sent.records(T0, base_offset, 7) == ("r0", "r1")
        assert sent.record(T0, base_offset, 7, 1) == "r1"
        assert sent.client(T0, base_offset, 7) == "p2"
    assert (sent.records(T0, 0, 9), sent.record(T0, 0, 9, 0), sent.client(T0, 0, 9)) == ((), None, None)
    assert sent.record(T0, 0, 7, 2) is None


def test_the_same_bytes_in_several_partitions_are_several_batches() -> None:
    sent = SentBatches()
    for number, partition in enumerate((T0, T1, U0)):
        sent.add(partition, 7, "p", (f"r{number}",))
    assert [sent.records(partition, 0, 7) for partition in (T0, T1, U0)] == [("r0",), ("r1",), ("r2",)]


def test_twins_stand_in_the_order_in_which_they_were_sent_until_an_ack_says_otherwise() -> None:
    sent = SentBatches()
    for name in ("r0", "r1", "r2"):
        sent.add(T0, 7, "p", (name,))
    for base_offset in (4, 5, 6):
        sent.appended(T0, base_offset, 7)
    assert [sent.records(T0, offset, 7) for offset in (4, 5, 6)] == [("r0",), ("r1",), ("r2",)]
    sent.acked(T0, "r2", 4)
    sent.acked(T0, "r0", 5)
    assert [sent.records(T0, offset, 7) for offset in (4, 5, 6)] == [("r2",), ("r0",), ("r1",)]


def test_a_twin_that_was_refused_stands_nowhere() -> None:
    sent = SentBatches()
    sent.add(T0, 7, "p", ("r0",))
    sent.appended(T0, 0, 7)
    for name in ("r1", "r2"):
        sent.add(T0, 7, "p", (name,))
    sent.refused(T0, 7, ("r1",))
    sent.appended(T0, 1, 7)
    assert [sent.records(T0, offset, 7) for offset in (0, 1)] == [("r0",), ("r2",)]


def test_a_twin_that_is_sent_again_may_stand_twice() -> None:
    sent = SentBatches()
    for name in ("r0", "r1", "r0"):
        sent.add(T0, 7, "p", (name,))
        sent.appended(T0, len(sent.names), 7)
    sent.acked(T0, "r0", 1)
    assert sent.records(T0, 1, 7) == ("r0",)
    sent.add(T0, 7, "p", ("r0",))
    sent.appended(T0, 9, 7)
    assert sent.records(T0, 9, 7) == ("r0",)


def test_a_topic_that_is_made_again_has_batches_of_its_own() -> None:
    sent = SentBatches()
    sent.add(T0, 7, "p", ("r0",))
    sent.appended(T0, 0, 7)
    sent.topic_deleted("t")
    assert sent.records(T0, 0, 7) == ("r0",)  # A broker may not have heard of it.
    sent.add(T0, 7, "p", ("r1",))
    sent.appended(T0, 0, 7)
    assert sent.records(T0, 0, 7) == ("r1",)


@given(st.permutations(range(6)), st.permutations(range(6)))
def test_acks_find_every_twin_in_whatever_order_they_stand_and_come(places: list[int], order: list[int]) -> None:
    sent = SentBatches()
    for number in range(6):
        sent.add(T0, 7, "p", (f"r{number}", f"s{number}"))
        sent.appended(T0, 2 * number, 7)
    for number in order:
        sent.acked(T0, f"r{number}", 2 * places[number])
    assert [sent.records(T0, 2 * places[number], 7)[0] for number in range(6)] == [f"r{number}" for number in range(6)]
