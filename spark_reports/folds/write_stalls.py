"""Find intervals in which a producer's records waited and none of its writes succeeded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.folds.codes import begins, codes, ends, last_of, numbers, of_kind
from spark_reports.folds.events import Events, Made
from spark_reports.folds.facts import WORD, each_called

COLUMNS = ("what", "seq", "at_us", "client", "error")
SENT, WRITTEN, FAILED, REFUSED = "sent", "written", "failed", "refused"
PLACED_SENT, PLACED_FAILED = "placed sent", "placed failed"
"""Events of records that had no partition yet, repeated with the partition that they got later, -1 if none."""
_BEGUN = "begun"
"""Kind of an event that summarizes earlier slices: how many records wait, and since when."""

_PRODUCER = ("run", "topic", "partition", "client")


class Ends(NamedTuple):
    """The times at which clients and runs ended, as small tables.

    Attributes:
        stops: run, client, seq and at_us of each stop of a client.
        runs: run and end_us of each run.
    """

    stops: pa.Table
    runs: pa.Table

    def lives(self, facts: pa.Table, seq: Any) -> tuple[Any, Any]:
        """Return for each event its client's life (the number of stops before it) and the time that life ended."""
        life, end_us = np.zeros(len(facts), np.int64), np.zeros(len(facts), np.int64)
        client = codes(facts, "run", "client")
        stops: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for row in self.stops.to_pylist():
            stops.setdefault((row["run"], row["client"]), []).append((row["seq"], row["at_us"]))
        last = {row["run"]: row["end_us"] for row in self.runs.to_pylist()}
        for item in np.unique(client).tolist():
            row_indexes = np.flatnonzero(client == item)
            run, name = facts.select(["run", "client"]).slice(int(row_indexes[0]), 1).to_pylist()[0].values()
            its = sorted(stops.get((run, name), []))
            life[row_indexes] = np.searchsorted([at for at, _ in its], seq[row_indexes])
            end_us[row_indexes] = np.array([*(at_us for _, at_us in its), last[run]])[life[row_indexes]]
        return life, end_us


def _with(facts: pa.Table, **columns: Any) -> pa.Table:
    for name, values in columns.items():
        column_index, column = facts.schema.get_field_index(name), pa.array(values, pa.int64())
        facts = facts.append_column(name, column) if column_index < 0 else facts.set_column(column_index, name, column)
    return facts


def _counted(facts: pa.Table) -> pa.Table:
    """Fill the columns `change` and `times`, except for events of earlier slices that have them already.

    `change` is the change in the number of waiting records, `times` the number of events that a row stands for.
    """
    is_answer, is_sent = of_kind(facts, WRITTEN, FAILED, PLACED_FAILED), of_kind(facts, SENT, PLACED_SENT)
    change, times = np.where(is_sent, 1, np.where(is_answer, -1, 0)), np.ones(len(facts), np.int64)
    if "times" not in facts.column_names:
        return _with(facts, change=change, times=times)
    known = {"change": pa.array(change), "times": pa.array(times)}
    return _with(facts, **{name: pc.coalesce(facts[name], its).combine_chunks() for name, its in known.items()})


class _Waiting:
    """The events of producers in order, and the number of waiting records after each.

    Attributes:
        stretch: index of the start of the interval of waiting that each event lies in or ends, -1 if none.
        begun: index of the start of the interval of waiting that continues after each event, -1 if none.
        is_end: mask of the events that end an interval.
        last: index of the last event of each life of a producer.
        is_over: mask of the lives in `last` that have no event in later slices.
    """

    def __init__(self, ends_of_lives: Ends, events: Events) -> None:
        seq = numbers(events.rows, "seq")
        life, end_us = ends_of_lives.lives(events.rows, seq)
        producer = codes(events.rows, *_PRODUCER)
        order = np.lexsort((seq, life, producer))
        self.rows, self.end_us = _counted(events.rows).take(pa.array(order)), end_us[order]
        first = begins(producer[order], life[order])
        change = numbers(self.rows, "change")
        total = np.cumsum(change)
        self.waiting = total - (total - change)[np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))]
        waited, waits = self.waiting - change > 0, self.waiting > 0
        is_success = of_kind(self.rows, WRITTEN)
        starts = waits & (is_success | ~waited)
        # Find the last start of an interval up to each index, and the last one before the index.
        begun = last_of(starts, first)
        self.begun = np.where(starts[begun], begun, -1)
        before = np.where(first, -1, np.concatenate([[-1], self.begun[:-1]]))
        self.stretch = np.where(waited, before, -1)
        self.is_end = waited & (is_success | ~waits)
        self.last = np.flatnonzero(ends(first))
        self.is_over = ~ends(begins(producer[order][self.last])) | events.is_last


