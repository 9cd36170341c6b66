"""Releases are ordered: what a release has follows from an earlier one that brought it, and from no list of names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.rules import PROFILES, KafkaRelease, as_of, first_era
from tests.test_subpackages import ROOT

NAME = re.compile(r"(kafka-)?\d{1,2}\.\d{1,2}")
HOLDS_A_NAME = {"release", "era", "profile", "written_for", "DEFAULT_PROFILE"}


def test_ten_comes_after_eight() -> None:
    assert (
        KafkaRelease(0, 8)
        < KafkaRelease(0, 10)
        < KafkaRelease(0, 11)
        < KafkaRelease(2, 0)
        <= KafkaRelease.parsed("kafka-2.0")
    )
    assert [KafkaRelease.parsed(name) for name in PROFILES] == sorted(rules.release for rules in PROFILES.values())
    assert [str(KafkaRelease.parsed(name)) for name in ("0.10", "kafka-4.1")] == ["0.10", "4.1"]
    assert KafkaRelease(4, 1) <= (4, 1, 0) < KafkaRelease(4, 2), "a patch of a release"


@pytest.mark.parametrize(
    ("release", "found"),
    [
        (KafkaRelease(2, 0), "old"),
        (KafkaRelease(2, 1), "new"),
        (KafkaRelease(3, 3), "new"),
        (KafkaRelease(4, 0), "newest"),
    ],
    ids=str,
)
def test_the_last_change_counts(release: KafkaRelease, found: str) -> None:
    assert as_of({KafkaRelease(2, 1): "new", KafkaRelease(3, 9): "newest"}, release, "old") == found


def test_a_change_between_two_eras_comes_with_the_later_one() -> None:
    assert (first_era(KafkaRelease(4, 0)), first_era(KafkaRelease(3, 9))) == ("kafka-4.1", "kafka-3.9")


def comparisons(tree: ast.AST) -> Iterator[ast.Compare]:
    """Comparisons of an era by name, but for the question whether there is such an era (`in PROFILES`)."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        if not any(isinstance(way, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)) for way in node.ops):
            continue
        if any(isinstance(one, ast.Name) and one.id == "PROFILES" for one in node.comparators):
            continue
        if any(map(is_name_of_era, (node.left, *node.comparators))):
            yield node


def is_name_of_era(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return NAME.fullmatch(text) is not None
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in HOLDS_A_NAME
        case ast.Subscript(slice=ast.Constant(value=key)):
            return key in HOLDS_A_NAME
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(map(is_name_of_era, parts))
    return False


def found_in(path: Path, *, is_test: bool) -> list[str]:
    """What a test asserts decides nothing; what it does before that, it decides by order, too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    asserted = {id(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)} if is_test else set()
    return [f"{path}:{node.lineno}: {ast.unparse(node)}" for node in comparisons(tree) if id(node) not in asserted]


@pytest.mark.soak
@pytest.mark.parametrize("place", ["replica", "controller", "cluster", "scenarios", "spark_reports", "tests"])
def test_nothing_compares_the_name_of_an_era(place: str) -> None:
    found = [line for path in sorted((ROOT / place).rglob("*.py")) for line in found_in(path, is_test=place == "tests")]
    assert not found, f"compare releases by order: {found}"


@pytest.mark.parametrize(
    "text",
    [
        "x = rules.release == y",
        "if era != 'kafka-4.1': pass",
        "x = era in ('0.8', '0.10')",
        "x = one in {'4.1'}",
        "x = row['profile'] in y",
    ],
)
def test_a_comparison_by_name_is_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "by_name.py"
    path.write_text(text)
    assert len(found_in(path, is_test=True)) == 1
    path.write_text("ok = rules.release >= KafkaRelease(4, 1)\nif profile not in PROFILES: pass\nversion == '4.1.0'\n")
    assert found_in(path, is_test=False) == []
