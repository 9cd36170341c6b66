"""When consumers, and groups of them, were left waiting for records that were committed."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace.events import OUTSIDE
from replica.trace.names import (
    ABORTED_BATCH_FOUND,
    FETCH_FAILED,
    GROUP_ASSIGNED,
    GROUP_MEMBER_JOINED,
    GROUP_REBALANCED,
    GROUP_REMOVED,
    NODE_STOPPED,
    POSITION_RESET,
    RECORD_READ,
    TRANSACTION_MARKER_WRITTEN,
)
from spark_reports.folds import read_stalls as fold
from spark_reports.folds.events import Folding, at_the_end
from spark_reports.folds.facts import Facts, same
from spark_reports.held import few_rows
from spark_reports.schema import RUN
from spark_reports.transforms.availability import SHORTEST_STALL_US

_CLIENT_NAME_CHARACTERS = 60
"""Of the client.id, in the name of a client from outside (cluster/live/peers.py)."""
_FOREVER = (1 << 63) - 1


def read_stalls(group: DataFrame, terms: pa.Table, ends: DataFrame) -> Folding:
    """One row per stretch in which a committed record waited at a consumer's position and it read nothing.

    A stretch begins when the leader's high watermark passes the position, or with the last read while more wait; it
    ends with the next read or seek, when the consumer stops, or with the run. Those under SHORTEST_STALL_US are left
    out. A group counts as one consumer, whichever member reads, from its first read in a partition until its last
    member has left; rebalances are part of its stalls. Without rows: consumers from outside that belong to no group
    (it is unknown whether they are still there), and groups whose members share their client.id with another.
    Nothing waits at a transaction's marker; nor at records of an aborted transaction for a consumer that read none of
    the partition's.
    in:  the table group, leader_terms(), run_ends()
    out: run, topic, partition, client (null: a group), group (null: a consumer of the scenario), from_us, until_us,
         waiting_records (at its end), refused (answers with an error), errors (sorted names), recovered (a read ended
         it)
    """
    at = same("seq", "at_us")
    its = {**at, **same("client", "offset", "error")}
    began = {"seq": "from_seq", "at_us": "from_us", **same("high_watermark")}
    facts = {
        fold.BEGAN: Facts(terms, began),
        fold.MOVED: Facts("high_watermark", {**at, **same("high_watermark")}, {"role": ["leader"]}),
        fold.READ: Facts("consume", its, {"event": [RECORD_READ]}),
        fold.RESET: Facts("consume", its, {"event": [POSITION_RESET]}),
        fold.FAILED: Facts("consume", its, {"event": [FETCH_FAILED]}),
        fold.STOPPED: Facts("control", {**at, "client": "node"}, {"event": [NODE_STOPPED]}, everywhere=True),
        fold.MARKER: Facts("transaction", same("seq", "offset"), {"event": [TRANSACTION_MARKER_WRITTEN]}, ahead=True),
        fold.ABORTED: Facts(
            "transaction", same("seq", "base_offset", "last_offset"), {"event": [ABORTED_BATCH_FOUND]}, ahead=True
        ),
    }
    readers = _readers(group, {row["run"]: row["end_us"] for row in few_rows(ends).to_pylist()})
    make = functools.partial(fold.read_stalls, readers, SHORTEST_STALL_US)
    cut = functools.partial(fold.cut, readers, SHORTEST_STALL_US)
    return Folding(at_the_end(make, cut), facts, fold.COLUMNS)


def _readers(group: DataFrame, end_us: Mapping[str, int]) -> fold.KnownReaders:
    events = (GROUP_MEMBER_JOINED, GROUP_ASSIGNED, GROUP_REBALANCED, GROUP_REMOVED)
    said = group.filter(F.col("event").isin(*events)).select(
        RUN, "group", "seq", "at_us", "event", "client_id", "members"
    )
    rows = few_rows(said).sort_by([(name, "ascending") for name in (RUN, "group", "seq")]).to_pylist()
    of_groups = groupby(rows, itemgetter("run", "group"))
    return fold.KnownReaders(OUTSIDE, _members(rows), {key: _lives(its) for key, its in of_groups}, end_us)


def _members(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """The group of each client that is a member of one and of no other."""
    groups: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        if row["event"] == GROUP_MEMBER_JOINED:
            name = OUTSIDE + quote(row["client_id"], safe=": ")[:_CLIENT_NAME_CHARACTERS]
            groups.setdefault((row["run"], name), set()).add(row["group"])
    return {client: min(theirs) for client, theirs in groups.items() if len(theirs) == 1}


def _lives(rows: Iterable[Mapping[str, Any]]) -> list[fold.GroupLife]:
    """The times in which a group had members with an assignment.

    rows: what its coordinator said of it, in order
    """
    found = []
    begun: int | None = None
    for row in rows:
        is_empty = row["event"] == GROUP_REBALANCED and not row["members"]
        if row["event"] == GROUP_ASSIGNED and begun is None:
            begun = row["seq"]
        elif (is_empty or row["event"] == GROUP_REMOVED) and begun is not None:
            found.append(fold.GroupLife(begun, row["seq"], row["at_us"]))
            begun = None
    return found if begun is None else [*found, fold.GroupLife(begun, _FOREVER, None)]
