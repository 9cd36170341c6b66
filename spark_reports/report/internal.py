"""Topics that brokers keep for themselves stand apart: the report's statements on topics concern those of users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from replica.trace.events import INTERNAL_TOPICS
from spark_reports.report.rows import Rows
from spark_reports.report.words import counted, joined, seconds

Tables = Mapping[str, Rows]

_KEPT_THERE = {"__consumer_offsets": "Consumer groups", "__transaction_state": "Transactions"}
"""What has its coordinator where the leader of one of these topics is."""
_TROUBLES = ("offline_us", "under_replicated_us", "under_min_isr_us")


class InternalTopic(NamedTuple):
    """`worst`: the longest time in each kind of trouble that one of its partitions had, microseconds."""

    topic: str
    partitions: int
    elections: int
    isr_changes: int
    offline: int
    worst: dict[str, int]


def users(tables: Tables) -> Tables:
    """The same tables without rows about internal topics."""
    return {
        name: rows.without("topic", INTERNAL_TOPICS) if "topic" in rows.columns else rows
        for name, rows in tables.items()
    }


def internal_topics(tables: Tables) -> list[InternalTopic]:
    """in: rows of one run's tables, internal topics included"""
    found = []
    for topic in sorted(set(tables["availability"].values("topic")).intersection(INTERNAL_TOPICS)):
        parts = list(tables["availability"].where(topic=topic))
        worst = {trouble: max(row[trouble] for row in parts) for trouble in _TROUBLES}
        offline = sum(row["offline_us"] > 0 for row in parts)
        counts = len(tables["elections"].where(topic=topic)), len(tables["isr_changes"].where(topic=topic))
        found.append(InternalTopic(topic, len(parts), *counts, offline, worst))
    return found


def internal_notes(topics: Sequence[InternalTopic]) -> list[str]:
    """Sentences, if groups or transactions were without their coordinators."""
    hit = [topic for topic in topics if topic.offline]
    if not hit:
        return []
    named = joined([f"{topic.offline} of {counted(topic.partitions, 'partition')} of {topic.topic}" for topic in hit])
    longest = seconds(max(topic.worst["offline_us"] for topic in hit))
    kept = " and ".join(_KEPT_THERE[topic.topic] for topic in hit if topic.topic in _KEPT_THERE)
    consequence = f" {kept.capitalize()} kept there had no coordinator then." if kept else ""
    return [f"Up to {longest} without a running leader: {named}.{consequence}"]
