"""The overview's sentences on times in which writes or reads stood still: rows of the tables in, sentences out."""

from __future__ import annotations

from typing import Any

from spark_reports.report.rows import Rows
from spark_reports.report.standstill import Standstill, held_back, others, standstills
from tests.spark.columns import rows_of

S = 1_000_000
Row = dict[str, Any]
NAMES = (
    "write_stalls", "read_stalls", "unavailability", "hw_stalls", "elections", "isr_changes", "fault_intervals",
    "partition_states", "record_counts",
)  # fmt: skip


def spell(from_s: float, until_s: float, partition: int = 0, **columns: Any) -> Row:
    return {"topic": "t", "partition": partition, "from_us": int(from_s * S), "until_us": int(until_s * S), **columns}


def no_write(from_s: float, until_s: float, *errors: str, refused: int = 0, **columns: Any) -> Row:
    told = {"client": "p1", "refused": refused, "errors": list(errors), "recovered": True}
    return spell(from_s, until_s, **{**told, **columns})


def fault(reason: str, from_s: float, until_s: float) -> Row:
    return {"fault": reason, "reason": reason, "from_us": int(from_s * S), "until_us": int(until_s * S)}


def tables(acks: tuple[int, ...] = (-1,), **rows: list[Row]) -> dict[str, Rows]:
    rows["record_counts"] = [{"topic": "t", "acks": level} for level in acks]
    return {name: rows_of(name, rows.get(name, ())) for name in NAMES}


def lines(told: list[Standstill]) -> list[str]:
    return [line for one in told for line in (one.what, *(f"{at_us / S:g} {said}" for at_us, said in one.steps))]


def test_writes_refused_below_min_isr_are_told_with_the_fault_that_began_it() -> None:
    state = spell(10.5, 40, isr=["b1", "b2"], min_isr=3)
    under = [
        spell(10.5, 40, kind="under-replicated", reason="b3 left"),
        spell(10.5, 40, kind="under min ISR", reason="b3 left"),
    ]
    told = standstills(
        tables(
            write_stalls=[no_write(11, 40.6, "NOT_ENOUGH_REPLICAS", refused=32), no_write(50, 53)],
            unavailability=under,
            partition_states=[spell(0, 10.5, isr=["b1", "b2", "b3"], min_isr=3), state],
            fault_intervals=[fault("b3 is stopped", 10.4, 40), fault("b2 is slow", 1, 11), fault("a heal", 40, 40)],
        )
    )
    assert lines(told) == [
        "For 29.6 s (11.000 to 40.600 s) no write of p1 to t-0 succeeded; 32 attempts were refused or unanswered "
        "(NOT_ENOUGH_REPLICAS).",
        "10.4 b3 is stopped (until 40.000 s).",
        "10.5 the ISR {b1, b2} was below min.insync.replicas (3) until 40.000 s: b3 left.",
    ]
    assert told[0].brief.endswith("(NOT_ENOUGH_REPLICAS): b3 is stopped; the ISR was below min.insync.replicas.")
    waits = tables(write_stalls=[no_write(11, 40.6), no_write(50, 53), no_write(60, 61.9)])
    assert others(told, waits) == "1 more wait of 2 s or longer is listed under Unavailability."
    assert others(told, tables(write_stalls=[no_write(11, 40.6)])) == ""


def test_who_held_the_high_watermark_is_told_where_an_ack_waits_for_it() -> None:
    stalls = [
        spell(12, 45, high_watermark=10, waiting_records=2, pinned_by=["b3"], pinned_us=33 * S, under_min_isr_us=0,
              ended_by="the high watermark moved"),
        spell(60, 63, high_watermark=12, waiting_records=1, pinned_by=["b2"], pinned_us=3 * S, under_min_isr_us=0,
              ended_by="the high watermark moved"),
    ]  # fmt: skip
    changes = [
        {"topic": "t", "partition": 0, "at_us": 45 * S, "left": ["b3"], "reason": "b3 lags"},
        {"topic": "t", "partition": 0, "at_us": 62 * S, "left": ["b2"], "reason": "b2 lags"},
    ]
    rows: dict[str, Any] = {
        "write_stalls": [no_write(12, 45)],
        "hw_stalls": stalls,
        "isr_changes": changes,
    }
    stood = "the high watermark stood still at 10: b3 was in the ISR and did not fetch past it for 33 s."
    what = "For 33 s (12.000 to 45.000 s) no write of p1 to t-0 succeeded."
    told = standstills(tables(**rows))
    assert lines(told) == [what, f"12 {stood}", "45 b3 lags."]
    # A note does not repeat the headline.
    assert [note[:13] for note in held_back(stalls, told)] == ["From 60.000 s"]
    assert lines(standstills(tables((-1, 1), **rows)))[1] == f"12 for acks=all: {stood}"
    assert lines(standstills(tables((0, 1), **rows))) == [what]


