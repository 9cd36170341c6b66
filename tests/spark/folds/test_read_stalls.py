"""Positions that lie at markers and aborted records: where a reader really stands."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from spark_reports.folds.facts import WORD
from spark_reports.folds.read_stalls import ABORTED, COLUMNS, MARKER, READ, RESET, KnownReaders, read_stalls

SCHEMA = pa.schema(
    [*((name, pa.string()) for name in ("run", "topic", "client", "group")), ("partition", pa.int64()),
     *((name, pa.int64()) for name in ("from_us", "until_us", "waiting_records", "refused")),
     ("errors", pa.list_(pa.string())), ("recovered", pa.bool_())]
)  # fmt: skip
_TYPES = {"what": WORD, "client": WORD, "error": WORD}


def stalls(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of one consumer in one partition: each event a millisecond after the one before."""
    whole: dict[str, Any] = {"run": "0001-run", "topic": "t", "partition": 0}
    columns = pa.schema([("run", WORD), ("topic", WORD), ("partition", pa.int64()),
                         *((name, _TYPES.get(name, pa.int64())) for name in COLUMNS)])  # fmt: skip
    rows = [{**whole, "seq": seq, "at_us": 1000 * seq, **event} for seq, event in enumerate(events)]
    readers = KnownReaders("client/", {}, {}, {"0001-run": 1_000_000})
    return pa.Table.from_batches(
        read_stalls(readers, 500_000, SCHEMA, pa.Table.from_pylist(rows, columns)), SCHEMA
    ).to_pylist()  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("reads_aborted", [False, True])
def test_nothing_waits_at_a_marker_nor_at_what_a_reader_is_not_given(reads_aborted: bool) -> None:
    draw = random.Random(3)
    for _ in range(200):
        markers = {draw.randrange(20) for _ in range(4)}
        first = draw.randrange(20)
        aborted = set(range(first, first + draw.randrange(1, 4))) - markers
        position, mark = draw.randrange(20), draw.randrange(1, 25)
        events: list[dict[str, Any]] = [{"what": MARKER, "offset": offset} for offset in sorted(markers)]
        events += [{"what": ABORTED, "base_offset": offset, "last_offset": offset} for offset in sorted(aborted)]
        if reads_aborted and aborted:
            events.append({"what": READ, "client": "c1", "offset": min(aborted)})
        events += [{"what": RESET, "client": "c1", "offset": position}, {"what": "moved", "high_watermark": mark}]
        left_out = markers if reads_aborted and aborted else markers | aborted
        while position in left_out:
            position += 1
        waiting = [stall["waiting_records"] for stall in stalls(events)]
        assert waiting == ([mark - position] if mark > position else []), events


def test_a_client_from_outside_without_a_group_is_no_reader() -> None:
    events = [{"what": RESET, "client": "client/kcat", "offset": 0}, {"what": "moved", "high_watermark": 9}]
    assert stalls(events) == []
    assert [row["client"] for row in stalls([{**events[0], "client": "c1"}, events[1]])] == ["c1"]
