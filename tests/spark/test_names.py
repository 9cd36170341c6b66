"""The reports name events by the constants that are declared with them: a renamed event is renamed here too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import spark_reports
from replica.trace import names
from replica.trace.events import EVENT_NAMES

REPORTS = Path(spark_reports.__file__).parent


def spelled_facts(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in EVENT_NAMES.values():
            yield f"{node.lineno}: {node.value}"


def test_no_fact_is_named_by_a_string() -> None:
    assert [*spelled_facts('a = "leader_elected"\nb = "led"')] == ["1: leader_elected"]
    files = sorted(file for file in REPORTS.rglob("*.py") if file.parent.name != "notebook")  # Those are for users.
    assert {str(file): found for file in files if (found := [*spelled_facts(file.read_text(encoding="utf-8"))])} == {}


def test_the_constants_are_the_facts_names() -> None:
    told = {name: value for name, value in vars(names).items() if name.isupper()}
    assert told == {name: name.lower() for name in told}
    assert {*told.values()} <= {*EVENT_NAMES.values()}
