"""The timeline has what turns the work of a client, once."""

from __future__ import annotations

from typing import Any

from trace_script import HERE, TraceScript

from replica.causes import ResetCause
from replica.trace import events as trace
from scenarios.observe.story import Story


def told(*events: trace.TraceEvent) -> list[str]:
    script = TraceScript()
    script.rows.clear()
    for event in events:
        script.emit(event)
    return [line.text for line in Story.of(script.view, script.rows).lines]


def read(offset: int) -> trace.RecordRead:
    return trace.RecordRead(client="r1", peer="b1", offset=offset, record=f"r{offset}", leader_epoch=0, **HERE)


def reset(offset: int, before: int, error: str | None) -> trace.PositionReset:
    place: dict[str, Any] = {"client": "r1", "peer": "b1", "offset": offset, "previous_offset": before, **HERE}
    return trace.PositionReset(error=error, cause=ResetCause.OUT_OF_RANGE, policy="latest", **place)


def failed(error: str, offset: int = 19) -> trace.FetchFailed:
    return trace.FetchFailed(client="r1", peer="b1", offset=offset, error=error, **HERE)


def test_a_position_that_an_error_moves_is_told() -> None:
    moved = "r1 moved to offset 50 of t-0: b1 has no offset 19 (auto.offset.reset=latest)"
    assert told(reset(50, 19, "OFFSET_OUT_OF_RANGE")) == [moved]
    assert told(reset(50, 19, None)) == [], "its user has asked for it"


def test_where_the_first_reader_of_a_partition_begins_is_no_news() -> None:
    begins = reset(0, -1, "NO_OFFSET_FOR_PARTITION")
    assert told(begins) == []
    assert told(read(0), begins) == ["r1 moved to offset 0 of t-0: b1 has no offset -1 (auto.offset.reset=latest)"]


def test_a_reader_that_has_no_offset_to_go_on_from_is_told_once() -> None:
    out_of_range = failed("OFFSET_OUT_OF_RANGE")
    line = "r1 got OFFSET_OUT_OF_RANGE from b1 at offset 19 of t-0"
    assert told(failed("UNKNOWN_TOPIC_OR_PARTITION"), out_of_range, out_of_range) == [line]
    assert told(failed("NO_OFFSET_FOR_PARTITION", -1)) == ["r1 got NO_OFFSET_FOR_PARTITION from b1 of t-0"]


def test_what_is_refused_cannot_be_read_or_has_to_wait_is_told_once() -> None:
    refused = trace.OffsetCommitRefused(
        node="b1",
        client="c",
        api="OffsetCommit",
        group="g",
        member="m",
        error="UNKNOWN_MEMBER_ID",
    )
    place: dict[str, Any] = {"client": "r1", "offset": 5, "record": "r5", "key_format": None, "value_format": "int"}
    pill = trace.DeserializationFailed(message="the value is too long", **place, **HERE)
    waits = trace.ClientThrottled(
        node="b1", peer="p1", api="Produce", key="producer_byte_rate", throttle_time_us=5000, used=9, limit=7
    )
    every = (refused, pill, waits)
    assert told(*every, *every) == [one.sentence() for one in every]
