"""The promises of each era, and the verdict on an invariant that it does not promise."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from stories import summary_of
from trace_script import TraceScript

from replica.rules import PROFILES, Rules
from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.check.promises import BYTES_LOST, GAPS, RETURNED_UNFENCED, Circumstances, Gap, missing_rules
from scenarios.cli.screens import test_line as line_of_test
from scenarios.explain.explanation import explanation_text
from scenarios.explain.record import explain_record
from scenarios.terminal.style import Style

INVARIANTS = (
    {f"S{number}" for number in range(1, 34)}
    | {"S25 min-isr", "L3 follower-hw", "L4 unaware-leader", "S30 late-batch", "S30 late-end", "S30 late-marker"}
    | {f"L{number}" for number in range(1, 6)}
)


def test_the_newest_rules_promise_everything() -> None:
    assert [gap for gap in GAPS if gap.concerns(Rules())] == []
    assert all(missing_rules(Rules(), name) == () for name in INVARIANTS)


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: f"{gap.switch}: {gap.values[-1]}")
def test_a_gap_is_about_values_and_invariants_that_exist(gap: Gap) -> None:
    _, choices = Rules.switches()[gap.switch]
    assert set(gap.values) <= set(choices or (True, False)) and gap.invariants <= INVARIANTS


def test_promises_only_grow_from_era_to_era() -> None:
    """But for one: before the fetch sessions of KIP-227 (1.1) every answer had the high watermark."""
    names = INVARIANTS - {"L3 follower-hw"}
    broken = [{name for name in names if missing_rules(rules, name)} for rules in PROFILES.values()]
    assert all(later <= earlier for earlier, later in pairwise(broken))
    assert "S5" in broken[0] and broken[-1] == set()


def test_every_missing_rule_is_named() -> None:
    rules = PROFILES["kafka-3.9"].changed({"isr-eligibility": "any"})
    (fenced,) = missing_rules(rules, "S19")
    (other_life,) = missing_rules(rules, "S6")
    assert fenced.startswith("`isr-eligibility: any` lacks KIP-841 (3.3)") and "KIP-903 (3.5)" in other_life
    both = missing_rules(rules.changed({"isr-join": "high-watermark"}), "S6")
    assert len(both) == 2 and "KAFKA-7128 (2.0.1)" in both[1]
    assert missing_rules(rules, "S9") == ()


@pytest.mark.parametrize("name", ["L2", "L3", "L4 unaware-leader"])
def test_a_broker_that_bounces_unseen_may_neither_follow_nor_know_that_it_leads(name: str) -> None:
    """KAFKA-1120"""
    assert any("KIP-380 (2.2)" in why for why in missing_rules(PROFILES["kafka-2.0"], name))
    assert missing_rules(PROFILES["kafka-2.7"], name) == ()


def test_a_record_without_an_answer_has_no_excuse_where_its_leader_knows_that_it_leads() -> None:
    assert all(missing_rules(rules, "L4") == () for rules in PROFILES.values())


def test_leading_on_in_an_old_epoch_is_missed_only_once_bytes_are_lost() -> None:
    rules = PROFILES["kafka-2.7"]
    assert missing_rules(rules, "S9") == ()
    (why,) = missing_rules(rules, "S9", [BYTES_LOST])
    assert why.startswith("`membership: zk-session` lacks KIP-631")
    assert missing_rules(PROFILES["kafka-4.1"], "S9", [BYTES_LOST, RETURNED_UNFENCED]) == ()


@pytest.mark.parametrize(
    ("invariant", "enough"), [("S19", {RETURNED_UNFENCED}), ("S9", {BYTES_LOST, RETURNED_UNFENCED})]
)
def test_who_returns_unfenced_breaks_only_what_it_can_break(invariant: str, enough: set[str]) -> None:
    for happened in ([], [BYTES_LOST], [RETURNED_UNFENCED], [BYTES_LOST, RETURNED_UNFENCED]):
        missing = missing_rules(PROFILES["kafka-3.9"], invariant, happened)
        assert len(missing) == (1 if enough <= set(happened) else 0)
        assert all(why.startswith("`session-checks: at-the-end` lacks KAFKA-17793") for why in missing)


def seen(*events: Any) -> list[str]:
    circumstances = Circumstances()
    for seq, event in enumerate(events):
        circumstances(TraceRow(seq, 0, (), event))
    return list(circumstances.seen)


def test_a_broker_returns_unfenced_if_nothing_was_said_of_its_former_life() -> None:
    def registered(epoch: int) -> trace.BrokerRegistered:
        return trace.BrokerRegistered(node="c2", broker="b1", broker_epoch=epoch)

    unfenced = trace.BrokerUnfenced(node="c1", broker="b1")
    fenced = trace.BrokerFenced(node="c1", broker="b1")
    assert seen(registered(1), unfenced, registered(2)) == [RETURNED_UNFENCED]
    assert seen(registered(1), unfenced, fenced, registered(2)) == []
    assert seen(registered(1), registered(2), unfenced) == []
    assert seen(registered(1), unfenced, registered(1)) == []


def commits_under_min_isr(rules: Rules) -> TraceScript:
    script = TraceScript(rules=rules)
    script.at(2)
    script.commit_isr("b1")
    script.elect("b1", "b1")
    script.leads("b1", 1)
    script.send("r0")
    script.request("r0")
    script.append("b1", 0, "r0")
    script.advance(1)
    for event in script.checker.take_new():
        script.emit(event)
    script.find("b1", "r0", epoch=1)
    return script


def test_a_promised_invariant_is_our_bug() -> None:
    summary = summary_of(commits_under_min_isr(PROFILES["kafka-3.9"]), [])
    assert summary["verdict"] == ["invariant"] and summary["our_bug"]
    assert "do not promise" not in summary["anomalies"][0]["sentence"]
    assert line_of_test(summary, Style(plain=True), "").startswith("  FAIL")


def test_what_became_of_the_records_says_more_than_an_invariant_that_is_not_promised() -> None:
    script = commits_under_min_isr(PROFILES["kafka-3.9"].changed({"hw-advance": "isr"}))
    script.ack("r0", 0)
    script.ack("r1", 1)
    assert summary_of(script, [])["verdict"] == ["lost"]


def test_one_that_is_not_promised_is_a_finding_that_names_the_missing_rule() -> None:
    script = commits_under_min_isr(PROFILES["kafka-3.9"].changed({"hw-advance": "isr"}))
    summary = summary_of(script, [])
    assert summary["verdict"] == ["invariant"] and not summary["our_bug"]
    assert (
        "the rules of this run do not promise this: `hw-advance: isr` lacks KAFKA-15583 (3.7)"
        in summary["anomalies"][0]["sentence"]
    )
    assert not line_of_test(summary, Style(plain=True), "").startswith("  FAIL")
    told = " ".join(explanation_text(explain_record(script.rows, "r0"), Style()).split())
    assert "Invariant S25 min-isr was broken" in told and "lacks KAFKA-15583" in told
