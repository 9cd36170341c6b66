"""Texts of the page about internal topics, transactions, groups, and clusters observed by `highwater watch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from replica.trace.events import INTERNAL_TOPICS
from replica.trace.ranges import counted
from spark_reports.report.rows import Row, Rows
from spark_reports.report.words import clock, joined, seconds, were
from spark_reports.transforms.availability import SHORTEST_STALL_US

Tables = Mapping[str, Rows]

_KEPT_THERE = {"__consumer_offsets": "Consumer groups", "__transaction_state": "Transactions"}
"""What depends on the leaders of an internal topic, by topic."""
_TROUBLES = ("offline_us", "under_replicated_us", "under_min_isr_us")


class InternalTopic(NamedTuple):
    """The troubles of a topic that brokers use internally.

    Attributes:
        partitions, elections, isr_changes: numbers of these.
        offline: number of partitions that had no running leader for a time.
        worst: longest time of a partition in each kind of trouble, in microseconds.
    """

    topic: str
    partitions: int
    elections: int
    isr_changes: int
    offline: int
    worst: dict[str, int]


def users(tables: Tables) -> Tables:
    """Return the tables without rows about internal topics."""
    return {
        name: rows.without("topic", INTERNAL_TOPICS) if "topic" in rows.columns else rows
        for name, rows in tables.items()
    }


def internal_topics(tables: Tables) -> list[InternalTopic]:
    """Return the internal topics of a run and their troubles. `tables` has the run's rows."""
    found = []
    for topic in sorted(set(tables["availability"].values("topic")).intersection(INTERNAL_TOPICS)):
        parts = list(tables["availability"].where(topic=topic))
        worst = {trouble: max(row[trouble] for row in parts) for trouble in _TROUBLES}
        offline = sum(row["offline_us"] > 0 for row in parts)
        counts = len(tables["elections"].where(topic=topic)), len(tables["isr_changes"].where(topic=topic))
        found.append(InternalTopic(topic, len(parts), *counts, offline, worst))
    return found


def internal_notes(topics: Sequence[InternalTopic]) -> list[str]:
    """Return a note on internal topics that had no running leader, and what had no coordinator then; or no note."""
    hit = [topic for topic in topics if topic.offline]
    if not hit:
        return []
    named = joined([f"{topic.offline} of {counted(topic.partitions, 'partition')} of {topic.topic}" for topic in hit])
    longest = seconds(max(topic.worst["offline_us"] for topic in hit))
    kept = " and ".join(_KEPT_THERE[topic.topic] for topic in hit if topic.topic in _KEPT_THERE)
    consequence = f" {kept.capitalize()} stored there had no coordinator at that time." if kept else ""
    return [f"{named} had no running leader for up to {longest}.{consequence}"]


def coordinator_notes(tables: Tables) -> list[str]:
    """Return notes on the longest stall of a last stable offset and on the longest unread partition of a group.

    Times below SHORTEST_STALL_US are left out.
    """
    notes = []
    held = max(tables["lso_stalls"], key=_length, default=None)
    if held is not None and _length(held) >= SHORTEST_STALL_US:
        notes.append(
            f"Consumers with read_committed waited for up to {seconds(_length(held))}: from {clock(held['from_us'])} s "
            f"on, the last stable offset of {held['topic']}-{held['partition']} stood at {held['last_stable_offset']}, "
            f"{counted(held['waiting_records'], 'record')} below the high watermark."
        )
    unread = max(tables["group_unread"], key=lambda row: row["unread_us"], default=None)
    if unread is not None and unread["unread_us"] >= SHORTEST_STALL_US:
        notes.append(
            f"For {seconds(unread['unread_us'])} of {seconds(unread['observed_us'])} no running member of group "
            f"{unread['group']} owned {unread['topic']}-{unread['partition']}."
        )
    return notes


def _length(row: Row) -> int:
    return int(row["until_us"] - row["from_us"])


WATCHED_NOTE = "A watch does not see producers and their acks, so it cannot tell whether a record was lost."
_WATCHED_WELL = "Every partition had a leader and enough replicas in sync, and no high watermark stood still."


def watched_headline(tables: Tables) -> tuple[str, str]:
    """Return (headline, mood) of a watched cluster. The mood is `warn` or `ok`.

    `tables` has the run's rows of availability and hw_stalls.
    """
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
    return (f"{joined(troubles)}.", "warn") if troubles else (_WATCHED_WELL, "ok")


def without_clients(settings: Mapping[str, str], contents: Sequence[tuple[str, Any, Any]]) -> dict[str, Any]:
    """Return settings and contents of a page without entries that need a producer or a scenario."""
    return {
        "settings": {name: value for name, value in settings.items() if name not in ("acks", "seed")},
        "contents": [content for content in contents if content[0] != "acks"],
    }


def stood_still_tile(tables: Tables) -> tuple[str, str, str]:
    """Return the tile (text, label, CSS class) of the longest time that a high watermark did not move."""
    longest = max((row["until_us"] - row["from_us"] for row in tables["hw_stalls"]), default=0)
    return (seconds(longest), "longest time a high watermark stood still", "warn" if longest else "good")
