"""The sign for each kind of event, on the terminal and on the report's page.

A cross is the sign for data loss and for a failed check or invariant.
"""

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
    "down": "▼",
    "ended": "⊣",
    "up": "↺",
    "refused": "▲",
    "note": "·",
    "bad": "✕",
}

UNDOING = ("heal", "release", "resume")
"""Verbs of steps that end a fault. Their event `fault_began` has the sign for the end of a fault."""

_OF_EVENT: Mapping[str, str] = {
    "fault_began": "fault",
    "fault_ended": "undone",
    "node_stopped": "down",
    "node_started": "up",
    "quorum_leader_elected": "elected",
    "controller_resigned": "note",
    "voters_changed": "note",
    "voter_change_failed": "refused",
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
    "share_states_loaded": "note",
    "share_state_reset": "note",
    "share_member_joined": "note",
    "share_member_left": "note",
    "share_partition_loaded": "note",
    "share_records_acquired": "note",
    "share_records_settled": "note",
    "share_acknowledgement_failed": "refused",
    "share_dead_letters_sent": "note",
    "transactions_loaded": "note",
    "transaction_state_changed": "note",
    "transaction_marker_written": "note",
    "batch_appended": "refused",
    "client_quota_altered": "note",
    "position_reset": "note",
    "fetch_failed": "refused",
    "request_refused": "refused",
    "response_injected": "fault",
    "offset_commit_refused": "refused",
    "deserialization_failed": "refused",
    "client_throttled": "note",
    "transaction_failed": "refused",
    "last_stable_offset_moved": "note",
    "run_finished": "note",
}


IN_ORDER = "stop"
"""The value of `how` for a process that closes its files and connections before it ends. All other ends are abrupt."""


def sign_of(event: str, verb: str | None = None, how: str | None = None) -> str:
    """Return the key in SIGNS for an event. `verb` is the verb of a fault; `how` is the field of `node_stopped`."""
    if verb in UNDOING:
        return "undone"
    return "ended" if how == IN_ORDER else _OF_EVENT[event]


# --------------------------------------------------------------------------------------------------------- broker marks
#
# The colour and the dash pattern of a broker in all charts: on pages, in the report and in the terminal.
#
# Colour is never the only distinction: each broker also has a dash pattern and a label. Hues follow Okabe and Ito.


@dataclass(frozen=True, slots=True)
class BrokerMark:
    """The colour and dash pattern of a broker.

    Attributes:
        light: colour on a light background, with a contrast of at least 4.5.
        dark: colour on a dark background, with a contrast of at least 4.5.
        dash: lengths of strokes and gaps in pixels; empty for a solid line.
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
"""The marks, in order; `mark_places` assigns them to brokers."""


def in_broker_order(names: Iterable[str]) -> list[str]:
    """Return names sorted by their words and numbers, such as alpha before beta, and b2 before b10."""

    def words_and_numbers(name: str) -> tuple[list[int | str], str]:
        # Words and numbers alternate, so numbers are compared with numbers. b1 and b01 have equal numbers.
        parts = enumerate(re.split(r"(\d+)", name))
        return [int(part) if index % 2 else part for index, part in parts], name

    return sorted(names, key=words_and_numbers)


def mark_places(brokers: Iterable[str]) -> dict[str, int]:
    """Return the index in BROKER_MARKS for each broker. From the ninth broker on, marks are used again."""
    return {name: index % len(BROKER_MARKS) for index, name in enumerate(in_broker_order(brokers))}
