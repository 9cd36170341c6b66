"""Runs written by hand for the golden screens and explanations, and golden files that `pytest --rewrite` accepts."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from trace_script import T0, TraceScript

from replica.trace import events as trace
from scenarios.check.expectations import Expectation, latency_statistics
from scenarios.check.verdict import RECORD_CLASSES

GOLDEN = Path(__file__).parent.parent / "golden"


def compare_with_golden(name: str, text: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / name
    if request.config.getoption("--rewrite"):
        path.write_text(text, encoding="utf-8")
    expected = path.read_text(encoding="utf-8")
    diff = difflib.unified_diff(expected.splitlines(), text.splitlines(), name, "what happened", lineterm="")
    assert text == expected, "\n".join(["the golden file differs (pytest --rewrite accepts it)", *diff])


def acks_1_leader_dies() -> TraceScript:
    """r0 is everywhere; r1 and r2 are acked by b1 alone, which dies; b2 leads, b1 comes back and truncates."""
    script = TraceScript()
    script.replicate("r0")
    script.at(10.2)
    hold = trace.FaultBegan(fault="freeze", verb="hold", targets=("b2", "b3"), effect="b1's answers to b2, b3 are held")
    script.emit(hold)
    script.at(10.3)
    for offset, name in ((1, "r1"), (2, "r2")):
        script.send(name)
        script.request(name)
        script.append("b1", offset, name)
        script.ack(name, offset)
    script.at(10.5)
    script.stop("b1")
    script.at(19)
    script.fence("b1")
    script.elect("b2", "b2", "b3")
    script.leads("b2", 1)
    script.follows("b3", "b2", 1)
    script.at(30)
    script.start("b1")
    script.emit(trace.BrokerRegistered(node="c1", broker="b1", broker_epoch=7))
    script.emit(trace.BrokerUnfenced(node="c1", broker="b1"))
    script.recover("b1", 3)
    script.follows("b1", "b2", 1)
    script.truncate("b1", 1)
    script.at(31)
    script.propose(["b2", "b3", "b1"])
    script.fetch("b1", 1)
    script.commit_isr("b2", "b3", "b1", by="b2")
    script.at(40)
    for node in ("b1", "b2", "b3"):
        script.find(node, "r0", leader=node == "b2")
    return script


def min_isr_1_and_an_empty_disk() -> TraceScript:
    """acks=all with one replica in sync, whose disk is lost; an unclean election follows."""
    script = TraceScript(min_isr=1)
    script.replicate("r0", acks=-1)
    script.at(45)
    script.propose(["b1"])
    script.commit_isr("b1", by="b1")
    script.at(50)
    script.replicate("r1", acks=-1, via=[])
    script.at(60.5)
    script.stop("b1", "power_off")
    script.lose("b1")
    script.at(100)
    script.elect("b2", "b2", clean=False)
    script.leads("b2", 1)
    script.at(110)
    script.start("b1")
    script.recover("b1", 0)
    script.follows("b1", "b2", 1)
    script.append("b1", 0, "r0", epoch=0)
    for node in ("b1", "b2", "b3"):
        script.find(node, "r0", leader=node == "b2", in_isr=node == "b2")
    return script


def summary_of(
    script: TraceScript, expectations: Sequence[Expectation] = (), *, variant: str | None = None, acks: str = "1"
) -> dict[str, Any]:
    """summary.json of a run written by hand; summary.build_summary makes the real one from a Scenario."""
    verdict = script.verdict()
    ledger = script.ledger
    return {
        "scenario": "by-hand",
        "variant": variant,
        "seed": 1,
        "profile": "kafka-3.9",
        "held": all(result.held for result in expectations),
        "verdict": list(verdict.kinds),
        "our_bug": verdict.our_bug,
        "records": {"sent": len(ledger.records), **{kind: list(verdict.records[kind]) for kind in RECORD_CLASSES}},
        "anomalies": [
            {"kind": one.kind, "partition": str(one.partition), "records": list(one.records), "sentence": one.sentence}
            for one in verdict.anomalies
        ],
        "logs": {"t-0": [entry.record for entry in ledger.final_log(T0)]},
        "expectations": [{"what": one.what, "held": one.held, "why": one.why} for one in expectations],
        "setting": {
            "brokers": 3,
            "topics": {"t": {"partitions": 1, "replication_factor": 3, "min.insync.replicas": 2}},
            "acks": {"p1": acks},
        },
        "producers": {
            "p1": {
                "sent": len(ledger.records),
                "acked": len(verdict.records["acked"]),
                "handed_over": sum(entry.handed_over_us is not None for entry in ledger),
                "failed": len(verdict.records["failed"]),
                "latency_us": latency_statistics(ledger.records.answers()["p1"].latencies_us),
                "errors": {error: tally.count for error, tally in ledger.errors.get("p1", {}).items()},
            }
        },
        "unavailable": {"t-0": []},
        "retries": ledger.retries,
        "run_dir": "runs/0001-by-hand",
        "events": len(script.rows),
        "virtual_s": 40.0,
        "wall_s": 0.04,
    }
