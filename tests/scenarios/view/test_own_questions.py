"""The scenario's own questions on the page: what a run answers, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.language.steps import ANSWER_KINDS, AnswerFromTrace, ScenarioQuestion
from scenarios.observe.trace_writer import read_rows
from scenarios.run.runner import RunResult, run_scenario
from scenarios.view.page import run_of_page


def play(name: str, runs_dir: Path, *overrides: str) -> RunResult:
    return run_scenario(load_file(find_scenario(name), overrides).scenario, runs_dir=runs_dir, keep_logs=False)


def asked(result: RunResult, *questions: ScenarioQuestion) -> dict[str, tuple[str, ...]]:
    """By the text of each question on the page: the right answer, then the wrong ones."""
    assert result.run_dir is not None
    rows = list(read_rows(result.run_dir / "trace"))
    document = run_of_page(rows, result.summary, "", questions or result.scenario.questions).document
    found: dict[str, tuple[str, ...]] = {}
    for _, ask, options, answer, because in document["questions"]:
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
    found = asked(result, *questions)
    assert {kind: found[kind] for kind in ANSWER_KINDS} == {
        "leader": ("b1", "b2", "b3", "none"),
        "isr": ("b1, b2, b3", "b2, b3", "b1"),
        "hw": ("10", "0", "5", "15"),
        "fate": (
            "it is acked, and lost",
            "it is acked, and in the log at the end",
            "it is not acked, and in the log all the same",
            "it is not acked, and not in the log",
        ),
        "number_of": ("5", "0", "2", "20"),
    }


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
