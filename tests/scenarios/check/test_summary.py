"""summary.json: the fields that other programs may rely on."""

from __future__ import annotations

import json
from pathlib import Path

from stories import acks_1_leader_dies

from cluster.network.passage import ByteCounts
from replica.causes import WaitCause
from replica.ids import TopicPartition
from scenarios.check.expectations import Expectation
from scenarios.check.summary import Counters, build_summary
from scenarios.language.parse.loading import load_text
from scenarios.observe.columns.names import encodable
from scenarios.observe.groups import Unread
from scenarios.observe.waits import Stretch, Wait

SCENARIO = """
schema: 1
id: by-hand
title: By hand
seed: 3
duration: 40s
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}}
workloads: {p1: {kind: producer, topic: t, config: {acks: 1, enable.idempotence: false}}}
timeline:
  - {at: 1s, produce: {from: p1, count: 1}}
"""


def test_it_holds_what_the_contract_names_as_plain_json() -> None:
    script = acks_1_leader_dies()
    counters = Counters(
        events=53,
        steps=7,
        bytes={"b1": ByteCounts(100, 1), "b2": ByteCounts(20, 3), "c1": ByteCounts(9, 1)},
        digests=("ab", "cd"),
        run_dir=Path("runs/0001-by-hand"),
        live=False,
        wall_s=0.12345,
    )
    results = [Expectation("verdict", False, "expected ok, found lost")]
    scenario = load_text(SCENARIO, "by-hand.yaml").scenario
    unread = {"g": {"t-0": Unread(9, 4, 3, 1)}}
    stretch = Stretch(from_us=1, to_us=3, cause=WaitCause.NO_LEADER, who="p1", nodes=("b1",))
    wait = Wait(what="writes", client="p1", partition=TopicPartition("t", 0), stretches=(stretch,), ended_by="success")
    summary = build_summary(scenario, script.ledger, unread, [wait], script.verdict(), results, counters)
    assert json.loads(json.dumps(summary, default=encodable)) == summary
    assert {key: summary[key] for key in ("scenario", "variant", "seed", "held", "verdict", "events", "virtual_s")} == {
        "scenario": "by-hand", "variant": None, "seed": 3, "held": False, "verdict": ["lost"], "events": 53,
        "virtual_s": 40.0,
    }  # fmt: skip
    assert summary["without_reader"] == {"g": {"t-0": {"observed_us": 9, "unread_us": 4, "longest_us": 3, "moved": 1}}}
    (shown,) = summary["waits"]
    assert (shown["partition"], shown["from_us"], shown["to_us"]) == ("t-0", 1, 3)
    assert shown["stretches"][0]["cause"] == "no_leader" and shown["stretches"][0]["nodes"] == ["b1"]
    assert summary["records"]["lost"] == ["r1", "r2"] and summary["records"]["acked"] == ["r0", "r1", "r2"]
    assert summary["logs"] == {"t-0": ["r0"]} and summary["unavailable"] == {"t-0": []}
    assert summary["expectations"] == [{"what": "verdict", "held": False, "why": "expected ok, found lost"}]
    (anomaly,) = summary["anomalies"]
    assert (anomaly["kind"], anomaly["jepsen"], anomaly["partition"]) == ("lost", "lost-write", "t-0")
    # The controller moves no fetch payload; only brokers count.
    assert {key: summary["bytes"][key] for key in ("sendfile", "sendfile_calls", "fetch_payload_through_python")} == {
        "sendfile": 120, "sendfile_calls": 4, "fetch_payload_through_python": 0,
    }  # fmt: skip
    assert list(summary["bytes"]["brokers"]) == ["b1", "b2"]
    assert summary["setting"]["acks"] == {"p1": "1"} and (summary["trace_sha256"], summary["data_sha256"]) == (
        "ab",
        "cd",
    )
