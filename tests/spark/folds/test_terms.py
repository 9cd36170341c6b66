"""Terms of a topic that is deleted and made again: each life has its own, though leader and epoch are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_reports.folds import lag, terms
from spark_reports.folds.events import Events


def _terms(*events: tuple[Any, ...]) -> list[tuple[int, str, int, int, str]]:
    """events: what, leader, epoch; each a millisecond after the one before     out: epoch, leader, from and until seq,
    ended_by"""
    facts = [(what, seq, 1000 * seq, leader, epoch, 0, 0) for seq, (what, leader, epoch) in enumerate(events)]
    return [
        (epoch, leader, from_seq, until_seq, why)
        for epoch, leader, _, from_seq, _, until_seq, why, _, _ in terms.leader_terms(iter(facts))
    ]


def test_a_topic_made_again_has_terms_of_its_own() -> None:
    assert _terms(
        (terms.BEGAN, "b1", 0), (terms.BEGAN, "b1", 0), (terms.DELETED, None, None), (terms.REMOVED, "b1", None),
        (terms.BEGAN, "b1", 0), (terms.OVER, None, None),
    ) == [(0, "b1", 0, 2, terms.TOPIC_DELETED), (0, "b1", 4, 5, terms.RUN_ENDED)]  # fmt: skip


def test_a_leader_that_hears_of_it_when_the_topic_is_gone_leads_until_its_replica_is() -> None:
    assert _terms(
        (terms.DELETED, None, None), (terms.BEGAN, "b1", 0), (terms.REMOVED, "b2", None), (terms.REMOVED, "b1", None),
        (terms.BEGAN, "b1", 0), (terms.STOPPED, "b1", None),
    ) == [(0, "b1", 1, 3, terms.REPLICA_REMOVED), (0, "b1", 4, 5, terms.LEADER_STOPPED)]  # fmt: skip


def _lags(*columns: str, events: Sequence[tuple[str, str | None, int | None, int | None]]) -> list[tuple[Any, ...]]:
    """events: what, follower, its fetch offset, the leader's log end; each a millisecond after the one before"""
    facts = [
        (what, seq, 1000 * seq, "b1", 0, follower, offset, end, end - 1 if what == lag.APPENDED and end else None)
        for seq, (what, follower, offset, end) in enumerate(events)
    ]
    words = ("run", "topic", "what", "leader", "follower")
    names = ("run", "topic", "partition", *lag.COLUMNS)
    schema = pa.schema([(name, pa.string() if name in words else pa.int64()) for name in names])
    told = pa.Table.from_pylist([dict(zip(names, ("0001-run", "t", 0, *fact), strict=True)) for fact in facts], schema)
    out = pa.schema([schema.field("follower") if name == "follower" else (name, pa.int64()) for name in columns])
    rows, _ = lag.replication_lag(out, Events(told, np.ones(len(told), bool), is_last=True))
    return [tuple(row.values()) for row in pa.Table.from_batches(rows).to_pylist()]


def test_a_leader_of_a_topic_made_again_knows_nothing_of_its_followers_before() -> None:
    """Though nothing was written in either life, and the log begins where it ended."""
    found = _lags("seq", "follower", events=[
        (lag.BEGAN, None, None, 0), (lag.FETCHED, "b2", 0, 0), (lag.TERM_ENDED, None, None, 0),
        (lag.BEGAN, None, None, 0), (lag.FETCHED, "b3", 0, 0), (lag.TERM_ENDED, None, None, 0),
    ])  # fmt: skip
    assert found == [(1, "b2"), (2, "b2"), (4, "b3"), (5, "b3")]


def test_a_follower_is_behind_since_it_had_the_end_of_now_or_of_its_fetch_before() -> None:
    """source: Replica.updateFetchStateOrThrow, where both comparisons are >="""
    found = _lags("seq", "behind_us", events=[
        (lag.BEGAN, None, None, 2), (lag.FETCHED, "b2", 0, 2),  # never caught up: since the term began
        (lag.FETCHED, "b2", 2, 2), (lag.APPENDED, None, None, 3), (lag.APPENDED, None, None, 5),
        (lag.FETCHED, "b2", 3, 5), (lag.APPENDED, None, None, 7), (lag.FETCHED, "b2", 5, 7),
    ])  # fmt: skip
    assert found == [(1, 1000), (2, 0), (3, 1000), (4, 2000), (5, 2000 + 1000), (6, 4000), (7, 2000)]
