"""Log end offset and high watermark of every replica over time, as that replica's own events state them."""

from __future__ import annotations

from replica.trace.names import (
    FOLLOWING_BEGAN,
    LEADERSHIP_BEGAN,
    LOG_RECOVERED,
    LOG_TRUNCATED,
    NODE_STOPPED,
    PARTITION_CREATED,
    REASSIGNMENT_BEGAN,
)
from spark_reports.folds import timeline as fold
from spark_reports.folds.events import Folding
from spark_reports.folds.facts import Facts, same

_OWN_STATE = (LEADERSHIP_BEGAN, FOLLOWING_BEGAN, LOG_TRUNCATED, LOG_RECOVERED)


def replica_timeline() -> Folding:
    """One row per event that moved, or restated, a replica's ends; a stop of its broker is a row without offsets.

    out: *REPLICA_KEY, at_us, seq, event, log_end_offset, high_watermark, uncommitted_records (LEO - HW; null while the
         high watermark is not known), reason. Truncations make `log_end_offset` fall, so order by seq, not by offset.
    """
    its = same("node", "at_us", "seq", "event")
    appended = {**its, **same("log_end_offset")}
    ends = {**appended, **same("high_watermark", "reason")}
    facts = {
        fold.PLACED: Facts(
            "control", same("seq", "replicas"), {"event": [PARTITION_CREATED, REASSIGNMENT_BEGAN]}, ahead=True
        ),
        fold.STATED: Facts("control", ends, {"event": _OWN_STATE}),
        fold.APPENDED: Facts("log", appended),
        fold.MOVED: Facts("high_watermark", ends),
        fold.STOPPED: Facts("control", {**its, **same("reason")}, {"event": [NODE_STOPPED]}, everywhere=True),
    }
    return Folding(fold.replica_timeline, facts, fold.COLUMNS)
