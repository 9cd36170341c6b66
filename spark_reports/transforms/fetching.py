"""The fetch path in figures: bytes per answer and per system call, and how fast a follower that came back caught up."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from replica.trace.names import FOLLOWER_FETCHED, NODE_STARTED, NODE_STOPPED, RECORDS_SENT
from spark_reports.folds import catch_ups as fold
from spark_reports.folds import fetches as sums
from spark_reports.folds.events import Folding
from spark_reports.folds.files import Facts, same
from spark_reports.from_files import RunFiles, by_partition


def fetch_efficiency(files: RunFiles) -> DataFrame:
    """One row per broker and peer that fetched from it (a follower or a client).

    in:  the trace; only runs that measure requests have rows in its table of them
    out: run, node, peer, partition_reads (partitions of fetches answered with records), record_bytes, bytes_per_read,
         empty_fetches (of a follower: partitions asked for and nothing sent), and from the request log, else null:
         requests (fetches that found something), bytes_per_request, sendfile_bytes, sendfile_calls, bytes_per_call,
         sendfile_share (of the bytes answered)
    """
    pair = same("node", "peer")
    answered = {**pair, **same("response_bytes", "sendfile_bytes", "sendfile_calls")}
    facts = {
        sums.SENT: Facts("fetch", {**pair, **same("size_bytes")}, {"event": [RECORDS_SENT]}),
        sums.ASKED: Facts("fetch", pair, {"event": [FOLLOWER_FETCHED]}),
        sums.ANSWERED: Facts("request", answered, {"api": ["Fetch"]}, everywhere=True),
    }
    found = sums.summed(files.gathered(sums.summed, facts, sums.SUMS))
    return files.of_rows("fetch_efficiency", [_in_figures(**row) for row in found.to_pylist() if _fetched(row)])


def _fetched(row: dict[str, Any]) -> bool:
    """Of requests alone nothing is known by partition."""
    return bool(row["reads"] or row["asked"])


def _in_figures(
    run: str, node: str, peer: str, reads: int, asked: int, requests: int, size_bytes: int, response_bytes: int,
    sendfile_bytes: int, sendfile_calls: int,
) -> dict[str, Any]:  # fmt: skip
    row = {
        "run": run, "node": node, "peer": peer, "partition_reads": reads, "record_bytes": size_bytes,
        "bytes_per_read": _ratio(size_bytes, reads), "empty_fetches": max(0, asked - reads) if asked else None,
    }  # fmt: skip
    if not requests:
        return row
    return row | {
        "requests": requests, "bytes_per_request": _ratio(response_bytes, requests), "sendfile_bytes": sendfile_bytes,
        "sendfile_calls": sendfile_calls, "bytes_per_call": _ratio(sendfile_bytes, sendfile_calls),
        "sendfile_share": _ratio(sendfile_bytes, response_bytes),
    }  # fmt: skip


def _ratio(above: int, below: int) -> float | None:
    return above / below if below > 0 else None


def catch_ups(changes: pa.Table) -> Folding:
    """One row per replica of a broker that started again: from its first fetch to the leader's end, and into the ISR.

    in:  isr_changes()
    out: *REPLICA_KEY, started_us, first_fetch_us, from_offset (of its first fetch), caught_up_us (its fetch
         reached the leader's end; null: never), to_offset, joined_us (it came back into the ISR; null: it did not, or
         had never left), records and bytes (appended meanwhile: up to then, or to the end of its life; records that
         are cut off later count too), records_per_s, bytes_per_s
    """
    at = same("seq", "at_us")
    node = {**at, **same("node")}
    facts = {
        fold.STOPPED: Facts("control", node, {"event": [NODE_STOPPED]}, everywhere=True),
        fold.STARTED: Facts("control", node, {"event": [NODE_STARTED]}, everywhere=True),
        fold.FETCHED: Facts(
            "fetch", {**at, "node": "peer", **same("fetch_offset", "log_end_offset")}, {"event": [FOLLOWER_FETCHED]}
        ),
        fold.APPENDED: Facts(
            "log", {**node, **same("base_offset", "last_offset", "size_bytes")}, {"role": ["follower"]}
        ),
        fold.JOINED: Facts(changes, {**at, **same("joined")}),
    }
    return by_partition(fold.catch_ups, facts, fold.COLUMNS, fold.cut)
