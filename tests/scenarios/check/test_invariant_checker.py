"""How the checker reads a trace: its memory, its reports, and how often it checks."""

from __future__ import annotations

from collections.abc import Callable

from trace_script import T0, TraceScript, crc_of

from replica.log.batches.records import NO_PRODUCER_ID
from scenarios.check.invariants.records import READINGS_MAX, _Route

Story = Callable[[TraceScript], None]


def test_what_a_disk_lost_may_still_be_committed_on_the_word_of_its_broker() -> None:
    """b2 reported r0 to b1 and lost it; b3, which held the high watermark up, is fenced before b2 registers anew."""
    script = TraceScript()
    script.send("r0")
    script.request("r0")
    script.append("b1", 0, "r0")
    script.append("b2", 0, "r0")
    script.fetch("b2", 1)
    script.stop("b2", "power_off")
    script.lose("b2")
    script.start("b2")
    script.recover("b2", 0)
    script.fence("b3")
    script.commit_isr("b1", "b2")
    script.advance(1)
    assert script.broken() == []


def test_a_violation_is_told_once() -> None:
    script = TraceScript()
    for offset in (0, 1):
        script.append("b1", offset, f"r{offset}")
    for offset in (0, 1):
        script.append("b2", offset, "r99")
    (violation,) = script.checker.violations
    assert violation.invariant == "S9" and violation.partition == T0 and violation.seq == script.rows[-2].seq
    assert [event.invariant for event in script.checker.take_new()] == ["S9"]
    assert script.checker.take_new() == []


def test_records_are_told_apart_by_their_crc() -> None:
    assert crc_of("r1") != crc_of("r2")


def test_a_storm_of_retries_does_not_pile_up_readings() -> None:
    """Eight batches sent again over ten connections: the ways to distinguish their copies multiply with each append."""
    route = _Route()
    for connection in range(10):
        for crc in range(8):
            route.sent(crc, (connection, NO_PRODUCER_ID))
    for crc in [*range(8), *range(8), *range(8)]:
        assert route.appended(crc)
        assert len(route._readings) <= READINGS_MAX


def test_disorder_on_one_connection_is_seen_among_others() -> None:
    route = _Route()
    for crc in (1, 2, 3):
        route.sent(crc, (7, NO_PRODUCER_ID))
    assert route.appended(2)
    assert not route.appended(1)


def test_producers_that_share_a_name_may_overtake_each_other() -> None:
    """As outside clients with the same client.id: each has its own connection."""
    for other, broken in ((8, []), (7, ["S29"])):
        script = TraceScript()
        script.request("r0", producer_id=7)
        script.request("r1", producer_id=other)
        script.append("b1", 0, "r1")
        script.append("b1", 1, "r0")
        assert [violation.invariant for violation in script.checker.violations] == broken


class EqualBytes(TraceScript):
    """r0 and r1 are the same bytes."""

    def crc(self, record: str) -> int:
        return crc_of("r0" if record == "r1" else record)


def test_equal_batches_of_two_producers_may_overtake_each_other() -> None:
    """An ack shows that the batch that was sent second was appended first, after which its producer goes on."""
    script = EqualBytes()
    one, other = "client/p#2", "client/p#4"
    script.request("r0", client=one)
    script.request("r1", client=other)
    script.append("b1", 0, "r1")
    script.ack("r1", 0, client=other)
    script.request("r2", client=other)
    script.append("b1", 1, "r2")
    script.append("b1", 2, "r0")
    assert script.checker.violations == []
