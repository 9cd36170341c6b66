"""Find intervals in which committed records waited for a reader that read nothing.

A reader is a consumer group, or a consumer without a group. A partition has few readers, so each is examined
separately, with the high watermarks of its partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins, codes, last_of, numbers, of_kind

COLUMNS = (
    "what", "seq", "at_us", "client", "offset", "error", "high_watermark", "base_offset", "last_offset",
)  # fmt: skip
READ, RESET, FAILED, STOPPED, MOVED, BEGAN, MARKER, ABORTED = (
    "read", "reset", "failed", "stopped", "moved", "began", "marker", "aborted",
)  # fmt: skip

_GONE = (1 << 63) - 1
"""Position of a reader for which no record waits: a consumer that has stopped, or a group without members."""


class GroupLife(NamedTuple):
    """An interval in which a group had members with an assignment.

    `until_us` is None if it lasted to the end of the run.
    """

    from_seq: int
    until_seq: int
    until_us: int | None


class KnownReaders(NamedTuple):
    """The consumers of the runs and their groups.

    Attributes:
        outside: prefix of the names of external clients.
        group_of: group of each (run, client) that is a member of exactly one group.
        lives: intervals in which each (run, group) had members.
        end_us: time at which each run ended.
    """

    outside: str
    group_of: Mapping[tuple[str, str], str]
    lives: Mapping[tuple[str, str], list[GroupLife]]
    end_us: Mapping[str, int]


class _Steps:
    """The events of one reader and the high watermarks of its partition, in order, as arrays."""

    def __init__(self, moves: dict[str, Any], marks: dict[str, Any]) -> None:
        """Merge the reader's moves and the high watermarks by `seq`.

        Args:
            moves: columns seq, at_us, position (-1 if unchanged), is_read, is_failed and error (a number, or -1).
            marks: columns seq, at_us and high_watermark.
        """
        count, others = len(moves["seq"]), len(marks["seq"])
        order = np.argsort(np.concatenate([moves["seq"], marks["seq"]]), kind="stable")

        def both(mine: Any, theirs: Any) -> Any:
            return np.concatenate([mine, theirs])[order]

        self.at_us = both(moves["at_us"], marks["at_us"])
        self.position = both(moves["position"], np.full(others, -1))
        self.is_read = both(moves["is_read"], np.zeros(others, bool))
        self.is_failed = both(moves["is_failed"], np.zeros(others, bool))
        self.error = both(moves["error"], np.full(others, -1))
        self.mark = both(np.full(count, -1), marks["high_watermark"])

    def stalls(self, end_us: int, shortest_us: int) -> Iterator[tuple[int, int, int, int, list[int], bool]]:
        """Yield the stalls of at least `shortest_us`.

        A stall is (from_us, until_us, waiting records, failed fetches, numbers of errors, recovered), where recovered
        is True if a read ended it.
        """
        starts = np.flatnonzero(self.position >= 0)
        if not len(starts):
            return
        first = np.zeros(len(self.position), bool)
        first[:1] = True
        # Before the first position and the first high watermark the value is -1, so nothing waits.
        stood = self.position[last_of(self.position >= 0, first)]
        waiting = np.where(stood >= 0, self.mark[last_of(self.mark >= 0, first)] - stood, 0)
        never = np.iinfo(np.int64).max
        from_us = np.minimum.reduceat(np.where(waiting > 0, self.at_us, never), starts)
        until_us = np.append(np.minimum.reduceat(self.at_us, starts)[1:], end_us)
        recovered = np.append(self.is_read[starts[1:]], False)
        most = np.maximum.reduceat(waiting, starts)
        long = np.flatnonzero(until_us - from_us >= shortest_us)
        bounds = np.append(starts, len(self.position))
        for number in long.tolist():
            inside = slice(bounds[number], bounds[number + 1])
            failed = self.is_failed[inside]
            errors = np.unique(self.error[inside][failed]).tolist()
            yield (
                int(from_us[number]), int(until_us[number]), int(most[number]), int(failed.sum()),
                [error for error in errors if error >= 0], bool(recovered[number]),
            )  # fmt: skip


class _Consumed:
    """The events of a share, as arrays."""

    def __init__(self, facts: pa.Table) -> None:
        self.facts = facts
        self.seq, self.at_us = numbers(facts, "seq"), numbers(facts, "at_us")
        self.kind = {what: of_kind(facts, what) for what in (READ, RESET, FAILED, STOPPED, MOVED, BEGAN, MARKER)}
        self.is_own = self.kind[READ] | self.kind[RESET] | self.kind[FAILED]
        self.offset = numbers(facts, "offset", -1)
        self.mark = numbers(facts, "high_watermark")
        self.is_mark = (self.kind[MOVED] | self.kind[BEGAN]) & facts["high_watermark"].is_valid().to_numpy()
        errors = facts["error"].combine_chunks()
        self.words = errors.dictionary.to_pylist()
        self.error = errors.indices.fill_null(-1).to_numpy()
        self.client = codes(facts, "client")

    def moves(self, indexes: Any) -> dict[str, Any]:
        """Return columns for the reads, seeks and failed fetches at these indexes; see `_Steps`."""
        offset, is_read = self.offset[indexes], self.kind[READ][indexes]
        position = np.where(is_read, offset + 1, np.where(self.kind[RESET][indexes], offset, -1))
        return {
            "seq": self.seq[indexes], "at_us": self.at_us[indexes], "position": position, "is_read": is_read,
            "is_failed": self.kind[FAILED][indexes], "error": self.error[indexes],
        }  # fmt: skip

    def partitions(self) -> Iterator[Any]:
        """Yield for each partition the indexes of its events."""
        bounds = np.flatnonzero(begins(codes(self.facts, "topic", "partition"))).tolist()
        for first, end in zip(bounds, [*bounds[1:], len(self.facts)][: len(bounds)], strict=True):
            yield np.arange(first, end)

    def mark_indexes(self, indexes: Any) -> Any:
        return indexes[self.is_mark[indexes]]

    def marks(self, indexes: Any) -> dict[str, Any]:
        return {"seq": self.seq[indexes], "at_us": self.at_us[indexes], "high_watermark": self.mark[indexes]}


def read_stalls(readers: KnownReaders, shortest_us: int, schema: pa.Schema, facts: pa.Table) -> list[pa.RecordBatch]:
    """Return one row for each read stall of at least `shortest_us` in a share's events."""
    events = _Consumed(facts)
    rows = [row for indexes in events.partitions() for row in _of_partition(readers, shortest_us, events, indexes)]
    return pa.Table.from_pylist(rows, schema).to_batches()  # type: ignore[no-any-return]


