"""Share groups through faults: what was accepted is not delivered again, and everything else is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from replica.causes import ShareCause
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

FILE = """\
schema: 1
id: shares
title: A share group
duration: {duration}
profile: kafka-4.3
cluster:
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config:
    offsets.topic.num.partitions: 1
    share.coordinator.state.topic.num.partitions: 1
    group.share.min.record.lock.duration.ms: 5000
    group.share.record.lock.duration.ms: 5000
topics:
  t: {{partitions: {{0: [b1, b2, b3]}}, config: {{min.insync.replicas: 2}}}}
workloads:
{workloads}
timeline:
{steps}
"""
MEMBERS = """\
  p1: {kind: producer, topic: t}
  s1: {kind: share_consumer, topic: t, process: 40ms, config: {group.id: g, max.poll.records: 5}}
  s2: {kind: share_consumer, topic: t, process: 2s, config: {group.id: g, max.poll.records: 5}}
"""
EIGHTY = "  - {at: 12s, produce: {from: p1, count: 2}, every: 500ms, times: 40}\n"
STEPS = {
    "leader killed": "  - {at: 20s, kill: b1}\n  - {at: 30s, start: b1}\n",
    "share coordinator killed": "  - {at: 20s, kill: 'leader(__share_group_state-0)'}\n",
}
SOAK = {
    "nothing": "",
    "group coordinator killed": "  - {at: 20s, kill: 'leader(__consumer_offsets-0)'}\n",
    "a member killed": "  - {at: 20s, kill: s2}\n",
    "a member frozen": "  - {at: 20s, pause: s2, for: 20s}\n",
    "leader cut off": "  - {at: 20s, partition: [[b1, s1], [b2, b3, c1, p1, s2]]}\n  - {at: 30s, heal: all}\n",
}
LEADER_MOVES = ("leader killed", "leader cut off")
CASES = [*STEPS, *(pytest.param(name, marks=pytest.mark.soak) for name in SOAK)]


def played(workloads: str, steps: str, duration: str = "70s") -> Sequence[TraceEvent]:
    text = FILE.format(duration=duration, workloads=workloads, steps=steps)
    run = run_scenario(load_text(text, "shares.yaml").scenario, runs_dir=None, keep_rows=True)
    assert not run.verdict.our_bug and not run.verdict.kinds, run.verdict
    return [row.event for row in run.rows]


def settled(events: Sequence[TraceEvent]) -> list[trace.ShareRecordsSettled]:
    return [one for one in events if isinstance(one, trace.ShareRecordsSettled)]


@pytest.mark.parametrize("name", CASES)
def test_what_was_accepted_is_not_delivered_again(name: str) -> None:
    events = played(MEMBERS, EIGHTY + {**STEPS, **SOAK}[name])
    delivered = [one for one in events if isinstance(one, trace.ShareRecordsAcquired)]
    final = {offset for one in settled(events) if one.state != "available" for offset in range(one.first, one.last + 1)}
    assert final == set(range(80)), "each record was accepted, or given up after its last delivery"
    assert {one.node for one in delivered} == ({"b1", "b2"} if name in LEADER_MOVES else {"b1"})


STOPPED = """\
  p1: {{kind: producer, topic: t}}
  s1:
    kind: share_consumer
    topic: t
    process: 500ms
    stop: 12.2s
    config: {{group.id: g, share.acknowledgement.mode: {mode}}}
"""


@pytest.mark.parametrize(("mode", "cause"), [("implicit", ShareCause.SESSION_ENDED), ("explicit", ShareCause.ACCEPTED)])
def test_close_accepts_the_last_poll_only_if_the_application_has(mode: str, cause: ShareCause) -> None:
    events = played(STOPPED.format(mode=mode), "  - {at: 12s, produce: {from: p1, count: 1}}\n", "15s")
    assert [one.share_cause for one in settled(events)] == [cause]
    assert [one.cause.value for one in events if isinstance(one, trace.ShareMemberLeft)] == ["leave_request"]


WITH_MARKERS = """\
  p1: {kind: producer, topic: t, config: {transactional.id: x}, transaction: {records: 2}}
  s1:
    kind: share_consumer
    topic: t
    reject: r1
    config: {group.id: g, share.acknowledgement.mode: explicit}
"""


def test_offsets_without_a_record_are_acknowledged_as_gaps() -> None:
    events = played(WITH_MARKERS, "  - {at: 12s, produce: {from: p1, count: 2}}\n", "16s")
    read = [one.record for one in events if isinstance(one, trace.ShareRecordRead)]
    assert read == ["r0", "r1"]
    assert {(one.first, one.share_cause) for one in settled(events)} == {
        (0, ShareCause.ACCEPTED),
        (1, ShareCause.REJECTED),
        (2, ShareCause.GAP),
    }
