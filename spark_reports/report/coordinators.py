"""Sentences on transactions and groups: how long they kept whom from reading."""

from __future__ import annotations

from collections.abc import Mapping

from spark_reports.report.rows import Row, Rows
from spark_reports.report.words import clock, counted, seconds
from spark_reports.transforms.availability import SHORTEST_STALL_US


def coordinator_notes(tables: Mapping[str, Rows]) -> list[str]:
    """The worst of each kind, if it lasted for as long as a stall does."""
    notes = []
    held = max(tables["lso_stalls"], key=_length, default=None)
    if held is not None and _length(held) >= SHORTEST_STALL_US:
        notes.append(
            f"Readers of committed records waited for up to {seconds(_length(held))}: from {clock(held['from_us'])} s "
            f"on the last stable offset of {held['topic']}-{held['partition']} stood at {held['last_stable_offset']}, "
            f"{counted(held['waiting_records'], 'record')} below the high watermark."
        )
    unread = max(tables["group_unread"], key=lambda row: row["unread_us"], default=None)
    if unread is not None and unread["unread_us"] >= SHORTEST_STALL_US:
        notes.append(
            f"For {seconds(unread['unread_us'])} of {seconds(unread['observed_us'])} no member of group "
            f"{unread['group']} that ran was to read {unread['topic']}-{unread['partition']}."
        )
    return notes


def _length(row: Row) -> int:
    return int(row["until_us"] - row["from_us"])
