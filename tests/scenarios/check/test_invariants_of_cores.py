"""Invariants that read the brokers and controllers themselves, beside the trace: logs, epochs, metadata."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_probe import FakeProbe
from trace_script import HERE, T0, TraceScript

from replica.trace import events as trace
from scenarios.check.invariants.checker import (
    EpochCacheSnapshot,
    FetcherSnapshot,
    LeaderSnapshot,
    MetadataLogSnapshot,
)

Story = Callable[[TraceScript], None]


ALL = ("b1", "b2", "b3")


def leader(maximal: tuple[str, ...], *, pending: bool = False, epoch: int = 0) -> FakeProbe:
    return FakeProbe(leaders=[LeaderSnapshot("b1", T0, epoch, 0, ALL, maximal, pending)])


def fetching(*pairs: tuple[str, str]) -> FakeProbe:
    return FakeProbe(fetching=[FetcherSnapshot(node, T0, target) for node, target in pairs])


def cache(*entries: tuple[int, int]) -> FakeProbe:
    return FakeProbe(caches=[EpochCacheSnapshot("b1", T0, entries)])


@pytest.mark.parametrize(
    ("probe", "broken"),
    [
        (leader(ALL), []),
        (leader(("b1", "b2")), ["S7"]),
        (leader((*ALL, "b4")), ["S7"]),
        (leader((*ALL, "b4"), pending=True), []),
        (leader(("b1",), epoch=-1), []),
        (fetching(("b2", "b1"), ("b3", "b1")), []),
        (fetching(("b2", "b1"), ("b2", "b1")), ["S23"]),
        (fetching(("b1", "b2")), ["S23"]),
        (fetching(("b2", "b3")), ["S23"]),
        (cache((0, 0)), []),
        (cache((0, 0), (1, 2)), []),
        (cache((0, 1)), ["S15"]),
        (cache((0, 0), (1, 1)), ["S15"]),
        (cache(), ["S15"]),
        (FakeProbe(metadata=(9, {"b1": 9, "b2": 4})), []),
        (FakeProbe(metadata=(9, {"b1": 10})), ["S22"]),
    ],
)
def test_what_the_cores_show(probe: FakeProbe, broken: list[str]) -> None:
    script = TraceScript()
    script.replicate("r0", "r1")
    script.checker.probe(probe)
    assert script.broken() == broken


@pytest.mark.parametrize(
    ("next_proposal", "counted", "pending", "broken"),
    [
        (None, ("b1", "b2"), True, ["S7"]),  # what the controller has accepted is pending, and not counted on
        (None, ALL, True, []),
        (None, ("b1", "b2"), False, []),  # repeated metadata made the leader forget it
        (("b1",), ("b1", "b2"), True, []),  # and it has proposed something else since then
    ],
)
def test_a_leader_may_have_forgotten_what_the_controller_accepts(
    next_proposal: tuple[str, ...] | None, counted: tuple[str, ...], pending: bool, broken: list[str]
) -> None:
    script = TraceScript()
    script.commit_isr("b1", "b2")
    known = script.partition_epoch
    script.propose(ALL)
    script.commit_isr(*ALL, by="b1")
    if next_proposal is not None:
        script.propose(next_proposal, on=known)
    isr = ("b1", "b2")
    script.checker.probe(FakeProbe(leaders=[LeaderSnapshot("b1", T0, 0, known, isr, counted, pending)]))
    assert script.broken() == broken


@pytest.mark.parametrize(
    ("entries", "broken"), [([(0, 1), (1, 2)], []), ([(1, 2)], ["S15"]), ([(0, 0), (1, 2)], ["S15"])]
)
def test_of_deleted_records_an_epoch_cache_says_nothing(entries: list[tuple[int, int]], broken: list[str]) -> None:
    script = TraceScript()
    script.replicate("r0", "r1")
    script.emit(trace.LogStartOffsetAdvanced(node="b1", role="leader", **HERE, leader_epoch=0, log_start_offset=1))
    script.checker.probe(cache(*entries))
    assert script.broken() == broken


def test_metadata_logs_of_controllers_match_below_what_is_committed() -> None:
    script = TraceScript()
    c1 = MetadataLogSnapshot("c1", ((1, 0), (2, 7)), 9, 8)
    behind = MetadataLogSnapshot("c2", ((1, 0),), 7, 3)
    ahead = MetadataLogSnapshot("c3", ((1, 0), (2, 7), (3, 8)), 12, 0)
    script.checker.probe(FakeProbe(metadata_of_controllers=[c1, behind, ahead]))
    assert "S22" not in script.broken()
    overwritten = MetadataLogSnapshot("c3", ((1, 0), (3, 7)), 9, 8)
    script.checker.probe(FakeProbe(metadata_of_controllers=[c1, overwritten]))
    assert "S22" in script.broken()


def test_applied_metadata_never_falls_within_a_life() -> None:
    script = TraceScript()
    script.checker.probe(FakeProbe(metadata=(9, {"b1": 9, "b2": 9})))
    script.start("b1")
    script.checker.probe(FakeProbe(metadata=(9, {"b1": 2, "b2": 9})))
    assert script.broken() == []
    script.checker.probe(FakeProbe(metadata=(9, {"b1": 2, "b2": 8})))
    assert script.broken() == ["S22"]


def test_metadata_logs_that_are_cut_are_compared_from_where_they_begin() -> None:
    script = TraceScript()
    whole = MetadataLogSnapshot("c1", ((1, 0), (2, 7)), 9, 9)
    cut = MetadataLogSnapshot("c2", ((2, 8),), 11, 11, 8)
    script.checker.probe(FakeProbe(metadata_of_controllers=[cut, whole]))
    later = MetadataLogSnapshot("c1", ((3, 15),), 17, 16, 15)
    script.checker.probe(FakeProbe(metadata_of_controllers=[later, cut]))
    assert not script.checker.violations
    wrong = MetadataLogSnapshot("c3", ((1, 8), (3, 15)), 17, 16, 8)
    script.checker.probe(FakeProbe(metadata_of_controllers=[wrong]))
    assert not script.checker.violations, "what lies before 15 is known of nobody any more"
    wrong = MetadataLogSnapshot("c3", ((4, 15),), 17, 16, 15)
    script.checker.probe(FakeProbe(metadata_of_controllers=[wrong]))
    assert [violation.invariant for violation in script.checker.violations] == ["S22"]
