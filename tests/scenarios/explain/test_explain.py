"""The story of a record: golden texts of two losses, and what each fate says."""

from __future__ import annotations

import json

import pytest
from stories import acks_1_leader_dies, compare_with_golden, min_isr_1_and_an_empty_disk
from trace_script import T0, TraceScript

from replica.causes import DataLossCause
from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.explain.causes import causal_chain
from scenarios.explain.explanation import explanation_text
from scenarios.explain.record import RecordUnknown, explain_record
from scenarios.explain.what_if import RecordFate, SettingsChange
from scenarios.run.runner import run_scenario
from scenarios.terminal.style import Style
from tests.catalogue import bundled_file


def test_acked_by_one_and_gone_with_one(request: pytest.FixtureRequest) -> None:
    story = explain_record(acks_1_leader_dies().rows, "r1")
    compare_with_golden("explain_acks1_leader_dies.txt", explanation_text(story, Style()), request)
    assert story.fate == "lost"
    decisive = [moment.sentence for moment in story.moments if moment.decisive]
    assert len(decisive) == 2 and "acks=1 does not wait" in decisive[0] and "did not have r1" in decisive[1]


def test_a_change_that_loses_other_records_is_no_cure() -> None:
    story = explain_record(acks_1_leader_dies().rows, "r1")
    fates = [RecordFate(SettingsChange(what, ()), "r1", "kept", lost, 0) for what, lost in (("A", ()), ("B", ("r2",)))]
    text = explanation_text(story, Style(plain=True), fates)
    cures, others = text.split("Saves it, but loses others:")
    assert "A  acked and kept" in cures and "B  acked" not in cures and "B  acked and kept" in others


def test_a_live_member_of_the_isr_that_does_not_lead_is_told_why() -> None:
    rows = run_scenario(bundled_file("acks1-leader-kill").scenario, runs_dir=None, keep_rows=True).rows
    (elected,) = [
        moment.sentence for moment in explain_record(rows, "r12").moments if "b2 was elected" in moment.sentence
    ]
    assert elected.endswith(
        "its log counted. b3, also live and in the ISR, came later in the order of the replicas: b1, b2, b3."
    )


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


@pytest.mark.parametrize(
    ("how", "would", "would_not"),
    [
        ("came back", ["b1 came back with the record"], []),
        ("ran on", ["b1 ran on with the record"], []),
        ("stopped", [], ["b1 or b2 did not come back with the record"]),
    ],
)
def test_an_unclean_election_names_the_broker_that_had_the_record(
    how: str, would: list[str], would_not: list[str]
) -> None:
    script = TraceScript(min_isr=1)
    script.replicate("r0", acks=-1)
    script.at(2)
    script.commit_isr("b1", "b2")
    script.replicate("r1", acks=-1, via=["b2"])
    script.stop("b2")
    if how == "ran on":
        script.fence("b1")
        script.elect("b3", "b3", clean=False)
        script.leads("b3", 1)
    else:
        script.fail_over("b3", "b3", clean=False)
    if how == "came back":
        script.start("b1")
        script.recover("b1", 2)
    if how != "stopped":
        script.follows("b1", "b3", 1)
        script.truncate("b1", 1)
    script.find("b3", "r0", leader=True)
    remedies = explain_record(script.rows, "r1").remedies
    named = "unclean.leader.election.enable=false: "
    assert [entry.removeprefix(named) for entry in remedies.would] == would
    assert [entry.removeprefix(named) for entry in remedies.would_not if entry.startswith(named)] == would_not


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


@pytest.mark.parametrize(
    ("size_bytes", "cause", "flush_helps"),
    [(100, DataLossCause.NOT_FLUSHED, True), (-1, DataLossCause.DISK_REPLACED, False)],
)
def test_a_flush_helps_against_power_failures_not_against_a_new_disk(
    size_bytes: int, cause: DataLossCause, flush_helps: bool
) -> None:
    script = TraceScript(min_isr=1)
    script.commit_isr("b1")
    script.replicate("r0", acks=-1, via=[])
    script.stop("b1", "power_off")
    script.lose("b1", size_bytes, cause)
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


def test_a_leader_with_a_new_disk_leads_without_the_record() -> None:
    """Nobody reports the empty log before its broker leads."""
    script = TraceScript()
    script.replicate("r0", acks=-1)
    script.at(10)
    script.stop("b1")
    script.lose("b1", -1, DataLossCause.DISK_REPLACED)
    assert script.view.partitions[T0].replicas["b1"].log_end_offset == 0
    script.at(20)
    script.start("b1")
    script.elect("b1", "b1", clean=False)
    script.leads("b1", 0)
    for node in ("b2", "b3"):
        script.truncate(node, 0)
    story = explain_record(script.rows, "r0")
    assert [moment.sentence for moment in story.moments if moment.decisive][-1].endswith(
        "But b1 did not have r0, and from then on its log counted."
    )
    assert not any("no unclean election" in reason for reason in story.remedies.would_not)