def _of_partition(readers: KnownReaders, shortest_us: int, events: _Consumed, indexes: Any) -> Iterator[dict[str, Any]]:
    where = events.facts.select(["run", "topic", "partition"]).slice(int(indexes[0]), 1).to_pylist()[0]
    run = where["run"]
    marks = events.marks(events.mark_indexes(indexes))
    left_out = _LeftOut(events, indexes)
    for reader, its, seq, gone_us in _readers(readers, run, events, indexes):
        # A consumer of the scenario has an event for its first position; other clients do not count.
        if "client" in reader and not events.kind[RESET][its].any():
            continue
        moves = _with_ends(events.moves(its), seq, gone_us)
        steps = _Steps({**moves, "position": left_out.behind(moves)}, marks)
        for from_us, until_us, waiting, refused, errors, recovered in steps.stalls(readers.end_us[run], shortest_us):
            yield {
                **where, **reader, "from_us": from_us, "until_us": until_us, "waiting_records": waiting,
                "refused": refused, "errors": sorted(events.words[error] for error in errors), "recovered": recovered,
            }  # fmt: skip


def _readers(
    readers: KnownReaders, run: str, events: _Consumed, indexes: Any
) -> Iterator[tuple[dict[str, str], Any, Any, Any]]:
    """Yield the readers of a partition: groups, and clients that are neither in a group nor external.

    Each reader is (its name as a column, indexes of its events, `seq` of each of its ends, times of these ends).
    """
    own = indexes[events.is_own[indexes]]
    stops = indexes[events.kind[STOPPED][indexes]]
    of_groups: dict[str, list[Any]] = {}
    for code in np.unique(events.client[own]).tolist():
        its = own[events.client[own] == code]
        name = events.facts["client"][int(its[0])].as_py()
        group = readers.group_of.get((run, name))
        if group is not None:
            of_groups.setdefault(group, []).append(its)
        elif not name.startswith(readers.outside):
            gone = stops[events.client[stops] == code]
            yield {"client": name}, its, events.seq[gone], events.at_us[gone]
    for group, parts in sorted(of_groups.items()):
        its = np.sort(np.concatenate(parts))
        lives = readers.lives.get((run, group), [])
        then = np.zeros(len(its), bool)
        for life in lives:
            then |= (events.seq[its] >= life.from_seq) & (events.seq[its] <= life.until_seq)
        if then.any():
            ends = [(life.until_seq, life.until_us) for life in lives if life.until_us is not None]
            seq, at_us = np.array(ends, np.int64).reshape(-1, 2).T
            yield {"group": group}, its[then], seq, at_us


