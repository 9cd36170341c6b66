"""Records in columns against plain dicts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replica.ids import TopicPartition
from scenarios.observe.columns.names import LazyNames, NameIndex, PlaceRuns
from scenarios.observe.columns.record_table import ACKED, RecordTable
from scenarios.observe.final_logs import LogEntries, LogEntry, Presence

NAMES = st.one_of(
    st.from_regex(r"(r|s|rec)(0|[1-9]\d{0,5})", fullmatch=True),
    st.from_regex(r"r0*\d{0,12}", fullmatch=True),
    st.text(max_size=5),
    st.sampled_from(["", "7", "07", "?3", "r\u0663"]),
)


@given(st.lists(NAMES, unique=True), st.lists(NAMES))
def test_every_name_has_its_own_place(names: list[str], others: list[str]) -> None:
    index = NameIndex()
    assert [index.add(name) for name in names] == list(range(len(names)))
    assert [index.place(name) for name in names] == list(range(len(names)))
    assert all(index.place(name) == -1 for name in others if name not in names)
    assert list(index) == names
    assert [index.name(place) for place in range(len(names))] == names


def test_a_record_reads_as_it_was_written() -> None:
    table = RecordTable()
    for number in range(3):
        table.add(f"r{number}", "p1", TopicPartition("t", number % 2), -1, 10 * number, number)
    place = table.index.place("r1")
    table.acked_us[place], table.acked_seq[place], table.acked_by[place] = 15, 7, table.words.place("b2")
    table.fates[place] = ACKED
    table.error[place] = table.words.place("NOT_ENOUGH_REPLICAS")
    entry = table["r1"]
    assert (entry.name, entry.client, entry.topic_partition, entry.acks) == ("r1", "p1", TopicPartition("t", 1), -1)
    assert (entry.sent_us, entry.sent_seq, entry.acked_us, entry.acked_seq, entry.acked_by) == (10, 1, 15, 7, "b2")
    assert (entry.error, entry.fate) == ("NOT_ENOUGH_REPLICAS", "acked")
    other = table["r2"]
    assert (other.acked_us, other.failed_us, other.latency_us, other.first_read_us, other.handed_over_us) == (None,) * 5
    assert (other.error, other.acked_by, other.first_reader, other.fate) == (*[None] * 3, "unknown")
    assert table.get("r3") is None
    assert [entry.name for entry in table] == ["r0", "r1", "r2"]


def test_the_partition_of_a_record_may_come_later() -> None:
    table = RecordTable()
    for name in ("r0", "r1"):
        table.add(name, "p1", TopicPartition("t", -1), -1, 0, 0)
    table.settle(table.index.place("r1"), TopicPartition("t", 2))
    assert [(entry.client, entry.topic_partition, entry.acks) for entry in table] == [
        ("p1", TopicPartition("t", -1), -1),
        ("p1", TopicPartition("t", 2), -1),
    ]


ENTRIES = st.lists(
    st.builds(
        LogEntry, st.integers(0, 9), st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 99)
    ),
    max_size=8,
)


@given(ENTRIES, ENTRIES, st.integers(0, 10))
def test_logs_are_compared_offset_by_offset(one: list[LogEntry], other: list[LogEntry], limit: int) -> None:
    mine, theirs = ({entry.offset: entry for entry in entries} for entries in (one, other))
    columns = [LogEntries(reversed(sorted(entries.values()))).in_order() for entries in (mine, theirs)]
    assert list(columns[0]) == sorted(mine.values())
    expected = [
        (mine[offset], theirs[offset])
        for offset in sorted(mine)
        if offset < limit
        and offset in theirs
        and (mine[offset].crc, mine[offset].record) != (theirs[offset].crc, theirs[offset].record)
    ]
    assert columns[0].differences(columns[1], limit) == expected


@given(ENTRIES, st.integers(0, 10), st.integers(0, 10))
def test_entries_of_a_range_of_offsets_are_found(entries: list[LogEntry], low: int, high: int) -> None:
    log = sorted({entry.offset: entry for entry in entries}.values())
    assert list(LogEntries(log).entries_in(low, high)) == [entry for entry in log if low <= entry.offset <= high]


@given(st.lists(st.lists(st.sampled_from(["r1", "r2", "r3", "x"]), min_size=1, max_size=12), max_size=5))
def test_a_batch_is_found_as_its_records_one_by_one(batches: list[list[str]]) -> None:
    """Names may be repeated and in any order; those of a run come as its indexes, those of a trace as text."""
    names, offset, expected = NameIndex(), 0, []
    as_text, as_indexes = LogEntries(names=names), LogEntries(names=names)
    for seq, records in enumerate(batches):
        as_text.extend(offset, records, 0, seq, seq)
        indexes = PlaceRuns.of(names.places_or_add(records))
        as_indexes.extend(offset, LazyNames(names, indexes), 0, seq, seq)
        expected += [LogEntry(offset + at, record, 0, seq, seq) for at, record in enumerate(records)]
        offset += len(records)
    assert list(as_text) == list(as_indexes) == expected


def test_presence_knows_all_copies() -> None:
    zero, one = TopicPartition("t", 0), TopicPartition("t", 1)
    names = NameIndex()
    logs = {
        zero: LogEntries([LogEntry(0, "r0", 0, 1, 1), LogEntry(4, "r0", 0, 2, 2)], names),
        one: LogEntries([LogEntry(7, "r0", 0, 1, 3), LogEntry(8, "?8", 0, 2, 4)], names),
    }
    present = Presence(names)
    for partition, entries in logs.items():
        present.add_log(partition, entries)
    assert list(present.repeated()) == ["r0"]
    assert present.copies("r0") == ((zero, 0), (zero, 4), (one, 7))
    assert present.copies("?8") == ((one, 8),)
    assert present.copies("r1") == ()
    assert "?8" in present
    assert "r1" not in present
