"""Members of KIP-848 that subscribe by a pattern: the coordinator looks up which topics it describes, and keeps that.

A heartbeat that brings a new pattern is answered first; the topics are looked up after that, all patterns of the group
together, so that one change is one group epoch. They are looked up again when a topic was made, when a pattern was not
looked up yet, and from time to time, but not within ten seconds.

source: GroupMetadataManager.maybeUpdateRegularExpressions, refreshRegularExpressions, handleRegularExpressionsResult,
maybeDeleteResolvedRegularExpressions
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.groups.consumer_change import Change
from cluster.groups.desk import Desk
from cluster.groups.state.consumer_group import ConsumerGroup, GroupContents
from cluster.groups.state.consumer_member import ConsumerMember
from cluster.groups.state.consumer_records import GroupEpochRecord, PatternRecord, ResolvedPattern
from cluster.groups.topic_directory import TopicDirectory
from cluster.topic_pattern import matching

LEAST_INTERVAL_MS = 10_000
"""source: REGEX_BATCH_REFRESH_MIN_INTERVAL_MS"""


class PatternSubscriptions:
    """Of all consumer groups of one coordinator."""

    def __init__(self, desk: Desk, topics: TopicDirectory) -> None:
        self._desk = desk
        self._topics = topics

    def update(self, change: Change, before: str | None, after: str | None, now_us: int) -> bool:
        """A member's pattern was `before` and is `after`, which its record says already. Returns whether the topics of
        the group are others at once.
        """
        group, is_new, raised = change.group, False, False
        if after != before:
            if before and before not in group.patterns:
                change.add(PatternRecord(before, None))
            if after:
                is_new = sum(member.topic_regex == after for member in group.members.values()) == 1
                raised = after in group.resolved
            elif before:
                raised = True
        if group.patterns and group.resolving is None and self._is_due(group, change.kept, is_new, now_us):
            group.resolving = self._desk.after(0, lambda at_us: self._resolve(group, at_us), now_us)
        return raised

    def _is_due(self, group: ConsumerGroup, known: GroupContents, is_new: bool, now_us: int) -> bool:
        """known: as of the heartbeat before; all patterns are looked up at one time"""
        last = next(iter(known.resolved.values()), None)
        if last is None:
            return True
        waited_ms = self._desk.wall_ms(now_us) - last.resolved_ms
        if waited_ms <= LEAST_INTERVAL_MS:
            return False
        return (
            is_new
            or len(group.patterns) != len(known.resolved)
            or last.version < self._topics.version_of_newest
            or waited_ms > self._desk.settings.regex_refresh_interval_ms
        )

    def _resolve(self, group: ConsumerGroup, now_us: int) -> None:
        """Simplified: it takes no time; Kafka has a thread of its own for it."""
        group.resolving = None
        change, raised = Change(group), False
        for pattern in group.patterns:
            topics = tuple(sorted(matching(pattern, self._topics.names())))
            known = group.resolved.get(pattern)
            raised |= topics != (() if known is None else known.topics)
            resolved = ResolvedPattern(topics, self._topics.version, self._desk.wall_ms(now_us))
            change.add(PatternRecord(pattern, resolved))
        metadata_hash = self._topics.hash_of(group.subscribed)
        if raised or metadata_hash != group.metadata_hash:
            change.add(GroupEpochRecord(group.epoch + 1, metadata_hash))
        # What cannot be written is looked up again with a heartbeat.
        change.write(self._desk, lambda error, written_us: None, now_us)

    @staticmethod
    def forget(change: Change, gone: Iterable[ConsumerMember]) -> None:
        """Patterns that only these members had, which are out of the group."""
        patterns = dict.fromkeys(member.topic_regex for member in gone if member.topic_regex)
        for pattern in patterns:
            if pattern not in change.group.patterns:
                change.add(PatternRecord(pattern, None))
