"""A client of the registry that had no connection gets the events it missed as soon as it reconnects."""

from __future__ import annotations

from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

COMES_UNSEEN = """\
schema: 1
id: comes-unseen
title: A broker comes back while the controller has no connection to the registry
profile: kafka-2.1
duration: 60s
cluster: {brokers: {b1: {}, b2: {}, b3: {}}, config: {zookeeper.session.timeout.ms: 9000}}
topics: {t: {partitions: {0: [b1, b2, b3]}}}
workloads: {r1: {kind: consumer, topic: t}}
timeline:
  - {at: 2s, kill: b3, as: k}
  - {at: 20s, restart: c1}
  - {at: 20s, cut: {between: [b1, c1]}, for: 5s}
  - {at: 21s, start: "@k"}
"""


def test_a_watch_that_is_set_again_fires_at_once_for_what_was_missed() -> None:
    """The registry gets no other request in the meantime. source: DataTree.setWatches"""
    result = run_scenario(load_text(COMES_UNSEEN, "test.yaml").scenario, runs_dir=None, keep_rows=True)
    events = [(row.at_us, row.event) for row in result.rows]
    registered = [at_us for at_us, event in events if isinstance(event, trace.BrokerRegistered)]
    seen = [at_us for at_us, event in events if isinstance(event, trace.BrokerUnfenced) and event.broker == "b3"]
    expired = [event.broker for _, event in events if isinstance(event, trace.SessionExpired)]
    assert expired == ["b3"] and registered[-1] < 25_000_000 < seen[-1] < 35_000_000
