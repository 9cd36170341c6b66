"""The end of a watch in plain values: who held back high watermarks, and for how long."""

from __future__ import annotations

from typing import Any

from scenarios.watch.cluster_watch import ClusterWatch
from scenarios.watch.watched import broker_name, names_of


def outcome_of(watch: ClusterWatch, bootstrap: str, now_us: int) -> dict[str, Any]:
    """`watched` in summary.json; times in microseconds since the watch began"""
    return {
        "cluster_id": watch.cluster_id,
        "bootstrap": bootstrap,
        "lasted_us": now_us,
        "holders": {
            broker_name(broker_id): {"us": holder.us, "partitions": len(holder.partitions)}
            for broker_id, holder in sorted(watch.holds.by_broker.items())
        },
        "holds": [
            {
                "partition": str(hold.name),
                "high_watermark": hold.high_watermark,
                "from_us": hold.from_us,
                "until_us": hold.until_us,
                "waiting_records": hold.waiting,
                "held_by": list(names_of(hold.holders)),
                "under_min_isr_us": hold.under_min_isr_us,
            }
            for hold in watch.holds.longest()
        ],
    }
