"""Anomalies that neighbours show: of replicas at one offset, and of what a client saw before. By columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins, codes, numbers, of_kind

REPLICA, ENTRY = "replica", "entry"
REPLICA_COLUMNS = ("what", "node", "offset", "record", "crc", "high_watermark")
DIVERGED = "replicas hold different records below their high watermarks"

SEEN, READ, SEEK = "seen", "read", "seek"
CLIENT_COLUMNS = ("what", "client", "offset")

_PARTITION = ("run", "topic", "partition")


def diverged(schema: pa.Schema, facts: pa.Table) -> Iterable[pa.RecordBatch]:
    """Offsets below the high watermarks of several running replicas at which these hold different records."""
    replica, is_end = codes(facts, "topic", "partition", "node"), of_kind(facts, REPLICA)
    ends = np.full(int(replica.max(initial=0)) + 1, np.iinfo(np.int64).min)
    ends[replica[is_end]] = numbers(facts, "high_watermark")[is_end]
    offset, partition = numbers(facts, "offset"), codes(facts, "topic", "partition")
    order = np.flatnonzero(~is_end & (offset < ends[replica]))
    order = order[np.lexsort((offset[order], partition[order]))]
    first = begins(partition[order], offset[order])
    other = begins(codes(facts, "record")[order], numbers(facts, "crc")[order]) & ~first
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
    return pa.Table.from_pylist(rows, schema).to_batches()  # type: ignore[no-any-return]


def regressions(schema: pa.Schema, facts: pa.Table) -> Iterable[pa.RecordBatch]:
    """A client saw the end of a partition below an end it had seen before."""
    facts, first = _by_client(facts)
    offset = numbers(facts, "offset")
    highest = offset.copy()
    for one in np.split(highest, np.flatnonzero(first)[1:]):
        np.maximum.accumulate(one, out=one)
    back = np.flatnonzero(offset < highest)
    rows = [
        {**row, "anomaly": "offset-regression", "detail": f"saw the end at {row['offset']} after it had seen {seen}"}
        for row, seen in zip(_told(facts, back), highest[back].tolist(), strict=True)
    ]
    return pa.Table.from_pylist(rows, schema).to_batches()  # type: ignore[no-any-return]


def jumps(schema: pa.Schema, facts: pa.Table) -> Iterable[pa.RecordBatch]:
    """Offsets, the last one included, that a client's position went over from one read to the next."""
    facts, first = _by_client(facts)
    offset, is_read = numbers(facts, "offset"), of_kind(facts, READ)
    over = np.flatnonzero(is_read[1:] & is_read[:-1] & ~first[1:] & (offset[1:] > offset[:-1] + 1)) + 1
    rows = [
        {**row, "from_offset": before + 1, "to_offset": row["offset"] - 1}
        for row, before in zip(_told(facts, over), offset[over - 1].tolist(), strict=True)
    ]
    rows = [{name: row[name] for name in schema.names} for row in rows]
    return pa.Table.from_pylist(rows, schema).to_batches()  # type: ignore[no-any-return]


def _by_client(facts: pa.Table) -> tuple[pa.Table, Any]:
    """Client by client, and where each begins."""
    client = codes(facts, "topic", "partition", "client")
    order = np.argsort(client, kind="stable")
    return facts.take(pa.array(order)), begins(client[order])


def _told(facts: pa.Table, places: Any) -> list[dict[str, Any]]:
    """witness: the client"""
    chosen = facts.select([*_PARTITION, "client", "offset"]).take(pa.array(places))
    return chosen.rename_columns([*_PARTITION, "witness", "offset"]).to_pylist()  # type: ignore[no-any-return]
