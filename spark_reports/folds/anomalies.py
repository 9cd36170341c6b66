"""Anomalies that neighbours show: of replicas at one offset, and of what a client saw before. By columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.folds.codes import begins, codes, ends, highest_so_far, last_of, numbers, of_kind
from spark_reports.folds.events import Events, Made

REPLICA, ENTRY = "replica", "entry"
REPLICA_COLUMNS = ("what", "node", "offset", "record", "crc", "high_watermark")
DIVERGED = "replicas hold different records below their high watermarks"

SEEN, READ, SEEK, MADE, SERVED = "seen", "read", "seek", "made", "served"
CLIENT_COLUMNS = ("what", "seq", "client", "offset", "node")

_PARTITION = ("run", "topic", "partition")


def diverged(schema: pa.Schema, events: Events) -> Made:
    """Offsets below the high watermarks of several running replicas at which these hold different records. Slices are
    of offsets, each of which is whole in one."""
    facts = events.rows
    replica, is_end = codes(facts, "topic", "partition", "node"), of_kind(facts, REPLICA)
    marks = np.full(int(replica.max(initial=0)) + 1, np.iinfo(np.int64).min)
    marks[replica[is_end]] = numbers(facts, "high_watermark")[is_end]
    offset, partition = numbers(facts, "offset"), codes(facts, "topic", "partition")
    order = np.flatnonzero(~is_end & (offset < marks[replica]))
    # A replica's entries stand in their order already, and sorting goes along that.
    order = order[np.argsort(offset[order], kind="stable")]
    order = order[np.argsort(partition[order], kind="stable")]
    first = begins(partition[order], offset[order])
    other = (begins(numbers(facts, "crc")[order]) | _begins(facts["record"].take(pa.array(order)))) & ~first
    place = np.cumsum(first)
    found = facts.take(pa.array(order[np.isin(place, place[other])]))
    held: dict[tuple[Any, ...], list[str]] = {}
    for row in found.select([*_PARTITION, "offset", "node", "record"]).to_pylist():
        *where, node, record = row.values()
        held.setdefault(tuple(where), []).append(f"{node}: {record}")
    rows = [
        {
            **dict(zip((*_PARTITION, "offset"), where, strict=True)), "anomaly": "diverged", "detail": DIVERGED,
            "witness": ", ".join(sorted(names)),
        }
        for where, names in held.items()
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema).to_batches(), events.needed(is_end)


def _begins(words: pa.ChunkedArray) -> Any:
    """As begins(), of words of which few are equal to any but their neighbours."""
    words, first = words.combine_chunks(), np.zeros(len(words), bool)
    first[:1] = True
    differs = pc.not_equal(words[1:], words[:-1]).fill_null(False).to_numpy(zero_copy_only=False)
    is_null = words.is_null().to_numpy(zero_copy_only=False)
    first[1:] |= differs | (is_null[1:] != is_null[:-1])
    return first


def regressions(schema: pa.Schema, events: Events) -> Made:
    """A client saw the end of a partition below an end it had seen before; a topic that is made again begins anew."""
    facts = events.rows
    places, first, since, _, needed = _by_client(facts)
    anew = first.copy()
    anew[1:] |= since[1:] != since[:-1]
    offset = numbers(facts, "offset")[places]
    highest = highest_so_far(offset, anew)
    back = np.flatnonzero((offset < highest) & events.is_new[places])
    rows = [
        {**row, "anomaly": "offset-regression", "detail": f"saw the end at {row['offset']} after it had seen {seen}"}
        for row, seen in zip(_told(facts, places[back]), highest[back].tolist(), strict=True)
    ]
    needed[places[last_of(offset == highest, anew)[ends(first)]]] = True
    return pa.Table.from_pylist(rows, schema).to_batches(), events.needed(needed)


def jumps(schema: pa.Schema, events: Events) -> Made:
    """Offsets, the last one included, that a client's position went over from one read to the next.

    Of a topic that was deleted and made again only jumps in its last life count, and since_seq says when that began: at
    its first read there the position of a client that had read before has gone over everything below.
    """
    facts = events.rows
    places, first, since, is_last, needed = _by_client(facts)
    offset, is_read = numbers(facts, "offset")[places], of_kind(facts, READ)[places]
    before = np.where(since[1:] == since[:-1], offset[:-1], -1)
    jumped = is_read[1:] & is_read[:-1] & ~first[1:] & is_last[1:] & (offset[1:] > before + 1)
    jumped &= events.is_new[places[1:]]
    over = np.flatnonzero(jumped) + 1
    told = zip(_told(facts, places[over]), before[jumped].tolist(), since[over].tolist(), strict=True)
    rows = [
        {**row, "from_offset": low + 1, "to_offset": row["offset"] - 1, "since_seq": begun} for row, low, begun in told
    ]
    rows = [{name: row[name] for name in schema.names} for row in rows]
    needed[places[ends(first)]] = True
    return pa.Table.from_pylist(rows, schema).to_batches(), events.needed(needed)


class _Clients(NamedTuple):
    """places:  of what clients did, client by client, without what brokers have told of a former topic of this name
    first:   where each client begins
    since:   `seq` at which the topic was made again last before, or -1
    is_last: whether it was not made again after
    needed:  of all facts, those that say so of a slice that follows, too
    """

    places: Any
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
    # A broker that has not heard yet that the topic was made again answers still about the one before.
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
    """Of each fact, the `seq` of the last one of its group, up to it, where something is stated; or -1."""
    order = np.argsort(group, kind="stable")
    place = order[last_of(stated[order], begins(group[order]))]
    found = np.empty(len(group), np.int64)
    found[order] = np.where(stated[place], seq[place], -1)
    return found


def _told(facts: pa.Table, places: Any) -> list[dict[str, Any]]:
    """witness: the client"""
    chosen = facts.select([*_PARTITION, "client", "offset"]).take(pa.array(places))
    return chosen.rename_columns([*_PARTITION, "witness", "offset"]).to_pylist()  # type: ignore[no-any-return]
