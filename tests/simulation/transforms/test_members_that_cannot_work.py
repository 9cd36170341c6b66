"""Clients that are refused, or too slow: the run says so, and the group goes on without them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from replica.trace import events as trace
from scenarios.cli.screens import run_screen
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario
from scenarios.terminal.style import Style
from tests.soak import one_in, one_row_in

FILE = """\
schema: 1
id: members
title: Members of a group
duration: {duration}
cluster: {{brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}, config: {{{brokers}}}}}
topics:
  t: {{partitions: {{0: [b1, b2, b3], 1: [b2, b3, b1]}}, config: {{min.insync.replicas: 2}}}}
  o: {{partitions: {{0: [b1, b2, b3]}}, config: {{min.insync.replicas: 2}}}}
workloads:
  p1: {{kind: producer, topic: t, {producer}}}
{members}
timeline: [{timeline}]
expect: {{verdict: ok}}
"""


def run(
    *members: str, duration: str = "30s", producer: str = "rate: 1/s", timeline: str = "", brokers: str = ""
) -> RunResult:
    text = FILE.format(
        duration=duration,
        brokers=brokers,
        producer=producer,
        timeline=timeline,
        members="\n".join(f"  {member}" for member in members),
    )
    return run_scenario(load_text(text, "members.yaml").scenario, runs_dir=None, keep_rows=True)


def member(name: str, config: str = "", **keys: str) -> str:
    more = "".join(f"{key}: {value}, " for key, value in keys.items())
    return (
        f"{name}: {{kind: transform, topic: t, to: o, {more}"
        f"config: {{group.id: g, auto.offset.reset: earliest, {config}}}}}"
    )


def refusals(result: RunResult) -> list[tuple[str, str, str]]:
    """Client, API and error, each once, in order."""
    events = (row.event for row in result.rows)
    found = [(one.client, one.api, one.error) for one in events if isinstance(one, trace.RequestRefused)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(
    ("config", "brokers", "api", "error"),
    one_row_in(
        4,
        [
            ("session.timeout.ms: 3600000", "", "JoinGroup", "INVALID_SESSION_TIMEOUT"),
            ("session.timeout.ms: 5000, heartbeat.interval.ms: 1000", "", "JoinGroup", "INVALID_SESSION_TIMEOUT"),
            (
                "group.protocol: consumer, group.remote.assignor: mine",
                "",
                "ConsumerGroupHeartbeat",
                "UNSUPPORTED_ASSIGNOR",
            ),
            (
                "transactional.id: x, transaction.timeout.ms: 900000",
                "transaction.max.timeout.ms: 60000",
                "InitProducerId",
                "INVALID_TRANSACTION_TIMEOUT",
            ),
        ],
    ),
)
def test_who_is_refused_for_good_is_named_and_counted(config: str, brokers: str, api: str, error: str) -> None:
    result = run(member("w", config), brokers=brokers)
    assert ("w", api, error) in refusals(result)
    assert result.ledger.errors["w"][error].count >= 1, "`expect: errors` sees it"
    said = [line.text for line in result.story.lines if f"refused {api} " in line.text and error in line.text]
    assert len(said) == 1 and said[0].startswith("b"), "one line, of the broker that refused"
    ends = [row.event for row in result.rows if isinstance(row.event, trace.NodeStopped) and row.event.node == "w"]
    assert len(ends) == 1, "its application has ended"
    assert list(result.summary["never_read"]) == ["w"]
    screen = run_screen(result.summary, result.story, Style(plain=True, width=100))
    assert "w READ NOTHING: " in screen.split("NOTHING LOST")[1], "the good word does not stand alone"


def test_a_full_group_refuses_the_next_member_and_the_first_reads_on() -> None:
    result = run(member("w1"), member("w2", start="12s"), brokers="group.max.size: 1")
    assert refusals(result) == [("w2", "JoinGroup", "GROUP_MAX_SIZE_REACHED")]
    assert result.summary["never_read"] == {
        "w2": "b1 refused JoinGroup from w2 for group g with GROUP_MAX_SIZE_REACHED"
    }


def test_a_group_that_works_has_no_refusals_and_a_spare_member_is_no_reader_that_never_read() -> None:
    result = run(member("w1"), member("w2", start="10s"), member("w3", start="11s"))
    assert refusals(result) == []
    assert "never_read" not in result.summary


@pytest.mark.soak
@pytest.mark.parametrize("protocol", one_in(2, ["classic", "consumer"]))
def test_a_member_that_polls_too_late_leaves_and_its_commit_is_refused(protocol: str) -> None:
    of_both = f"group.protocol: {protocol}"
    slow = member("w1", f"{of_both}, max.poll.interval.ms: 10000", batch="10", process="3s")
    result = run(slow, member("w2", of_both, start="15s"), duration="60s", producer="rate: 1/s, stop: 40s")
    left = [(row.at_us, row.event) for row in result.rows if isinstance(row.event, trace.GroupMemberLeft)]
    assert left and left[0][1].client_id == "w1"
    refused = [(row.at_us, row.event) for row in result.rows if isinstance(row.event, trace.OffsetCommitRefused)]
    assert refused and refused[0][0] > left[0][0]
    assert {(event.client, event.error) for _, event in refused} == {("w1", "UNKNOWN_MEMBER_ID")}
    again = [
        row.at_us
        for row in result.rows
        if isinstance(row.event, trace.GroupMemberJoined) and row.event.client_id == "w1"
    ]
    assert again[-1] > refused[0][0], "it joins with its next poll"
    assert result.broken == ()


@pytest.mark.soak
def test_deserializers_are_part_of_a_poll() -> None:
    result = run(
        member("w1", "max.poll.interval.ms: 10000", batch="10", cpu="{deserializer: 3s}"),
        duration="60s",
        producer="rate: 2/s",
    )
    left = [row.event.sentence() for row in result.rows if isinstance(row.event, trace.GroupMemberLeft)]
    assert left and "consumer poll timeout has expired." in left[0]
    assert ("w1", "OffsetCommit", "UNKNOWN_MEMBER_ID") in refusals(result)


@pytest.mark.soak
def test_a_static_member_that_polls_too_late_falls_silent_until_its_session_ends() -> None:
    config = "group.instance.id: i1, max.poll.interval.ms: 10000, session.timeout.ms: 12000"
    result = run(member("w1", config, batch="20", process="3s"), duration="60s", producer="rate: 2/s")
    left = [row.event.sentence() for row in result.rows if isinstance(row.event, trace.GroupMemberLeft)]
    assert left and "no request from it arrived for 12 s" in left[0]


@pytest.mark.soak
def test_small_polls_are_in_time() -> None:
    config = "max.poll.interval.ms: 10000, max.poll.records: 3"
    result = run(member("w1", config, batch="10", process="3s"), duration="60s", producer="rate: 2/s")
    assert not [row for row in result.rows if isinstance(row.event, trace.GroupMemberLeft)]
    assert refusals(result) == []


def test_a_reader_without_a_group_reads_as_fast_as_it_works() -> None:
    reader = "r1: {kind: consumer, topic: t, process: 2s, config: {auto.offset.reset: earliest, max.poll.records: 1}}"
    result = run(reader, duration="20s", producer="rate: 10/s")
    times = [row.at_us for row in result.rows if isinstance(row.event, trace.RecordRead)]
    assert 8 <= len(times) <= 10
    assert {later - earlier for earlier, later in pairwise(times)} == {2_000_000}


@pytest.mark.soak
@pytest.mark.parametrize("timeline", ["", "{at: 20s, kill: w1}", "{at: 20s, stop: w1}"])
def test_a_static_members_successor_is_its_reader(timeline: str) -> None:
    """It has the other's partitions at once, whether that one has ended or has not heard yet that it was replaced."""
    first, second = "group.instance.id: i1", "group.instance.id: i2"
    result = run(
        member("w1", first), member("w2", second), member("w3", first, start="21s"), duration="60s", timeline=timeline
    )
    unread = result.summary["without_reader"]["g"]
    assert max(one["longest_us"] for one in unread.values()) < 2_500_000
