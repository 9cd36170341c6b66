"""Compute the log end and high watermark of every replica over time, each row from events of its replica alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.folds.codes import begins, codes, ends, last_of, of_kind
from spark_reports.folds.events import Events, Made

COLUMNS = ("what", "node", "at_us", "seq", "event", "log_end_offset", "high_watermark", "reason", "replicas")
PLACED, STOPPED, STATED, APPENDED, MOVED = "placed", "stopped", "stated", "appended", "moved"


def replica_timeline(schema: pa.Schema, events: Events) -> Made:
    """Return a row for each event. Its high watermark is the latest known one since the broker's start."""
    facts = events.rows
    replica, is_stop = codes(facts, "topic", "partition", "node"), of_kind(facts, STOPPED)
    is_placement = of_kind(facts, PLACED)
    chosen = np.flatnonzero(~is_placement & ~is_stop | _is_placed(facts, is_stop))
    chosen = chosen[np.argsort(replica[chosen], kind="stable")]
    stated = (is_stop | facts["high_watermark"].is_valid().to_numpy())[chosen]
    first = begins(replica[chosen])
    latest = chosen[last_of(stated, first)]
    needed = is_placement
    needed[latest[ends(first)]] = True
    is_new = events.is_new[chosen]
    moves = facts.take(pa.array(chosen[is_new]))
    known = facts["high_watermark"].take(pa.array(latest[is_new]))
    end = moves["log_end_offset"]
    found = moves.drop_columns("high_watermark").append_column(
        "high_watermark", pc.if_else(end.is_valid(), known, None)
    )
    found = found.append_column("uncommitted_records", pc.subtract(end, known))
    return found.select(schema.names).cast(schema).to_batches(), events.needed(needed)


def _is_placed(facts: pa.Table, is_stop: Any) -> Any:
    """Return a mask of the stops of brokers that had a replica of the partition at any time."""
    placed = facts.filter(pa.array(of_kind(facts, PLACED))).select(["topic", "partition", "replicas"]).to_pylist()
    replicas = {(row["topic"], row["partition"], node) for row in placed for node in row["replicas"]}
    stops = facts.filter(pa.array(is_stop)).select(["topic", "partition", "node"]).to_pylist()
    found = np.zeros(len(facts), bool)
    found[is_stop] = [tuple(stop.values()) in replicas for stop in stops]
    return found