def _with_ends(moves: dict[str, Any], seq: Any, at_us: Any) -> dict[str, Any]:
    """Return the moves with a further move to _GONE at each end of the reader."""
    none = np.zeros(len(seq), bool)
    ends = {
        "seq": seq, "at_us": at_us, "position": np.full(len(seq), _GONE), "is_read": none, "is_failed": none,
        "error": np.full(len(seq), -1),
    }  # fmt: skip
    return {name: np.concatenate([column, ends[name]]) for name, column in moves.items()}


class _LeftOut:
    """Offsets of a partition that readers do not get: transaction markers, and records of aborted transactions.

    A reader that gets aborted records (read_uncommitted) does wait for them.
    """

    def __init__(self, events: _Consumed, indexes: Any) -> None:
        self.markers = np.unique(events.offset[indexes[events.kind[MARKER][indexes]]])
        dropped = events.facts.take(pa.array(indexes)).filter(pa.array(of_kind(events.facts, ABORTED)[indexes]))
        stretches = zip(numbers(dropped, "base_offset").tolist(), numbers(dropped, "last_offset").tolist(), strict=True)
        each = [np.arange(first, last + 1) for first, last in stretches]
        self.aborted = np.unique(np.concatenate([np.zeros(0, np.int64), *each]))

    def reads_aborted(self, moves: dict[str, Any]) -> Any:
        """Return a mask of the moves that are reads of aborted records."""
        return moves["is_read"] & np.isin(moves["position"] - 1, self.aborted)

    def behind(self, moves: dict[str, Any]) -> Any:
        """Return the reader's positions, moved forward past offsets that it does not get."""
        of_some, of_all = self.behind_either(moves["position"])
        return of_all if self.reads_aborted(moves).any() else of_some

    def behind_either(self, position: Any) -> tuple[Any, Any]:
        """Return two sets of positions: for a reader that gets no aborted records, and for one that gets them."""
        return _behind(np.union1d(self.markers, self.aborted), position), _behind(self.markers, position)


def _behind(offsets: Any, position: Any) -> Any:
    if not len(offsets):
        return position
    lasts = np.append(np.flatnonzero(np.diff(offsets) > 1), len(offsets) - 1)
    nearest = np.minimum(np.searchsorted(offsets, position), len(offsets) - 1)
    ends = offsets[lasts[np.searchsorted(lasts, nearest)]] + 1
    return np.where(offsets[nearest] == position, ends, position)


