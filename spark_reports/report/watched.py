"""A cluster that was only watched, without its clients: its page is about leaders, ISRs and high watermarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_reports.report.rows import Rows
from spark_reports.report.words import counted, joined, seconds, were

Tables = Mapping[str, Rows]

NOTE = "A watch does not see producers and their acks: it cannot say whether a record was lost."
_WELL = "Every partition had a leader and min.insync.replicas in sync, and no high watermark stood still."


def said(tables: Tables) -> tuple[str, str]:
    """The headline and its mood. in: that run's rows of availability and hw_stalls"""
    availability, stood = tables["availability"], tables["hw_stalls"]
    leaderless = sum(us > 0 for us in availability.values("offline_us"))
    under = sum(us > 0 for us in availability.values("under_min_isr_us"))
    still = len(set(zip(stood.values("topic"), stood.values("partition"), strict=True)))
    found = [
        (leaderless, f"{were(leaderless)} without a leader"),
        (under, f"{were(under)} below min.insync.replicas"),
        (still, "had a high watermark that stood still"),
    ]
    troubles = [f"{counted(count, 'partition')} {what}" for count, what in found if count]
    return (f"{joined(troubles)}.", "warn") if troubles else (_WELL, "ok")


def without_clients(settings: Mapping[str, str], contents: Sequence[tuple[str, Any, Any]]) -> dict[str, Any]:
    """Both without what only a producer knows, or a run of a scenario."""
    return {
        "settings": {name: value for name, value in settings.items() if name not in ("acks", "seed")},
        "contents": [one for one in contents if one[0] != "acks"],
    }


def stood_still(tables: Tables) -> tuple[str, str, str]:
    """A tile: the longest such time. in: that run's rows of hw_stalls"""
    longest = max((row["until_us"] - row["from_us"] for row in tables["hw_stalls"]), default=0)
    return (seconds(longest), "longest time a high watermark stood still", "warn" if longest else "good")
