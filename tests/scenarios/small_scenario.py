"""A small valid scenario and ways to change it, shared by the tests of the language."""

from __future__ import annotations

from scenarios.language.diagnostics import Diagnostic, ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario, ScenarioFile

HEAD = """\
schema: 1
id: small
title: Small
duration: 60s
cluster:
  brokers: {b1: {rack: A}, b2: {rack: B}, b3: {rack: B}}
topics:
  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}
workloads:
  p1: {kind: producer, topic: t}
  p2: {kind: producer, topic: t}
  c1r: {kind: consumer, topic: t}
"""
PLAIN_EXPECT = "expect: {verdict: ok}\n"


def file_of(*steps: str, head: str = HEAD, expect: str = PLAIN_EXPECT) -> str:
    """A whole scenario with these timeline steps, each a YAML flow mapping."""
    timeline = "".join(f"  - {step}\n" for step in steps) if steps else ""
    return f"{head}timeline:{' []' if not steps else ''}\n{timeline}{expect}"


def load(*steps: str, head: str = HEAD, expect: str = PLAIN_EXPECT) -> Scenario:
    return load_text(file_of(*steps, head=head, expect=expect), "test.yaml").scenario


def load_whole(text: str, *overrides: str) -> ScenarioFile:
    return load_text(text, "test.yaml", overrides)


def errors_of(text: str, *overrides: str) -> tuple[Diagnostic, ...]:
    """The problems of a text; () if it loads."""
    try:
        load_text(text, "test.yaml", overrides)
    except ScenarioInvalid as invalid:
        return tuple(diagnostic for diagnostic in invalid.diagnostics if diagnostic.severity == "error")
    return ()


def caret_text(diagnostic: Diagnostic) -> str:
    """The text the caret of a diagnostic stands under."""
    place = diagnostic.place
    assert place is not None
    return place.source.lines[place.line][place.column : place.column + place.length]
