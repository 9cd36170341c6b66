"""Differences of two logs, held against a comparison offset by offset."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

from broker_directories import ORDERS, read_all
from hypothesis import given
from hypothesis import strategies as st

from replica.log.batches.records import build_batch, stamp

Batch = tuple[int, int, int]
"""Records, leader epoch, and which of two contents."""

LOGS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1), st.integers(0, 1)), max_size=6)


def write(root: Path, node: int, batches: list[Batch]) -> Path:
    folder = root / f"b{node}" / str(ORDERS)
    folder.mkdir(parents=True)
    (folder.parent / "meta.properties").write_text(f"node.id={node}\n")
    content, offset = b"", 0
    for count, epoch, letter in batches:
        batch = build_batch([(None, b"ab"[letter : letter + 1])] * count, timestamp_ms=1)
        stamp(batch, 0, offset, epoch)
        content += batch
        offset += count
    (folder / f"{0:020d}.log").write_bytes(content)
    return folder.parent


def by_offset(batches: list[Batch]) -> dict[int, tuple[int, Batch]]:
    """Offset -> (where its batch begins, the batch)."""
    found: dict[int, tuple[int, Batch]] = {}
    for batch in batches:
        begin = len(found)
        found.update({begin + place: (begin, batch) for place in range(batch[0])})
    return found


@given(shared=LOGS, one=LOGS, two=LOGS, tail=LOGS)
def test_every_offset_that_differs_is_in_one_difference(
    shared: list[Batch], one: list[Batch], two: list[Batch], tail: list[Batch]
) -> None:
    """tail: what both have again, if they are as long as each other by then"""
    left, right = shared + one + tail, shared + two + tail
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        reading = read_all(write(root, 1, left), write(root, 2, right), leader="1")
    (found,) = reading.partitions[0].followers
    kinds = {
        offset: difference.kind
        for difference in found.comparison.differences
        for offset in range(difference.start, difference.end)
    }
    of_left, of_right = by_offset(left), by_offset(right)
    expected = {}
    for offset in range(max(len(of_left), len(of_right))):
        if offset not in of_right:
            expected[offset] = "only-on-leader"
        elif offset not in of_left:
            expected[offset] = "only-on-replica"
        elif of_left[offset] != of_right[offset]:
            expected[offset] = "different"
    assert kinds == expected
    assert found.comparison.count == len(found.comparison.differences)
    assert all(before.end <= after.start for before, after in pairwise(found.comparison.differences))
