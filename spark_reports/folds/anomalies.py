"""Anomalies that a client sees in a partition over time: end offsets that fall, and positions that jump ahead."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins, codes, ends, highest_so_far, last_of, numbers, of_kind
from spark_reports.folds.events import Events, Made

SEEN, READ, SEEK, MADE, SERVED = "seen", "read", "seek", "made", "served"
CLIENT_COLUMNS = ("what", "seq", "client", "offset", "node")

_PARTITION = ("run", "topic", "partition")


def regressions(schema: pa.Schema, events: Events) -> Made:
    """Return a row for each end offset below one that the client saw before; a recreated topic starts anew."""
    facts = events.rows
    row_indexes, first, since, _, needed = _by_client(facts)
    anew = first.copy()
    anew[1:] |= since[1:] != since[:-1]
    offset = numbers(facts, "offset")[row_indexes]
    highest = highest_so_far(offset, anew)
    back = np.flatnonzero((offset < highest) & events.is_new[row_indexes])
    rows = [
        {**row, "anomaly": "offset-regression", "detail": f"it saw end offset {row['offset']} after end offset {seen}"}
        for row, seen in zip(_rows_at(facts, row_indexes[back]), highest[back].tolist(), strict=True)
    ]
    needed[row_indexes[last_of(offset == highest, anew)[ends(first)]]] = True
    return pa.Table.from_pylist(rows, schema).to_batches(), events.needed(needed)


def jumps(schema: pa.Schema, events: Events) -> Made:
    """Return a row for each range of offsets that a client skipped between two reads.

    If a topic was deleted and created again, only jumps after its last creation count; `since_seq` is the `seq` of that
    event. A client that read before that event has skipped all offsets below its first read after it.
    """
    facts = events.rows
    row_indexes, first, since, is_last, needed = _by_client(facts)
    offset, is_read = numbers(facts, "offset")[row_indexes], of_kind(facts, READ)[row_indexes]
    before = np.where(since[1:] == since[:-1], offset[:-1], -1)
    jumped = is_read[1:] & is_read[:-1] & ~first[1:] & is_last[1:] & (offset[1:] > before + 1)
    jumped &= events.is_new[row_indexes[1:]]
    over = np.flatnonzero(jumped) + 1
    jumps = zip(_rows_at(facts, row_indexes[over]), before[jumped].tolist(), since[over].tolist(), strict=True)
    rows = [
        {**row, "from_offset": low + 1, "to_offset": row["offset"] - 1, "since_seq": begun} for row, low, begun in jumps
    ]
    rows = [{name: row[name] for name in schema.names} for row in rows]
    needed[row_indexes[ends(first)]] = True
    return pa.Table.from_pylist(rows, schema).to_batches(), events.needed(needed)


class _Clients(NamedTuple):
    """The events of clients in one slice, grouped by client.

    Attributes:
        row_indexes: index of each client event in the slice, except responses about an earlier topic of this name.
        first: mask of the first event of each client.
        since: `seq` of the topic's latest recreation before each event, -1 if there is none.
        is_last: mask of the events after the topic's last recreation.
        needed: mask of the slice's events, except those of clients, that the next slice needs.
    """

    row_indexes: Any
    first: Any
    since: Any
    is_last: Any
    needed: Any


def _by_client(facts: pa.Table) -> _Clients:
    partition, seq = codes(facts, "topic", "partition"), numbers(facts, "seq")
    is_made, is_served = of_kind(facts, MADE), of_kind(facts, SERVED)
    made = _latest(partition, is_made, seq)
    count = int(partition.max(initial=0)) + 1
    first_made, last_made = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(first_made, partition[is_made], seq[is_made])
    np.maximum.at(last_made, partition[is_made], seq[is_made])
    since = np.where(made > first_made[partition], made, -1)
    latest = np.where(last_made > first_made, last_made, -1)[partition]
    # A broker that does not know yet that the topic was created again still answers for the previous topic.
    server = codes(facts, "topic", "partition", "node")
    served = _latest(server, is_served, seq)
    is_former = (served < since) & facts["node"].is_valid().to_numpy()
    client = codes(facts, "topic", "partition", "client")
    order = np.argsort(client, kind="stable")
    order = order[~(is_made | is_served | is_former)[order]]
    last_served = np.full(int(server.max(initial=0)) + 1, -1)
    np.maximum.at(last_served, server[is_served], seq[is_served])
    needed = is_made | (is_served & (latest >= 0) & (seq == last_served[server]))
    return _Clients(order, begins(client[order]), since[order], (since == latest)[order], needed)


def _latest(group: Any, stated: Any, seq: Any) -> Any:
    """Return for each event the `seq` of its group's latest event with a True in mask `stated`, -1 if there is none."""
    order = np.argsort(group, kind="stable")
    last = order[last_of(stated[order], begins(group[order]))]
    found = np.empty(len(group), np.int64)
    found[order] = np.where(stated[last], seq[last], -1)
    return found


def _rows_at(facts: pa.Table, row_indexes: Any) -> list[dict[str, Any]]:
    """Return the rows at these indexes as dicts, with the client as `witness`."""
    chosen = facts.select([*_PARTITION, "client", "offset"]).take(pa.array(row_indexes))
    return chosen.rename_columns([*_PARTITION, "witness", "offset"]).to_pylist()  # type: ignore[no-any-return]
