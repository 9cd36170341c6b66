"""One thing has one name, and one name means one thing; comments and docstrings are in plain English."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("replica", "controller", "cluster", "scenarios", "spark_reports")

WORDY = re.compile(r"\b(?:is told|are told|was told|were told|of ours|at work|somebody|whoever|tells)\b", re.IGNORECASE)
"""Phrases that a reader stops at: say who does what."""


def modules() -> Iterator[tuple[str, str]]:
    """(path from the root, text) of every module of the packages."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text()


def prose(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every comment and docstring."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield token.start[0], token.string


def test_a_public_class_name_is_declared_once() -> None:
    places: dict[str, list[str]] = {}
    for path, text in modules():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_comments_and_docstrings_are_plain() -> None:
    found = []
    for path, text in modules():
        for line, said in prose(text):
            for match in WORDY.finditer(" ".join(said.split())):
                found.append(f"{path}:{line}: {match[0]}")
    assert not found, "\n".join(found)
