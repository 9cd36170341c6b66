"""The invariants of share groups: what leaders state that keeps each of them, and that breaks it."""

from __future__ import annotations

import pytest
from trace_script import TraceScript

from replica.causes import ShareCause
from replica.trace import events as trace


class ShareWords(TraceScript):
    def settled(self, first: int, last: int, cause: ShareCause, state: str, count: int = 1) -> None:
        self.emit(
            trace.ShareRecordsSettled(
                "b1",
                "t",
                0,
                group="g",
                member="m",
                first=first,
                last=last,
                delivery_count=count,
                delivery_limit=5,
                state=state,
                share_cause=cause,
            )
        )

    def acquired(self, first: int, last: int, node: str = "b1", group: str = "g") -> None:
        about = {"group": group, "member": "m", "first": first, "last": last, "delivery_count": 1}
        self.emit(trace.ShareRecordsAcquired(node, "t", 0, **about))  # type: ignore[arg-type]


@pytest.mark.parametrize("cause", [ShareCause.RELEASED, ShareCause.LOCK_EXPIRED, ShareCause.SESSION_ENDED])
def test_a_released_record_is_archived_with_its_last_delivery(cause: ShareCause) -> None:
    script = ShareWords()
    script.settled(0, 3, cause, "available", 4)
    script.settled(0, 3, cause, "archived", 5)
    script.settled(4, 4, ShareCause.REJECTED, "archived", 1)
    script.settled(5, 5, ShareCause.GAP, "archived", 1)
    assert script.broken() == []
    script.settled(6, 6, cause, "archived", 4)
    assert script.broken() == ["S36"]


@pytest.mark.parametrize("first, last", [(3, 3), (0, 2), (4, 9), (0, 9)])
def test_settled_records_are_not_delivered_again(first: int, last: int) -> None:
    script = ShareWords()
    script.settled(4, 5, ShareCause.ACCEPTED, "acknowledged")
    script.settled(2, 3, ShareCause.REJECTED, "archived")
    script.acquired(0, 1)
    script.acquired(6, 9)
    script.acquired(2, 5, group="another")
    script.acquired(2, 5, node="b2")
    assert script.broken() == []
    script.acquired(first, last)
    assert script.broken() == ["S37"]


@pytest.mark.parametrize("start, last_settled", [(None, None), (0, None), (3, 2)])
def test_records_from_a_start_offset_that_was_set_back_are_delivered_again(
    start: int | None, last_settled: int | None
) -> None:
    script = ShareWords()
    script.settled(0, 9, ShareCause.ACCEPTED, "acknowledged")
    script.emit(trace.ShareStateReset("b1", "t", 0, group="another", start_offset=0))
    script.emit(trace.ShareStateReset("b1", "t", 0, group="g", start_offset=start))
    script.acquired(3, 9)
    assert script.broken() == []
    if last_settled is not None:
        script.acquired(last_settled, last_settled)
        assert script.broken() == ["S37"]


def test_released_records_and_those_of_another_topic_of_the_name_are_delivered() -> None:
    script = ShareWords()
    script.settled(0, 1, ShareCause.RELEASED, "available")
    script.settled(2, 2, ShareCause.ACCEPTED, "acknowledged")
    script.acquired(0, 1)
    script.emit(trace.TopicDeleted(node="c1", topic="t"))
    script.acquired(2, 2)
    assert script.broken() == []
