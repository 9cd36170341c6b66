"""enable.auto.commit: with the interval, before a rebalance, at the end; in polls alone; by both protocols."""

from __future__ import annotations

from itertools import pairwise

import pytest

from replica.trace.events import OffsetCommitted, PositionIntercepted, RecordRead
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario

SECOND = 1_000_000
PROTOCOLS = ("range", "cooperative-sticky", "consumer")
SCENARIO = """
schema: 1
id: auto
title: Offsets that are committed by the consumer
duration: {duration}
cluster: {{brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}, config: {{offsets.topic.num.partitions: 1}}}}
topics:
  t: {{partitions: {{0: [b1, b2, b3], 1: [b2, b3, b1]}}}}
  out: {{partitions: {{0: [b3, b1, b2]}}}}
workloads:
  p1: {{kind: producer, topic: t}}
  m1: {{kind: transform, topic: t, to: out, {workload}, config: {{{config}}}}}
  m2: {{kind: transform, topic: t, to: out, {workload}, start: {second}, config: {{{config}}}}}
timeline:
{steps}
expect: {{verdict: {verdict}}}
"""


def play(
    *steps: str,
    protocol: str = "range",
    interval_ms: int = 600_000,
    workload: str = "batch: 5",
    config: str = "",
    second: str = "55s",
    verdict: str = "ok",
    duration: str = "60s",
) -> RunResult:
    by = "group.protocol: consumer" if protocol == "consumer" else f"partition.assignment.strategy: {protocol}"
    keys = f"group.id: g, auto.offset.reset: earliest, enable.auto.commit: true, {by}, "
    keys += f"auto.commit.interval.ms: {interval_ms}{config}"
    text = SCENARIO.format(
        duration=duration,
        workload=workload,
        config=keys,
        second=second,
        verdict=verdict,
        steps="\n".join(f"  - {one}" for one in steps),
    )
    result = run_scenario(load_text(text, "auto.yaml").scenario, runs_dir=None, keep_rows=True)
    assert [(each.what, each.why) for each in result.expectations if not each.held] == []
    return result


def committed(result: RunResult) -> list[tuple[int, int, int]]:
    """(seconds, partition, offset)"""
    return [
        (row.at_us // SECOND, row.event.partition, row.event.offset)
        for row in result.rows
        if isinstance(row.event, OffsetCommitted)
    ]


def reads(result: RunResult) -> list[str]:
    return sorted(row.event.record for row in result.rows if isinstance(row.event, RecordRead))


SENDS = (
    "{at: 12s, produce: {from: p1, count: 2, partition: 0}}",
    "{at: 12s, produce: {from: p1, count: 2, partition: 1}}",
)


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_commits_once_an_interval_where_the_next_poll_begins(protocol: str) -> None:
    result = play(*SENDS, protocol=protocol, interval_ms=10_000, second="59s")
    times = [at for at, partition, _ in committed(result) if partition == 0]
    assert len(times) >= 4 and {later - sooner for sooner, later in pairwise(times[:4])} <= {10, 11}
    assert {(partition, offset) for at, partition, offset in committed(result) if at > 23} == {(0, 2), (1, 2)}


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_before_a_rebalance_takes_partitions_away_it_commits(protocol: str) -> None:
    result = play(*SENDS, protocol=protocol, second="20s")
    assert reads(result) == ["r0", "r1", "r2", "r3"]  # the newcomer begins behind what was read
    assert (1, 2) in {(partition, offset) for at, partition, offset in committed(result) if 20 <= at < 30}


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_closes_commits_and_then_leaves(protocol: str) -> None:
    result = play(*SENDS, "{at: 20s, stop: m1}", protocol=protocol, second="30s")
    assert [one for one in committed(result) if one[0] == 20] == [(20, 0, 2), (20, 1, 2)]
    assert reads(result) == ["r0", "r1", "r2", "r3"]


def test_a_member_that_is_killed_commits_nothing() -> None:
    """The newcomer does everything again."""
    result = play(
        *SENDS, "{at: 20s, kill: m1}", config=", session.timeout.ms: 6000", second="21s", verdict="duplicated"
    )
    assert [one for one in committed(result) if one[0] < 21] == []
    assert reads(result) == sorted(["r0", "r1", "r2", "r3"] * 2)


def test_an_application_that_does_not_poll_commits_nothing() -> None:
    """Its outputs linger, and it waits for them."""
    result = play(*SENDS, interval_ms=1000, config=", linger.ms: 10000", second="59s")
    during = [offset for at, _, offset in committed(result) if 12 < at < 22]
    assert during == []
    assert {(partition, offset) for at, partition, offset in committed(result) if at > 35} == {(0, 2), (1, 2)}


@pytest.mark.soak
def test_it_commits_what_polls_have_returned_and_not_what_was_only_fetched() -> None:
    """Twenty records come with one fetch; a poll returns one, and takes some milliseconds to be done with it."""
    whole = "{at: 8s, produce: {from: p1, count: 20, batch: 20, partition: 0}}"
    result = play(whole, interval_ms=20, workload="batch: 1", second="8.5s", duration="9s")
    offsets = [offset for _, partition, offset in committed(result) if partition == 0]
    assert offsets == sorted(offsets)
    assert {offset for offset in offsets if 0 < offset < 20} and offsets[-1] == 20


def test_interceptors_hear_of_each_commit_that_was_taken() -> None:
    result = play(*SENDS, interval_ms=10_000, config=", interceptor.classes: AuditInterceptor", second="59s")
    heard = [
        (row.event.partition, row.event.offset)
        for row in result.rows
        if isinstance(row.event, PositionIntercepted) and row.event.hook == "onCommit"
    ]
    assert heard and heard[-2:] == [(0, 2), (1, 2)]
    assert len(heard) == len(committed(result))


@pytest.mark.parametrize(
    ("workload", "config", "what"),
    [
        ("offsets: after", "enable.auto.commit: true", "commit twice"),
        ("flush: false", "enable.auto.commit: false", "wait for its outputs"),
        ("flush: false", "enable.auto.commit: true, transactional.id: x", "wait for its outputs"),
    ],
)
def test_a_file_says_who_commits_once(workload: str, config: str, what: str) -> None:
    text = SCENARIO.format(
        duration="60s", workload=workload, config=f"group.id: g, {config}", second="9s", verdict="ok", steps="  []"
    )
    with pytest.raises(ScenarioInvalid) as raised:
        load_text(text.replace("timeline:\n  []", "timeline: []"), "auto.yaml")
    assert all(what in one.title for one in raised.value.diagnostics)
