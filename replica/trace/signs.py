"""The signs before what happened: an event has the same one on the terminal and on the report's page."""

from __future__ import annotations

from collections.abc import Mapping

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
