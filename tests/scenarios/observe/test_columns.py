"""The columns in which a long run keeps its batches, against plain dicts and lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scenarios.observe.columns.batch_columns import BatchColumns, BatchList, MirroredBatch
from scenarios.observe.columns.record_table import RecordTable
from scenarios.observe.sent_batches import CrcMap

CRCS = st.integers(0, 2**32 - 1)


@given(st.lists(st.tuples(CRCS | st.integers(0, 50), st.integers(0, 2**31 - 1)), max_size=60), st.integers(0, 2**32))
def test_a_crc_map_is_a_dict(entries: list[tuple[int, int]], seed: int) -> None:
    """Many more entries than are kept in its dict, with some of them set again before and after they are merged."""
    many = [((seed + 2_654_435_761 * number) % 2**32, number) for number in range(3000)]
    expected: dict[int, int] = {}
    found = CrcMap()
    for crc, number in (*entries, *many, *entries, *((crc, number + 1) for crc, number in many[::7])):
        expected[crc] = found[crc] = number
    assert all(found.get(crc) == number for crc, number in expected.items())
    assert all(found.get(crc + 1) == expected.get(crc + 1, -1) for crc in expected)


SIZES = st.lists(st.integers(1, 4), max_size=12)


@given(SIZES, st.integers(0, 3), st.integers(0, 50), st.integers(0, 50))
def test_a_list_of_batches_is_found_by_offset(sizes: list[int], first: int, low: int, high: int) -> None:
    columns = BatchColumns()
    log, batches, base = BatchList(columns), [], first
    for number, size in enumerate(sizes):
        columns.add(MirroredBatch(base, base, 9, 0, -1, -1, -1))  # of another log
        batch = MirroredBatch(base, base + size - 1, number // 3, 2**32 - 1 - number, 2**40, number % 2, number)
        log.append(columns.add(batch))
        batches.append(batch)
        base += size
    assert list(log) == batches
    assert all(log[place] == batch for place, batch in enumerate(batches))
    holders = [batch for batch in batches if batch.base_offset <= low <= batch.last_offset]
    assert log.at(low) == (holders[0] if holders else None)
    assert list(log.between(low, high)) == [one for one in batches if one.last_offset >= low and one.base_offset < high]
    assert all(columns[log.place_of(batch)] == batch for batch in batches)
    assert log.place_of(MirroredBatch(low, low, 99, 0, 0, 0, 0)) == -1
    kept = [batch for batch in batches if batch.last_offset < high]
    assert log.cut_to(high) == batches[len(kept) :]
    assert list(log) == kept


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0, 5, 2**31 - 1, 2**31, 2**62])), max_size=20))
def test_a_column_takes_any_time(values: list[tuple[int, int]]) -> None:
    column, expected = RecordTable().sent_us, dict[int, int]()
    for place, value in values:
        column[place] = expected[place] = value
    assert [column[place] for place in range(25)] == [expected.get(place, -1) for place in range(25)]
