"""Clients of scenarios among brokers of each era: they send what is offered, and nothing before they know."""

from __future__ import annotations

import pytest
from small_scenario import load

from cluster.broker.apis.offered import offered_under
from cluster.client.api_versions import UNDISCOVERED, NodeApiVersions, discovers_versions
from cluster.protocol.versions import API_VERSIONS, FETCH, METADATA, OFFSET_FETCH, PRODUCE, api_key, api_name
from replica.rules import PROFILES
from replica.trace.events import RecordAcked, RecordRead, RequestCompleted
from scenarios.run.runner import RunResult, run_scenario
from scenarios.run.worlds import measured
from tests.soak import one_in

CLIENTS = ("p1", "c1r", "m1")
HEAD = """\
schema: 1
id: small
title: Small
duration: 40s
profile: {profile}
cluster:
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config: {{offsets.topic.num.partitions: 1}}
topics:
  t: {{partitions: {{0: [b1, b2, b3]}}}}
  out: {{partitions: {{0: [b2, b3, b1]}}}}
workloads:
  p1: {{kind: producer, topic: t}}
  c1r: {{kind: consumer, topic: out}}
  m1: {{kind: transform, topic: t, to: out, start: 2s, {offsets}, config: {{{group}, auto.offset.reset: earliest}}}}
"""


def played(profile: str, *steps: str, head: str = HEAD) -> RunResult:
    if PROFILES[profile].transactions == "none":
        text = head.format(profile=profile, offsets="offsets: after", group="group.id: g")
    else:
        text = head.format(profile=profile, offsets="group-metadata: id", group="group.id: g, transactional.id: x")
    steps = steps or ("{at: 20s, produce: {from: p1, count: 3}}",)
    return run_scenario(load(*steps, head=text), runs_dir=None, keep_rows=True, world=measured)


def sent(run: RunResult) -> dict[int, set[int]]:
    """API key -> versions, of all clients."""
    found: dict[int, set[int]] = {}
    for row in run.rows:
        if isinstance(row.event, RequestCompleted) and row.event.peer in CLIENTS:
            found.setdefault(api_key(row.event.api), set()).add(row.event.api_version)
    return found


@pytest.mark.soak
@pytest.mark.parametrize("profile", one_in(4, PROFILES))
def test_each_request_has_the_newest_version_that_both_know(profile: str) -> None:
    rules = PROFILES[profile]
    run = played(profile)
    acked = {row.event.record for row in run.rows if isinstance(row.event, RecordAcked)}
    read = {row.event.record for row in run.rows if isinstance(row.event, RecordRead) and row.event.topic == "out"}
    assert len(acked) == 6, "inputs and outputs"
    assert len(read) == 3
    asks = discovers_versions(rules.release)
    versions = NodeApiVersions(offered_under(rules)) if asks else UNDISCOVERED
    found = sent(run)
    assert (API_VERSIONS in found) == asks
    assert {PRODUCE, FETCH, METADATA, OFFSET_FETCH} <= found.keys()
    asked_first = found.pop(API_VERSIONS, None)
    if asked_first is not None:
        known = min(4, offered_under(rules)[API_VERSIONS][1])
        assert asked_first == {4, known if known in (3, 4) else 0}
    v1_only = {"Produce": 11, "EndTxn": 4, "TxnOffsetCommit": 4}
    for key, used in found.items():
        usable = versions.usable(key)
        assert usable is not None
        newest = {usable}
        if rules.transactions != "v2" and api_name(key) in v1_only:
            newest.add(min(usable, v1_only[api_name(key)]))
        assert used <= newest, api_name(key)


def test_nothing_is_sent_before_the_answer_that_a_fault_holds() -> None:
    head = HEAD.replace(
        "{{kind: producer, topic: t}}", "{{kind: producer, topic: t, start: 10s, rate: 1/s, stop: 12s}}"
    )
    run = played(
        "kafka-4.1",
        "{at: 5s, hold: {from: b1, to: p1, api: ApiVersions, part: response}, as: versions}",
        "{at: 5s, hold: {from: b2, to: p1, api: ApiVersions, part: response}, as: versions2}",
        "{at: 5s, hold: {from: b3, to: p1, api: ApiVersions, part: response}, as: versions3}",
        "{at: 25s, release: versions}",
        "{at: 25s, release: versions2}",
        "{at: 25s, release: versions3}",
        head=head,
    )
    of_p1 = [row for row in run.rows if isinstance(row.event, RequestCompleted) and row.event.peer == "p1"]
    before = [row.event.api for row in of_p1 if row.at_us < 25_000_000]  # type: ignore[attr-defined]
    assert before and set(before) == {"ApiVersions"}
    acked = [row.at_us for row in run.rows if isinstance(row.event, RecordAcked) and row.event.client == "p1"]
    assert acked and min(acked) > 25_000_000