def _placed(events: Events) -> Events:
    """Drop SENT and FAILED events without a partition, which also exist as PLACED_SENT or PLACED_FAILED."""
    known = (numbers(events.rows, "partition") >= 0) | ~of_kind(events.rows, SENT, FAILED)
    return events._replace(rows=events.rows.filter(pa.array(known)), is_new=events.is_new[known])


def write_stalls(ends_of_lives: Ends, shortest_us: int, schema: pa.Schema, events: Events) -> Made:
    """Return one row for each stall of at least `shortest_us`.

    A stall begins when the first record starts to wait, or with a successful write while other records wait. It ends
    with the next success, when no record waits any more, or with the client's stop or the run.
    """
    its = _Waiting(ends_of_lives, _placed(events))
    at_us = numbers(its.rows, "at_us")
    unended = its.last[its.is_over & (its.waiting[its.last] > 0)]
    begun = np.concatenate([its.stretch[its.is_end], its.begun[unended]])
    until_us = np.concatenate([at_us[its.is_end], its.end_us[unended]])
    recovered = np.concatenate([of_kind(its.rows, WRITTEN)[its.is_end], np.zeros(len(unended), bool)])
    long = until_us - at_us[begun] >= shortest_us
    begun, until_us, recovered = begun[long], until_us[long], recovered[long]
    refused, errors = _trouble(its, begun)
    found = its.rows.select(_PRODUCER).take(pa.array(begun))
    values = {
        "from_us": pa.array(at_us[begun]), "until_us": pa.array(until_us), "refused": pa.array(refused, pa.int64()),
        "errors": pa.array(errors, pa.list_(pa.string())), "recovered": pa.array(recovered),
    }  # fmt: skip
    for name, column in values.items():
        found = found.append_column(name, column)
    return found.select(schema.names).cast(schema).to_batches(), _needed(its)


def _needed(its: _Waiting) -> pa.Table:
    """Return events for the next slice: how many records wait, since when, and the errors since then."""
    last = its.last[~its.is_over]
    last = last[its.waiting[last] != 0]
    since = its.rows.take(pa.array(np.where(its.waiting[last] > 0, its.begun[last], last)))
    since = since.drop_columns(["what", "error"]).append_column("error", pa.nulls(len(since), WORD))
    since = each_called(_with(since, change=its.waiting[last], times=np.ones(len(last))), "what", _BEGUN)
    wrong = np.flatnonzero(_is_wrong(its) & np.isin(its.stretch, its.begun[last]))
    trouble = its.rows.take(pa.array(wrong))
    _, first, alike = np.unique(codes(trouble, *_PRODUCER, "what", "error"), return_index=True, return_inverse=True)
    times = np.bincount(alike, numbers(trouble, "times"), len(first))
    once = _with(trouble.take(pa.array(first)), change=np.zeros(len(first)), times=times)
    return pa.concat_tables([since.select(once.column_names), once])


def _is_wrong(its: _Waiting) -> Any:
    """Return a mask of the events that have an error and lie in an interval of waiting."""
    return its.rows["error"].is_valid().to_numpy() & (its.stretch >= 0)


def _trouble(its: _Waiting, begun: Any) -> tuple[list[int], list[list[str]]]:
    """Return for each interval the number of refused batches, and the errors of refused batches and failed records.

    `begun` has the index of each interval's start.
    """
    row_indexes = np.flatnonzero(_is_wrong(its) & np.isin(its.stretch, begun))
    answers = its.rows.select(["what", "error", "times"]).take(pa.array(row_indexes)).to_pylist()
    refused = dict.fromkeys(begun.tolist(), 0)
    errors: dict[int, set[str]] = {begin: set() for begin in refused}
    for begin, row in zip(its.stretch[row_indexes].tolist(), answers, strict=True):
        refused[begin] += row["times"] if row["what"] == REFUSED else 0
        errors[begin].add(row["error"])
    return list(refused.values()), [sorted(each) for each in errors.values()]
