"""One thing has one name, and one name means one thing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("replica", "controller", "cluster", "scenarios", "spark_reports")


def modules() -> Iterator[tuple[str, ast.Module]]:
    """(path from the root, its tree) of every module of the packages."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def test_a_public_class_name_is_declared_once() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
