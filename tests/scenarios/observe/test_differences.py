"""The first event in which two runs differ: by time, kind and columns, and not by the settings of their producers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.observe.differences import first_difference

SENT = trace.BatchSent(
    "p1", "t", 0, peer="b1", records=("r0", "r1"), crc=7, attempt=1, acks=1, producer_id=-1, base_sequence=-1
)
APPENDED = trace.BatchAppended(
    node="b1", topic="t", partition=0, role="leader", leader_epoch=0, base_offset=0, last_offset=1, log_end_offset=2,
    size_bytes=90, crc=7, producer_id=-1, producer_epoch=-1, base_sequence=-1,
)  # fmt: skip
STARTED = trace.NodeStarted(node="b1", role="broker", incarnation=1)


def rows(*events: trace.TraceEvent, at_us: int = 5) -> list[TraceRow]:
    return [TraceRow(seq, at_us, (), event) for seq, event in enumerate(events)]


def test_what_acks_and_idempotence_write_is_no_difference() -> None:
    settings: dict[str, Any] = {"producer_id": 1000, "base_sequence": 0, "crc": 9}
    other = rows(replace(SENT, acks=-1, **settings), replace(APPENDED, producer_epoch=0, **settings))
    assert first_difference(rows(SENT, APPENDED), other) is None


def test_the_sentences_name_the_records_of_each_run() -> None:
    found = first_difference(rows(STARTED, SENT, APPENDED), rows(SENT, replace(APPENDED, base_offset=3, last_offset=4)))
    assert found is not None and found.same == 1
    assert found.sentences == (
        "b1 appended r0..r1 at offsets 0 to 1 of t-0",
        "b1 appended r0..r1 at offsets 3 to 4 of t-0",
    )


def test_a_column_that_the_sentence_leaves_out_follows_it() -> None:
    found = first_difference(rows(APPENDED), rows(replace(APPENDED, leader_epoch=2)))
    assert found is not None
    text = "b1 appended a batch at offsets 0 to 1 of t-0"
    assert found.sentences == (f"{text} (leader_epoch: 0)", f"{text} (leader_epoch: 2)")


def test_the_same_event_at_another_time_is_a_difference_and_so_is_an_end() -> None:
    later = first_difference(rows(SENT), rows(SENT, at_us=6))
    assert later is not None and later.at_us == (5, 6) and later.sentences[0] == later.sentences[1]
    ended = first_difference(rows(SENT), rows())
    assert ended is not None and ended.at_us == (5, None) and ended.sentences[1] == ""
