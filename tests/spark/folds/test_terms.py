"""Terms of a topic that is deleted and made again: each life has its own, though leader and epoch are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from spark_reports.folds import lag, terms
from spark_reports.folds.events import Events
from spark_reports.held import columns_of
from spark_reports.results import RESULT_TABLES


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


def test_a_leader_of_a_topic_made_again_knows_nothing_of_its_followers_before() -> None:
    """Though nothing was written in either life, and the log begins where it ended."""
    events = [(lag.BEGAN, None), (lag.FETCHED, "b2"), (lag.TERM_ENDED, None), (lag.BEGAN, None), (lag.FETCHED, "b3"),
              (lag.TERM_ENDED, None)]  # fmt: skip
    facts = [
        (what, seq, 1000 * seq, "b1", 0, follower, 0 if follower else None, 0, None)
        for seq, (what, follower) in enumerate(events)
    ]
    words = ("run", "topic", "what", "leader", "follower")
    names = ("run", "topic", "partition", *lag.COLUMNS)
    columns = pa.schema([(name, pa.string() if name in words else pa.int64()) for name in names])
    told = [dict(zip(names, ("0001-run", "t", 0, *fact), strict=True)) for fact in facts]
    events = pa.Table.from_pylist(told, columns)
    schema = to_arrow_schema(columns_of(RESULT_TABLES["replication_lag"].ddl))
    rows, _ = lag.replication_lag(schema, Events(events, np.ones(len(events), bool), is_last=True))
    found = pa.Table.from_batches(rows).select(["seq", "follower"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, "b2"), (2, "b2"), (4, "b3"), (5, "b3")]
