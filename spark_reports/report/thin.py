"""Fewer points for pictures, chosen so that no peak and no rare event is lost: batch by batch, without Spark.

Of a batch numbers alone are compared, and the chosen rows are read afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

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
_FEW = 16

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
    for batch in table.coded_batches(columns):
        place = np.arange(begin, begin + len(batch), dtype=np.int64)
        begin += len(batch)
        runs, run_of = _coded(batch.column(RUN))
        width = np.array([max(1, end_us.get(run, 0) // BINS) for run in runs], np.int64)
        stretch = _numbers(batch, "at_us") // width[run_of]
        key = (series.of(batch) << _BIN_BITS) + stretch
        chosen.add(key, _numbers(batch, peak, _NO_PEAK), _numbers(batch, "seq"), place)
        short.add(batch, place)
        if moves:
            events, event_of = _coded(batch.column("event"))
            rare.append(place[~np.array([event in moves for event in events])[event_of]])
    return table.at(np.unique(np.concatenate([*chosen.places(), *short.places(), *rare])))


class _Numbered:
    """Numbers for the values of some columns, the same in all batches."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._known: dict[tuple[Any, ...], int] = {}

    def of(self, batch: Any) -> _Numbers:
        """The number of each row."""
        codes = np.zeros(len(batch), np.int64)
        for column in self._columns:
            values, of_column = _coded(batch.column(column))
            codes = _close(codes * len(values) + of_column)
        one = np.full(int(codes.max(initial=-1)) + 1, -1)
        one[codes] = np.arange(len(codes))
        known = np.flatnonzero(one >= 0)
        rows = batch.select(list(self._columns)).take(pa.array(one[known])).to_pylist()
        numbers = np.zeros(len(one), np.int64)
        numbers[known] = [self._known.setdefault(tuple(row.values()), len(self._known)) for row in rows]
        return numbers[codes]


class _Short:
    """All points of partitions that have at most WHOLE_UP_TO."""

    def __init__(self) -> None:
        self._partitions = _Numbered(PARTITION_KEY)
        self._sizes: dict[int, int] = {}
        self._places: dict[int, list[_Numbers]] = {}

    def add(self, batch: Any, place: _Numbers) -> None:
        partition = self._partitions.of(batch)
        counts = np.bincount(partition)
        for number in np.flatnonzero(counts).tolist():
            self._sizes[number] = self._sizes.get(number, 0) + int(counts[number])
            if self._sizes[number] <= WHOLE_UP_TO:
                self._places.setdefault(number, []).append(place[partition == number])
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
        best = _best(key, seq, (-seq, largest, peak))
        self._waiting.append(tuple(column[best] for column in (key, seq, place, -seq, largest, peak)))
        self._count += len(best)
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


def _best(key: _Numbers, seq: _Numbers, ranks: Sequence[_Numbers]) -> _Numbers:
    """Places of the points of which _least() will choose: of each key the one of the lowest rank, by each."""
    order = np.argsort(_small(_close(key)), kind="stable")
    begins = np.diff(key[order], prepend=-1) != 0
    first, of_key, seq = np.flatnonzero(begins), np.cumsum(begins) - 1, seq[order]
    found = []
    for rank in (rank[order] for rank in ranks):
        is_least = rank == np.minimum.reduceat(rank, first)[of_key]
        seq_of_least = np.where(is_least, seq, _NO_PEAK)
        places = np.flatnonzero(is_least & (seq_of_least == np.minimum.reduceat(seq_of_least, first)[of_key]))
        found.append(places[np.diff(of_key[places], prepend=-1) != 0])
    return order[np.unique(np.concatenate(found))]  # type: ignore[no-any-return]


def _close(codes: _Numbers) -> _Numbers:
    """From 0 on, none of them above _FEW for each that there is; equal ones are equal, and others are not."""
    low = int(codes.min(initial=_NO_PEAK))
    if not len(codes) or int(codes.max()) - low < _FEW * len(codes):
        return codes - low
    return np.unique(codes, return_inverse=True)[1]


def _small(codes: _Numbers) -> Any:
    """Numbers of 16 bits, if they fit: these are sorted in no time."""
    return codes.astype(np.uint16) if codes.max(initial=0) < 1 << 16 else codes


def _coded(column: Any) -> tuple[list[Any], _Numbers]:
    """The different values, some of which may not occur, and None; and for each row the place of its own."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = [*coded.dictionary.to_pylist(), None]
    return values, coded.indices.fill_null(len(values) - 1).to_numpy().astype(np.int64)


def _numbers(batch: Any, column: str, instead: int = 0) -> _Numbers:
    """Of a column of integers; `instead` of nulls."""
    return batch.column(column).fill_null(instead).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
