"""A read_committed consumer hands over no record of an aborted transaction, and no marker."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.client.consumer.fetcher import AbortedFilter
from replica.log.batches.control_records import ControlRecordType, end_transaction_marker
from replica.log.batches.records import build_batch, read_header, stamp
from tests.soak import examples

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def data(producer_id: int, *, transactional: bool = True) -> bytearray:
    return build_batch(
        [(None, b"r")],
        timestamp_ms=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def taken(log: list[bytearray], aborted: list[tuple[int, int]], start: int = 0) -> list[int]:
    """Offsets of the data batches that are not dropped; each batch has one record."""
    found = []
    dropping = AbortedFilter(aborted)
    for offset, batch in enumerate(log):
        stamp(batch, 0, offset, 0)
        header = read_header(batch)
        if offset >= start and not dropping.drops(header, batch) and not header.is_control:
            found.append(offset)
    return found


def test_only_what_lies_between_first_offset_and_marker_is_dropped() -> None:
    abort = end_transaction_marker(1, 0, ABORT, 0, 0)
    log = [data(1), data(2), abort, data(1), data(1, transactional=False)]
    assert taken(log, [(1, 0)]) == [1, 3, 4]


def test_a_read_that_begins_inside_of_an_aborted_transaction_drops_the_rest_of_it() -> None:
    log = [data(1), data(1), end_transaction_marker(1, 0, ABORT, 0, 0), data(1)]
    assert taken(log, [(1, 0)], start=1) == [3]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["data", "plain", "commit", "abort"]), st.sampled_from([1, 2])), max_size=20))
def test_against_the_outcome_of_each_transaction(steps: list[tuple[str, int]]) -> None:
    log, aborted, expected = [], [], []
    open_now: dict[int, list[int]] = {}
    for offset, (step, producer_id) in enumerate([*steps, ("commit", 1), ("commit", 2)]):
        if step == "data":
            log.append(data(producer_id))
            open_now.setdefault(producer_id, []).append(offset)
        elif step == "plain":
            log.append(data(-1 if producer_id in open_now else producer_id, transactional=False))
            expected.append(offset)
        else:
            log.append(end_transaction_marker(producer_id, 0, ABORT if step == "abort" else COMMIT, 0, 0))
            offsets = open_now.pop(producer_id, [])
            if step == "commit":
                expected += offsets
            elif offsets:
                aborted.append((producer_id, offsets[0]))
    assert taken(log, aborted) == sorted(expected)
