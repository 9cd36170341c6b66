"""A scenario's own questions: read, refused with place and fix, locked, taken over by variants."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_scenario import HEAD, caret_text, errors_of, file_of, load, load_whole

from scenarios.language.parse.loading import check_file, load_text
from scenarios.language.steps import QUESTIONS_MAX, AnswerFromTrace, ScenarioQuestion
from scenarios.language.write.lock import dump

FROM_TRACE = "{at: 10s, ask: Who leads?, answer_from: {leader: t-0, by: 30s}}"
WRITTEN = "{before: leader_elected, ask: How long?, choices: [a, b], answer: b, because: it is so}"


def with_questions(*questions: str, more: str = "") -> str:
    return file_of(head=HEAD + "questions:\n" + "".join(f"  - {one}\n" for one in questions)) + more


def test_questions_are_read_and_locked() -> None:
    scenario = load_text(with_questions(FROM_TRACE, WRITTEN), "test.yaml").scenario
    assert scenario.questions == (
        ScenarioQuestion(ask="Who leads?", at_us=10_000_000, answer_from=AnswerFromTrace("leader", "t-0", 30_000_000)),
        ScenarioQuestion(ask="How long?", before="leader_elected", choices=("a", "b"), answer="b", because="it is so"),
    )
    assert load_text(dump(scenario), "lock").scenario == scenario


def test_a_lock_without_questions_does_not_speak_of_them() -> None:
    assert "questions" not in dump(load())


def test_a_variant_takes_over_what_its_own_trace_answers() -> None:
    variants = (
        "variants:\n"
        "  - {id: v, expect: {verdict: ok}}\n"
        f"  - {{id: own, expect: {{verdict: ok}}, patch: {{questions: [{WRITTEN}]}}}}\n"
        "  - {id: without, expect: {verdict: ok}, patch: {questions: ~}}\n"
    )
    file = load_whole(with_questions(FROM_TRACE, WRITTEN, more=variants))
    asked = {name: [question.ask for question in one.questions] for name, one in file.variants.items()}
    assert asked == {"v": ["Who leads?"], "own": ["How long?"], "without": []}


@pytest.mark.parametrize(
    ("question", "code", "caret"),
    [
        ("{ask: x, answer_from: {leader: t-0}}", "E105", "{"),
        ("{at: 1s, before: leader_elected, ask: x, answer_from: {leader: t-0}}", "E105", "before"),
        ("{at: 1s, ask: x}", "E105", "{"),
        ("{at: 1s, answer_from: {leader: t-0}}", "E105", "{"),
        ("{at: 1s, ask: x, answer_from: {}}", "E105", "{"),
        ("{at: 1s, ask: x, answer_from: {leader: t-0, isr: t-0}}", "E105", "{"),
        ("{at: 1s, ask: x, answer_from: {fate: r1, by: 2s}}", "E110", "by"),
        ("{at: 1s, ask: x, answer_from: {leader: t-9}}", "E132", "t-9"),
        ("{at: 1s, ask: x, answer_from: {fate: r1..r3}}", "E124", "r1..r3"),
        ("{at: 1s, ask: x, answer_from: {number_of: dead}}", "E110", "dead"),
        ("{at: 1s, ask: x, choices: [a, b], answer_from: {fate: r1}}", "E105", "choices"),
        ("{at: 1s, ask: x, choices: [a, b], answer: c, because: y}", "E110", "answer"),
        ("{at: 1s, ask: x, choices: [a, b], answer: a}", "E105", "{"),
        ("{at: 1s, ask: x, choices: [a, a], answer: a, because: y}", "E112", "["),
        ("{before: leader_erected, ask: x, answer_from: {fate: r1}}", "E131", "leader_erected"),
        ("{at: 1s, aks: x, answer_from: {fate: r1}}", "E104", "aks"),
        (f"{{at: 1s, ask: {'x' * 301}, answer_from: {{fate: r1}}}}", "E112", "x" * 301),
    ],
)
def test_a_wrong_question_is_refused_where_it_stands(question: str, code: str, caret: str) -> None:
    errors = errors_of(with_questions(question))
    assert [error.code for error in errors] == [code] and caret_text(errors[0]).startswith(caret)


def test_too_many_questions_are_refused() -> None:
    assert [error.code for error in errors_of(with_questions(*[FROM_TRACE] * (QUESTIONS_MAX + 1)))] == ["E140"]


def test_a_question_after_the_end_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "late.yaml"
    file.write_text(with_questions(FROM_TRACE.replace("10s", "61s")))
    assert [found.code for found in check_file(file)] == ["W203"]