def test_it_or_them_is_chosen_by_the_records_above_the_high_watermark() -> None:
    def notes(*waiting: int) -> list[str]:
        more = {"high_watermark": 5, "under_min_isr_us": 0, "ended_by": "", "pinned_by": ["b1"], "pinned_us": 9 * S}
        stalls = [spell(10, 19, n, waiting_records=records, **more) for n, records in enumerate(waiting)]
        return [note.partition("for 9 s ")[2] for note in held_back(stalls)]

    assert notes(1) == ["with 1 record above it: b1 was in the ISR but lacked it for 9 s."]
    assert notes(1, 1) == ["with 1 record above it: b1 was in the ISR but lacked it for 9 s; the same happened in t-1."]
    assert notes(2, 3) == [
        "with 2 records above it: b1 was in the ISR but lacked them for 9 s; the same happened in t-1."
    ]


def test_high_watermarks_that_moved_again_together_are_one_note() -> None:
    def stall(from_s: float, until_s: float, partition: int, *holders: str) -> Row:
        more = {"waiting_records": 5 + partition, "under_min_isr_us": 0, "ended_by": "the high watermark moved"}
        pinned = {"pinned_by": list(holders), "pinned_us": int((until_s - from_s) * S)}
        return spell(from_s, until_s, partition, high_watermark=10 * partition, **more, **pinned)

    stalls = [stall(10.5 + n / 10, 19.126, n, "b1") for n in range(4)] + [stall(11, 19.126, 4, "b2")]
    stalls += [stall(30, 39, 0, "b1")]
    assert held_back(stalls) == [
        "From 10.500 s the high watermark of t-0 stood still at 0 for 8.626 s with 5 records above it: "
        "b1 was in the ISR but lacked them for 8.626 s; the same happened in t-1..t-3.",
        "From 11.000 s the high watermark of t-4 stood still at 40 for 8.126 s with 9 records above it: "
        "b2 was in the ISR but lacked them for 8.126 s.",
        "From 30.000 s the high watermark of t-0 stood still at 0 for 9 s with 5 records above it: "
        "b1 was in the ISR but lacked them for 9 s.",
    ]


def test_a_wait_for_a_new_leader_tells_who_was_down_and_who_was_elected_there() -> None:
    def election(at_s: float, leader: str, partition: int = 0) -> Row:
        where = {"topic": "t", "partition": partition, "seq": at_s, "at_us": int(at_s * S)}
        return {**where, "leader": leader, "clean": False, "reason": f"{leader} leads t-0, as nobody else is left"}

    told = standstills(
        tables(
            (1,),
            write_stalls=[no_write(10, 19.5, "NETWORK_EXCEPTION", refused=1, recovered=False)],
            unavailability=[
                spell(10.5, 15, kind="leader down", reason="b1 is killed"),
                spell(15, 19, kind="no leader", reason="t-0 has no leader: the ISR {b1} is dead"),
                spell(10.5, 19, 1, kind="leader down", reason="elsewhere"),
                spell(20, 30, kind="no leader", reason="later"),
            ],
            elections=[election(1, "b1"), election(19, "b2"), election(19, "b3", 1)],
        )
    )
    assert lines(told) == [
        "For 9.5 s (10.000 to 19.500 s) no write of p1 to t-0 succeeded, nor did any later write; "
        "1 attempt was refused or unanswered (NETWORK_EXCEPTION).",
        "10.5 the leader was down until 15.000 s: b1 is killed.",
        "15 t-0 has no leader: the ISR {b1} is dead; it had no leader until 19.000 s.",
        "19 b2 leads t-0, as nobody else is left.",
    ]


def test_reads_that_stood_still_are_told_after_writes() -> None:
    reads = [
        spell(5, 14, client=None, group="g1", waiting_records=1, errors=["NOT_COORDINATOR"], recovered=False),
        spell(5, 8, client="c1", group=None, waiting_records=3, errors=[], recovered=True),
    ]
    assert lines(standstills(tables(write_stalls=[no_write(1, 4)], read_stalls=reads))) == [
        "For 3 s (1.000 to 4.000 s) no write of p1 to t-0 succeeded.",
        "For 9 s (5.000 to 14.000 s) group g1 read nothing from t-0, where 1 committed record waited, and did not read "
        "later either; its requests were refused with NOT_COORDINATOR.",
    ]


def test_if_no_client_waited_long_the_partition_or_its_high_watermark_is_told() -> None:
    offline = [
        spell(3, 6, kind="leader down", reason="b1 is killed"),
        spell(9, 20, kind="under-replicated", reason="-"),
    ]
    stall = spell(
        4, 8, high_watermark=1, waiting_records=5, pinned_by=["b2", "b3"], pinned_us=4 * S, under_min_isr_us=0,
        ended_by="-",
    )  # fmt: skip
    short = [no_write(1, 2.9)]
    assert lines(standstills(tables(write_stalls=short, unavailability=offline, hw_stalls=[stall]))) == [
        "For 3 s (3.000 to 6.000 s) t-0 had no running leader.",
        "3 the leader was down until 6.000 s: b1 is killed.",
    ]
    assert lines(standstills(tables(write_stalls=short, hw_stalls=[stall]))) == [
        "From 4.000 s the high watermark of t-0 stood still at 1 for 4 s with 5 records above it: "
        "b2 and b3 were in the ISR but lacked them for 4 s."
    ]
    assert standstills(tables(write_stalls=short, unavailability=offline[1:])) == []
