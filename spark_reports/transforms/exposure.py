"""Data at risk: records whose producers got the ack while they stood above the high watermark."""

from __future__ import annotations

import pyarrow as pa

from replica.trace.names import RECORD_ACKED
from spark_reports.folds import exposure as fold
from spark_reports.folds.events import Folding
from spark_reports.folds.facts import Facts, same


def data_at_risk(terms: pa.Table) -> Folding:
    """One row per moment at which the number of acked records above their leader's high watermark changed.

    They would be gone if that leader died then. A record counts from its ack until the leader's high watermark passes
    it, or until the term ends: from then on its fate depends on the next leader (see `lost_records`).
    in:  leader_terms()
    out: *TERM_KEY, acks, at_us, seq, at_risk_records
    """
    at = same("seq", "at_us")
    term = {"seq": "from_seq", "at_us": "from_us", "value": "high_watermark"}
    moved = {**at, **same("leader_epoch"), "leader": "node", "value": "high_watermark"}
    facts = {
        fold.TERM: Facts(terms, {**term, **same("leader", "leader_epoch", "until_seq", "until_us")}),
        fold.MOVED: Facts("high_watermark", moved, {"role": ["leader"]}),
        fold.ACKED: Facts(
            "produce", {**at, "leader": "peer", **same("acks"), "value": "offset"}, {"event": [RECORD_ACKED]}
        ),
    }
    return Folding(fold.data_at_risk, facts, fold.COLUMNS)
