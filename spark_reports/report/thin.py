"""Fewer points for pictures, chosen so that no peak and no rare event is lost: batch by batch, without Spark.

Of a batch numbers alone are compared, and the chosen rows are read afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replica.trace.names import BATCH_APPENDED, HIGH_WATERMARK_ADVANCED, HIGH_WATERMARK_LEARNED
from spark_reports.report.rows import Rows
from spark_reports.schema import PARTITION_KEY, REPLICA_KEY, RUN

BINS = 700
WHOLE_UP_TO = 4_000
"""Partitions with at most this many points are drawn as they are."""

PICTURED: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "replica_timeline": (
        REPLICA_KEY, "uncommitted_records", (BATCH_APPENDED, HIGH_WATERMARK_ADVANCED, HIGH_WATERMARK_LEARNED)
    ),
    "replication_lag": ((*PARTITION_KEY, "leader", "follower"), "peak_lag_us", ()),
    "data_at_risk": ((*PARTITION_KEY, "leader", "leader_epoch", "acks"), "at_risk_records", ()),
}  # fmt: skip
"""Timelines too long to draw whole: the keys of their lines, whose peaks must stay, and events that may go."""

_BIN_BITS = 32
_NO_PEAK = (1 << 63) - 1
_CANDIDATES = 1 << 17
"""Points that wait until the best of them are chosen."""

_Numbers = np.ndarray[Any, np.dtype[np.int64]]


def picture(name: str, table: Rows, end_us: Mapping[str, int]) -> Rows:
    """The points of a timeline that a chart draws: of each of BINS stretches of the run and each line, the last point
    and those with the largest and the smallest peak; all of short partitions, and rare events.

    name: of PICTURED        table: that table        end_us: by run
    """
    if len(table) <= WHOLE_UP_TO:
        return table
    lines, peak, moves = PICTURED[name]
    series, chosen, short = _Numbered(lines), _Chosen(), _Short()
    rare: list[_Numbers] = []
    columns = [*dict.fromkeys([*lines, "at_us", "seq", peak, *(["event"] if moves else [])])]
    begin = 0
    for batch in table.batches(columns):
        place = np.arange(begin, begin + len(batch), dtype=np.int64)
        begin += len(batch)
        runs = batch.column(RUN)
        width = np.array([max(1, end_us[run] // BINS) for run in runs.unique().to_pylist()], np.int64)
        stretch = _numbers(batch, "at_us") // width[_codes(runs)]
        key = (series.of(batch) << _BIN_BITS) + stretch
        chosen.add(key, _numbers(batch, peak, _NO_PEAK), _numbers(batch, "seq"), place)
        short.add(batch, place)
        if moves:
            may_go = pc.is_in(batch.column("event"), value_set=pa.array(moves))
            rare.append(place[~may_go.to_numpy(zero_copy_only=False)])
    return table.at(np.unique(np.concatenate([*chosen.places(), *short.places(), *rare])))


class _Numbered:
    """Numbers for the values of some columns, the same in all batches."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._known: dict[tuple[Any, ...], int] = {}

    def of(self, batch: Any) -> _Numbers:
        """The number of each row."""
        codes, count = np.zeros(len(batch), np.int64), 1
        for column in self._columns:
            of_column = _codes(batch.column(column))
            values = int(of_column.max(initial=0)) + 1
            if count * values > _NO_PEAK:
                codes, count = np.unique(codes, return_inverse=True)[1], len(batch)
            codes, count = codes * values + of_column, count * values
        _, first, place = np.unique(codes, return_index=True, return_inverse=True)
        rows = batch.select(list(self._columns)).take(pa.array(first)).to_pylist()
        numbers = [self._known.setdefault(tuple(row.values()), len(self._known)) for row in rows]
        return np.array(numbers, np.int64)[place]


class _Short:
    """All points of partitions that have at most WHOLE_UP_TO."""

    def __init__(self) -> None:
        self._partitions = _Numbered(PARTITION_KEY)
        self._sizes: dict[int, int] = {}
        self._places: dict[int, list[_Numbers]] = {}

    def add(self, batch: Any, place: _Numbers) -> None:
        partition = self._partitions.of(batch)
        for number in np.unique(partition).tolist():
            here = place[partition == number]
            self._sizes[number] = self._sizes.get(number, 0) + len(here)
            if self._sizes[number] <= WHOLE_UP_TO:
                self._places.setdefault(number, []).append(here)
            else:
                self._places.pop(number, None)

    def places(self) -> list[_Numbers]:
        return [places for of_one in self._places.values() for places in of_one]


class _Chosen:
    """Of each key the last point, and the first of those with the largest peak and with the smallest."""

    def __init__(self) -> None:
        self._best: list[tuple[_Numbers, ...]] = [(np.empty(0, np.int64),) * 4] * 3
        self._waiting: list[tuple[_Numbers, ...]] = []
        self._count = 0

    def add(self, key: _Numbers, peak: _Numbers, seq: _Numbers, place: _Numbers) -> None:
        """One batch of points, with _NO_PEAK where it is not known."""
        largest = np.where(peak == _NO_PEAK, _NO_PEAK, -peak)
        self._waiting.append((key, seq, place, -seq, largest, peak))
        self._count += len(key)
        if self._count >= _CANDIDATES:
            self._choose()

    def places(self) -> list[_Numbers]:
        self._choose()
        return [place for _, _, place, _ in self._best]

    def _choose(self) -> None:
        if not self._waiting:
            return
        key, seq, place, *ranks = (np.concatenate(columns) for columns in zip(*self._waiting, strict=True))
        self._best = [
            _least(*(np.concatenate(both) for both in zip(best, (key, seq, place, rank), strict=True)))
            for best, rank in zip(self._best, ranks, strict=True)
        ]
        self._waiting, self._count = [], 0


def _least(key: _Numbers, seq: _Numbers, place: _Numbers, rank: _Numbers) -> tuple[_Numbers, ...]:
    """Of each key the point of the lowest rank, of equal ones the first."""
    order = np.lexsort((seq, rank, key))
    first = np.diff(key[order], prepend=-1) != 0
    chosen = order[first]
    return key[chosen], seq[chosen], place[chosen], rank[chosen]


def _codes(column: Any) -> _Numbers:
    """Each value's place among the different ones, in the order in which they come."""
    coded = column.dictionary_encode(null_encoding="encode")
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def _numbers(batch: Any, column: str, instead: int = 0) -> _Numbers:
    """Of a column of integers; `instead` of nulls."""
    return batch.column(column).fill_null(instead).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
