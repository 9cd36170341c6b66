"""A text in lines."""

from __future__ import annotations

from scenarios.terminal.style import folded


def test_a_name_with_hyphens_stays_whole() -> None:
    lines = folded("kafka-east-1 leads: kafka-east-2 and kafka-east-3 follow", 20, "> ", "  ")
    assert lines == ["> kafka-east-1", "  leads:", "  kafka-east-2 and", "  kafka-east-3", "  follow"]


def test_there_is_always_a_line() -> None:
    assert folded("", 20) == [""]
    assert folded("", 20, "> ") == ["> "]
