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

WORDY = re.compile(
    r"\b(?:is told|are told|was told|were told|of ours|at work|nobody|anybody|somebody|everybody|whoever|tells)\b",
    re.IGNORECASE,
)
"""Phrases that a reader stops at: say who does what."""

READERS_FILES = (
    "scenarios/cli/**/*.py", "scenarios/cli/**/*.md", "scenarios/explain/**/*.py", "scenarios/*.md",
    "spark_reports/**/*.py", "spark_reports/**/*.md", "spark_reports/**/*.j2", "README.md",
)  # fmt: skip
"""Files with the words of screens, pages and docs about records."""

REPORTS_NOBODY = (
    "spark_reports/folds/groups.py",
    "spark_reports/transforms/groups.py",
)
"""Modules that still say `nobody`, as the reports' tables do."""

TITLES_KEPT = """
    alterpartition-empty-disk bitflip-mid-log burst-isr-by-messages:in-time clock-jump-shrinks-isr:follower
    connection-storm:kip-402 consumer-offset-out-of-range:none controller-dies-with-follower
    controller-down-isr-frozen:the-leader-dies dirty-read-without-hw:high-watermark elr-switched-on:after-the-shrink
    elr-switched-on:too-late follower-ahead-halts:unclean-elections-allowed follower-loses-controller:any
    gc-pause-follower group-zombie-commits:wakes-in-time kafka-7128-early-join:quick-copy
    kip101-hw-truncation-loss:leader-epochs kip320-consumer-truncation:no-unclean-election
    kraft-controller-failover:one-controller kraft-controller-isolated:brokers-too leader-isolated-from-followers
    luck-or-law:lucky min-isr-equals-rf:min-isr-2 one-way-response-loss:idle
    preferred-leader-imbalance:no-auto-rebalance rolling-restart-controlled slow-follower-bandwidth:acks-1
    slow-follower-bandwidth:open-loop slow-follower-stays-in-isr:acks-1 slow-leader-disk:slow-follower
    stuck-under-min-isr:min-isr-1 throttle-below-ingest:no-throttle zombie-controller:no-fencing
"""
"""`scenario` or `scenario:variant`. A title is in the first event of a trace: a new title is a new digest."""


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


def yaml_files() -> Iterator[tuple[str, str]]:
    """(path from the root, text) of every scenario of the catalogue and of every sheet of the lab."""
    for folder in ("library", "lab"):
        for path in sorted((ROOT / "scenarios" / folder).rglob("*.yaml")):
            yield str(path.relative_to(ROOT)), path.read_text()


def yaml_comments(text: str) -> Iterator[tuple[int, str]]:
    """(first line, text) of every comment; lines that follow each other are one."""
    first, said = 0, ""
    for line, content in enumerate(text.splitlines(), 1):
        found = re.search(r"(?:^|\s)#(.*)", content)
        if said and (found is None or content[: found.start()].strip()):
            yield first, said
            said = ""
        if found:
            first, said = (first, f"{said} {found[1]}") if said else (line, found[1])
    if said:
        yield first, said


def yaml_titles(path: str, text: str) -> Iterator[tuple[str, str]]:
    """(`scenario`, or `scenario:variant`, text) of every title."""
    section = variant = ""
    for content in text.splitlines():
        if found := re.match(r"(\w+):", content):
            section = found[1]
        if section == "variants" and (found := re.match(r"  - id: ([\w-]+)", content)):
            variant = f":{found[1]}"
        if found := re.match(r"(?:    )?title: (.*)", content):
            yield Path(path).stem + variant, found[1]


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
                if path not in REPORTS_NOBODY or match[0].lower() != "nobody":
                    found.append(f"{path}:{line}: {match[0]}")
    assert not found, "\n".join(found)


def test_a_record_that_is_not_there_is_lost_or_unseen_or_missing() -> None:
    """A name for each case, those of LANGUAGE.md, and no other word for all of them."""
    paths = [path for pattern in READERS_FILES for path in ROOT.glob(pattern)]
    assert len(paths) > 100
    assert [str(path.relative_to(ROOT)) for path in paths if "vanish" in path.read_text().lower()] == []


def test_stories_and_questions_of_scenarios_are_plain() -> None:
    found = []
    for path, text in yaml_files():
        questions = [(line, said) for line, said in enumerate(text.splitlines(), 1) if said.startswith("question: ")]
        for line, said in [*yaml_comments(text), *questions]:
            for match in WORDY.finditer(" ".join(said.split())):
                found.append(f"{path}:{line}: {match[0]}")
    assert not found, "\n".join(found)


def test_titles_of_scenarios_are_plain() -> None:
    found = {name for path, text in yaml_files() for name, title in yaml_titles(path, text) if WORDY.search(title)}
    assert found == set(TITLES_KEPT.split())
