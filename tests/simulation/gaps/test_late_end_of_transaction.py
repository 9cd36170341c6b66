"""A request to end a transaction that comes late ends the next one (KAFKA-17754), unless each has its own epoch."""

from __future__ import annotations

import pytest

from replica.rules import PROFILES
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario
from tests.soak import one_in

FILE = """\
schema: 1
id: late-end
title: An EndTxn reaches its coordinator when the next transaction is open
profile: PROFILE
duration: 80s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {transaction.state.log.num.partitions: 1}
topics:
  t: {partitions: {0: [b1, b2, b3], 1: [b1, b2, b3]}, config: {min.insync.replicas: 2}}
workloads:
  p1:
    kind: producer
    topic: t
    config: {acks: all, transactional.id: x, request.timeout.ms: 5000, delivery.timeout.ms: 60000}
    transaction: {records: 4, abort-every: EVERY}
timeline:
  - {at: 4s, elect: {partition: __transaction_state-0, broker: b2}}
  - {at: 5s, produce: {from: p1, count: BEFORE, partition: 0}}
  - {at: 8s, hold: {from: p1, to: b2, api: EndTxn, part: request}, as: late}
  - {at: 10s, produce: {from: p1, count: 1, partition: 0}}
  - {at: 12s, elect: {partition: __transaction_state-0, broker: b3}}
  - {at: 25s, produce: {from: p1, count: FIRST, partition: 0}}
  - {at: 30s, elect: {partition: __transaction_state-0, broker: b2}}
  - {at: 35s, release: late}
  - {at: 50s, produce: {from: p1, count: REST, partition: SECOND}}
expect: {}
"""


@pytest.mark.soak
@pytest.mark.parametrize("profile", one_in(4, ["kafka-4.1", "kafka-2.7", "kafka-3.5", "kafka-3.9"]))
@pytest.mark.parametrize(
    ("every", "before", "first", "second", "said"),
    [
        (2, 3, 2, 0, "r4 of transaction 2 of p1 is committed, but its producer requested that it be aborted"),
        (3, 11, 2, 1, "r12 of transaction 4 of p1 is aborted, but its producer was told that it is committed"),
        (3, 11, 3, 0, "r12 of transaction 4 of p1 is aborted, but its producer"),
    ],
    ids=["a commit", "an abort of one half", "an abort before the last record"],
)
def test_it_is_an_anomaly_that_older_rules_do_not_rule_out(
    profile: str, every: int, before: int, first: int, second: int, said: str
) -> None:
    values = {"PROFILE": profile, "EVERY": every, "BEFORE": before, "FIRST": first, "REST": 4 - first, "SECOND": second}
    rules, text = PROFILES[profile], FILE
    for name, value in values.items():
        text = text.replace(name, str(value))
    verdict = run_scenario(load_text(text, "late-end.yaml").scenario, runs_dir=None).verdict
    # 3.9 asks about the last record: its partition is in no transaction, so the producer aborts what was aborted.
    if rules.transactions == "v2" or (rules.transactions == "verified" and first == 3):
        assert verdict.kinds == ()
        return
    assert verdict.kinds == ("invariant",)
    (found,) = verdict.of("invariant")
    assert found.sentence.startswith(f"S30 late-end: {said}") and "lacks KIP-890" in found.sentence
