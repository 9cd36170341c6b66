"""The tape of a running cluster: its parts lead to the state that the trace ends in, however small the tape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_tape import play, replicas_at_the_end

from replica.ids import TopicPartition
from scenarios.view.live_tape import PART_EVENTS_MAX, LiveTape, PageProgress
from scenarios.view.tape import Tape, record_tape

LISTS = ("at", "kind", "node", "part", "text", "sender", "key", "changes")


def read_on(found: dict[str, Any], part: dict[str, Any]) -> None:
    """As the page does."""
    if part["begins"]:
        found.clear()
    for name in ("partitions", "records", "texts", "kinds", *LISTS):
        found.setdefault(name, []).extend(part[name])
    found["nodes"] = part["nodes"]


def as_tape(found: dict[str, Any]) -> Tape:
    tape = Tape(changes=found["changes"])
    for name, _ in found["nodes"]:
        tape.nodes.place(name)
    for name in found["partitions"]:
        tape.partitions.place(name)
    return tape


@pytest.mark.parametrize("events_max", [10_000, 60])
def test_parts_lead_to_the_state_of_the_cluster(events_max: int, tmp_path: Path) -> None:
    rows, _ = play("elr-exhausted", tmp_path)
    live = LiveTape({}, events_max)
    found: dict[str, Any] = {}
    early, late = PageProgress(), PageProgress()
    longest = tapes = 0
    for number, row in enumerate(rows):
        live(row)
        if number % 7 == 0:
            part = live.part(early)
            tapes += part["begins"]
            read_on(found, part)
            longest = max(longest, len(found["at"]))
    seen_late: dict[str, Any] = {}
    read_on(seen_late, live.part(late))
    read_on(found, live.part(early))
    assert not live.has_more(early) and not live.has_more(late)
    assert (found == seen_late, longest <= events_max, tapes > 1) == (True, True, events_max == 60)
    expected = replicas_at_the_end(record_tape(rows))
    assert replicas_at_the_end(as_tape(found)) == expected
    assert all(len(found[name]) == len(found["at"]) for name in LISTS) and len(found["at"]) < PART_EVENTS_MAX


def test_a_part_names_what_is_gone_when_that_has_changed() -> None:
    gone: dict[TopicPartition, list[str]] = {}
    live, page = LiveTape(gone), PageProgress()
    assert live.part(page)["lost"] == [], "a page that was connected before may have others"
    gone[TopicPartition("t", 0)] = ["r1", "r2"]
    part = live.part(page)
    assert (part["gone"], part["lost"]) == (2, ["r1", "r2"])
    assert "lost" not in live.part(page)
    gone.clear()
    assert live.part(page)["lost"] == []