def cut(readers: KnownReaders, shortest_us: int, facts: pa.Table) -> pa.Table:
    """Drop the events that cannot influence the rows of stalls.

    Keep the events that begin and end each interval that may be a stall, the failed fetches and the significant high
    watermarks in it, and the events that identify a reader. If no other kept interval begins where one ends, replace
    the reader's position by _GONE, so that no record waits until the next kept interval.
    """
    events = _Consumed(facts)
    needed, gone = of_kind(facts, STOPPED, MARKER, ABORTED), np.zeros(len(facts), bool)
    for indexes in events.partitions():
        run = facts["run"][int(indexes[0])].as_py()
        left_out, marks = _LeftOut(events, indexes), events.mark_indexes(indexes)
        needed[marks[-1:]] = True
        for _, its, seq, at_us in _readers(readers, run, events, indexes):
            stretches = _Stretches(events, left_out, its, seq, at_us)
            kept, may_be = stretches.kept(shortest_us)
            needed[[*stretches.marks(may_be, marks), *stretches.failed(may_be)]] = True
            begins_one, ends_one = stretches.bounds(kept)
            needed[begins_one], needed[ends_one] = True, True
            gone[np.setdiff1d(ends_one, begins_one)] = True
    nowhere = _GONE - of_kind(facts, READ)
    offset = facts["offset"]
    offset = pa.array(np.where(gone, nowhere, numbers(facts, "offset")), mask=~gone & offset.is_null().to_numpy())
    return facts.set_column(facts.column_names.index("offset"), "offset", offset).filter(pa.array(needed))


class _Stretches:
    """The intervals between consecutive changes of a reader's position."""

    def __init__(self, events: _Consumed, left_out: _LeftOut, its: Any, seq: Any, at_us: Any) -> None:
        """Compute the intervals of one reader.

        Args:
            its: indexes of the reader's events.
            seq, at_us: `seq` and time of each end of the reader, such as the stop of a consumer.
        """
        moves = _with_ends(events.moves(its), seq, at_us)
        starts = np.flatnonzero(moves["position"] >= 0)
        starts = starts[np.argsort(moves["seq"][starts], kind="stable")]
        self._events, self._left_out, self._its = events, left_out, its
        self._place = np.concatenate([its, np.full(len(seq), -1)])[starts]
        self._seq, self._at_us, self._position = (moves[name][starts] for name in ("seq", "at_us", "position"))
        self._reads_aborted = left_out.reads_aborted(moves)[starts]

    def kept(self, shortest_us: int) -> tuple[Any, Any]:
        """Return a mask of the intervals to keep, and a mask of the intervals that may be stalls.

        The former also has an interval that shows that this is a reader, and one that shows that it gets aborted
        records.
        """
        until_us = np.append(self._at_us[1:], np.iinfo(np.int64).max)[: len(self._at_us)]
        may_be = (self._position < _GONE) & (until_us - self._at_us >= shortest_us)
        kept = may_be.copy()
        is_reset = (self._place >= 0) & self._events.kind[RESET][self._place]
        for shown in (is_reset, self._reads_aborted):
            kept[np.flatnonzero(shown)[:1]] = True
        return kept, may_be

    def bounds(self, kept: Any) -> tuple[Any, Any]:
        """Return the indexes of the events that begin the intervals in mask `kept`, and of those that end them."""
        begins_one, ends_one = self._place[kept], self._place[1:][kept[:-1]]
        return begins_one[begins_one >= 0], ends_one[ends_one >= 0]

    def failed(self, asked: Any) -> Iterator[int]:
        """Yield the indexes of failed fetches in the intervals of mask `asked`."""
        indexes = self._its[self._events.kind[FAILED][self._its]]
        stretch = np.searchsorted(self._seq, self._events.seq[indexes]) - 1
        yield from indexes[stretch >= 0][asked[stretch[stretch >= 0]]].tolist()

    def marks(self, asked: Any, marks: Any) -> Iterator[int]:
        """Yield the indexes of the significant high watermarks for the intervals of mask `asked`.

        These are the last one before each interval, the highest one in it, and the first one that is above the reader's
        position. The latter is computed both with and without aborted records, since later events may show that the
        reader gets them. `marks` has the indexes of all high watermarks.
        """
        seq, either = self._events.seq[marks], np.stack(self._left_out.behind_either(self._position))
        first, end = np.searchsorted(seq, self._seq), np.searchsorted(seq, np.append(self._seq[1:], _GONE))
        for number in np.flatnonzero(asked).tolist():
            its = marks[first[number] : end[number]]
            inside = self._events.mark[its]
            yield from marks[max(first[number] - 1, 0) : first[number]].tolist()
            if len(its):
                yield int(its[np.argmax(inside)])
            for position in either[:, number].tolist():
                yield from its[np.flatnonzero(inside > position)[:1]].tolist()
