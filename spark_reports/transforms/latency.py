"""How long producers waited for the word that a record is written, by acks."""

from __future__ import annotations

import functools

from pyspark.sql import DataFrame

from replica.trace.events import OUTSIDE
from replica.trace.names import RECORD_ACKED, RECORD_HANDED_OVER
from spark_reports.folds import latency as fold
from spark_reports.folds.files import Facts, same
from spark_reports.from_files import RunFiles

_PERCENTILES = {"p50_us": 500, "p95_us": 950, "p99_us": 990, "p999_us": 999}
"""In thousandths."""
AT_PRODUCER, AT_BROKER = "producer", "broker"


def ack_latency(files: RunFiles) -> DataFrame:
    """One row per topic, acks level and place of measurement; exact percentiles (nearest rank) of the time to the ack.

    For producers of the scenario the time is measured in the producer: from the send call to the ack, retries included;
    for acks=0 to the hand-over to the socket. For clients from outside it is measured in the broker: from the arrival
    of the acked request until the kernel has its answer; for acks=0 the time is unknown, and there is no figure.
    out: run, topic, acks, measured_at (producer or broker), records, p50_us, p95_us, p99_us, p999_us, max_us
    """
    answered = Facts("produce", same("client", "acks", "latency_us"), {"event": [RECORD_ACKED, RECORD_HANDED_OVER]})
    count = functools.partial(fold.counted, OUTSIDE, AT_BROKER, AT_PRODUCER)
    counts = files.gathered(count, {"answered": answered}, fold.COUNTED)
    return files.of_rows("ack_latency", fold.percentiles(_PERCENTILES, counts))
