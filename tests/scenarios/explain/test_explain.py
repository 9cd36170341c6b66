"""The story of a record: golden texts of two losses, and what each fate says."""

from __future__ import annotations

import json

import pytest
from stories import acks_1_leader_dies, compare_with_golden, min_isr_1_and_an_empty_disk
from trace_script import TraceScript

from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.explain.causes import causal_chain
from scenarios.explain.explanation import explanation_text
from scenarios.explain.record import RecordUnknown, explain_record
from scenarios.terminal.style import Style


def test_acked_by_one_and_gone_with_one(request: pytest.FixtureRequest) -> None:
    story = explain_record(acks_1_leader_dies().rows, "r1")
    compare_with_golden("explain_acks1_leader_dies.txt", explanation_text(story, Style()), request)
    assert story.fate == "lost"
    decisive = [moment.sentence for moment in story.moments if moment.decisive]
    assert len(decisive) == 2 and "acks=1 does not wait" in decisive[0] and "does not have r1" in decisive[1]


def test_all_of_one_and_the_disk_is_gone_in_plain_ascii(request: pytest.FixtureRequest) -> None:
    story = explain_record(min_isr_1_and_an_empty_disk().rows, "r1")
    text = explanation_text(story, Style(plain=True))
    assert text.isascii()
    compare_with_golden("explain_min_isr_1.txt", text, request)


def test_a_record_that_survived_has_no_decisive_step_and_no_remedy() -> None:
    story = explain_record(acks_1_leader_dies().rows, "r0")
    assert story.fate == "kept" and not any(moment.decisive for moment in story.moments)
    assert story.remedies.would == () and story.ending == "r0 is at offset 0 and can be read."


def test_the_world_matters_as_long_as_the_producer_may_send_again() -> None:
    """The record is gone everywhere, and its producer has no answer yet: the next events decide the answer."""
    script = TraceScript()
    script.replicate("r0", acks=-1)
    script.send("r1", acks=-1)
    script.request("r1", acks=-1)
    script.append("b1", 1, "r1")
    script.fail_over("b2", "b2", "b3")
    script.start("b1")
    script.recover("b1", 2)
    script.follows("b1", "b2", 1)
    script.truncate("b1", 1)
    script.at(20)
    script.stop("b3")
    script.fail("r1", "REQUEST_TIMED_OUT", definite=False)
    script.at(30)
    script.stop("b2")
    script.find("b2", "r0", leader=True)
    told = [moment.at_us for moment in explain_record(script.rows, "r1").moments]
    assert 20_000_000 in told and 30_000_000 not in told


def test_json_holds_all_that_the_text_shows() -> None:
    story = explain_record(acks_1_leader_dies().rows, "r2")
    document = json.loads(json.dumps(story.as_json()))
    assert document["fate"] == "lost" and document["acks"] == 1 and document["partition"] == "t-0"
    assert document["moments"][0]["at_us"] == 10_200_000
    assert document["holdings"][-1]["brokers"]["b2"] == "leads, no r2"
    assert [entry.split(":")[0] for entry in document["would_have_saved"]] == ["acks=all with min.insync.replicas=2"]


def test_an_unclean_election_names_the_broker_that_came_back_with_the_record() -> None:
    script = TraceScript(min_isr=1)
    script.replicate("r0", acks=-1)
    script.at(2)
    script.commit_isr("b1", "b2")
    script.replicate("r1", acks=-1, via=["b2"])
    script.stop("b2")
    script.fail_over("b3", "b3", clean=False)
    script.start("b1")
    script.recover("b1", 2)
    script.follows("b1", "b3", 1)
    script.truncate("b1", 1)
    script.find("b3", "r0", leader=True)
    story = explain_record(script.rows, "r1")
    assert story.remedies.would == ("unclean.leader.election.enable=false: b1 came back with the record",)


@pytest.mark.parametrize("fate", ["missing", "failed", "duplicated", "unseen"])
def test_other_fates(fate: str) -> None:
    script = TraceScript()
    script.send("r0", acks=-1)
    script.request("r0", acks=-1)
    if fate == "missing":
        script.refuse("r0", "REQUEST_TIMED_OUT", will_retry=False)
        script.fail("r0", "REQUEST_TIMED_OUT", definite=False)
    elif fate == "failed":
        script.fail("r0", "MESSAGE_TOO_LARGE", definite=True)
    else:
        script.append("b1", 0, "r0")
        script.ack("r0", 0)
    found = {"duplicated": ("r0", "r0"), "unseen": ("r0",)}.get(fate, ())
    script.find("b1", *found, hw=0 if fate == "unseen" else None)
    story = explain_record(script.rows, "r0")
    assert story.fate == fate and "r0" in story.ending
    believes = {"missing": "does not know", "failed": "knows that it failed"}.get(fate, "believes r0 is safe")
    assert story.holdings[-1].producer == believes


def test_an_unknown_record_is_an_error() -> None:
    with pytest.raises(RecordUnknown, match="r99"):
        explain_record(acks_1_leader_dies().rows, "r99")


def test_the_chain_follows_causes() -> None:
    event = trace.RunFinished(lasted_us=0)
    rows = [TraceRow(seq, 0, causes, event) for seq, causes in enumerate([(), (0,), (1,), (0,), (2, 3)])]
    assert causal_chain(rows, 0, 4) == [0, 3, 4]
    assert causal_chain(rows, 3, 2) == [3, 2]


@pytest.mark.parametrize(("size_bytes", "flush_helps"), [(100, True), (-1, False)])
def test_a_flush_helps_against_power_failures_not_against_a_new_disk(size_bytes: int, flush_helps: bool) -> None:
    script = TraceScript(min_isr=1)
    script.commit_isr("b1")
    script.replicate("r0", acks=-1, via=[])
    script.stop("b1", "power_off")
    script.lose("b1", size_bytes)
    script.start("b1")
    script.recover("b1", 0)
    script.find("b1")
    remedies = explain_record(script.rows, "r0").remedies
    assert any(entry.startswith("log.flush.interval.messages=1") for entry in remedies.would) is flush_helps
    assert any(entry.startswith("log.flush.interval.messages=1") for entry in remedies.would_not) is not flush_helps


def test_an_unclean_election_after_the_last_copy_has_gone_would_have_saved_nothing() -> None:
    script = TraceScript(min_isr=1)
    script.commit_isr("b1")
    script.replicate("r0", acks=-1, via=[])
    script.stop("b1", "power_off")
    script.lose("b1", 100)
    script.start("b1")
    script.recover("b1", 0)
    script.elect("b2", "b2", clean=False)
    script.find("b2", leader=True)
    story = explain_record(script.rows, "r0")
    (about_elections,) = [entry for entry in story.remedies.would_not if entry.startswith("unclean.leader.election")]
    assert about_elections.endswith(": the record was gone before the unclean election")
    assert not any("unclean election" in moment.sentence for moment in story.moments)
