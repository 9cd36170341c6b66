"""Compute when consumers and consumer groups did not read committed records that waited for them."""

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

from replica.trace import names
from replica.trace.events import OUTSIDE
from spark_reports.folds import read_stalls as fold
from spark_reports.folds.events import Folding, at_the_end
from spark_reports.folds.facts import Facts, same
from spark_reports.held import few_rows
from spark_reports.schema import RUN
from spark_reports.transforms.availability import SHORTEST_STALL_US

_CLIENT_NAME_CHARACTERS = 60
"""Number of characters of the client.id that are part of an external client's name (cluster/live/peers.py)."""
_FOREVER = (1 << 63) - 1


def read_stalls(group: DataFrame, terms: pa.Table, ends: DataFrame) -> Folding:
    """Return a folding with one row per interval in which a committed record waited at a consumer's position.

    An interval begins when the leader's high watermark passes the position, or with a read after which more records
    wait. It ends with the next read or seek, with the consumer's stop, or with the run. Intervals shorter than
    SHORTEST_STALL_US are left out.

    A group counts as one consumer, from its first read in a partition until its last member has left; its stalls
    include rebalances. External consumers without a group have no rows, since their end is unknown. Groups whose
    members have the same client.id as members of another group have no rows either.

    No consumer waits for a transaction's marker. A consumer that has read no aborted record of the partition does not
    wait for aborted records.

    Args:
        group: table of the trace.
        terms: leader_terms().
        ends: run_ends().
    """
    at = same("seq", "at_us")
    its = {**at, **same("client", "offset", "error")}
    began = {"seq": "from_seq", "at_us": "from_us", **same("high_watermark")}
    facts = {
        fold.BEGAN: Facts(terms, began),
        fold.MOVED: Facts("high_watermark", {**at, **same("high_watermark")}, {"role": ["leader"]}),
        fold.READ: Facts("consume", its, {"event": [names.RECORD_READ]}),
        fold.RESET: Facts("consume", its, {"event": [names.POSITION_RESET]}),
        fold.FAILED: Facts("consume", its, {"event": [names.FETCH_FAILED]}),
        fold.STOPPED: Facts("control", {**at, "client": "node"}, {"event": [names.NODE_STOPPED]}, everywhere=True),
        fold.MARKER: Facts(
            "transaction", same("seq", "offset"), {"event": [names.TRANSACTION_MARKER_WRITTEN]}, ahead=True
        ),
        fold.ABORTED: Facts(
            "transaction", same("seq", "base_offset", "last_offset"), {"event": [names.ABORTED_BATCH_FOUND]}, ahead=True
        ),
    }
    readers = _readers(group, {row["run"]: row["end_us"] for row in few_rows(ends).to_pylist()})
    make = functools.partial(fold.read_stalls, readers, SHORTEST_STALL_US)
    cut = functools.partial(fold.cut, readers, SHORTEST_STALL_US)
    return Folding(at_the_end(make, cut), facts, fold.COLUMNS)


def _readers(group: DataFrame, end_us: Mapping[str, int]) -> fold.KnownReaders:
    events = (names.GROUP_MEMBER_JOINED, names.GROUP_ASSIGNED, names.GROUP_REBALANCED, names.GROUP_REMOVED)
    said = group.filter(F.col("event").isin(*events)).select(
        RUN, "group", "seq", "at_us", "event", "client_id", "members"
    )
    rows = few_rows(said).sort_by([(name, "ascending") for name in (RUN, "group", "seq")]).to_pylist()
    of_groups = groupby(rows, itemgetter("run", "group"))
    return fold.KnownReaders(OUTSIDE, _members(rows), {key: _lives(its) for key, its in of_groups}, end_us)


def _members(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Return the group by (run, client) for clients that are members of exactly one group."""
    groups: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        if row["event"] == names.GROUP_MEMBER_JOINED:
            name = OUTSIDE + quote(row["client_id"], safe=": ")[:_CLIENT_NAME_CHARACTERS]
            groups.setdefault((row["run"], name), set()).add(row["group"])
    return {client: min(theirs) for client, theirs in groups.items() if len(theirs) == 1}


def _lives(rows: Iterable[Mapping[str, Any]]) -> list[fold.GroupLife]:
    """Return the intervals in which a group had members with an assignment; `rows` are its events, in order."""
    found = []
    begun: int | None = None
    for row in rows:
        is_empty = row["event"] == names.GROUP_REBALANCED and not row["members"]
        if row["event"] == names.GROUP_ASSIGNED and begun is None:
            begun = row["seq"]
        elif (is_empty or row["event"] == names.GROUP_REMOVED) and begun is not None:
            found.append(fold.GroupLife(begun, row["seq"], row["at_us"]))
            begun = None
    return found if begun is None else [*found, fold.GroupLife(begun, _FOREVER, None)]
