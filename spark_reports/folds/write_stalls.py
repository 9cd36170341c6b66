"""Stretches in which a producer's records waited and none of its writes succeeded, by columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins, codes, last_of, numbers, of_kind
from spark_reports.folds.files import WORD

SENT, WRITTEN, FAILED, REFUSED = "sent", "written", "failed", "refused"


class Ends(NamedTuple):
    """Small tables, by run.

    stops: client, seq, at_us, by seq
    runs:  end_us
    """

    stops: pa.Table
    runs: pa.Table

    def lives(self, facts: pa.Table, seq: Any) -> tuple[Any, Any]:
        """Of each event which life of its client it is in (0, 1, ...), and when that ends."""
        life, end_us = np.zeros(len(facts), np.int64), np.zeros(len(facts), np.int64)
        client = codes(facts, "run", "client")
        stops: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for row in self.stops.to_pylist():
            stops.setdefault((row["run"], row["client"]), []).append((row["seq"], row["at_us"]))
        last = {row["run"]: row["end_us"] for row in self.runs.to_pylist()}
        for one in np.unique(client).tolist():
            places = np.flatnonzero(client == one)
            run, name = facts.select(["run", "client"]).slice(int(places[0]), 1).to_pylist()[0].values()
            its = sorted(stops.get((run, name), []))
            life[places] = np.searchsorted([at for at, _ in its], seq[places])
            end_us[places] = np.array([*(at_us for _, at_us in its), last[run]])[life[places]]
        return life, end_us


def placed(facts: pa.Table) -> pa.Table:
    """Events of records, each in the partition that its record has at last; of a refused batch there is no record. Two
    producers may send a record of one name: each waits for its own.
    """
    record, partition = codes(facts, "run", "topic", "client", "record"), numbers(facts, "partition")
    order = np.lexsort((partition, record))
    last = np.flatnonzero(np.append(begins(record[order])[1:], True))
    known = partition.copy()
    known[order] = np.repeat(partition[order][last], np.diff(last, prepend=-1))
    is_refused = of_kind(facts, REFUSED)
    known[is_refused] = partition[is_refused]
    return facts.set_column(facts.schema.get_field_index("partition"), "partition", pa.array(known)).drop_columns(
        "record"
    )


def write_stalls(ends: Ends, shortest_us: int, facts: pa.Table) -> pa.Table:
    """One row per stretch of at least `shortest_us`. It begins when a record starts to wait, or with the last success
    while others wait; it ends with the next success, when none waits any more, or with the life of the client.
    """
    if "error" not in facts.column_names:
        facts = facts.append_column("error", pa.nulls(len(facts), WORD))
    producer, seq, at_us = (
        codes(facts, "run", "topic", "partition", "client"),
        numbers(facts, "seq"),
        numbers(facts, "at_us"),
    )
    life, end_us = ends.lives(facts, seq)
    order = np.lexsort((seq, life, producer))
    facts = facts.take(pa.array(order))
    producer, seq, at_us, life, end_us = (each[order] for each in (producer, seq, at_us, life, end_us))
    first = begins(producer, life)
    is_last = np.append(first[1:], True)
    is_success, is_failed = of_kind(facts, WRITTEN), of_kind(facts, FAILED)
    change = np.where(of_kind(facts, SENT), 1, np.where(is_success | is_failed, -1, 0))
    total = np.cumsum(change)
    waiting = total - (total - change)[np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))]
    waited, waits = waiting - change > 0, waiting > 0
    starts = waits & (is_success | ~waited)
    # The last place up to each, and the last before each, where a stretch has begun; -1 without one.
    mine = last_of(starts, first)
    mine = np.where(starts[mine], mine, -1)
    before = np.where(first, -1, np.concatenate([[-1], mine[:-1]]))
    ended = waited & (is_success | ~waits)
    unended = waits & is_last
    begun = np.concatenate([before[ended], mine[unended]])
    until_us = np.concatenate([at_us[ended], end_us[unended]])
    recovered = np.concatenate([is_success[ended], np.zeros(int(unended.sum()), bool)])
    long = until_us - at_us[begun] >= shortest_us
    begun, until_us, recovered = begun[long], until_us[long], recovered[long]
    refused, errors = _trouble(facts, np.where(waited, before, -1), begun)
    found = facts.select(["run", "topic", "partition", "client"]).take(pa.array(begun))
    values = {
        "from_us": pa.array(at_us[begun]), "until_us": pa.array(until_us), "refused": pa.array(refused, pa.int64()),
        "errors": pa.array(errors, pa.list_(pa.string())), "recovered": pa.array(recovered),
    }  # fmt: skip
    for name, column in values.items():
        found = found.append_column(name, column)
    return found


def _trouble(facts: pa.Table, stretch: Any, begun: Any) -> tuple[list[int], list[list[str]]]:
    """How many batches were refused in each stretch, and the errors of those and of records that failed.

    stretch: of each event the place where its stretch began; -1 in none     begun: places of those that are asked for
    """
    places = np.flatnonzero(facts["error"].is_valid().to_numpy() & np.isin(stretch, begun))
    told = facts.select(["what", "error"]).take(pa.array(places)).to_pylist()
    refused = dict.fromkeys(begun.tolist(), 0)
    errors: dict[int, set[str]] = {place: set() for place in refused}
    for place, row in zip(stretch[places].tolist(), told, strict=True):
        refused[place] += row["what"] == REFUSED
        errors[place].add(row["error"])
    return list(refused.values()), [sorted(its) for its in errors.values()]
