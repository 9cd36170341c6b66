"""The columns that an `events` entry may name, for each event of the trace, and short words for some of them."""

from __future__ import annotations

from functools import cache

from replica.trace.events import CLASS_OF_EVENT, columns_of_event

ALIASES_OF_EVENT = {"isr_changed": "isr_committed"}


@cache
def columns_of(event: str) -> dict[str, str]:
    """The word in a file -> the column meant.

    `partition: t-0` stands for topic and partition; `epoch` for leader_epoch; `to` for log_end_offset of a truncation;
    `broker` for the node itself where an event has no column `broker`; `fault` events keep their columns.
    """
    names = [column.name for column in columns_of_event(CLASS_OF_EVENT[event])]
    columns = {name: name for name in names if name not in ("topic", "reason")}
    if "leader_epoch" in names:
        columns["epoch"] = "leader_epoch"
    if event == "log_truncated":
        columns["to"] = "log_end_offset"
    if "broker" not in names and "node" in names:
        columns["broker"] = "node"
    return columns


@cache
def _kinds(event: str) -> dict[str, str]:
    return {column.name: column.type for column in columns_of_event(CLASS_OF_EVENT[event])}


def value_kind(event: str, column: str) -> str:
    """int64, string, bool, list<string> or list<int64>."""
    return _kinds(event)[column]
