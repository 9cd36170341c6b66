"""The signs before what happened: an event has the same one on the terminal and on the report's page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SIGNS: Mapping[str, str] = {
    "fault": "⚡",
    "undone": "↺",
    "isr": "◎",
    "elected": "♛",
    "offline": "∅",
    "truncated": "✂",
    "lost": "✕",
    "down": "✕",
    "ended": "⊣",
    "up": "↺",
    "refused": "▲",
    "note": "·",
    "bad": "✕",
}

UNDOING = ("heal", "release", "resume")
"""Verbs of steps that undo a fault: `fault_began` states what they do, and it is drawn as the end of a fault."""

_OF_EVENT: Mapping[str, str] = {
    "fault_began": "fault",
    "fault_ended": "undone",
    "node_stopped": "down",
    "node_started": "up",
    "quorum_leader_elected": "elected",
    "controller_resigned": "note",
    "broker_fenced": "note",
    "leader_elected": "elected",
    "leadership_began": "note",
    "partition_went_offline": "offline",
    "election_refused": "refused",
    "reassignment_began": "note",
    "reassignment_completed": "note",
    "reassignment_cancelled": "note",
    "replica_deleted": "note",
    "topic_deleted": "note",
    "log_start_offset_advanced": "note",
    "records_expired": "note",
    "log_compacted": "note",
    "isr_committed": "isr",
    "elr_committed": "isr",
    "isr_rejected": "refused",
    "log_recovered": "truncated",
    "log_truncated": "truncated",
    "data_lost": "lost",
    "batch_corrupted": "lost",
    "log_dir_failed": "lost",
    "produce_refused": "refused",
    "connection_closed": "refused",
    "request_crashed": "refused",
    "check_made": "bad",
    "invariant_broken": "bad",
    "groups_loaded": "note",
    "group_member_joined": "note",
    "group_member_left": "note",
    "group_migrated": "note",
    "group_rebalanced": "note",
    "group_removed": "note",
    "transactions_loaded": "note",
    "transaction_state_changed": "note",
    "transaction_marker_written": "note",
    "batch_appended": "refused",
    "client_quota_altered": "note",
    "position_reset": "note",
    "fetch_failed": "refused",
    "request_refused": "refused",
    "offset_commit_refused": "refused",
    "deserialization_failed": "refused",
    "client_throttled": "note",
    "transaction_failed": "refused",
    "last_stable_offset_moved": "note",
    "run_finished": "note",
}


IN_ORDER = "stop"
"""How a process ends that closes what it has open: by a step, or of its own accord. All other ends are deaths."""


def sign_of(event: str, verb: str | None = None, how: str | None = None) -> str:
    """A name of SIGNS, for an event in a story. verb: of a fault     how: of a stopped node"""
    if verb in UNDOING:
        return "undone"
    return "ended" if how == IN_ORDER else _OF_EVENT[event]


# --------------------------------------------------------------------------------------------------------- broker marks
#
# How a broker looks in every picture of a trace: one colour and one dash, on the page, in the report, in a terminal.
#
# A colour is never alone: each broker has its dash, too, and its name beside it. Hues after Okabe and Ito.


@dataclass(frozen=True, slots=True)
class BrokerMark:
    """light, dark: the colour on a light and on a dark ground, each with a contrast of at least 4.5 to it

    dash: lengths of a line's strokes and gaps, pixels; empty for a solid line
    """

    light: str
    dark: str
    dash: tuple[int, ...]


BROKER_MARKS = (
    BrokerMark("#566475", "#a9b7c6", ()),
    BrokerMark("#b35c00", "#ffab57", (7, 3)),
    BrokerMark("#00805f", "#4fd3ab", (2, 3)),
    BrokerMark("#876900", "#e3c34f", (9, 3, 2, 3)),
    BrokerMark("#7a4bb0", "#c9a6f5", (12, 4)),
    BrokerMark("#0a74b8", "#6fbdf3", (4, 2)),
    BrokerMark("#a8326e", "#f59ac6", (2, 6)),
    BrokerMark("#46702a", "#a5d47f", (9, 3, 2, 3, 2, 3)),
)
"""`mark_places` says which a broker has."""


def in_broker_order(names: Iterable[str]) -> list[str]:
    """alpha before beta, b2 before b10."""

    def words_and_numbers(name: str) -> tuple[list[int | str], str]:
        # They take turns, so that numbers meet numbers. b1 and b01 have the same ones.
        parts = enumerate(re.split(r"(\d+)", name))
        return [int(part) if place % 2 else part for place, part in parts], name

    return sorted(names, key=words_and_numbers)


def mark_places(brokers: Iterable[str]) -> dict[str, int]:
    """Of all brokers of a cluster, in their order: the place of each one's mark. From the ninth on they come again."""
    return {name: place % len(BROKER_MARKS) for place, name in enumerate(in_broker_order(brokers))}
