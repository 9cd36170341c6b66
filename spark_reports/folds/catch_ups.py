"""Compute how fast the replicas of a restarted broker caught up with their leaders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins, codes, last_of, numbers, of_kind

COLUMNS = (
    "what", "seq", "at_us", "node", "fetch_offset", "log_end_offset", "base_offset", "last_offset", "size_bytes",
    "joined",
)  # fmt: skip
STARTED, STOPPED, FETCHED, APPENDED, JOINED = "started", "stopped", "fetched", "appended", "joined"


class _Return:
    """The return of a replica after its broker restarted.

    `bytes` and `records` count appends between the first fetch and the fetch that reached the leader's log end.
    """

    __slots__ = ("bytes", "caught_us", "first_us", "from_offset", "joined_us", "records", "started_us", "to_offset")

    def __init__(self, started_us: int) -> None:
        self.started_us = started_us
        self.first_us: int | None = None
        self.from_offset: int | None = None
        self.caught_us: int | None = None
        self.to_offset: int | None = None
        self.joined_us: int | None = None
        self.bytes = self.records = 0

    def fetches(self, at_us: int, offset: int | None, end: int | None) -> None:
        if self.first_us is None:
            self.first_us, self.from_offset = at_us, offset
        if self.caught_us is None and offset is not None and end is not None and offset >= end:
            self.caught_us, self.to_offset = at_us, offset

    def appends(self, size_bytes: int, records: int) -> None:
        if self.first_us is not None and self.caught_us is None:
            self.bytes += size_bytes
            self.records += records

    def joins(self, at_us: int) -> None:
        if self.joined_us is None:
            self.joined_us = at_us

    def row(self, node: str) -> tuple[Any, ...]:
        took_s = 0.0
        if self.first_us is not None and self.caught_us is not None:
            took_s = (self.caught_us - self.first_us) / 1_000_000
        return (
            node, self.started_us, self.first_us, self.from_offset, self.caught_us, self.to_offset, self.joined_us,
            self.records, self.bytes, self.records / took_s if took_s > 0 else None,
            self.bytes / took_s if took_s > 0 else None,
        )  # fmt: skip


def catch_ups(facts: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each return of a replica. The first start of a broker does not count as a return."""
    known: set[str] = set()
    returned: dict[str, _Return] = {}
    for what, _, at_us, node, offset, end, base_offset, last_offset, size_bytes, joined in facts:
        if what == JOINED:
            for name in joined:
                if name in returned:
                    returned[name].joins(at_us)
            continue
        item = returned.get(node)
        if what in (STARTED, STOPPED):
            if item is not None and item.first_us is not None:
                yield item.row(node)
            returned.pop(node, None)
            if what == STARTED and node in known:
                returned[node] = _Return(at_us)
            if what == STARTED:
                known.add(node)
        elif item is None:
            continue
        elif what == FETCHED:
            item.fetches(at_us, offset, end)
        else:
            item.appends(size_bytes or 0, last_offset - base_offset + 1)
    for node, item in returned.items():
        if item.first_us is not None:
            yield item.row(node)


def cut(facts: pa.Table) -> pa.Table:
    """Drop a replica's fetches and appends unless they are between a return's first fetch and its catch-up."""
    node = codes(facts, "topic", "partition", "node")
    order = np.argsort(node, kind="stable")
    is_start, is_stop = of_kind(facts, STARTED)[order], of_kind(facts, STOPPED)[order]
    is_fetch = of_kind(facts, FETCHED)[order]
    replica = begins(node[order])
    life = begins(node[order]) | is_start | is_stop
    starts = _count_from(is_start, replica)
    returned = (is_start[last_of(life, replica)]) & (starts > 1)
    known = facts["fetch_offset"].is_valid().to_numpy() & facts["log_end_offset"].is_valid().to_numpy()
    is_caught = is_fetch & (known & (numbers(facts, "fetch_offset") >= numbers(facts, "log_end_offset")))[order]
    has_caught_up = _count_from(is_caught, life) > is_caught
    selected = of_kind(facts, STARTED, STOPPED, JOINED)
    selected[order] |= returned & ~has_caught_up & (is_fetch | (_count_from(is_fetch, life) > 0))
    return facts.filter(pa.array(selected))


def _count_from(counted: Any, first: Any) -> Any:
    """Return for each index how many values of its group so far are True; `first` is from begins()."""
    total = np.cumsum(counted)
    return total - (total - counted)[last_of(np.zeros(len(first), bool), first)]
