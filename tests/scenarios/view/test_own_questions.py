"""The scenario's own questions on the page: what a run answers, and what it does not."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from replica.trace.events import FaultBegan, TraceRow
from replica.wording import duration
from scenarios.language.parse.catalogue import bundled, find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.language.spec import Scenario
from scenarios.language.steps import ANSWER_KINDS, AnswerFromTrace, ScenarioQuestion
from scenarios.observe.trace_writer import read_rows
from scenarios.run.runner import RunResult, run_scenario
from scenarios.view.page import run_of_page
from tests.soak import one_in


def play(name: str, runs_dir: Path, *overrides: str) -> RunResult:
    return run_scenario(load_file(find_scenario(name), overrides).scenario, runs_dir=runs_dir, keep_logs=False)


def asked(result: RunResult, *questions: ScenarioQuestion) -> dict[str, tuple[str, ...]]:
    """By the text of each question on the page: the right answer, then the wrong ones."""
    assert result.run_dir is not None
    rows = list(read_rows(result.run_dir / "trace"))
    scenario = replace(result.scenario, questions=questions or result.scenario.questions)
    document = run_of_page(rows, result.summary, scenario).document
    found: dict[str, tuple[str, ...]] = {}
    for _, ask, options, answer, because, _, _ in document["questions"]:
        assert because and not because.endswith(".")
        found[ask] = (options[answer], *(one for one in options if one != options[answer]))
    return found


def test_each_kind_is_answered_from_the_trace(tmp_path: Path) -> None:
    result = play("acks1-leader-kill", tmp_path)
    values: dict[str, tuple[str, Any]] = {
        "leader": ("t-0", 15_000_000),
        "isr": ("t-0", None),
        "hw": ("t-0", 10_400_000),
        "fate": ("r12", None),
        "number_of": ("lost", None),
    }
    questions = [
        ScenarioQuestion(ask=kind, at_us=0, answer_from=AnswerFromTrace(kind, *values[kind])) for kind in ANSWER_KINDS
    ]
    found = {ask.partition(" Next")[0]: options for ask, options in asked(result, *questions).items()}
    assert {kind: found[kind] for kind in ANSWER_KINDS} == {
        "leader": ("b1", "b2", "b3", "none"),
        "isr": ("b1, b2, b3", "b2, b3", "b1"),
        "hw": ("10", "0", "5", "15"),
        "fate": (
            "it is acked, but lost",
            "it is acked, and in the log at the end",
            "it is not acked, but in the log at the end",
            "it is not acked, and not in the log at the end",
        ),
        "number_of": ("5", "0", "2", "20"),
    }


@pytest.mark.soak
def test_a_written_answer_is_about_the_run_of_the_file(tmp_path: Path) -> None:
    written = "p1 sends r10 with acks=all. When is r10 acked?"
    as_written = asked(play("follower-cut-hw-stall", tmp_path))
    other = asked(play("follower-cut-hw-stall", tmp_path, "workloads.p1.config.acks=1"))
    assert [ask for ask in as_written if "When is r10 acked?" in ask] and not [ask for ask in other if written in ask]
    assert "The controller commits a new ISR. Which brokers are in it at 60 s?" in other


def test_what_the_run_does_not_reach_is_not_asked(tmp_path: Path) -> None:
    result = play("acks1-leader-kill", tmp_path)
    answer = AnswerFromTrace("fate", "r12")
    never = ScenarioQuestion(ask="never", before="topic_deleted", answer_from=answer)
    late = ScenarioQuestion(ask="late", at_us=999_000_000, answer_from=answer)
    nowhere = ScenarioQuestion(ask="nowhere", at_us=1, answer_from=AnswerFromTrace("hw", "u-3"))
    assert not {"never", "late", "nowhere"} & set(asked(result, never, late, nowhere))


# --------------------------------------------------------------------------------------------- what a question may know


def questions_on_page(scenario: Scenario) -> tuple[list[TraceRow], list[int], list[list[Any]]]:
    """The run's events, the times of the page's events, and its questions."""
    result = run_scenario(scenario, runs_dir=None, keep_rows=True)
    document = run_of_page(result.rows, result.summary, scenario).document
    return list(result.rows), list(accumulate(document["tape"]["at"])), document["questions"]


@pytest.mark.soak
@pytest.mark.parametrize("name", one_in(6, sorted(bundled()), pytest.mark.night))
def test_no_question_depends_on_a_step_that_is_not_told(name: str) -> None:
    rows, at_us, questions = questions_on_page(load_file(find_scenario(name)).scenario)
    began = [row for row in rows if isinstance(row.event, FaultBegan)]
    for before, ask, options, answer, _, known, _ in questions:
        assert before <= known < len(at_us) and 0 <= answer < len(options)
        if "is about to" in ask and "acked records are in the log" in ask:
            continue  # The step of this moment is what it asks about; see below.
        hidden = [row.at_us for row in began if at_us[before] < row.at_us <= at_us[known]]
        _, _, told = ask.partition("Next steps: ")
        assert [time for time in hidden if duration(time) not in told] == [], ask


def test_a_question_of_survival_tells_how_the_leader_ends_and_what_comes_later() -> None:
    _, _, questions = questions_on_page(load_file(find_scenario("last-replica-standing")).scenario)
    ask, options = next((ask, options) for _, ask, options, *_ in questions if "acked records" in ask)
    assert ask.startswith("b1, the leader of t-0, is about to lose its power.")
    labelled = "heal `partition b2 | b1, b3, c1, p1`, `partition b3 | b1, b2, c1, p1` at 60 s"
    assert ask.endswith(f"Next steps: {labelled}; start b1 at 70 s.")
    assert options == ["all of them", "all but r19", "all but r10..r19"]


def test_brokers_that_are_down_are_not_offered_as_the_next_leader() -> None:
    _, _, questions = questions_on_page(load_file(find_scenario("acks1-leader-kill")).scenario)
    assert [options for _, ask, options, *_ in questions if "Who leads" in ask] == [["b2", "b3", "no broker"]]


def test_what_was_acked_before_the_question_is_not_asked_about(tmp_path: Path) -> None:
    result = play("acks1-leader-kill", tmp_path)
    fate = ScenarioQuestion(ask="r3?", at_us=5_000_000, answer_from=AnswerFromTrace("fate", "r3"))
    count = ScenarioQuestion(ask="acked?", at_us=10_400_000, answer_from=AnswerFromTrace("number_of", "acked"))
    water = ScenarioQuestion(ask="HW?", at_us=10_400_000, answer_from=AnswerFromTrace("hw", "t-0", 15_000_000))
    found = {ask.partition(" Next")[0]: options for ask, options in asked(result, fate, count, water).items()}
    assert found["r3?"] == ("it is acked, and in the log at the end", "it is acked, but lost")
    assert found["acked?"] == ("20", "15")
    assert min(map(int, found["HW?"])) >= 10


def test_a_brokers_name_is_told_only_once_the_step_was_seen() -> None:
    _, _, questions = questions_on_page(load_file(find_scenario("acks1-leader-kill")).scenario)
    told = {ask.partition("? Next steps: ")[2] for _, ask, *_ in questions} - {""}
    assert told == {"kill leader(t-0) at 10.5 s; start the target of `kill leader(t-0)` at 30 s."}
    late = ScenarioQuestion(ask="late?", at_us=29_000_000, answer_from=AnswerFromTrace("leader", "t-0"))
    found = replace(load_file(find_scenario("acks1-leader-kill")).scenario, questions=(late,))
    _, _, questions = questions_on_page(found)
    assert "late? Next steps: start b1 at 30 s." in [ask for _, ask, *_ in questions]


def test_no_two_questions_ask_what_is_lost() -> None:
    """A question of the scenario comes in place of the page's own."""
    found = load_file(find_scenario("acks1-leader-kill")).scenario
    _, _, questions = questions_on_page(found)
    assert [re.sub(r".*\. (?=[A-Z])", "", ask.partition("?")[0]) for _, ask, *_ in questions] == [
        "What becomes of r12",
        "Who leads t-0 next",
        "What is the high watermark of t-0 at 28 s",
        "What happens to its log of t-0",
    ]
    _, _, questions = questions_on_page(replace(found, questions=()))
    assert sum("acked records are in the log" in ask for _, ask, *_ in questions) == 1


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "asks", "right"),
    [
        ("hw-propagation-lag", "How soon does its follower b3 have this HW?", "within a second"),
        ("burst-isr-by-messages", "Which brokers does it have then?", "b1"),
        ("acks0-idle-connection", "What happens to r", "it is not acked, and not in the log at the end"),
    ],
)
def test_a_run_in_which_nothing_breaks_has_questions_too(name: str, asks: str, right: str) -> None:
    _, _, questions = questions_on_page(load_file(find_scenario(name)).scenario)
    assert [options[answer] for _, ask, options, answer, *_ in questions if asks in ask] == [right]


@pytest.mark.soak
def test_a_log_that_is_not_cut_is_asked_about_too() -> None:
    """Else the answer would be that it is cut, each time."""
    for name, right in (
        ("acks1-leader-kill", "it truncates its log to 10"),
        ("leader-back-too-soon", "it keeps its log up to 11"),
    ):
        _, _, questions = questions_on_page(load_file(find_scenario(name)).scenario)
        found = [(options, options[answer]) for _, ask, options, answer, *_ in questions if "to its log" in ask]
        assert len(found) == 1 and found[0][1] == right
        assert found[0][0][:2] == ["it truncates its log to 0", "it truncates its log to 10"]
